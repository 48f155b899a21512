//! Edits in place, ends of all pods, reboots, pods that come and go.

use super::fixtures::*;
use crate::holder::proto::ContainerRecord;
use crate::plan::stop::StopOrder;
use crate::plan::{Action, Finished, Halt, History, ImagePresence, SandboxState, plan};

/// P-40: only the container with the changed image is replaced, whatever the restart policy.
#[test]
fn image_edit_in_place_replaces_one_container() {
    let old = pod("fixed", "Never", &["a", "b"]);
    let new = with_image(old.clone(), 0, "app:2");
    let mut observed = seen(&old, ready(vec![running("a", 0, 0), running("b", 0, 0)]));
    observed
        .images
        .insert("app:2".into(), ImagePresence::Present("sha256:2".into()));
    let history = history_of(&[&old], &[(0, observed.clone())]);
    let plan = planned(&[&new], &observed, &history, 1);
    let stop = Action::StopContainer {
        uid: old.uid.clone(),
        order: StopOrder {
            id: "a-0".into(),
            grace_ms: 5000,
            reason: "Container a definition changed, will be restarted".into(),
            pre_stop: None,
            after: Vec::new(),
        },
    };
    assert_eq!(plan.actions, [stop]);
    assert_eq!(
        event_lines(&plan),
        ["Killing a Container a definition changed, will be restarted"]
    );
    let state = ready(vec![exited("a", 0, (0, 2), 143), running("b", 0, 0)]);
    observed.sandboxes.get_mut(&old.uid).unwrap().state = state;
    let plan = planned(&[&new], &observed, &plan.history, 3);
    let start = Action::StartContainer {
        uid: old.uid.clone(),
        container: "a".into(),
        restart_count: 1,
    };
    assert_eq!(plan.actions, [start]);
}

/// Better than S-155: what was taken out of the spec is stopped and cleared away.
#[test]
fn container_taken_out_of_the_spec_is_stopped_and_removed() {
    let old = pod("fixed", "Always", &["a", "b"]);
    let new = pod("fixed", "Always", &["a"]);
    let both = seen(&old, ready(vec![running("a", 0, 0), running("b", 0, 0)]));
    let plan = planned(&[&new], &both, &History::default(), 1);
    let stop = Action::StopContainer {
        uid: old.uid.clone(),
        order: StopOrder {
            id: "b-0".into(),
            grace_ms: 5000,
            reason: "Container b was removed from the pod".into(),
            pre_stop: None,
            after: Vec::new(),
        },
    };
    assert_eq!(plan.actions, [stop]);
    let ended = vec![running("a", 0, 0), exited("b", 0, (0, 2), 143)];
    let plan = planned(&[&new], &seen(&old, ready(ended)), &plan.history, 3);
    let remove = Action::RemoveContainer {
        uid: old.uid.clone(),
        id: "b-0".into(),
        with_logs: true,
    };
    assert_eq!(plan.actions, [remove]);
    let alone = seen(&old, ready(vec![running("a", 0, 0)]));
    let plan = planned(&[&new], &alone, &plan.history, 4);
    assert!(!plan.history.pods[&old.uid].containers.contains_key("b"));
}

/// A fixed crash loop starts at once: the back-off belongs to the old image (P-70).
#[test]
fn image_edit_ends_the_back_off() {
    let old = pod("fixed", "Always", &["a"]);
    let crash = |n: u32| seen(&old, ready(vec![exited("a", n, (0, 1000), 1)]));
    let history = history_of(&[&old], &[(1000, crash(0)), (1000, crash(1))]);
    assert_eq!(planned(&[&old], &crash(1), &history, 1001).actions, []);
    let new = with_image(old.clone(), 0, "app:2");
    let mut observed = crash(1);
    observed
        .images
        .insert("app:2".into(), ImagePresence::Present("sha256:2".into()));
    let plan = planned(&[&new], &observed, &history, 1001);
    assert!(matches!(
        plan.actions[..],
        [Action::StartContainer {
            restart_count: 2,
            ..
        }]
    ));
}

/// The end of all pods keeps their history: a run-once pod that was interrupted runs at the next start.
#[test]
fn end_of_all_pods_interrupts_but_finishes_nothing() {
    let p = pod("u1", "Never", &["a"]);
    let mut observed = seen(&p, ready(vec![running("a", 0, 0)]));
    let history = history_of(&[&p], &[(0, observed.clone())]);
    observed.halt = Halt::AgentStop;
    let plan = planned(&[&p], &observed, &history, 1);
    assert!(matches!(plan.actions[..], [Action::StopContainer { .. }]));
    let state = ready(vec![exited("a", 0, (0, 2), 143)]);
    observed.sandboxes.get_mut(&p.uid).unwrap().state = state;
    let plan = planned(&[&p], &observed, &plan.history, 3);
    assert!(matches!(plan.actions[..], [Action::StopSandbox { .. }]));
    observed.sandboxes.clear();
    let plan = planned(&[&p], &observed, &plan.history, 4);
    assert_eq!(plan.actions, []);
    assert_eq!(plan.history.pods[&p.uid].finished, None);
    // The next agent.
    let plan = planned(&[&p], &nothing(), &plan.history, 5);
    assert!(matches!(
        plan.actions[..],
        [Action::StartSandbox { attempt: 1, .. }]
    ));
    assert_eq!(plan.pods[&p.uid].metadata.deletion_timestamp, None);
}

/// P-32: a dead holder counts as the end of a run-once pod.
#[test]
fn run_once_pod_fails_with_its_holder() {
    let p = pod("u1", "Never", &["a"]);
    let history = history_of(&[&p], &[(0, seen(&p, ready(vec![running("a", 0, 0)])))]);
    let plan = planned(
        &[&p],
        &seen(&p, dead(vec![running("a", 0, 0)])),
        &history,
        1,
    );
    assert!(matches!(plan.actions[..], [Action::CleanSandbox { .. }]));
    assert_eq!(plan.history.pods[&p.uid].finished, Some(Finished::Failed));
    assert_eq!(planned(&[&p], &nothing(), &plan.history, 2).actions, []);
}

/// A reboot interrupts; restart counts go on and no back-off is left.
#[test]
fn reboot_starts_everything_at_once() {
    let p = pod("u1", "Never", &["a", "b"]);
    let state = ready(vec![running("a", 4, 0), exited("b", 0, (0, 5), 1)]);
    let history = history_of(&[&p], &[(9_000_000, seen(&p, state))]);
    let mut after = rules();
    after.boot_id = "boot-2".into();
    let first = plan(&desired(&[&p]), &nothing(), &history, &after, at(10));
    assert!(matches!(first.actions[..], [Action::StartSandbox { .. }]));
    let observed = seen(&p, ready(vec![]));
    let second = plan(&desired(&[&p]), &observed, &first.history, &after, at(11));
    assert!(matches!(
        &second.actions[..],
        [Action::StartContainer { container, restart_count: 5, .. }] if container == "a"
    ));
}

/// S-160: what was removed ends completely, then starts from nothing.
#[test]
fn pod_that_comes_back_while_ending_starts_anew() {
    let p = pod("u1", "Never", &["a"]);
    let alive = seen(&p, ready(vec![running("a", 3, 0)]));
    let history = history_of(&[&p], &[(0, alive.clone())]);
    let removed = planned(&[], &alive, &history, 1);
    let back = planned(&[&p], &alive, &removed.history, 2);
    assert!(matches!(back.actions[..], [Action::StopContainer { .. }]));
    let over = seen(&p, ready(vec![exited("a", 3, (0, 3), 143)]));
    let over = planned(&[&p], &over, &back.history, 4);
    assert!(matches!(over.actions[..], [Action::StopSandbox { .. }]));
    let gone = planned(&[&p], &nothing(), &over.history, 5);
    assert!(matches!(
        gone.actions[..],
        [
            Action::ForgetPod { .. },
            Action::StartSandbox { attempt: 0, .. }
        ]
    ));
    assert!(gone.history.pods[&p.uid].containers.is_empty());
}

/// S-162: before every source has delivered, nothing unknown goes and nothing new comes.
#[test]
fn nothing_is_removed_or_started_before_the_sources_are_ready() {
    let old = pod("u1", "Always", &["a"]);
    let mut new = pod("u2", "Always", &["a"]);
    new.pod.metadata.name = Some("other-node".into());
    let mut observed = seen(&old, ready(vec![running("a", 0, 0)]));
    observed.sources_ready = false;
    let plan = planned(&[&new], &observed, &History::default(), 1);
    assert_eq!(plan.actions, []);
    assert_eq!(phase(&plan, &old), "Running");
    let mut empty = nothing();
    empty.sources_ready = false;
    let kept = planned(&[], &empty, &plan.history, 2);
    assert_eq!(kept.actions, []);
    assert!(kept.history.pods.contains_key(&old.uid));
}

/// P-75: only a shorter grace is asked for again.
#[test]
fn a_stopping_container_is_asked_again_only_to_hurry() {
    let p = pod("u1", "Always", &["a"]);
    for (kill_at, asked) in [(5001, false), (5002, true), (60_000, true)] {
        let observed = seen(&p, ready(vec![stopping("a", 0, kill_at)]));
        let plan = planned(&[], &observed, &History::default(), 1);
        assert_eq!(!plan.actions.is_empty(), asked, "kill at {kill_at}");
    }
}

/// Holders that were told to end while no agent ran leave nothing behind: that is no failure of a run-once pod.
#[test]
fn run_once_pod_that_was_ended_without_an_agent_runs_again() {
    let p = pod("u1", "Never", &["a"]);
    let history = history_of(&[&p], &[(0, seen(&p, ready(vec![running("a", 0, 0)])))]);
    let plan = planned(&[&p], &nothing(), &history, 1);
    assert!(matches!(plan.actions[..], [Action::StartSandbox { .. }]));
}

/// A leaving holder refuses everything; the pod waits for a new one.
#[test]
fn nothing_is_asked_of_a_leaving_holder() {
    let p = pod("u1", "Always", &["a"]);
    let mut observed = seen(&p, ready(vec![exited("a", 0, (0, 1), 143)]));
    if let SandboxState::Ready { leaving, .. } =
        &mut observed.sandboxes.get_mut(&p.uid).unwrap().state
    {
        *leaving = true;
    }
    let plan = planned(&[&p], &observed, &History::default(), 2);
    assert_eq!(plan.actions, []);
    let plan = planned(&[&p], &nothing(), &plan.history, 3);
    assert!(matches!(plan.actions[..], [Action::StartSandbox { .. }]));
}

/// An agent that died during a create, and the next one that asked again: one instance is left.
#[test]
fn second_instance_of_a_container_is_stopped() {
    let p = pod("u1", "Always", &["a"]);
    let double = |mut record: ContainerRecord| {
        record.id = "a-double".into();
        record
    };
    let both = ready(vec![running("a", 0, 0), double(running("a", 0, 1))]);
    let plan = planned(&[&p], &seen(&p, both.clone()), &History::default(), 1);
    assert!(matches!(
        &plan.actions[..],
        [Action::StopContainer { order, .. }] if order.id == "a-double"
    ));
    assert_eq!(plan.events.len(), 3);
    let again = planned(&[&p], &seen(&p, both), &plan.history, 2);
    assert_eq!((again.events, &again.history), (vec![], &plan.history));
    // The end of the second is nobody's exit; that of the first is.
    let one = ready(vec![
        running("a", 0, 0),
        double(exited("a", 0, (1, 2), 143)),
    ]);
    let plan = planned(&[&p], &seen(&p, one), &again.history, 3);
    assert_eq!(plan.actions, []);
    assert_eq!(phase(&plan, &p), "Running");
    let over = ready(vec![
        exited("a", 0, (0, 4), 1),
        double(exited("a", 0, (1, 2), 143)),
    ]);
    let plan = planned(&[&p], &seen(&p, over), &plan.history, 5);
    let last = plan.history.pods[&p.uid].containers["a"].last.clone();
    assert_eq!(last.unwrap().id, "a-0");
}

/// Two agents, one after the other, asked for the same start. The second instance is ended before the next one starts.
#[test]
fn a_double_is_gone_before_the_container_starts_again() {
    let p = pod("u1", "Always", &["a"]);
    let first = exited("a", 0, (0, 5), 1);
    let history = history_of(&[&p], &[(6, seen(&p, ready(vec![first.clone()])))]);
    let mut double = running("a", 0, 7);
    double.id = "double".into();
    let plan = planned(&[&p], &seen(&p, ready(vec![first, double])), &history, 8);
    assert_eq!(plan.actions.len(), 1, "{:?}", plan.actions);
    assert!(
        matches!(&plan.actions[0], Action::StopContainer { order, .. } if order.id == "double"),
        "{:?}",
        plan.actions
    );
}

/// P-111: a container that an edit took out of the spec of a finished pod has to end like the others.
#[test]
fn pod_has_not_ended_while_a_dropped_container_runs() {
    let old = pod("u1", "Never", &["a", "b"]);
    let over = |b| seen(&old, ready(vec![exited("a", 0, (0, 5), 0), b]));
    let before = over(running("b", 0, 0));
    let history = history_of(&[&old], &[(6, before.clone())]);
    let new = pod("u1", "Never", &["a"]);
    let plan = planned(&[&new], &before, &history, 7);
    assert_eq!(phase(&plan, &new), "Running");
    let plan = planned(
        &[&new],
        &over(exited("b", 0, (0, 8), 143)),
        &plan.history,
        9,
    );
    assert_eq!(phase(&plan, &new), "Succeeded");
}
