//! The decision: what to do next, given what is wanted, what is seen and what happened before. Pure: the clock is an
//! argument, there is no I/O and no logging; `notes` say why in words.
//!
//! | file | question it answers |
//! |---|---|
//! | `pass` | what is a pod to become, and what is the next step there? |
//! | `absorb` | what is new, and what has to be remembered of it? |
//! | `admission` | does the node take a pod that waits? |
//! | `sandbox` | may the sandbox start, is it to be replaced, how does it end? |
//! | `run` | which containers of a ready sandbox start, stop, are cleared away? |
//! | `container` | one container: keep, start, wait (why, how long), done? |
//! | `restart` | does a container that does not run start again? |
//! | `init` | which init containers lie behind, and who waits for whom? |
//! | `restart_all` | is the whole pod to start anew in its sandbox? |
//! | `cause` | who is stopped, and why? |
//! | `probes`, `tally` | what do probes make of a container, and which of them run? |
//! | `deadline` | has the pod been active for too long? |
//! | `eviction` | who ends when the node is short of something? |
//! | `backoff` | how long? |
//! | `shutdown` | whose turn is it when the node goes down? |
//! | `stop` | how is a container asked to end, and after which others? |
//! | `status`, `phase`, `container_status`, `conditions`, `qos` | what does an API server show? |
//! | `events`, `notes`, `why` | what do people read? |
//! | `observed`, `action` | what is given, what is asked for |
//! | `history`, `outcome` | memory between passes, and the plan as it grows |

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;

mod absorb;
mod action;
mod admission;
mod backoff;
mod cause;
mod conditions;
mod container;
mod container_status;
mod deadline;
mod events;
mod eviction;
mod history;
mod init;
mod notes;
mod observed;
mod outcome;
mod pass;
mod phase;
mod probes;
mod qos;
mod restart;
mod restart_all;
mod run;
mod sandbox;
pub mod shutdown;
mod status;
pub mod stop;
mod tally;
#[cfg(test)]
mod tests;
mod why;

pub use crate::config::ShutdownTurn;
use crate::pod::PodUid;

pub use action::{Action, Event, Note, ProbeOrder};
pub use admission::Refusal;
pub use eviction::Evicted;
pub use history::{
    ActiveTime, Backoff, ContainerHistory, Ending, EndingCause, Finished, History, LiveInstance,
    PastInstance, PodHistory, RestartAll, StopCause,
};
pub use observed::{
    Allocatable, Desired, Finding, Halt, ImagePresence, Now, Observed, Pressure, ProbeKey,
    ProbeVerdict, Resource, Rules, Sandbox, SandboxState, Shortage, StartProblem, VOLUME_PROBLEM,
};
pub use qos::{QosClass, class_cgroup, pod_cgroup, qos_class};
pub use tally::Tally;
pub use why::last_exit;

/// The outcome of one pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// In this order: removals before additions.
    pub actions: Vec<Action>,
    /// Replaces the history that was passed in.
    pub history: History,
    /// Plan again not later than this CLOCK_BOOTTIME ms, even without news.
    pub wake_at_boot_ms: Option<u64>,
    /// Reasons.
    pub notes: Vec<Note>,
    /// To record (also those that say nothing new: the recorder counts repeats).
    pub events: Vec<Event>,
    /// Every probe that is to run now (R-13, R-16…R-18).
    pub probes: BTreeMap<ProbeKey, ProbeOrder>,
    /// When each waiting container is due to start again: (pod, container) → CLOCK_BOOTTIME ms.
    pub restarts: BTreeMap<(PodUid, String), u64>,
    /// Every pod, desired or still ending, with its full status, as an API server would show it.
    pub pods: BTreeMap<PodUid, Pod>,
}

/// Plans one pass.
///
/// Level, not edge: with the same input it says the same again, but announces each event only once. Nothing in the
/// history is there because it was asked for, except that a stop was ours ([`LiveInstance::stop`]).
pub fn plan(
    desired: &Desired,
    observed: &Observed,
    history: &History,
    rules: &Rules,
    now: Now,
) -> Plan {
    let nobody = admission::Refusals::new();
    let world = pass::World {
        desired,
        observed,
        rules,
        now,
        refusals: &nobody,
        due: None,
        victim: None,
    };
    let refusals = admission::refusals(world, history);
    let world = pass::World {
        refusals: &refusals,
        due: shutdown::due_now(world),
        victim: eviction::victim(world, history),
        ..world
    };
    let mut out = outcome::Outcome::new(history.clone());
    shutdown::wake(world, &mut out);
    let uids: BTreeSet<&PodUid> = desired
        .keys()
        .chain(observed.sandboxes.keys())
        .chain(history.pods.keys())
        .collect();
    for uid in uids {
        pass::plan_pod(world, uid, &mut out);
    }
    out.finish()
}

/// The wall time of a moment on CLOCK_BOOTTIME, such as one of [`Plan::restarts`].
pub fn wall_time(boot_ms: u64, now: Now) -> jiff::Timestamp {
    let ahead_ms = i64::try_from(boot_ms.saturating_sub(now.boot_ms)).unwrap_or(i64::MAX);
    now.wall
        .checked_add(jiff::SignedDuration::from_millis(ahead_ms))
        .unwrap_or(jiff::Timestamp::MAX)
}

/// P-40: 8 hex digits of FNV-1a over a container's name and image.
pub fn container_hash(name: &str, image: &str) -> String {
    let bytes = name.bytes().chain([0]).chain(image.bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{hash:08x}")
}
