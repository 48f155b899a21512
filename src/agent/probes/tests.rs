use jiff::Timestamp;

use super::schedule::Schedule;
use super::task::Runner;
use super::{Complaint, Ill, Report, said, words};
use crate::config::HolderPaths;
use crate::plan::{Finding, ProbeKey, ProbeOrder, ProbeVerdict};
use crate::pod::PodUid;
use crate::pod::probe::{Check, ProbeKind, ProbeSpec};
use crate::probe::{Network, Outcome, Target};
use crate::sys::clock::Stamp;

const STARTED_MS: u64 = 100_000;

fn order(initial: Option<ProbeVerdict>) -> ProbeOrder {
    ProbeOrder {
        container: "main".to_owned(),
        spec: ProbeSpec {
            check: Check::Broken {
                why: "no matter".to_owned(),
            },
            initial_delay_s: 5,
            timeout_s: 1,
            period_s: 10,
            success_threshold: 1,
            failure_threshold: 2,
            grace_s: None,
        },
        started_at: Stamp {
            boot_ms: STARTED_MS,
            wall: Timestamp::UNIX_EPOCH,
        },
        initial,
    }
}

fn runner(kind: ProbeKind, initial: Option<ProbeVerdict>) -> Runner {
    let key = ProbeKey {
        uid: PodUid::try_from("u".to_owned()).expect("a uid"),
        id: "c".to_owned(),
        kind,
    };
    let target = Target {
        network: Network::Host,
        holder: HolderPaths::new("/nowhere".into()),
        container_id: "c".to_owned(),
    };
    let order = order(initial);
    let schedule = Schedule::new(&order, STARTED_MS, (0, 0));
    let (news, _) = async_channel::bounded(1);
    Runner::new(key, &order, (target, schedule), news)
}

fn failure(text: &str) -> Outcome {
    Outcome::Failure(text.to_owned())
}

/// What a run leads to, in short: how it went badly, and the new verdict.
fn told(runner: &mut Runner, outcome: Outcome) -> (Option<Ill>, Option<ProbeVerdict>) {
    let report = runner.take_in(outcome);
    let complaint = report.as_ref().and_then(|r| r.complaint.as_ref());
    let finding = report.as_ref().and_then(|r| r.finding.as_ref());
    (complaint.map(|c| c.ill), finding.map(|f| f.verdict))
}

///
#[test]
fn the_first_run_waits_for_the_initial_delay_and_for_nothing_else() {
    let order = order(None);
    let old_agent = (3_600_000, 7_777);
    let early = Schedule::new(&order, STARTED_MS + 1000, old_agent);
    assert_eq!(early.wait_ms(STARTED_MS + 1000), 4000);
    let late = Schedule::new(&order, STARTED_MS + 60_000, old_agent);
    assert_eq!(late.wait_ms(STARTED_MS + 60_000), 0);
}

///
#[test]
fn an_agent_that_starts_spreads_the_first_runs_over_a_period() {
    let order = order(None);
    let now = STARTED_MS + 60_000;
    let wait = |age_ms, random| Schedule::new(&order, now, (age_ms, random)).wait_ms(now);
    assert_eq!(wait(0, 123_456), 3456);
    assert_eq!(wait(9_999, u64::MAX), u64::MAX % 10_000);
    assert_eq!(wait(10_000, 123_456), 0);
}

#[test]
fn runs_keep_to_their_grid_and_none_is_caught_up() {
    let order = order(None);
    let start = STARTED_MS + 60_000;
    let mut schedule = Schedule::new(&order, start, (3_600_000, 0));
    schedule.advance(start + 900);
    assert_eq!(schedule.wait_ms(start + 900), 9_100, "begin to begin");
    schedule.advance(start + 35_000);
    assert_eq!(schedule.wait_ms(start + 35_000), 5_000, "two are left out");
    schedule.advance(start + 50_000);
    assert_eq!(
        schedule.wait_ms(start + 50_000),
        10_000,
        "due at this moment"
    );
}

///
#[test]
fn every_bad_run_is_told_and_every_change_of_the_verdict() {
    let mut runner = runner(ProbeKind::Readiness, Some(ProbeVerdict::Failure));
    assert_eq!(
        told(&mut runner, Outcome::Success),
        (None, Some(ProbeVerdict::Success))
    );
    assert_eq!(runner.take_in(Outcome::Success), None);
    assert_eq!(told(&mut runner, failure("a")), (Some(Ill::Failed), None));
    assert_eq!(
        told(&mut runner, failure("b")),
        (Some(Ill::Failed), Some(ProbeVerdict::Failure))
    );
    assert_eq!(told(&mut runner, failure("c")), (Some(Ill::Failed), None));
    assert_eq!(
        told(&mut runner, Outcome::Warning("d".to_owned())),
        (Some(Ill::Doubtful), Some(ProbeVerdict::Success))
    );
    assert!(!runner.is_settled());
}

/// that it is not ready is assumed; why is told as soon as it is known, once.
#[test]
fn the_failure_that_bears_out_what_was_assumed_is_told() {
    let mut runner = runner(ProbeKind::Readiness, Some(ProbeVerdict::Failure));
    let report = runner.take_in(failure("404")).expect("a report");
    let finding = Finding {
        verdict: ProbeVerdict::Failure,
        output: "404".to_owned(),
    };
    assert_eq!(report.finding, Some(finding));
    assert_eq!(told(&mut runner, failure("404")), (Some(Ill::Failed), None));
}

///
#[test]
fn an_error_counts_as_nothing() {
    let mut runner = runner(ProbeKind::Liveness, Some(ProbeVerdict::Success));
    assert_eq!(told(&mut runner, failure("a")), (Some(Ill::Failed), None));
    for _ in 0..5 {
        let errored = Outcome::Errored("no holder".to_owned());
        assert_eq!(told(&mut runner, errored), (Some(Ill::Errored), None));
    }
    let report = runner.take_in(failure("b")).expect("a report");
    let finding = Finding {
        verdict: ProbeVerdict::Failure,
        output: "b".to_owned(),
    };
    assert_eq!(report.finding, Some(finding));
}

///
#[test]
fn a_settled_probe_is_over() {
    let mut liveness = runner(ProbeKind::Liveness, Some(ProbeVerdict::Success));
    liveness.take_in(failure("a"));
    assert!(!liveness.is_settled());
    liveness.take_in(failure("b"));
    assert!(liveness.is_settled());
    let mut startup = runner(ProbeKind::Startup, None);
    startup.take_in(failure("a"));
    assert!(!startup.is_settled());
    startup.take_in(Outcome::Success);
    assert!(startup.is_settled());
}

/// what an earlier agent found is not told again.
#[test]
fn a_verdict_that_is_known_is_no_news() {
    let mut runner = runner(ProbeKind::Readiness, Some(ProbeVerdict::Success));
    assert_eq!(runner.take_in(Outcome::Success), None);
}

#[test]
fn the_last_failure_is_kept_until_a_run_is_told_that_went_well() {
    let complaint = |ill| Complaint {
        ill,
        text: "new".to_owned(),
    };
    let old = || Some("old".to_owned());
    let new = Some("new".to_owned());
    assert_eq!(said(Some(&complaint(Ill::Failed)), old()), new);
    assert_eq!(said(Some(&complaint(Ill::Errored)), None), new);
    assert_eq!(said(Some(&complaint(Ill::Doubtful)), old()), old());
    assert_eq!(said(None, old()), None);
}

///
#[test]
fn outputs_are_bounded_in_bytes_and_stay_text() {
    let mut runner = runner(ProbeKind::Liveness, Some(ProbeVerdict::Success));
    let report = runner.take_in(failure(&"ä€".repeat(10_000)));
    let Some(Report {
        complaint: Some(complaint),
        ..
    }) = report
    else {
        panic!("no complaint");
    };
    assert!((10 * 1024 - 3..=10 * 1024).contains(&complaint.text.len()));
}

#[test]
fn events_speak_as_kubelet_does() {
    let spoken = |kind, ill| {
        let text = "x".to_owned();
        words(kind, &Complaint { ill, text })
    };
    assert_eq!(
        spoken(ProbeKind::Liveness, Ill::Failed),
        ("Unhealthy", "Liveness probe failed: x".to_owned())
    );
    assert_eq!(
        spoken(ProbeKind::Readiness, Ill::Doubtful),
        ("ProbeWarning", "Readiness probe warning: x".to_owned())
    );
    assert_eq!(
        spoken(ProbeKind::Startup, Ill::Errored),
        (
            "Unhealthy",
            "Startup probe errored and resulted in unknown state: x".to_owned()
        )
    );
}

/// A verdict must not restart the probe that found it.
#[test]
fn another_begin_is_the_same_work_and_another_spec_is_not() {
    let old = order(Some(ProbeVerdict::Failure));
    assert!(order(Some(ProbeVerdict::Success)).is_same_work(&old));
    let mut new = order(Some(ProbeVerdict::Failure));
    new.spec.period_s = 11;
    assert!(!new.is_same_work(&old));
}
