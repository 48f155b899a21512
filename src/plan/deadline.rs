//! `activeDeadlineSeconds` (P-98, D-9): how long a pod has been active, and whether that is too long. Within a boot time is
//! counted by CLOCK_BOOTTIME, so that no jump of the wall clock ends a pod.

use jiff::Timestamp;

use super::outcome::Outcome;
use super::pass::PodView;
use super::{ActiveTime, Finished, Now, PodHistory, events};

/// 2020-01-01: a wall clock before it was not set.
const CLOCK_IS_SET_S: i64 = 1_577_836_800;

/// Further apart from CLOCK_BOOTTIME, the wall clock was set; nearer, it drifts.
const SET_MS: u128 = 60_000;

/// Counts on after a reboot, and when the wall clock was set: what it says after the next reboot is compared with what it
/// says now. Nothing is written while nothing happens.
pub(super) fn count(view: &PodView<'_>, memory: &mut PodHistory) {
    let boot_id = &view.world.rules.boot_id;
    let now = view.world.now;
    let before_ms = match &memory.active {
        Some(active) if active.boot_id == *boot_id => {
            let passed_ms = now.boot_ms.saturating_sub(active.since.boot_ms);
            let by_wall = now.wall.duration_since(active.since.wall).as_millis();
            if by_wall.abs_diff(i128::from(passed_ms)) < SET_MS {
                return;
            }
            active.before_ms.saturating_add(passed_ms)
        }
        Some(active) => active.before_ms.saturating_add(gap_ms(active, now)),
        // Nobody is active who was never taken.
        None if view.refusal().is_some() => return,
        None => 0,
    };
    memory.active = Some(ActiveTime {
        before_ms,
        since: now,
        boot_id: boot_id.clone(),
    });
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
    if view.refusal().is_some() {
        return None;
    }
    let due_boot_ms = due_boot_ms(view, memory)?;
    if view.world.now.boot_ms < due_boot_ms {
        out.wake_at(due_boot_ms);
        return None;
    }
    out.events.push(events::deadline_exceeded(view));
    Some(Finished::DeadlineExceeded)
}

fn due_boot_ms(view: &PodView<'_>, memory: &PodHistory) -> Option<u64> {
    let spec = view.pod.pod.spec.as_ref()?;
    let deadline_s = u64::try_from(spec.active_deadline_seconds?).unwrap_or(0);
    let active = memory.active.as_ref()?;
    let left_ms = deadline_s
        .saturating_mul(1000)
        .saturating_sub(active.before_ms);
    Some(active.since.boot_ms.saturating_add(left_ms))
}
