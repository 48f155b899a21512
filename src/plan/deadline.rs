//! `activeDeadlineSeconds` (P-98, D-9): how long a pod has been active, and whether that is too long. Within a boot time is
//! counted by CLOCK_BOOTTIME, so that no jump of the wall clock ends a pod.

use jiff::Timestamp;

use super::outcome::Outcome;
use super::pass::{PodView, World};
use super::{ActiveTime, Finished, Now, PodHistory, events};
use crate::pod::StaticPod;

/// 2020-01-01: a wall clock before it was not set.
const CLOCK_IS_SET_S: i64 = 1_577_836_800;

/// Further apart from CLOCK_BOOTTIME, the wall clock was set; nearer, it drifts.
const SET_MS: u128 = 60_000;

/// Counts on after a reboot, and when the wall clock was set: what it says after the next reboot is compared with what it
/// says now. Nothing is written while nothing happens.
pub(super) fn count(view: &PodView<'_>, memory: &mut PodHistory) {
    match &memory.active {
        Some(active) => {
            if let Some(present) = moved(active, view.world) {
                memory.active = Some(present);
            }
        }
        // Nobody is active who was never taken.
        None if view.refusal().is_some() => {}
        None => memory.active = Some(since_now(0, view.world)),
    }
}

/// Counted from now, if it was counted in another boot or by another wall clock.
fn moved(active: &ActiveTime, world: World<'_>) -> Option<ActiveTime> {
    let now = world.now;
    let passed_ms = if active.boot_id == world.rules.boot_id {
        let passed_ms = now.boot_ms.saturating_sub(active.since.boot_ms);
        let by_wall = now.wall.duration_since(active.since.wall).as_millis();
        if by_wall.abs_diff(i128::from(passed_ms)) < SET_MS {
            return None;
        }
        passed_ms
    } else {
        gap_ms(active, now)
    };
    Some(since_now(active.before_ms.saturating_add(passed_ms), world))
}

fn since_now(before_ms: u64, world: World<'_>) -> ActiveTime {
    ActiveTime {
        before_ms,
        since: world.now,
        boot_id: world.rules.boot_id.clone(),
    }
}

/// From a moment in an earlier boot until now: what the wall clock says, if both of its times can be believed, and not
/// less than this boot has lasted.
fn gap_ms(active: &ActiveTime, now: Now) -> u64 {
    let is_set = |wall: Timestamp| wall.as_second() >= CLOCK_IS_SET_S;
    let by_wall = now.wall.duration_since(active.since.wall).as_millis();
    let by_wall = u64::try_from(by_wall)
        .ok()
        .filter(|_| is_set(active.since.wall) && is_set(now.wall));
    by_wall.unwrap_or(0).max(now.boot_ms)
}

/// Ends the pod when its time is over; else asks for the pass that will.
pub(super) fn check(
    view: &PodView<'_>,
    memory: &PodHistory,
    out: &mut Outcome,
) -> Option<Finished> {
    let due_boot_ms = due_boot_ms(view.pod, memory.active.as_ref()?)?;
    if view.world.now.boot_ms < due_boot_ms {
        out.wake_at(due_boot_ms);
        return None;
    }
    out.events.push(events::deadline_exceeded(view));
    Some(Finished::DeadlineExceeded)
}

/// Whether this pass ends the pod.
pub(super) fn is_over(world: World<'_>, pod: &StaticPod, memory: &PodHistory) -> bool {
    let Some(active) = &memory.active else {
        return false;
    };
    let moved = moved(active, world);
    let due_boot_ms = due_boot_ms(pod, moved.as_ref().unwrap_or(active));
    due_boot_ms.is_some_and(|due| due <= world.now.boot_ms)
}

fn due_boot_ms(pod: &StaticPod, active: &ActiveTime) -> Option<u64> {
    let spec = pod.pod.spec.as_ref()?;
    let deadline_s = u64::try_from(spec.active_deadline_seconds?).unwrap_or(0);
    let left_ms = deadline_s
        .saturating_mul(1000)
        .saturating_sub(active.before_ms);
    Some(active.since.boot_ms.saturating_add(left_ms))
}
