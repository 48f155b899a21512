//! Start, keep, restart, replace, end: each row is one pass.

use super::fixtures::*;
use crate::plan::stop::StopOrder;
use crate::plan::{Action, History, ImagePresence, SandboxState, StartProblem};
use crate::pod::StaticPod;

fn start_sandbox(pod: &StaticPod, attempt: u32) -> Action {
    Action::StartSandbox {
        uid: pod.uid.clone(),
        attempt,
    }
}

fn start(pod: &StaticPod, container: &str, restart_count: u32) -> Action {
    Action::StartContainer {
        uid: pod.uid.clone(),
        container: container.into(),
        restart_count,
    }
}

fn stop(pod: &StaticPod, id: &str, reason: &str) -> Action {
    Action::StopContainer {
        uid: pod.uid.clone(),
        order: StopOrder {
            id: id.into(),
            grace_ms: 5000,
            reason: reason.into(),
            pre_stop: None,
            after: Vec::new(),
        },
    }
}

fn remove(pod: &StaticPod, id: &str) -> Action {
    Action::RemoveContainer {
        uid: pod.uid.clone(),
        id: id.into(),
        with_logs: true,
    }
}

fn stop_sandbox(pod: &StaticPod) -> Action {
    Action::StopSandbox {
        uid: pod.uid.clone(),
    }
}

fn clean(pod: &StaticPod) -> Action {
    Action::CleanSandbox {
        uid: pod.uid.clone(),
    }
}

fn forget(pod: &StaticPod) -> Action {
    Action::ForgetPod {
        uid: pod.uid.clone(),
        namespace: "default".into(),
        name: "web-node".into(),
    }
}

#[test]
fn new_pod_gets_a_sandbox_then_its_containers_in_spec_order() {
    let p = pod("u1", "Always", &["b", "a"]);
    let none = History::default();
    let first = planned(&[&p], &nothing(), &none, 0);
    assert_eq!(first.actions, [start_sandbox(&p, 0)]);
    assert_eq!(phase(&first, &p), "Pending");

    let starting = planned(&[&p], &seen(&p, SandboxState::Starting), &first.history, 1);
    assert_eq!(starting.actions, []);

    let empty = planned(&[&p], &seen(&p, ready(vec![])), &first.history, 2);
    assert_eq!(empty.actions, [start(&p, "b", 0)]);

    let one = planned(
        &[&p],
        &seen(&p, ready(vec![running("b", 0, 3)])),
        &empty.history,
        4,
    );
    assert_eq!(one.actions, [start(&p, "a", 0)]);
    assert_eq!(
        event_lines(&one),
        [
            "Pulled b Container image \"app\" already present on machine",
            "Created b Container created",
            "Started b Container started",
        ]
    );
    assert_eq!(phase(&one, &p), "Pending");

    let both = seen(&p, ready(vec![running("b", 0, 3), running("a", 0, 5)]));
    let done = planned(&[&p], &both, &one.history, 6);
    assert_eq!(done.actions, []);
    assert_eq!(done.wake_at_boot_ms, None);
    assert_eq!(phase(&done, &p), "Running");
    assert_eq!(note_lines(&done), ["b running", "a running"]);
}

#[test]
fn a_container_being_created_holds_up_the_next() {
    let p = pod("u1", "Always", &["a", "b"]);
    let mut observed = seen(&p, ready(vec![]));
    let state = &mut observed.sandboxes.get_mut(&p.uid).unwrap().state;
    if let SandboxState::Ready { creating, .. } = state {
        creating.insert("a".into());
    }
    let plan = planned(&[&p], &observed, &History::default(), 0);
    assert_eq!(plan.actions, []);
}

#[test]
fn the_built_in_image_is_to_be_imported_by_its_name() {
    let p = with_image(pod("u1", "Always", &["a"]), 0, "builtin/hello");
    let mut observed = seen(&p, ready(vec![]));
    observed
        .images
        .insert("builtin/hello".into(), ImagePresence::Absent);
    let plan = planned(&[&p], &observed, &History::default(), 0);
    let notes = note_lines(&plan);
    assert!(
        notes[0].ends_with("load it with: vetch image import builtin/hello"),
        "{notes:?}"
    );
}

#[test]
fn a_missing_image_waits_without_timer_and_holds_up_nobody() {
    let p = with_image(pod("u1", "Always", &["a", "b"]), 0, "other");
    let mut observed = seen(&p, ready(vec![]));
    observed
        .images
        .insert("other".into(), ImagePresence::Absent);
    let plan = planned(&[&p], &observed, &History::default(), 0);
    assert_eq!(plan.actions, [start(&p, "b", 0)]);
    assert_eq!(plan.wake_at_boot_ms, None);
    let status = plan.pods[&p.uid].status.clone().unwrap();
    let state = status.container_statuses.unwrap()[0].state.clone().unwrap();
    let waiting = state.waiting.unwrap();
    assert_eq!(waiting.reason.unwrap(), "ErrImagePull");
    assert_eq!(
        waiting.message.unwrap(),
        "image \"other\" is not in the local store; load it with: vetch image import FILE"
    );
    observed
        .images
        .insert("other".into(), ImagePresence::Present("sha256:o".into()));
    let plan = planned(&[&p], &observed, &plan.history, 1);
    assert_eq!(plan.actions, [start(&p, "a", 0)]);
}

#[test]
fn first_restart_is_immediate_then_10_seconds_from_the_exit() {
    let p = pod("u1", "Always", &["a"]);
    let first = seen(&p, ready(vec![exited("a", 0, (0, 5000), 1)]));
    let plan = planned(&[&p], &first, &History::default(), 5001);
    assert_eq!(plan.actions, [start(&p, "a", 1)]);

    let second = vec![
        exited("a", 0, (0, 5000), 1),
        exited("a", 1, (5000, 10_000), 1),
    ];
    let plan = planned(&[&p], &seen(&p, ready(second)), &plan.history, 10_001);
    assert_eq!(plan.actions, [remove(&p, "a-0")]);
    assert_eq!(plan.wake_at_boot_ms, Some(20_000));
    assert_eq!(plan.restarts[&(p.uid.clone(), "a".to_owned())], 20_000);
    assert_eq!(note_lines(&plan), ["a restarts in 10 s (exit 1, back-off)"]);
    assert_eq!(
        event_lines(&plan).last().unwrap(),
        "BackOff a Back-off restarting failed container a in pod web-node_default(u1)"
    );
    assert_eq!(phase(&plan, &p), "Running");
    let status = plan.pods[&p.uid].status.clone().unwrap();
    let state = status.container_statuses.unwrap()[0].clone();
    assert_eq!(
        state.state.unwrap().waiting.unwrap().message.unwrap(),
        "back-off 10s restarting failed container=a pod=web-node_default(u1)"
    );
    assert_eq!(state.last_state.unwrap().terminated.unwrap().exit_code, 1);
    assert_eq!(state.restart_count, 1);

    let alone = seen(&p, ready(vec![exited("a", 1, (5000, 10_000), 1)]));
    let plan = planned(&[&p], &alone, &plan.history, 20_000);
    assert_eq!(plan.actions, [start(&p, "a", 2)]);
}

#[test]
fn run_once_pod_finishes_and_its_sandbox_goes() {
    for (policy, code, expected) in [
        ("Never", 0, "Succeeded"),
        ("Never", 3, "Failed"),
        ("OnFailure", 0, "Succeeded"),
    ] {
        let p = pod("u1", policy, &["a"]);
        let over = seen(&p, ready(vec![exited("a", 0, (0, 5), code)]));
        let plan = planned(&[&p], &over, &History::default(), 6);
        assert_eq!(plan.actions, [stop_sandbox(&p)], "{policy} {code}");
        assert_eq!(phase(&plan, &p), expected);
        // Also after a reboot nothing starts again, and the status stays whole.
        let plan = planned(&[&p], &nothing(), &plan.history, 1);
        assert_eq!(plan.actions, []);
        assert_eq!(phase(&plan, &p), expected);
        let status = plan.pods[&p.uid].status.clone().unwrap();
        let state = status.container_statuses.unwrap()[0].state.clone().unwrap();
        assert_eq!(state.terminated.unwrap().exit_code, code);
    }
}

#[test]
fn removed_pod_is_stopped_with_its_recorded_grace_then_forgotten() {
    let p = pod("u1", "Always", &["a", "b"]);
    let two = seen(&p, ready(vec![running("a", 0, 0), running("b", 0, 0)]));
    let history = history_of(&[&p], &[(0, two.clone())]);
    let plan = planned(&[], &two, &history, 1);
    assert_eq!(
        plan.actions,
        [
            stop(&p, "a-0", "Stopping container a"),
            stop(&p, "b-0", "Stopping container b")
        ]
    );
    assert_eq!(
        event_lines(&plan),
        [
            "Killing a Stopping container a",
            "Killing b Stopping container b"
        ]
    );
    let meta = &plan.pods[&p.uid].metadata;
    assert_eq!(meta.deletion_grace_period_seconds, Some(5));
    assert!(meta.deletion_timestamp.is_some());

    let half = seen(
        &p,
        ready(vec![stopping("a", 0, 5001), exited("b", 0, (0, 3), 143)]),
    );
    let plan = planned(&[], &half, &plan.history, 4);
    assert_eq!(plan.actions, []);
    let gone = vec![exited("a", 0, (0, 5), 143), exited("b", 0, (0, 3), 143)];
    let plan = planned(&[], &seen(&p, ready(gone)), &plan.history, 6);
    assert_eq!(plan.actions, [stop_sandbox(&p)]);
    let plan = planned(&[], &nothing(), &plan.history, 7);
    assert_eq!(plan.actions, [forget(&p)]);
    assert_eq!(plan.history, History::default());
    assert!(plan.pods.is_empty());
}

#[test]
fn edited_pod_waits_until_the_old_one_is_gone() {
    let old = pod("u1", "Always", &["a"]);
    let new = pod("u2", "Always", &["a"]);
    let observed = seen(&old, ready(vec![running("a", 0, 0)]));
    let plan = planned(&[&new], &observed, &History::default(), 1);
    assert_eq!(plan.actions, [stop(&old, "a-0", "Stopping container a")]);
    assert!(
        note_lines(&plan)
            .contains(&"- waits for the old pod default/web-node (uid u1) to end".to_owned())
    );
    let plan = planned(&[&new], &nothing(), &plan.history, 2);
    assert_eq!(plan.actions, [forget(&old), start_sandbox(&new, 0)]);
}

#[test]
fn dead_holder_is_cleaned_and_the_pod_made_anew() {
    let p = pod("u1", "Always", &["a"]);
    let alive = seen(&p, ready(vec![running("a", 0, 0)]));
    let history = history_of(&[&p], &[(0, alive)]);
    let plan = planned(
        &[&p],
        &seen(&p, dead(vec![running("a", 0, 0)])),
        &history,
        9,
    );
    assert_eq!(plan.actions, [clean(&p)]);
    assert_eq!(
        event_lines(&plan),
        ["SandboxChanged - Pod sandbox changed, it will be killed and re-created."]
    );
    let plan = planned(&[&p], &nothing(), &plan.history, 10);
    assert_eq!(plan.actions, [start_sandbox(&p, 1)]);
    let status = plan.pods[&p.uid].status.clone().unwrap();
    let container = status.container_statuses.unwrap()[0].clone();
    let last = container.last_state.unwrap().terminated.unwrap();
    assert_eq!(
        (last.exit_code, last.reason.as_deref()),
        (137, Some("ContainerStatusUnknown"))
    );
    let plan = planned(&[&p], &seen(&p, ready(vec![])), &plan.history, 11);
    assert_eq!(plan.actions, [start(&p, "a", 1)]);
}

#[test]
fn failed_sandbox_is_retried_later() {
    let p = pod("u1", "Always", &["a"]);
    let mut observed = nothing();
    let problem = StartProblem {
        reason: "FailedCreatePodSandBox".into(),
        message: "no space".into(),
        at_boot_ms: 100,
        failures: 2,
    };
    observed.sandbox_problems.insert(p.uid.clone(), problem);
    let plan = planned(&[&p], &observed, &History::default(), 101);
    assert_eq!(plan.actions, []);
    assert_eq!(plan.wake_at_boot_ms, Some(20_100));
    assert_eq!(
        event_lines(&plan),
        ["FailedCreatePodSandBox - Failed to create pod sandbox: no space"]
    );
    let plan = planned(&[&p], &observed, &plan.history, 20_100);
    assert_eq!(plan.actions, [start_sandbox(&p, 0)]);
    assert_eq!(event_lines(&plan), [""; 0]);
}
