//! `activeDeadlineSeconds`: a pod's time is limited, whoever restarts meanwhile.

use vetch::sys::clock;

use super::support::agent::TestAgent;
use super::support::manifest::container;
use super::support::wait::{can_run, wait_for};
use super::*;

/// A pod that is active for so long, and tells of its hook and of its end.
fn limited(witness: &Witness, name: &str, seconds: u32) -> String {
    let tell = witness.tell(&format!("{name}-hook"));
    let hook = format!("    lifecycle: {{preStop: {{exec: {{command: [sh, -c, {tell:?}]}}}}}}\n");
    let main = container("main", &tells_its_end(witness, name, 0)) + &hook;
    let lines = format!("  activeDeadlineSeconds: {seconds}\n");
    staged(name, &lines, &[], &[main])
}

/// J-57: then nothing runs any more.
fn wait_for_deadline(agent: &TestAgent, pod: &str) -> Value {
    let status = wait_for_phase(agent, pod, "Failed");
    assert_eq!(status["reason"], "DeadlineExceeded");
    let main = &container_status(&status, "main")["state"]["terminated"];
    assert!(!main.is_null(), "{status:#}");
    status
}

/// P-98, P-77.
#[test]
fn a_pod_whose_time_is_over_ends_in_order_and_has_failed() {
    if !can_run() {
        return;
    }
    let (mut agent, witness) = (TestAgent::start(), Witness::start());
    agent.put("web.yaml", &limited(&witness, "web", 3));
    witness.wait_for("web");
    let status = wait_for_deadline(&agent, "web");
    assert_eq!(status["phase"], "Failed");
    let why = "Pod was active on the node longer than the specified deadline";
    assert_eq!(status["message"], why);
    assert_eq!(witness.told(), ["web", "web-hook", "web-end"]);
    let page = agent.text(&["describe", "pod", "web"]);
    assert!(page.contains(why), "{page}");
    assert_eq!(agent.event_count("web", "DeadlineExceeded"), 1);
    agent.kill();
    agent.spawn();
    let after = wait_for_deadline(&agent, "web");
    assert_eq!(after["startTime"], status["startTime"]);
    wait_for("the end of the sandbox", || {
        agent.holder_pids().is_empty().then_some(())
    });
    assert_eq!(witness.told(), ["web", "web-hook", "web-end"]);
}

/// D-9: the time goes on without an agent. A younger pod with less time shows that it does not begin again.
#[test]
fn the_time_does_not_begin_again_with_the_agent() {
    if !can_run() {
        return;
    }
    let (mut agent, witness) = (TestAgent::start(), Witness::start());
    agent.put("old.yaml", &limited(&witness, "old", 12));
    witness.wait_for("old");
    let end = clock::now().boot_ms + 12_000;
    agent.kill();
    wait_for("the end of the time", || {
        (clock::now().boot_ms > end).then_some(())
    });
    assert_eq!(witness.told(), ["old"]);
    agent.put("young.yaml", &limited(&witness, "young", 8));
    agent.spawn();
    wait_for_deadline(&agent, "old");
    wait_for_deadline(&agent, "young");
    let events = agent.client().events().unwrap();
    let ended = events.iter().map(|e| &e.event);
    let ended = ended.filter(|e| e.reason == "DeadlineExceeded");
    let ended: Vec<&str> = ended.map(|e| e.name.as_str()).collect();
    assert_eq!(ended, ["old-box", "young-box"]);
    assert_eq!(witness.count("old-end"), 1);
}

/// P-98: init containers, too, are of the pod's time, and what waits to be restarted.
#[test]
fn a_pod_that_never_gets_going_ends_as_well() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    let main = container("main", &witness.tell("main"));
    let init = [container("a", &tells_and_holds(&witness, "a"))];
    let lines = "  activeDeadlineSeconds: 2\n";
    let manifest = staged("web", lines, &init, &[main]);
    agent.put(
        "web.yaml",
        &manifest.replace("PeriodSeconds: 30", "PeriodSeconds: 1"),
    );
    let status = wait_for_phase(&agent, "web", "Failed");
    assert_eq!(status["reason"], "DeadlineExceeded");
    wait_for("the end of the sandbox", || {
        agent.holder_pids().is_empty().then_some(())
    });
    assert_eq!(witness.told(), ["a"]);
}
