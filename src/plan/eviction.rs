//! Which pod ends when the node is short of something and nothing else has helped (N-7…N-10). A deviation from kubelet,
//! which never evicts static pods (N-8, D-8): nothing of it happens unless it was asked for, since then no shortage is
//! ever observed. An evicted pod comes back when the node's condition is over.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::observed::{Resource, Shortage};
use super::outcome::Outcome;
use super::pass::{PodView, World};
use super::{Halt, History, PodHistory, SandboxState, events};
use crate::pod::requests::effective_requests;
use crate::pod::{CRITICAL_PRIORITY, PodUid, StaticPod};

/// N-9.
pub(super) const GRACE_MS: u64 = 1000;

/// A pod that was ended for the sake of the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evicted {
    /// What the node was short of.
    pub resource: Resource,
    /// `status.message` (N-10).
    pub message: String,
    /// When, CLOCK_BOOTTIME ms.
    pub at_boot_ms: u64,
    /// In which boot.
    pub boot_id: String,
}

/// The one pod that this pass ends (N-6): of those that run, the first by N-7. None while another one is on its way out,
/// and none a second time for the same weighing.
pub(super) fn victim<'a>(world: World<'a>, history: &History) -> Option<&'a PodUid> {
    let observed = world.observed;
    let shortage = observed.pressure.shortage.as_ref()?;
    if observed.halt != Halt::No || !observed.sources_ready {
        return None;
    }
    let is_pending = |(uid, memory): (&PodUid, &PodHistory)| {
        memory.evicted.as_ref().is_some_and(|evicted| {
            let is_answered = evicted.boot_id == world.rules.boot_id
                && evicted.at_boot_ms >= shortage.weighed_at_boot_ms;
            is_answered || observed.sandboxes.contains_key(uid)
        })
    };
    if history.pods.iter().any(is_pending) {
        return None;
    }
    let candidates = observed.sandboxes.iter().filter_map(|(uid, sandbox)| {
        let pod = world.desired.get(uid)?;
        let memory = history.pods.get(uid)?;
        let runs = matches!(sandbox.state, SandboxState::Ready { .. });
        let is_critical = pod.priority() >= CRITICAL_PRIORITY;
        let stays = memory.finished.is_some() || memory.is_removed() || is_critical;
        (runs && !stays).then_some((uid, pod))
    });
    let ranked = candidates.min_by_key(|(uid, pod)| rank(shortage, uid, pod));
    ranked.map(|(uid, _)| uid)
}

/// N-7: who uses more than it requested, then the least important, then who uses most beyond its request.
fn rank(shortage: &Shortage, uid: &PodUid, pod: &StaticPod) -> (bool, i32, Reverse<i128>) {
    let used = shortage.usage.get(uid).copied().unwrap_or(0);
    let requests = effective_requests(&pod.pod);
    let requested = match shortage.resource {
        Resource::Memory => requests.memory,
        Resource::Disk => requests.ephemeral_storage,
        Resource::Inodes | Resource::Pids => 0,
    };
    let is_modest = match shortage.resource {
        Resource::Pids => false,
        Resource::Memory | Resource::Disk | Resource::Inodes => used <= requested,
    };
    let surplus = i128::from(used) - i128::from(requested);
    (is_modest, pod.priority(), Reverse(surplus))
}

/// Remembers that the pod is to end, and forgets it when the condition is over and nothing of it is left.
pub(super) fn update(view: &PodView<'_>, memory: &mut PodHistory, out: &mut Outcome) {
    if !is_out(view.world, view.uid, memory) {
        memory.evicted = None;
    }
    if view.world.victim != Some(view.uid) {
        return;
    }
    if let Some(shortage) = &view.world.observed.pressure.shortage {
        out.events.push(events::evicted(view, &shortage.message));
        memory.evicted = Some(Evicted {
            resource: shortage.resource,
            message: shortage.message.clone(),
            at_boot_ms: view.world.now.boot_ms,
            boot_id: view.world.rules.boot_id.clone(),
        });
    }
}

/// It was evicted, and does not come back yet.
pub(super) fn is_out(world: World<'_>, uid: &PodUid, memory: &PodHistory) -> bool {
    memory.evicted.as_ref().is_some_and(|evicted| {
        let lasting = &world.observed.pressure.lasting;
        lasting.contains(&evicted.resource) || world.observed.sandboxes.contains_key(uid)
    })
}
