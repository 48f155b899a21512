//! The decision: what to do next, given what is wanted, what is seen and what happened before. Pure: the clock is an
//! argument, there is no I/O and no logging; `notes` say why in words.
//!
//! | file | question it answers |
//! |---|---|
//! | `pass` | what is a pod to become, and what is the next step there? |
//! | `absorb` | what is new, and what has to be remembered of it? |
//! | `sandbox` | may the sandbox start, is it to be replaced, how does it end? |
//! | `run` | which containers of a ready sandbox start, stop, are cleared away? |
//! | `container` | one container: keep, start, wait (why, how long), done? |
//! | `backoff` | how long? |
//! | `stop` | how is a container asked to end, and after which others? |
//! | `status`, `container_status`, `conditions`, `qos` | what does an API server show? |
//! | `events`, `notes` | what do people read? |
//! | `history`, `outcome` | memory between passes, and the plan as it grows |

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

mod absorb;
mod backoff;
mod conditions;
mod container;
mod container_status;
mod events;
mod history;
mod notes;
mod outcome;
mod pass;
mod probe;
mod qos;
mod run;
mod sandbox;
mod status;
pub mod stop;
#[cfg(test)]
mod tests;

use crate::config::BackoffCurve;
use crate::holder::proto::{ContainerRecord, PodRecord, Stamp};
use crate::pod::hook::Hook;
use crate::pod::probe::{ProbeKind, ProbeSpec};
use crate::pod::{PodUid, StaticPod};

pub use history::{
    Backoff, ContainerHistory, Ending, EndingCause, Finished, History, LiveInstance, PastInstance,
    PodHistory,
};
pub use probe::Tally;
pub use qos::{QosClass, pod_cgroup, qos_class};

/// The present moment on both clocks.
pub type Now = Stamp;

/// What the sources want. Keyed by UID; one entry per full name.
pub type Desired = BTreeMap<PodUid, StaticPod>;

/// What is seen right now. Facts only: from the kernel, the holders and the image store, never from what we asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Each sandbox that exists in any form.
    pub sandboxes: BTreeMap<PodUid, Sandbox>,
    /// Each image name that a desired container uses, as written in the manifest.
    pub images: BTreeMap<String, ImagePresence>,
    /// What went wrong with the last attempt to start a container: (pod, container) → problem. Cleared by success.
    pub start_problems: BTreeMap<(PodUid, String), StartProblem>,
    /// What went wrong with the last attempt to make a sandbox (P-35). Cleared by success.
    pub sandbox_problems: BTreeMap<PodUid, StartProblem>,
    /// What the probes have found, each since its verdict last changed. Nothing while there is no verdict yet.
    pub probes: BTreeMap<ProbeKey, Finding>,
    /// Every pod is to be stopped, whatever is desired.
    pub halt: Halt,
    /// P-162 (per source, D-7): false until the sources have delivered once; nothing unknown is removed before.
    pub sources_ready: bool,
}

/// Whether the node is to run pods at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Halt {
    /// It is.
    #[default]
    No,
    /// The agent was told to end every pod, and then itself.
    AgentStop,
    /// N-25…N-28: the node goes down; pods end in the order of their priorities.
    NodeShutdown {
        /// Since when, CLOCK_BOOTTIME ms.
        since_boot_ms: u64,
    },
}

/// One probe of one container instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProbeKey {
    /// Pod.
    pub uid: PodUid,
    /// Container id, so that no result is ever taken for another instance's.
    pub id: String,
    /// Which of its probes.
    pub kind: ProbeKind,
}

/// A probe that is to be run now, again and again, until it is no longer in the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeOrder {
    /// `containers[].name`.
    pub container: String,
    /// How.
    pub spec: ProbeSpec,
    /// When the container started: the initial delay counts from here.
    pub started_at: Stamp,
    /// The verdict to begin with; none counts as not started.
    pub initial: Option<ProbeVerdict>,
    /// Host network: the pod is at the node's own addresses.
    pub host_network: bool,
}

/// A probe's result after its thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeVerdict {
    /// Healthy, ready, started.
    Success,
    /// Not.
    Failure,
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// After thresholds.
    pub verdict: ProbeVerdict,
    /// Of the run that settled it, for people.
    pub output: String,
}

/// A sandbox (holder and what is left of it).
#[derive(Debug, Clone, PartialEq)]
pub struct Sandbox {
    /// How it was made.
    pub record: PodRecord,
    /// Where it stands.
    pub state: SandboxState,
}

/// State of a sandbox, moved by the agent's observation of the holder process and socket.
#[derive(Debug, Clone, PartialEq)]
pub enum SandboxState {
    /// The holder was spawned or is being connected to.
    Starting,
    /// Connected.
    Ready {
        /// From the holder's last state.
        containers: Vec<ContainerRecord>,
        /// Containers (by name) with a create request in flight; nothing else may be asked for them.
        creating: BTreeSet<String>,
        /// Instances (by id) with a remove request in flight.
        removing: BTreeSet<String>,
        /// A shutdown was asked for.
        leaving: bool,
        /// From the holder: log lines are being lost.
        log_trouble: Option<String>,
    },
    /// The holder is dead. `containers` are from its state file; the agent kills what is left in the pod's cgroup.
    Dead {
        /// From the state file.
        containers: Vec<ContainerRecord>,
        /// The pod's cgroup has no process left.
        cgroup_empty: bool,
        /// A clean-up is in flight.
        cleaning: bool,
    },
}

/// Whether a container's image can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImagePresence {
    /// Image id (config digest).
    Present(String),
    /// Not in the local store.
    Absent,
    /// The text is no image reference.
    InvalidName(String),
}

/// A failed attempt, shown as a waiting reason and retried later (L-4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartProblem {
    /// `CreateContainerConfigError`, `CreateContainerError`, …
    pub reason: String,
    /// For people.
    pub message: String,
    /// When it happened, CLOCK_BOOTTIME ms.
    pub at_boot_ms: u64,
    /// How often in a row, from 1.
    pub failures: u32,
}

/// Fixed facts of node and configuration that decisions need.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Of this boot.
    pub boot_id: String,
    /// P-64.
    pub backoff: BackoffCurve,
    /// Node name.
    pub node_name: String,
    /// status.hostIP; none while the node has no address.
    pub host_ip: Option<String>,
    /// S-172: labels of the node.
    pub labels: BTreeMap<String, String>,
    /// S-170: what pods can have.
    pub allocatable: Allocatable,
    /// N-26: which priorities end when, at a node shutdown; from the lowest.
    pub shutdown: Vec<ShutdownTurn>,
}

/// What the node has for pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocatable {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Bytes.
    pub memory: u64,
    /// Pods.
    pub pods: u32,
}

/// Pods that end together when the node goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShutdownTurn {
    /// `spec.priority` from which on; a pod belongs to the turn with the highest one that is not above its own.
    pub priority: i32,
    /// Longest grace of its pods, ms; the next turn begins after it at the latest.
    pub grace_ms: u64,
}

/// One thing to do. `apply` performs it; the outcome comes back as observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Write the record and spawn a holder.
    StartSandbox {
        /// Of a desired pod.
        uid: PodUid,
        /// P-31.
        attempt: u32,
    },
    /// Prepare the bundle and ask the holder to create and start it.
    StartContainer {
        /// Pod.
        uid: PodUid,
        /// `containers[].name`.
        container: String,
        /// P-47.
        restart_count: u32,
    },
    /// Ask the holder to stop an instance. Said again in each pass until the holder reports the instance as stopping:
    /// asking twice is harmless.
    StopContainer {
        /// Pod.
        uid: PodUid,
        /// Container id.
        id: String,
        /// P-76, in ms.
        grace_ms: u64,
        /// P-84.
        reason: String,
        /// P-77.
        pre_stop: Option<Hook>,
        /// P-81: names of containers that have to end before the signal is sent.
        after: Vec<String>,
    },
    /// Ask the holder to forget an exited instance.
    RemoveContainer {
        /// Pod.
        uid: PodUid,
        /// Container id.
        id: String,
        /// See [`crate::holder::proto::Request::Remove`].
        with_logs: bool,
    },
    /// Ask a holder without running containers to leave; then remove its directory and cgroups.
    StopSandbox {
        /// Pod.
        uid: PodUid,
    },
    /// The holder is dead: kill the pod's cgroup, then remove directory and cgroups.
    CleanSandbox {
        /// Pod.
        uid: PodUid,
    },
    /// The pod is gone for good: remove its durable directory and its logs. A [`Action::StartSandbox`] of the same UID may
    /// follow in the same plan (S-160), so they have to be out of the way (renamed into the trash) when this returns.
    ForgetPod {
        /// Pod.
        uid: PodUid,
        /// For the log directory.
        namespace: String,
        /// For the log directory.
        name: String,
    },
}

/// A Kubernetes event to record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// About this pod.
    pub uid: PodUid,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// About this container, if any.
    pub container: Option<String>,
    /// `Normal` or `Warning`.
    pub warning: bool,
    /// `Started`, `Killing`, `BackOff`, `Failed`, …
    pub reason: String,
    /// For people.
    pub message: String,
}

/// Why the plan does, or does not do, something about a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Pod.
    pub uid: PodUid,
    /// Container, if it is about one.
    pub container: Option<String>,
    /// "restarts in 40 s (exit 1, back-off)".
    pub text: String,
}

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
/// history is there because it was asked for, except that a stop was ours ([`LiveInstance::interrupted`]).
pub fn plan(
    desired: &Desired,
    observed: &Observed,
    history: &History,
    rules: &Rules,
    now: Now,
) -> Plan {
    let world = pass::World {
        desired,
        observed,
        rules,
        now,
    };
    let mut out = outcome::Outcome::new(history.clone());
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
