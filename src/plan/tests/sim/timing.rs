//! The laws of waiting times.

use super::laws::Scene;
use crate::plan::PodHistory;
use crate::pod::PodUid;

/// No hot loop, and no back-off or retry that a jump of the clock has frozen.
pub fn check_wake(scene: Scene<'_>) {
    let now_ms = scene.now.boot_ms;
    let wake = scene.plan.wake_at_boot_ms;
    assert!(wake.is_none_or(|at| at > now_ms), "hot loop");
    for due in scene.plan.restarts.values() {
        assert!(
            *due <= now_ms + 300_000,
            "frozen: due in {} ms",
            due - now_ms
        );
        assert!(wake.is_some_and(|at| at <= *due), "nobody wakes up for it");
    }
}

/// P-64: up to the cap, and never down but for a reason.
pub fn check_backoff(scene: Scene<'_>, (uid, memory): (&PodUid, &PodHistory)) {
    let old_pod = scene.before.pods.get(uid);
    for (name, new) in &memory.containers {
        let Some((last, backoff)) = new.last.as_ref().zip(new.backoff.as_ref()) else {
            continue;
        };
        let cap_ms = u64::try_from(scene.rules.backoff.max.as_millis()).unwrap();
        assert!(backoff.delay_ms <= cap_ms, "{uid} {name}");
        let old = old_pod.and_then(|pod| pod.containers.get(name));
        let Some((old_last, old)) = old.and_then(|o| o.last.as_ref().zip(o.backoff.as_ref()))
        else {
            continue;
        };
        let is_same = old.boot_id == backoff.boot_id && old_last.hash == last.hash;
        if old_last.id == last.id || !is_same {
            continue;
        }
        let ran_ms = last
            .exit
            .started_at
            .map_or(0, |started| last.exit.finished_at.boot_ms - started.boot_ms);
        if ran_ms > 600_000 {
            assert_eq!(backoff.delay_ms, 0, "P-66: {uid} {name}");
        } else {
            let rose = backoff.delay_ms > old.delay_ms || old.delay_ms == cap_ms;
            assert!(
                rose,
                "P-64: {uid} {name}: {} after {}",
                backoff.delay_ms, old.delay_ms
            );
        }
    }
}
