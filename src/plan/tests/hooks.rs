//! postStart and preStop (P-43, P-77, P-90, P-156).

use serde_json::{Value, json};

use super::fixtures::*;
use super::story::*;
use crate::holder::proto::HookState;
use crate::plan::StopCause;

fn pair(policy: &str, lifecycle: Value) -> Story {
    Story::new(json!({
        "restartPolicy": policy,
        "containers": [{"name": "a", "lifecycle": lifecycle}, {"name": "b"}],
    }))
}

fn failed() -> HookState {
    HookState::Failed {
        message: "exit 7".into(),
    }
}

/// P-90: while the hook runs, the following containers wait, and say so; the container itself already runs.
#[test]
fn post_start_holds_up_the_following_containers() {
    let mut story = pair("Always", json!({}));
    let hook = |state| vec![with_post_start(running("a", 0, 0), state)];
    let plan = story.sees(1, hook(HookState::Running));
    assert_eq!(action_lines(&plan), NONE);
    assert_eq!(
        note_lines(&plan),
        ["a running", "b waits for the postStart hook of container a"]
    );
    assert_eq!(waiting_lines(&plan, &story.pod), ["b: ContainerCreating"]);
    assert_eq!(story.asks(2, hook(HookState::Done)), ["start b 0"]);
    // The ones before it do not wait.
    let mut story = pair("Always", json!({}));
    let b = with_post_start(running("b", 0, 0), HookState::Running);
    assert_eq!(story.asks(1, vec![b]), ["start a 0"]);
}

/// P-90: killed with its full grace, then the policy decides, with back-off. P-43: the others go on.
#[test]
fn failed_post_start_kills_its_container() {
    let mut story = pair("Always", json!({}));
    let a = |n| with_post_start(running("a", n, 0), failed());
    let plan = story.sees(1, vec![a(0)]);
    assert_eq!(action_lines(&plan), ["stop a-0 5000", "start b 0"]);
    let reason = "Container a failed its postStart hook, will be restarted";
    assert_eq!(stop_reasons(&plan), [reason]);
    let events = event_lines(&plan);
    assert_eq!(
        events[events.len() - 2..],
        [
            "FailedPostStartHook a PostStartHook failed: exit 7".to_owned(),
            format!("Killing a {reason}")
        ]
    );
    let b = running("b", 0, 2);
    let over = vec![
        with_post_start(exited("a", 0, (0, 3), 143), failed()),
        b.clone(),
    ];
    assert_eq!(story.asks(4, over), ["start a 1"]);
    let message = "exit 7".to_owned();
    assert_eq!(
        story.memory().containers["a"].last.clone().unwrap().stop,
        Some(StopCause::PostStart { message })
    );
    story.sees(5, vec![a(1), b.clone()]);
    let plan = story.sees(7, vec![exited("a", 1, (5, 6), 143), b]);
    assert_eq!(plan.wake_at_boot_ms, Some(10_006));
    assert_eq!(waiting_lines(&plan, &story.pod), ["a: PostStartHookError"]);

    let mut story = pair("Never", json!({}));
    let plan = story.sees(1, vec![a(0)]);
    assert_eq!(
        stop_reasons(&plan),
        ["Container a failed its postStart hook"]
    );
    let over = vec![exited("a", 0, (0, 3), 143), running("b", 0, 2)];
    assert_eq!(story.asks(4, over), NONE);
}

/// P-77: with each stop that has a grace, of the spec that the instance was made from.
#[test]
fn pre_stop_comes_with_each_stop() {
    let mut story = pair("Always", json!({"preStop": {"sleep": {"seconds": 3}}}));
    let both = vec![running("a", 0, 0), running("b", 0, 0)];
    story.sees(1, both.clone());
    let gone = planned(&[], &story.observed, &story.history, 2);
    assert_eq!(
        action_lines(&gone),
        ["stop a-0 5000 sleep 3000", "stop b-0 5000"]
    );
    // Edited in place: the new spec has another hook, and the old instance the old one.
    let spec = story.pod.pod.spec.as_mut().unwrap();
    spec.containers[0].image = Some("app:2".into());
    spec.containers[0].lifecycle = None;
    assert_eq!(story.asks(2, both.clone()), ["stop a-0 5000 sleep 3000"]);
    // Taken out of the spec.
    story.pod.pod.spec.as_mut().unwrap().containers.remove(0);
    assert_eq!(story.asks(3, both), ["stop a-0 5000 sleep 3000"]);
}

/// The stop goes on; the event is said once.
#[test]
fn failed_pre_stop_is_told() {
    let mut story = pair("Always", json!({"preStop": {"tcpSocket": {"port": 1}}}));
    story.sees(1, vec![running("a", 0, 0), running("b", 0, 0)]);
    let mut a = stopping("a", 0, 5001);
    a.pre_stop = failed();
    let plan = story.sees(2, vec![a, running("b", 0, 0)]);
    assert_eq!(
        event_lines(&plan),
        ["FailedPreStopHook a PreStopHook failed: exit 7"]
    );
    let mut a = exited("a", 0, (0, 4), 143);
    a.pre_stop = failed();
    let plan = story.sees(5, vec![a, running("b", 0, 0)]);
    assert_eq!(event_lines(&plan), NONE);
}
