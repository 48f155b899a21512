//! When which pod ends as the node goes down (N-26): turn by turn, the lowest priorities first. One way for the agent's
//! plan and for commands that ask holders without an agent.

use super::Halt;
use super::outcome::Outcome;
use super::pass::World;
use crate::config::ShutdownTurn;
use crate::holder::proto::MIN_GRACE_MS;
use crate::pod::StaticPod;

/// What the end of a pod takes beyond its grace. Nobody waits longer for one that cannot be killed.
const MARGIN_MS: u64 = 1000;

/// A pod that ends with the node, or has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaver {
    turn: usize,
    grace_ms: u64,
    /// Nothing is left of it.
    pub is_gone: bool,
}

impl Leaver {
    /// A pod as it was started, still there.
    pub fn new(turns: &[ShutdownTurn], pod: &StaticPod) -> Self {
        Self {
            turn: turn(turns, pod),
            grace_ms: grace_ms(turns, pod),
            is_gone: false,
        }
    }

    /// It is to end now, or should have ended.
    pub fn is_due(&self, due: Due) -> bool {
        self.turn <= due.turn
    }
}

/// How far a shutdown is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    turn: usize,
    /// When the next turn begins, whatever becomes of this one: ms since the shutdown began. None after the last.
    pub next_ms: Option<u64>,
}

/// N-27: the turn with the highest priority that is not above the pod's own. Without turns all are in the same one.
fn turn(turns: &[ShutdownTurn], pod: &StaticPod) -> usize {
    let own = pod.priority();
    turns
        .iter()
        .rposition(|turn| turn.priority <= own)
        .unwrap_or(0)
}

/// The shorter one of the pod's own grace and its turn's, but at least a second (P-75).
pub fn grace_ms(turns: &[ShutdownTurn], pod: &StaticPod) -> u64 {
    let own = u64::from(pod.grace_s()) * 1000;
    let of_turn = turns.get(turn(turns, pod)).map(|turn| turn.grace_ms);
    own.min(of_turn.unwrap_or(u64::MAX).max(1000))
}

/// Whose turn it is, `elapsed_ms` after the shutdown began. A turn is over when its pods are gone, or when the time of
/// its slowest pod, and of those in all turns before, is over.
pub fn due(leavers: &[Leaver], elapsed_ms: u64) -> Due {
    let last = leavers.iter().map(|leaver| leaver.turn).max().unwrap_or(0);
    let mut over_ms = 0_u64;
    for turn in 0..last {
        over_ms = over_ms.saturating_add(length_ms(leavers, turn));
        let is_gone = |leaver: &Leaver| leaver.turn != turn || leaver.is_gone;
        if elapsed_ms < over_ms && !leavers.iter().all(is_gone) {
            return Due {
                turn,
                next_ms: Some(over_ms),
            };
        }
    }
    Due {
        turn: last,
        next_ms: None,
    }
}

/// Whose turn it is now, while the node goes down.
pub(super) fn due_now(world: World<'_>) -> Option<Due> {
    let Halt::NodeShutdown { since_boot_ms } = world.observed.halt else {
        return None;
    };
    let turns = &world.rules.shutdown;
    let sandboxes = &world.observed.sandboxes;
    // Those that have ended count too: what is due by time does not depend on who is still there.
    let gone = world
        .desired
        .iter()
        .filter(|(uid, _)| !sandboxes.contains_key(*uid));
    let gone = gone.map(|(_, pod)| Leaver {
        is_gone: true,
        ..Leaver::new(turns, pod)
    });
    let left = sandboxes
        .values()
        .map(|s| Leaver::new(turns, &s.record.pod));
    let leavers: Vec<Leaver> = gone.chain(left).collect();
    let elapsed_ms = world.now.boot_ms.saturating_sub(since_boot_ms);
    Some(due(&leavers, elapsed_ms))
}

/// The next turn begins by itself.
pub(super) fn wake(world: World<'_>, out: &mut Outcome) {
    if let Halt::NodeShutdown { since_boot_ms } = world.observed.halt
        && let Some(next_ms) = world.due.and_then(|due| due.next_ms)
    {
        out.wake_at(since_boot_ms.saturating_add(next_ms));
    }
}

/// After this long everything should have ended.
pub fn limit_ms(leavers: &[Leaver]) -> u64 {
    let last = leavers.iter().map(|leaver| leaver.turn).max().unwrap_or(0);
    let lengths = (0..=last).map(|turn| length_ms(leavers, turn));
    lengths.fold(0, u64::saturating_add)
}

/// The time of a turn's slowest pod.
fn length_ms(leavers: &[Leaver], turn: usize) -> u64 {
    let of_turn = leavers.iter().filter(|leaver| leaver.turn == turn);
    let slowest = of_turn.map(|leaver| leaver.grace_ms).max();
    slowest.map_or(0, |grace_ms| grace_ms.max(MIN_GRACE_MS) + MARGIN_MS)
}
