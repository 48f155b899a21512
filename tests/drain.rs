//! `vetch drain`: pods end in order when the node goes down (N-25…N-31), with an agent and without.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::json;

use support::agent::TestAgent;
use support::manifest::{LIVES, SAYS_BYE, container, main, pod};
use support::wait::{can_run, wait_for};

/// Has to be killed.
const STUBBORN: &str = "trap '' TERM; echo up; while :; do sleep 1 & wait $!; done";
/// Its hook leaves a note, which its last words repeat.
const HOOKED: &str =
    "trap 'cat /note; echo bye; exit 0' TERM; echo up; while :; do sleep 1 & wait $!; done";
const NO_CGROUPS: [PathBuf; 0] = [];
const HOOK: &str =
    "    lifecycle: {preStop: {exec: {command: [sh, -c, 'sleep 1; echo hooked > /note']}}}\n";

fn with_priority(name: &str, priority: i32, containers: &str) -> String {
    pod(name, 5, &format!("  priority: {priority}\n{containers}"))
}

/// When a pod's container said this, as text that sorts.
fn said(agent: &TestAgent, name: &str, container: &str, words: &str) -> String {
    let log = agent.logs(name, container);
    let line = log.lines().find(|line| line.ends_with(words));
    let line = line.unwrap_or_else(|| panic!("{name} never said {words:?}: {log}"));
    line.split(' ').next().expect("a time").to_owned()
}

fn start_all(agent: &TestAgent, pods: &[(&str, String)]) {
    for (name, text) in pods {
        agent.put(&format!("{name}.yaml"), text);
    }
    for (name, _) in pods {
        agent.wait_for_words(name, "up");
    }
}

/// What `vetch drain` says, line by line; it must succeed.
fn drained(agent: &TestAgent, options: &[&str]) -> Vec<String> {
    let (code, _, words) = agent.answer(&[&["drain"], options].concat());
    assert_eq!(code, 0, "{words}");
    words.lines().map(ToOwned::to_owned).collect()
}

fn drain(agent: &TestAgent) -> Child {
    let mut command = agent.vetch(&["drain"]);
    command.stderr(Stdio::null());
    command.spawn().expect("start vetch drain")
}

fn wait_for_exit(mut child: Child) -> Option<i32> {
    wait_for("the command ends", || child.try_wait().expect("wait")).code()
}

/// N-26, N-28, N-29.
#[test]
fn the_important_pods_end_last_and_nothing_starts_until_the_agent_does() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    let pods = [
        (
            "base",
            with_priority("base", 2_000_000_000, &main(SAYS_BYE)),
        ),
        ("web", with_priority("web", 0, &(main(HOOKED) + HOOK))),
    ];
    start_all(&agent, &pods);
    assert_eq!(
        drained(&agent, &[]),
        ["default/web-box has ended", "default/base-box has ended"]
    );
    assert_eq!(agent.holder_pids(), [0; 0]);
    assert_eq!(agent.container_pids(), [0; 0]);
    let hooked = said(&agent, "web", "main", "hooked");
    let (web, base) = (
        said(&agent, "web", "main", "bye"),
        said(&agent, "base", "main", "bye"),
    );
    assert!(hooked <= web && web < base, "{hooked} {web} {base}");

    agent.put("late.yaml", &pod("late", 5, &main(LIVES)));
    agent.wait_for_status("late", "a refusal", |status| {
        (status["reason"] == "NodeShutdown").then_some(())
    });
    for name in ["web", "base"] {
        let status = agent.status(name);
        assert_eq!(status["phase"], json!("Failed"), "{status:#}");
        assert_eq!(status["reason"], json!("Terminated"), "{status:#}");
    }
    assert!(agent.text(&["status"]).contains("draining"));
    assert_eq!(agent.holder_pids(), [0; 0]);
    // Again: there is nothing to do.
    assert_eq!(agent.answer(&["drain"]).0, 0);

    agent.terminate();
    agent.spawn();
    for name in ["web", "base", "late"] {
        agent.wait_until_running(name);
        assert_eq!(agent.status(name)["reason"], json!(null));
    }
}

/// N-26: who does not end in the time of its turn is killed, whatever its own grace.
#[test]
fn a_turn_has_its_time() {
    if !can_run() {
        return;
    }
    let config = "shutdownGracePeriodByPodPriority:
- {priority: 0, shutdownGracePeriodSeconds: 2}
- {priority: 10, shutdownGracePeriodSeconds: 2}
";
    let agent = TestAgent::start_with(config);
    let patient = |name: &str, priority: i32| {
        pod(
            name,
            3600,
            &format!("  priority: {priority}\n{}", main(STUBBORN)),
        )
    };
    let pods = [("low", patient("low", 0)), ("high", patient("high", 10))];
    start_all(&agent, &pods);
    assert_eq!(
        drained(&agent, &[]),
        ["default/low-box has ended", "default/high-box has ended"]
    );
}

/// Whoever drains goes on by itself when the agent dies; the next agent runs everything again.
#[test]
fn a_drain_survives_the_death_of_the_agent() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    let pods = [
        ("low", with_priority("low", 0, &main(STUBBORN))),
        (
            "high",
            with_priority("high", 2_000_000_000, &main(SAYS_BYE)),
        ),
    ];
    start_all(&agent, &pods);
    let draining = drain(&agent);
    agent.wait_for_pod("low", |pod| pod.metadata.deletion_timestamp.clone());
    assert!(!agent.container_pids().is_empty());
    agent.kill();
    assert_eq!(wait_for_exit(draining), Some(0));
    assert_eq!(agent.holder_pids(), [0; 0]);
    assert_eq!(agent.container_pids(), [0; 0]);
    said(&agent, "high", "main", "bye");
    agent.spawn();
    for name in ["low", "high"] {
        agent.wait_until_running(name);
    }
}

/// P-77, P-81: without an agent, too, hooks run, sidecars end last, turns are kept; and no cgroup stays.
#[test]
fn pods_end_in_order_without_an_agent() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    let sidecar = container("side", SAYS_BYE) + "    restartPolicy: Always\n";
    let containers = format!("  initContainers:\n{sidecar}{}{HOOK}", main(HOOKED));
    let pods = [
        ("first", with_priority("first", -1, &containers)),
        ("last", with_priority("last", 0, &main(SAYS_BYE))),
    ];
    start_all(&agent, &pods);
    let config = agent.paths.root_dir.join("drain.yaml");
    let table = "shutdownGracePeriodByPodPriority:
- {priority: -1, shutdownGracePeriodSeconds: 60}
- {priority: 0, shutdownGracePeriodSeconds: 60}
";
    write(&config, table);
    agent.kill();
    let config = config.to_str().expect("a plain path");
    assert_eq!(
        drained(&agent, &["--config", config]),
        ["default/first-box has ended", "default/last-box has ended"]
    );
    let times = [
        said(&agent, "first", "main", "hooked"),
        said(&agent, "first", "main", "bye"),
        said(&agent, "first", "side", "bye"),
        said(&agent, "last", "main", "bye"),
    ];
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(agent.cgroups(), NO_CGROUPS);
}

/// The same without turns; and with an agent.
#[test]
fn a_stop_leaves_no_cgroup() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    let pods = [("web", with_priority("web", 0, &main(SAYS_BYE)))];
    start_all(&agent, &pods);
    assert!(!agent.cgroups().is_empty());
    agent.text(&["stop", "--all"]);
    agent.wait_for_end();
    assert_eq!(agent.cgroups(), NO_CGROUPS);
    agent.spawn();
    agent.wait_until_running("web");
    agent.kill();
    agent.text(&["stop", "--all"]);
    assert_eq!(agent.cgroups(), NO_CGROUPS);
}

#[expect(clippy::disallowed_methods, reason = "a test's own file")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("write");
}
