//! What is told of hooks that fail.

use super::support::agent::TestAgent;
use super::support::wait::{can_run, wait_for};
use super::*;

/// P-90, and the back-off that follows.
#[test]
fn a_post_start_hook_that_fails_is_told_once_for_each_instance() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    let hook = "    lifecycle: {postStart: {exec: {command: [sh, -c, 'echo oh no; exit 7']}}}\n";
    agent.put("web.yaml", &lives("web", hook));
    agent.wait_for_status("web", "the end of the second instance", |status| {
        let main = container_status(status, "main");
        let is_second = main["restartCount"] == 1 && main["state"]["running"].is_null();
        is_second.then_some(())
    });
    let told = || agent.event_count("web", "FailedPostStartHook");
    wait_for("the second event", || (told() == 2).then_some(()));
    let (message, _) = messages(&agent, "web", "FailedPostStartHook")
        .pop()
        .unwrap();
    assert!(message.contains("PostStartHook failed"), "{message}");
    agent.kill();
    agent.spawn();
    // Events are of one agent's life; what happened before it is not told again.
    agent.wait_for_status("web", "its status", |status| {
        (container_status(status, "main")["restartCount"] == 1).then_some(())
    });
    assert_eq!(agent.event_count("web", "FailedPostStartHook"), 0);
}

/// P-77: the container ends all the same. The agent dies while the hook runs.
#[test]
fn a_pre_stop_hook_that_fails_is_told_once() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    let hook = "    lifecycle: {preStop: {exec: {command: [sh, -c, 'touch /tmp/hook; sleep 2; exit 7']}}}\n";
    let manifest = pod(
        "web",
        30,
        &(main("trap 'sleep 2; exit 0' TERM; while :; do sleep 1 & wait $!; done") + hook),
    );
    agent.put("web.yaml", &manifest);
    agent.wait_until_running("web");
    agent.remove("web.yaml");
    wait_for("the hook", || {
        let (code, ..) = agent.answer(&["exec", "web", "--", "cat", "/tmp/hook"]);
        (code == 0).then_some(())
    });
    agent.kill();
    agent.spawn();
    wait_for("the event", || {
        (agent.event_count("web", "FailedPreStopHook") > 0).then_some(())
    });
    agent.wait_for_no_pods();
    assert_eq!(agent.event_count("web", "FailedPreStopHook"), 1);
}
