//! Whose turn it is when the node goes down.

use super::fixtures::pod;
use crate::config::ShutdownTurn;
use crate::plan::shutdown::{self, Leaver, due, grace_ms};
use crate::pod::StaticPod;

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
