//! `activeDeadlineSeconds` (P-98, D-9).

use serde_json::json;

use super::fixtures::*;
use super::story::*;
use crate::holder::proto::Stamp;
use crate::plan::{ActiveTime, Finished, Plan, plan};

fn story() -> Story {
    let spec = json!({
        "restartPolicy": "Always",
        "activeDeadlineSeconds": 60,
        "containers": [{"name": "a"}],
    });
    Story::new(spec)
}

/// P-98: then the pod has failed, and ends with its grace.
#[test]
fn pod_ends_when_its_time_is_over() {
    let mut story = story();
    let plan = story.sees(1000, vec![]);
    assert_eq!(plan.wake_at_boot_ms, Some(61_000));
    let plan = story.sees(60_999, vec![running("a", 0, 2000)]);
    assert_eq!(action_lines(&plan), NONE);
    let plan = story.sees(61_000, vec![running("a", 0, 2000)]);
    assert_eq!(action_lines(&plan), ["stop a-0 5000"]);
    assert_eq!(
        event_lines(&plan),
        [
            "DeadlineExceeded - Pod was active on the node longer than the specified deadline",
            "Killing a Stopping container a"
        ]
    );
    assert_eq!(story.memory().finished, Some(Finished::DeadlineExceeded));
    // Final, also if the manifest grants more time.
    story.pod.pod.spec.as_mut().unwrap().active_deadline_seconds = Some(900);
    let plan = story.sees(62_000, vec![exited("a", 0, (2000, 61_500), 0)]);
    assert_eq!(action_lines(&plan), ["leave"]);
    assert_eq!(phase(&plan, &story.pod), "Failed");
    assert_eq!(story.memory().finished, Some(Finished::DeadlineExceeded));
}

/// What ends by itself at the last moment has ended by itself.
#[test]
fn own_end_comes_before_the_deadline() {
    let mut story = story();
    story.pod.pod.spec.as_mut().unwrap().restart_policy = Some("Never".into());
    story.sees(1000, vec![running("a", 0, 900)]);
    story.sees(99_000, vec![exited("a", 0, (900, 60_000), 0)]);
    assert_eq!(story.memory().finished, Some(Finished::Succeeded));
}

/// The wall clock does not matter within a boot; over a reboot its difference counts if both times can be believed.
#[test]
fn time_is_counted_over_jumps_and_reboots() {
    let year_s = 365 * 24 * 3600;
    let stamp = |boot_ms: u64, wall_s: i64| Stamp {
        boot_ms,
        wall: jiff::Timestamp::from_second(wall_s).unwrap(),
    };
    let left_s = |plan: &Plan, now: Stamp| {
        let wake = plan.wake_at_boot_ms;
        wake.map(|at| (at - now.boot_ms) / 1000)
    };
    let first = stamp(10_000, EPOCH_S);
    for (boot, now, expected) in [
        // Same boot: 20 s by CLOCK_BOOTTIME, whatever the wall clock says.
        ("boot-1", stamp(30_000, EPOCH_S + 50 * year_s), Some(40)),
        ("boot-1", stamp(30_000, EPOCH_S - 50 * year_s), Some(40)),
        // Another boot, 30 s later.
        ("boot-2", stamp(5000, EPOCH_S + 30), Some(30)),
        // It lasts for 25 s: more than the clock says, which was set back or not at all.
        ("boot-2", stamp(25_000, EPOCH_S + 5), Some(35)),
        ("boot-2", stamp(25_000, EPOCH_S - 100), Some(35)),
        ("boot-2", stamp(25_000, 0), Some(35)),
        ("boot-2", stamp(5000, EPOCH_S + 61), None),
    ] {
        let mut story = story();
        let pass = |story: &mut Story, now| {
            let plan = plan(
                &desired(&[&story.pod]),
                &story.observed,
                &story.history,
                &story.rules,
                now,
            );
            story.history = plan.history.clone();
            plan
        };
        pass(&mut story, first);
        story.rules.boot_id = boot.into();
        let plan = pass(&mut story, now);
        assert_eq!(left_s(&plan, now), expected, "{boot} {now:?}");
        let is_over = story.memory().finished == Some(Finished::DeadlineExceeded);
        assert_eq!(is_over, expected.is_none());
    }
}

/// The anchor moves once a boot: an idle node writes nothing.
#[test]
fn counting_writes_nothing() {
    let mut story = story();
    story.sees(1000, vec![running("a", 0, 900)]);
    let before = story.history.clone();
    story.sees(50_000, vec![running("a", 0, 900)]);
    assert_eq!(story.history, before);
    let active = ActiveTime {
        before_ms: 0,
        since: at(1000),
        boot_id: "boot-1".into(),
    };
    assert_eq!(story.memory().active, Some(active));
}

/// A clock that was set in one boot does not tell how long the node was off before the next.
#[test]
fn time_that_somebody_set_is_no_time_that_has_passed() {
    let year_ms = 365 * 24 * 3_600_000;
    let mut story = story();
    let passes = [
        ("boot-1", at(10_000)),
        // The clock is set; then the node is off for 5 s.
        (
            "boot-1",
            Stamp {
                boot_ms: 20_000,
                ..at(2 * year_ms)
            },
        ),
        (
            "boot-1",
            Stamp {
                boot_ms: 30_000,
                ..at(2 * year_ms + 10_000)
            },
        ),
        (
            "boot-2",
            Stamp {
                boot_ms: 1000,
                ..at(2 * year_ms + 15_000)
            },
        ),
    ];
    let mut wake = None;
    for (boot, now) in passes {
        story.rules.boot_id = boot.into();
        let wanted = desired(&[&story.pod]);
        let plan = plan(&wanted, &story.observed, &story.history, &story.rules, now);
        story.history = plan.history;
        wake = plan.wake_at_boot_ms;
    }
    assert_eq!(wake, Some(36_000), "25 s of 60 are over");
}

/// A pod that the node does not take is not active.
#[test]
fn the_time_of_a_refused_pod_does_not_run() {
    let mut story = story();
    story.observed = nothing();
    let spec = story.pod.pod.spec.as_mut().unwrap();
    spec.node_selector = Some([("disk".to_owned(), "ssd".to_owned())].into());
    story.pass(1000);
    let plan = story.pass(100_000);
    assert_eq!(phase(&plan, &story.pod), "Pending");
    assert_eq!(plan.wake_at_boot_ms, None);
    story.rules.labels = [("disk".to_owned(), "ssd".to_owned())].into();
    let plan = story.pass(200_000);
    assert_eq!(action_lines(&plan), ["sandbox 0"]);
    assert_eq!(plan.wake_at_boot_ms, Some(260_000));
}
