//! Whose turn it is when the node goes down.

use super::fixtures::{
    at, desired, history_of, nothing, pod, pod_record, ready, rules, running, uid,
};
use crate::config::ShutdownTurn;
use crate::plan::shutdown::{self, Leaver, due, grace_ms};
use crate::plan::{Action, Halt, History, Observed, Plan, Rules, Sandbox, plan};
use crate::pod::{PodUid, StaticPod};

const CRITICAL: i32 = 2_000_000_000;

/// Of this priority and grace.
fn important(priority: Option<i32>, grace_s: i64) -> StaticPod {
    let mut pod = pod("p", "Always", &["c"]);
    let spec = pod.pod.spec.as_mut().unwrap();
    spec.priority = priority;
    spec.termination_grace_period_seconds = Some(grace_s);
    pod
}

fn turns(turns: &[(i32, u64)]) -> Vec<ShutdownTurn> {
    let turns = turns.iter();
    turns
        .map(|&(priority, grace_ms)| ShutdownTurn { priority, grace_ms })
        .collect()
}

/// N-26, N-27: priority, own grace, grace then.
#[test]
fn a_pod_has_the_shorter_grace_of_its_own_and_its_turns() {
    let usual = turns(&[(0, 20_000), (CRITICAL, 10_000)]);
    let table = turns(&[(-10, 0), (0, 10_000), (1000, u64::MAX)]);
    for (turns, priority, own_s, grace) in [
        (&usual, None, 30, 20_000),
        (&usual, None, 5, 5000),
        (&usual, Some(CRITICAL - 1), 30, 20_000),
        (&usual, Some(CRITICAL), 30, 10_000),
        (&usual, Some(-7), 30, 20_000),
        (&table, Some(-11), 30, 1000),
        (&table, Some(-1), 30, 1000),
        (&table, Some(0), 30, 10_000),
        (&table, Some(999), 0, 1000),
        (&table, Some(1000), 300, 300_000),
        (&Vec::new(), Some(5), 30, 30_000),
    ] {
        let pod = important(priority, own_s);
        assert_eq!(grace_ms(turns, &pod), grace, "{priority:?} {own_s}");
    }
}

/// Three turns with pods of 10 s, 1 s (which counts as 2) and 5 s; a second each for what killing takes.
#[test]
fn turns_begin_when_those_before_are_gone_or_late() {
    let turns = turns(&[
        (0, u64::MAX),
        (10, u64::MAX),
        (15, u64::MAX),
        (20, u64::MAX),
    ]);
    let pods = [(None, 10), (Some(10), 1), (Some(20), 5)].map(|(p, s)| important(p, s));
    let all = pods.each_ref().map(|pod| Leaver::new(&turns, pod));
    for (gone, elapsed_ms, are_due, next_ms) in [
        ([false; 3], 0, [true, false, false], Some(11_000)),
        ([false; 3], 10_999, [true, false, false], Some(11_000)),
        ([false; 3], 11_000, [true, true, false], Some(14_000)),
        ([false; 3], 14_000, [true, true, true], None),
        ([true, false, false], 1, [true, true, false], Some(14_000)),
        ([true, true, false], 2, [true, true, true], None),
        // Who is in no hurry may come after those who have to wait for the late one.
        ([false, true, false], 0, [true, false, false], Some(11_000)),
        ([false, true, false], 11_000, [true, true, true], None),
        ([true; 3], 0, [true, true, true], None),
    ] {
        let mut leavers = all;
        for (leaver, is_gone) in leavers.iter_mut().zip(gone) {
            leaver.is_gone = is_gone;
        }
        let due = due(&leavers, elapsed_ms);
        let got = leavers.map(|leaver| leaver.is_due(due));
        assert_eq!(
            (got, due.next_ms),
            (are_due, next_ms),
            "{gone:?} {elapsed_ms}"
        );
    }
    assert_eq!(shutdown::limit_ms(&all), 11_000 + 3000 + 6000);
    assert_eq!(shutdown::limit_ms(&[]), 0);
    assert_eq!(due(&[], 0).next_ms, None);
}

fn named(name: &str, priority: Option<i32>) -> StaticPod {
    let mut pod = important(priority, 30);
    pod.uid = uid(name);
    pod.pod.metadata.name = Some(name.to_owned());
    pod
}

/// Two turns of 20 s and 10 s, begun at 1 s.
fn going_down(wanted: &[&StaticPod], seen: &[&StaticPod]) -> (Rules, Observed) {
    let rules = Rules {
        shutdown: turns(&[(0, 20_000), (CRITICAL, 10_000)]),
        ..rules()
    };
    let mut observed = Observed {
        halt: Halt::NodeShutdown {
            since_boot_ms: 1000,
        },
        ..nothing()
    };
    assert!(seen.len() <= wanted.len());
    for pod in seen {
        let sandbox = Sandbox {
            record: pod_record(pod, 0),
            state: ready(vec![running("c", 0, 0)]),
        };
        observed.sandboxes.insert(pod.uid.clone(), sandbox);
    }
    (rules, observed)
}

fn stops(plan: &Plan) -> Vec<(&PodUid, u64)> {
    let mut stops = Vec::new();
    for action in &plan.actions {
        if let Action::StopContainer { uid, order } = action {
            stops.push((uid, order.grace_ms));
        }
    }
    stops
}

fn reason(plan: &Plan, pod: &StaticPod) -> Option<String> {
    plan.pods[&pod.uid].status.as_ref().unwrap().reason.clone()
}

/// N-26: the important one stays until the other is gone, or its time is over.
#[test]
fn pods_end_in_turns() {
    let (web, base) = (named("web", None), named("base", Some(CRITICAL)));
    let both = [&web, &base];
    let (rules, observed) = going_down(&both, &both);
    let at_ms = |boot_ms, observed: &Observed, history: &History| {
        plan(&desired(&both), observed, history, &rules, at(boot_ms))
    };
    let first = at_ms(1000, &observed, &History::default());
    assert_eq!(stops(&first), [(&web.uid, 20_000)]);
    assert_eq!(first.wake_at_boot_ms, Some(1000 + 21_000));
    let late = at_ms(22_000, &observed, &first.history);
    assert!(stops(&late).contains(&(&base.uid, 10_000)));

    let (_, only_base) = going_down(&both, &[&base]);
    let second = at_ms(3000, &only_base, &first.history);
    assert_eq!(stops(&second), [(&base.uid, 10_000)]);
    assert_eq!(reason(&second, &web).as_deref(), Some("Terminated"));
    let (_, nobody) = going_down(&both, &[]);
    let last = at_ms(4000, &nobody, &second.history);
    assert_eq!(last.actions, []);
    assert_eq!(last.wake_at_boot_ms, None);
    for pod in both {
        assert_eq!(reason(&last, pod).as_deref(), Some("Terminated"));
        assert_eq!(last.history.pods[&pod.uid].finished, None);
    }

    let anew = plan(&desired(&both), &nothing(), &last.history, &rules, at(5000));
    assert_eq!(anew.actions.len(), 2, "both start: {:?}", anew.actions);
    assert_eq!(reason(&anew, &web), None);
}

/// N-29: no pod starts, and no container of one that waits for its turn.
#[test]
fn nothing_starts_while_the_node_goes_down() {
    let (web, base, new) = (
        named("web", None),
        named("base", Some(CRITICAL)),
        named("new", None),
    );
    let all = [&web, &base, &new];
    let (rules, mut observed) = going_down(&all, &[&web, &base]);
    let history = history_of(
        &[&web, &base],
        &[(500, {
            Observed {
                halt: Halt::No,
                ..observed.clone()
            }
        })],
    );
    let base_state = &mut observed.sandboxes.get_mut(&base.uid).unwrap().state;
    *base_state = ready(Vec::new());
    let plan = plan(&desired(&all), &observed, &history, &rules, at(1000));
    assert_eq!(stops(&plan).len(), plan.actions.len(), "{:?}", plan.actions);
    assert_eq!(reason(&plan, &new).as_deref(), Some("NodeShutdown"));
    let told: Vec<_> = plan
        .events
        .iter()
        .filter(|event| event.reason == "NodeShutdown")
        .map(|event| &event.uid)
        .collect();
    assert_eq!(told, [&new.uid]);
}
