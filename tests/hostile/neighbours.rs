//! Containers that take all they can get, or never end.

use k8s_openapi::api::core::v1::ContainerStatus;

use crate::silent_disk::SilentDisk;
use crate::support::agent::TestAgent;
use crate::support::disk::SmallDisk;
use crate::support::manifest::{container, main, manifest, pod};
use crate::support::wait::{can_run, wait_for};
use crate::support::watch::last_end;

/// A pod that has nothing to do with it: it is probed, and counts.
struct Neighbour(ContainerStatus);

impl Neighbour {
    fn start(agent: &TestAgent) -> Self {
        let counts = "trap 'exit 0' TERM; i=0; while :; do i=$((i+1)); echo $i; sleep 0.2; done";
        let probe = "    livenessProbe: {periodSeconds: 1, timeoutSeconds: 5, exec: {command: [\"true\"]}}\n";
        let volume = "    volumeMounts: [{name: own, mountPath: /own}]\n  volumes: [{name: own, emptyDir: {}}]\n";
        let spec = main(counts) + probe + volume;
        agent.put("good.yaml", &pod("good", 2, &spec));
        Self(agent.wait_until_running("good"))
    }

    /// The same container goes on counting.
    fn assert_unharmed(&self, agent: &TestAgent) {
        let count = || agent.logs("good", "main").lines().count();
        let before = count();
        wait_for("it counts", || (count() > before).then_some(()));
        assert_eq!(agent.wait_until_running("good"), self.0);
        assert_eq!(agent.event_count("good", "Unhealthy"), 0);
    }
}

/// A fork bomb, one that eats memory, one that fills its volume in memory, and one that listens to no signal.
#[test]
fn who_takes_all_it_can_get_harms_itself_only() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start_with(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\npodPidsLimit: 64\n",
    );
    let neighbour = Neighbour::start(&agent);
    let limits = "    resources: {limits: {memory: 32Mi, cpu: 200m}}\n";
    let memory = "    volumeMounts: [{name: m, mountPath: /m}]
  volumes: [{name: m, emptyDir: {medium: Memory, sizeLimit: 8Mi}}]\n";
    let bomb = "trap '' TERM; (while :; do sleep 1000 & done); exec sleep 1000";
    let fills = "yes > /m/x; echo full; exit 7";
    let deaf = "trap '' TERM INT HUP; echo up; while :; do sleep 1; done";
    for (name, script, lines) in [
        ("bomb", bomb, String::new()),
        ("hog", "tail /dev/zero", limits.to_owned()),
        ("filler", fills, format!("{limits}{memory}")),
        ("deaf", deaf, limits.to_owned()),
    ] {
        agent.put(
            &format!("{name}.yaml"),
            &pod(name, 1, &(main(script) + &lines)),
        );
    }
    let reason = agent.wait_for_status("hog", "an end", |status| last_end(status, "main"));
    assert_eq!(reason["reason"], "OOMKilled", "{reason}");
    let reason = agent.wait_for_status("filler", "an end", |status| last_end(status, "main"));
    assert_eq!(reason["exitCode"], 7, "{reason}");
    wait_for("the bomb has all it can get", || {
        let pids = agent.pids_of("bomb", "main").len();
        assert!(pids <= 64, "{pids}");
        (pids > 50).then_some(())
    });
    agent.wait_for_words("deaf", "up");
    neighbour.assert_unharmed(&agent);
    for name in ["bomb", "hog", "filler", "deaf"] {
        agent.remove(&format!("{name}.yaml"));
    }
    agent.wait_for_pod_count(1);
    neighbour.assert_unharmed(&agent);
}

/// Its volume is on the disk of all others. They go on, commands can still be executed, and it can be removed.
#[test]
fn a_disk_that_a_pod_fills_stops_nobody_who_runs() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::prepare();
    let _disk = SmallDisk::mount(&agent.paths.root_dir, "size=32m");
    agent.import_busybox();
    agent.spawn();
    let neighbour = Neighbour::start(&agent);
    let volume =
        "    volumeMounts: [{name: v, mountPath: /v}]\n  volumes: [{name: v, emptyDir: {}}]\n";
    let script = "trap 'exit 0' TERM; yes > /v/x; echo full; while :; do sleep 1 & wait $!; done";
    agent.put("hog.yaml", &pod("hog", 1, &(main(script) + volume)));
    agent.wait_for_words("hog", "full\n");
    neighbour.assert_unharmed(&agent);
    agent.kill();
    agent.spawn();
    neighbour.assert_unharmed(&agent);
    agent.remove("hog.yaml");
    agent.wait_for_pod_count(1);
    wait_for("there is room again", || {
        std::fs::write(agent.paths.root_dir.join("room"), vec![0; 8 << 20]).ok()
    });
    agent.put("next.yaml", &manifest("next", 1, "echo up; sleep 1000"));
    agent.wait_until_running("next");
    neighbour.assert_unharmed(&agent);
}

/// More mounts than its holder can be told of.
#[test]
fn who_mounts_too_much_is_told() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let (mut mounts, mut volumes) = (String::new(), String::new());
    for n in 0..1500 {
        let name = format!("{n}-{}", "v".repeat(50));
        mounts += &format!("    - {{name: {name}, mountPath: /{n}}}\n");
        volumes += &format!("  - {{name: {name}, emptyDir: {{}}}}\n");
    }
    let lines = format!("    volumeMounts:\n{mounts}  volumes:\n{volumes}");
    agent.put("many.yaml", &pod("many", 1, &(main("sleep 1000") + &lines)));
    let message = agent.wait_for_waiting("many", "CreateContainerError");
    assert!(message.contains("fewer volumes"), "{message}");
    agent.put("next.yaml", &manifest("next", 1, "sleep 1000"));
    agent.wait_until_running("next");
}

/// One process sleeps in the kernel, and the mount of another pod's volume does.
#[test]
fn who_sleeps_in_the_kernel_delays_nobody_else() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("silent");
    let Some(disk) = SilentDisk::mount(&at) else {
        println!("SKIPPED: processes that sleep in the kernel: this machine has no FUSE");
        return;
    };
    let mut agent = TestAgent::start();
    let neighbour = Neighbour::start(&agent);
    let volume = |path: &std::path::Path| {
        format!(
            "    volumeMounts: [{{name: v, mountPath: /v}}]\n  volumes: [{{name: v, hostPath: {{path: {path:?}}}}}]\n"
        )
    };
    let sleeps = container("main", "echo up; cat /v/silent/x; echo awake") + &volume(dir.path());
    agent.put(
        "sleeper.yaml",
        &pod("sleeper", 1, &format!("  containers:\n{sleeps}")),
    );
    let waits = main("echo up; sleep 1000") + &volume(&at);
    agent.put("waiter.yaml", &pod("waiter", 1, &waits));
    agent.wait_until_running("sleeper");
    neighbour.assert_unharmed(&agent);
    agent.remove("sleeper.yaml");
    agent.remove("waiter.yaml");
    agent.put("next.yaml", &manifest("next", 1, "echo up; sleep 1000"));
    agent.wait_until_running("next");
    neighbour.assert_unharmed(&agent);
    agent.kill();
    agent.spawn();
    neighbour.assert_unharmed(&agent);
    drop(disk);
    agent.wait_for_pod_count(2);
    assert!(!agent.logs("sleeper", "main").contains("awake"));
    neighbour.assert_unharmed(&agent);
}
