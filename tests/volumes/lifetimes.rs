//! How long an emptyDir lasts (V-8, V-11, V-12).

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::support::agent::TestAgent;
use crate::support::manifest::{LIVES, main, pod};
use crate::support::wait::{can_run, wait_for};

const VOLUMES: &str = "    volumeMounts:
    - {name: disk, mountPath: /disk}
    - {name: ram, mountPath: /ram}
  volumes:
  - {name: disk, emptyDir: {}}
  - {name: ram, emptyDir: {medium: Memory}}
";

/// Each start of the pod adds a line to a file in each volume, and then says how many there are.
fn counter(word: &str) -> String {
    let script = format!(
        "echo {word} >> /disk/f; echo {word} >> /ram/f; echo $(wc -l < /disk/f) $(wc -l < /ram/f) > /disk/count; {LIVES}"
    );
    pod("counter", 1, &(main(&script) + VOLUMES))
}

/// Where the pod's emptyDir on disk is.
fn disk(agent: &TestAgent) -> Option<PathBuf> {
    let uid = agent.pod("counter")?.metadata.uid?;
    let volumes = agent.paths.root_dir.join("pods").join(uid).join("volumes");
    Some(volumes.join("kubernetes.io~empty-dir/disk"))
}

fn wait_for_count(agent: &TestAgent, expected: &str) {
    wait_for(
        &format!("starts seen on disk and in memory: {expected}"),
        || {
            let count = std::fs::read_to_string(disk(agent)?.join("count")).ok()?;
            (count.trim_end() == expected).then_some(())
        },
    );
}

/// V-1, V-2, V-5, V-6: where kubelet has them, for root alone.
#[test]
fn a_pods_directory_is_laid_out_as_kubelets() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.put("counter.yaml", &counter("a"));
    agent.wait_until_running("counter");
    let pods = agent.paths.root_dir.join("pods");
    assert_eq!(pods.metadata().unwrap().mode() & 0o7777, 0o700);
    let uid = agent.pod("counter").unwrap().metadata.uid.unwrap();
    for path in [
        "etc-hosts",
        "containers/main",
        "volumes/kubernetes.io~empty-dir/disk",
    ] {
        assert!(pods.join(&uid).join(path).exists(), "{path}");
    }
}

/// V-11, V-12: over an agent's death both stay, over a reboot only the disk. V-8: an edit ends both, and nothing is left of
/// a pod that is gone.
#[test]
fn an_empty_dir_lives_as_long_as_its_pod_and_memory_until_a_reboot() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    agent.put("counter.yaml", &counter("a"));
    agent.wait_until_running("counter");
    wait_for_count(&agent, "1 1");

    agent.kill();
    let pids = agent.container_pids();
    agent.spawn();
    agent.wait_until_running("counter");
    assert_eq!(agent.container_pids(), pids, "nothing was started anew");
    let seen = agent.text(&["exec", "counter", "--", "cat", "/disk/f", "/ram/f"]);
    assert_eq!(seen, "a\na\n");

    agent.reboot();
    agent.spawn();
    wait_for_count(&agent, "2 1");

    let old = disk(&agent).unwrap();
    agent.put("counter.yaml", &counter("b"));
    let new = wait_for("the edited pod is another one", || {
        disk(&agent).filter(|dir| *dir != old)
    });
    wait_for_count(&agent, "1 1");
    agent.remove("counter.yaml");
    for dir in [old, new] {
        wait_for("nothing is left", || (!dir.exists()).then_some(()));
    }
}
