//! What a person sees of pods that change.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use support::agent::TestAgent;
use support::manifest::{LIVES, container, manifest, pod};
use support::wait::{can_run, wait_for};

/// One line for each change, over a restart of the agent too.
#[test]
fn get_pods_with_w_follows_changes_over_a_restart_of_the_agent() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    agent.put("web.yaml", &manifest("web", 1, LIVES));
    agent.text(&["wait", "--for=condition=Ready", "pod/web"]);
    let mut follower = agent
        .vetch(&["get", "pods", "-w"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("start vetch");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let mut words = |count: usize| -> String {
        let line = lines.next().expect("a line").expect("text");
        let words: Vec<&str> = line.split_whitespace().take(count).collect();
        words.join(" ")
    };
    assert_eq!(words(5), "NAME READY STATUS RESTARTS AGE");
    assert_eq!(words(4), "web-box 1/1 Running 0");
    agent.kill();
    agent.spawn();
    agent.text(&["wait", "--for=condition=Ready", "pod/web"]);
    agent.remove("web.yaml");
    assert_eq!(words(4), "web-box 1/1 Terminating 0");
    while words(3) != "web-box 0/1 Deleted" {}
    follower.kill().expect("kill");
    follower.wait().expect("wait");
    assert_eq!(agent.text(&["get", "pods", "-o", "name"]), "");
}

/// Which probe, what it said, and what came of it; the parts of the pod in the order of their start.
#[test]
fn describe_answers_why_a_container_was_restarted() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let init = format!("  initContainers:\n{}", container("prepare", "true"));
    let main = format!("  containers:\n{}", container("main", LIVES));
    let probe = "    livenessProbe:
      exec: {command: [sh, -c, \"echo too late; exit 3\"]}
      periodSeconds: 1
      failureThreshold: 1
";
    agent.put("web.yaml", &pod("web", 1, &(init + &main + probe)));
    let page = wait_for("a restart", || {
        let page = agent.text(&["describe", "pod", "web"]);
        page.contains("its liveness probe failed").then_some(page)
    });
    for part in [
        "Init Containers:\n  prepare:\n    Role:           init",
        "Containers:\n  main:\n",
        "Last Exit:      its liveness probe failed: too late (exit code 0)\n",
        "Liveness:       exec [sh -c echo too late; exit 3] delay=0s timeout=1s period=1s #success=1 #failure=1\n",
        "Liveness probe failed: too late",
        "Container main failed liveness probe, will be restarted",
    ] {
        assert!(page.contains(part), "{part:?} in {page}");
    }
    let events = agent.text(&["get", "events"]);
    assert!(events.contains("Unhealthy"), "{events}");
}
