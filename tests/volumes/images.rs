//! Volumes that are images (V-57).

use serde_json::json;

use crate::support::agent::TestAgent;
use crate::support::images::{busybox_layer, docker_archive};
use crate::support::manifest::{LIVES, main, pod};
use crate::support::wait::can_run;

/// V-57: the whole root of the image, read-only and not to be executed; a path in it; and the wait for it.
#[test]
fn an_image_can_be_mounted_and_is_waited_for() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let spec = main(LIVES)
        + "    volumeMounts:
    - {name: model, mountPath: /model}
    - {name: model, mountPath: /etc/model, subPath: etc}
  volumes:
  - {name: model, image: {reference: 'model:1', pullPolicy: Never}}
";
    agent.put("web.yaml", &pod("web", 1, &spec));
    let message = agent.wait_for_waiting("web", "ErrImageNeverPull");
    assert!(message.contains("\"model:1\""), "{message}");

    let dir = tempfile::tempdir().expect("make a directory");
    let archive = dir.path().join("model.tar");
    docker_archive(&archive, "model:1", json!({}), &[busybox_layer()]);
    let archive = archive.to_str().expect("a path");
    agent.text(&["image", "import", archive]);
    agent.wait_until_running("web");
    let shell = |script: &str| agent.text(&["exec", "web", "--", "sh", "-c", script]);
    assert_eq!(
        shell("head -n 1 /model/etc/passwd /etc/model/group | grep root"),
        "root:x:0:0:root:/root:/bin/sh\nroot:x:0:\n"
    );
    assert_eq!(
        shell("touch /model/x 2>/dev/null || echo refused"),
        "refused\n"
    );
    assert_eq!(
        shell("/model/bin/busybox true 2>/dev/null || echo refused"),
        "refused\n"
    );

    let (code, _, words) = agent.answer(&["image", "rm", "model:1"]);
    assert_eq!(code, 1, "{words}");
    assert!(words.contains("is used by a container"), "{words}");
}
