//! A volume on `/dev`.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::agent::TestAgent;
use crate::support::manifest::pod;
use crate::support::wait::can_run;

/// What is directly in the node's /dev.
fn of_node() -> BTreeSet<String> {
    let entries = std::fs::read_dir("/dev").expect("it is there");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names
        .map(|name| name.into_string().expect("a name"))
        .collect()
}

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().map(str::to_owned).collect()
}

/// Containers that have the node's /dev, in several ways.
fn containers() -> String {
    let container = |name: &str, mount: &str, more: &str| {
        format!(
            "  - name: {name}
    image: busybox
    command: [sh, -c, 'trap \"exit 0\" TERM; while :; do sleep 0.1; done']
    terminationMessagePath: /tmp/message
    volumeMounts:
    - {{name: dev, mountPath: /dev{mount}}}
{more}"
        )
    };
    let above = "    - {name: own, mountPath: /dev/shm/own}\n";
    [
        "  containers:\n".to_owned(),
        container("all", "", "    securityContext: {privileged: true}\n"),
        container("strict", ", readOnly: true", "    securityContext: {runAsUser: 1000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}\n"),
        container("free", "", "    securityContext: {runAsUser: 1000, seccompProfile: {type: Unconfined}}\n"),
        container("above", "", above),
        "  volumes:\n  - {name: dev, hostPath: {path: /dev}}\n  - {name: own, emptyDir: {}}\n".to_owned(),
    ]
    .concat()
}

/// V-28, C-68: it is the node's, in each container and for each command, and nothing is made in it.
#[test]
fn the_nodes_dev_can_be_mounted_and_nothing_is_made_in_it() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.import_busybox();
    let before = of_node();
    agent.put("dev.yaml", &pod("dev", 1, &containers()));
    agent.wait_until_running("dev");
    let run = |container: &str, script: &str| {
        agent.text(&["exec", "dev", "-c", container, "--", "sh", "-c", script])
    };
    for container in ["all", "strict", "free", "above"] {
        let seen = run(container, "ls -a /dev | grep -v '^[.]*$'");
        assert_eq!(lines(&seen), before, "{container}");
    }
    // C-66: the pod's, not the node's.
    run("all", "touch /dev/shm/made-by-a-pod");
    assert!(!Path::new("/dev/shm/made-by-a-pod").exists());
    assert_eq!(run("above", "ls /dev/shm"), "made-by-a-pod\nown\n");
    let writes = "touch /dev/x 2>/dev/null || echo refused";
    assert_eq!(run("strict", writes), "refused\n");
    let rights = "grep -E 'CapEff|CapBnd|Seccomp:' /proc/1/status | tr -s '\\t\\n' '  '";
    let none = "0000000000000000";
    let strict = run("strict", rights);
    assert_eq!(strict, format!("CapEff: {none} CapBnd: {none} Seccomp: 2 "));
    let free = run("free", rights);
    assert!(
        free.starts_with(&format!("CapEff: {none} CapBnd: 00000000")),
        "{free}"
    );
    let bound = free.split(' ').nth(3).expect("a mask");
    let bound = u64::from_str_radix(bound, 16).expect("a mask");
    assert_eq!(bound & (1 << 21), 0, "it has no CAP_SYS_ADMIN: {free}");
    assert_eq!(of_node(), before);
}
