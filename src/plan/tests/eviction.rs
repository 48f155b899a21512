//! Who ends when the node is short of something.

use std::collections::BTreeMap;

use serde_json::json;

use super::fixtures::planned;
use super::fixtures::{
    event_lines, exited, history_of, nothing, pod, pod_record, ready, running, uid,
};
use crate::plan::{Action, History, Observed, Plan, Pressure, Resource, Sandbox, Shortage};
use crate::pod::{PodUid, StaticPod};

const MESSAGE: &str =
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi.";

fn named(name: &str, priority: i32, request: &str) -> StaticPod {
    let mut pod = pod(name, "Always", &["c"]);
    pod.pod.metadata.name = Some(name.to_owned());
    let spec = pod.pod.spec.as_mut().unwrap();
    spec.priority = Some(priority);
    spec.containers[0].resources = Some(
        serde_json::from_value(
            json!({"requests": {"memory": request, "ephemeral-storage": request}}),
        )
        .unwrap(),
    );
    pod
}

fn run(pods: &[&StaticPod]) -> Observed {
    let mut observed = nothing();
    for pod in pods {
        let sandbox = Sandbox {
            record: pod_record(pod, 0),
            state: ready(vec![running("c", 0, 0)]),
        };
        observed.sandboxes.insert(pod.uid.clone(), sandbox);
    }
    observed
}

fn short(
    mut observed: Observed,
    resource: Resource,
    (at, usage): (u64, &[(&str, u64)]),
) -> Observed {
    observed.pressure = Pressure {
        lasting: [resource].into(),
        shortage: Some(Shortage {
            resource,
            message: MESSAGE.to_owned(),
            weighed_at_boot_ms: at,
            usage: usage
                .iter()
                .map(|(name, used)| (uid(name), *used))
                .collect(),
        }),
    };
    observed
}

fn stops(plan: &Plan) -> BTreeMap<&PodUid, u64> {
    let stop = |action: &'_ Action| match action {
        Action::StopContainer { uid, order } => Some((uid.clone(), order.grace_ms)),
        Action::StartSandbox { .. }
        | Action::StartContainer { .. }
        | Action::RemoveContainer { .. }
        | Action::StopSandbox { .. }
        | Action::CleanSandbox { .. }
        | Action::ForgetPod { .. } => None,
    };
    let stopped: BTreeMap<PodUid, u64> = plan.actions.iter().filter_map(stop).collect();
    let known = plan
        .pods
        .keys()
        .filter_map(|uid| Some((uid, *stopped.get(uid)?)));
    known.collect()
}

/// N-7, N-8: who is first, in tables of (name, priority, request, use).
#[test]
fn the_pod_that_ends_is_chosen_by_surplus_priority_and_use() {
    type Case<'a> = (
        Resource,
        &'a [(&'a str, i32, &'a str, u64)],
        Option<&'a str>,
    );
    let cases: [Case<'_>; 7] = [
        // Only one uses more than it asked for.
        (
            Resource::Memory,
            &[("a", 0, "10", 9), ("b", 1000, "10", 11)],
            Some("b"),
        ),
        (
            Resource::Memory,
            &[("a", 5, "1", 90), ("b", 4, "1", 2)],
            Some("b"),
        ),
        (
            Resource::Memory,
            &[("a", 0, "50", 90), ("b", 0, "1", 80)],
            Some("b"),
        ),
        (
            Resource::Disk,
            &[("a", 0, "1", 90), ("b", 0, "90", 91)],
            Some("a"),
        ),
        // What was requested of memory says nothing about inodes.
        (
            Resource::Inodes,
            &[("a", 0, "1000", 90), ("b", 0, "1", 80)],
            Some("a"),
        ),
        (
            Resource::Pids,
            &[("a", 1, "1", 90), ("b", 0, "1", 0)],
            Some("b"),
        ),
        (Resource::Memory, &[("a", 2_000_000_000, "1", 90)], None),
    ];
    for (resource, pods, want) in cases {
        let made: Vec<StaticPod> = pods.iter().map(|(n, p, r, _)| named(n, *p, r)).collect();
        let made: Vec<&StaticPod> = made.iter().collect();
        let usage: Vec<(&str, u64)> = pods.iter().map(|(n, _, _, used)| (*n, *used)).collect();
        let history = history_of(&made, &[(0, run(&made))]);
        let observed = short(run(&made), resource, (10, &usage));
        let plan = planned(&made, &observed, &history, 11);
        let ended: Vec<&str> = stops(&plan).keys().map(|uid| uid.as_str()).collect();
        assert_eq!(ended.first().copied(), want, "{pods:?}");
        assert!(ended.len() < 2, "one at a time: {ended:?}");
    }
}

/// N-6, N-9, N-10, and D-8: one for each weighing, with a grace of a second; it comes back when the condition is over.
#[test]
fn an_evicted_pod_comes_back_when_the_pressure_is_over() {
    let (hog, other) = (named("hog", 0, "1"), named("other", 0, "1"));
    let both = [&hog, &other];
    let usage: &[(&str, u64)] = &[("hog", 9), ("other", 5)];
    let before = history_of(&both, &[(0, run(&both))]);
    let observed = short(run(&both), Resource::Memory, (10, usage));
    let first = planned(&both, &observed, &before, 11);
    assert_eq!(stops(&first), BTreeMap::from([(&hog.uid, 1000)]));
    assert_eq!(event_lines(&first)[0], format!("Evicted - {MESSAGE}"));

    // The same again ends nobody else, and says nothing new.
    let again = planned(&both, &observed, &first.history, 12);
    assert_eq!(stops(&again), BTreeMap::from([(&hog.uid, 1000)]));
    assert_eq!(event_lines(&again), [] as [String; 0]);
    // Nor does a newer weighing, as long as something of it is left.
    let newer = short(run(&both), Resource::Memory, (13, usage));
    assert_eq!(stops(&planned(&both, &newer, &again.history, 14)).len(), 1);

    let mut gone = short(run(&[&other]), Resource::Memory, (10, usage));
    let still = planned(&both, &gone, &again.history, 15);
    assert_eq!(still.actions, []);
    let status = still.pods[&hog.uid].status.as_ref().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    assert_eq!(status.reason.as_deref(), Some("Evicted"));
    assert_eq!(status.message.as_deref(), Some(MESSAGE));
    let conditions = status.conditions.as_ref().unwrap();
    let target = conditions.iter().find(|c| c.type_ == "DisruptionTarget");
    assert_eq!(
        target.unwrap().reason.as_deref(),
        Some("TerminationByKubelet")
    );

    let weighed = short(run(&[&other]), Resource::Memory, (16, usage));
    let second = planned(&both, &weighed, &still.history, 17);
    assert_eq!(stops(&second), BTreeMap::from([(&other.uid, 1000)]));

    // The threshold is met no longer, the condition still holds.
    gone.pressure.shortage = None;
    assert_eq!(planned(&both, &gone, &still.history, 18).actions, []);
    let well = planned(&both, &run(&[&other]), &still.history, 19);
    assert!(
        matches!(&well.actions[..], [Action::StartSandbox { uid, .. }] if *uid == hog.uid),
        "{:?}",
        well.actions
    );
    assert_eq!(well.history.pods[&hog.uid].evicted, None);
    let status = well.pods[&hog.uid].status.as_ref().unwrap();
    assert_eq!(status.reason, None);
}

/// Whatever it was doing: a pod that has finished does not come back, and one that ends is not evicted, too.
#[test]
fn who_has_finished_or_ends_is_left_alone() {
    let (done, leaves) = (named("done", 0, "1"), named("leaves", 0, "1"));
    let mut done = done;
    done.pod.spec.as_mut().unwrap().restart_policy = Some("Never".to_owned());
    let mut observed = run(&[&done, &leaves]);
    let sandbox = observed.sandboxes.get_mut(&done.uid).unwrap();
    sandbox.state = ready(vec![exited("c", 0, (0, 1), 0)]);
    let history = history_of(
        &[&done, &leaves],
        &[(0, run(&[&done, &leaves])), (5, observed.clone())],
    );
    let observed = short(
        observed,
        Resource::Memory,
        (10, &[("done", 9), ("leaves", 9)]),
    );
    let plan = planned(&[&done], &observed, &history, 11);
    assert!(
        event_lines(&plan)
            .iter()
            .all(|line| !line.starts_with("Evicted"))
    );
    let none = planned(
        &[&done],
        &short(nothing(), Resource::Memory, (10, &[])),
        &History::default(),
        11,
    );
    assert!(
        matches!(&none.actions[..], [Action::StartSandbox { .. }]),
        "static pods start under pressure"
    );
}
