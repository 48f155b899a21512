//! Nothing waits for a network to start a pod whose image is local.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::process::{Command, Stdio};

use support::agent::TestAgent;
use support::manifest::{LIVES, manifest};
use support::wait::{can_run, wait_for};

/// Invariant 4, in a network namespace with nothing but a loopback device that is down.
#[test]
fn without_a_network_a_pod_with_a_local_image_runs() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::prepare();
    agent.import_busybox();
    agent.put("web.yaml", &manifest("web", 2, LIVES));
    let inner = agent.command();
    let mut command = Command::new("unshare");
    command
        .args(["--net", "--"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    agent.launch_as(command);
    wait_for("the agent answers", || agent.client().status().ok());
    agent.wait_until_running("web");
    let links = agent.text(&["exec", "web", "--", "ip", "-o", "link"]);
    assert_eq!(links.lines().count(), 1, "{links}");
    assert!(links.contains("lo:") && !links.contains("UP"), "{links}");
}
