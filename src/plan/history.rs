//! What the plan remembers between passes. Everything but the announcements and [`LiveInstance::stop`] is a fact that was
//! seen; the agent saves it when it changes (D-9). Older records still load: what is new in them has a default.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use super::Evicted;
use crate::holder::proto::{Exit, Stamp};
use crate::pod::PodUid;
use crate::pod::probe::ProbeKind;

/// What the plan remembers between passes; persisted by the agent when it changes (D-9).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// By UID; an entry goes when its pod is neither desired nor observed.
    pub pods: BTreeMap<PodUid, PodHistory>,
}

/// Memory of one pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PodHistory {
    /// `metadata.namespace`, for a pod that no source and no sandbox names any more.
    #[serde(default)]
    pub namespace: String,
    /// `metadata.name`.
    #[serde(default)]
    pub name: String,
    /// status.startTime: when this UID was first planned.
    pub start_time: Timestamp,
    /// Next sandbox attempt (P-31).
    #[serde(default)]
    pub next_attempt: u32,
    /// Rises with each sandbox that is seen (P-36) and with each restart of all containers (P-63). What belongs to an
    /// earlier one does not count as initialised.
    #[serde(default)]
    pub epoch: u32,
    /// P-63: containers whose newest instance is of an epoch before this one start, whatever their policy says.
    #[serde(default)]
    pub anew_from: u32,
    /// P-63: set while every container is being ended, so that all start anew.
    #[serde(default)]
    pub restarting: Option<RestartAll>,
    /// P-98: for how long the pod has been active.
    #[serde(default)]
    pub active: Option<ActiveTime>,
    /// By container name; init containers too.
    #[serde(default)]
    pub containers: BTreeMap<String, ContainerHistory>,
    /// Set once when the pod reached a terminal phase (P-111, P-114).
    #[serde(default)]
    pub finished: Option<Finished>,
    /// Set while the pod is being ended (P-3); one that was removed never goes back to running (S-160).
    #[serde(default)]
    pub ending: Option<Ending>,
    /// D-8: it was ended because the node was short of something.
    #[serde(default)]
    pub evicted: Option<Evicted>,
    /// The boot in which the node took the pod last (S-171): it goes before those that only wait.
    #[serde(default)]
    pub admitted_in: Option<String>,
    /// Last transition of each condition: type → (status, time).
    #[serde(default)]
    pub conditions: BTreeMap<String, (bool, Timestamp)>,
    /// The trouble of the sandbox that an event has announced.
    #[serde(default)]
    pub announced: Option<String>,
    /// Hash of the document whose warnings an event has announced (D-10).
    #[serde(default)]
    pub announced_document: Option<String>,
}

impl PodHistory {
    /// No source wants it any more: it never goes back to running (S-160), and one that comes back is another one.
    pub fn is_removed(&self) -> bool {
        self.ending
            .is_some_and(|ending| ending.cause == EndingCause::Removed)
    }
}

/// A terminal phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finished {
    /// All containers exited 0.
    Succeeded,
    /// Some did not.
    Failed,
    /// P-98: Failed, because `activeDeadlineSeconds` were over.
    DeadlineExceeded,
}

/// P-63: a restart of all containers under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartAll {
    /// When it began.
    pub since: Timestamp,
    /// The container whose exit asked for it.
    pub container: String,
}

/// How long a pod has been active, so that no jump of the wall clock within a boot changes it (P-98, D-9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveTime {
    /// Milliseconds until `since`.
    pub before_ms: u64,
    /// Counted by CLOCK_BOOTTIME from here.
    pub since: Stamp,
    /// In this boot.
    pub boot_id: String,
}

/// A pod on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// When it began, for `metadata.deletionTimestamp`.
    pub since: Timestamp,
    /// Why.
    pub cause: EndingCause,
}

/// Why a pod is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndingCause {
    /// No source wants it any more: nothing of it is kept, and a return of the same UID starts from nothing.
    Removed,
    /// Every pod is ended: its history is kept for the next start of the agent.
    AgentStop,
    /// N-28: the node goes down: its history is kept for the next start of the agent.
    NodeShutdown,
    /// D-8: the node is short of something; it comes back by itself.
    Evicted,
}

/// Why an instance was told to end, or why it had to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopCause {
    /// P-40: its definition changed.
    Changed,
    /// It was taken out of the spec.
    Dropped,
    /// Another instance of the same container is the one that counts.
    Double,
    /// The pod ends or has finished, or somebody else told the holder.
    PodEnds,
    /// The node went down, or its holder was told to end while no agent ran.
    NodeDown,
    /// P-42: liveness or startup probe.
    Probe {
        /// Which.
        kind: ProbeKind,
        /// What it said.
        output: String,
    },
    /// P-90: its postStart hook failed.
    PostStart {
        /// Of the hook.
        message: String,
    },
    /// P-63.
    RestartAll,
}

impl StopCause {
    /// The end is no verdict about the container: it starts again whatever its restart policy, and without back-off.
    pub fn is_interruption(&self) -> bool {
        match self {
            Self::Changed
            | Self::Dropped
            | Self::Double
            | Self::PodEnds
            | Self::NodeDown
            | Self::RestartAll => true,
            Self::Probe { .. } | Self::PostStart { .. } => false,
        }
    }
}

impl PastInstance {
    /// P-90, P-156: what its postStart hook said, if that ended it.
    pub fn failed_hook(&self) -> Option<&str> {
        match &self.stop {
            Some(StopCause::PostStart { message }) => Some(message),
            Some(
                StopCause::Changed
                | StopCause::Dropped
                | StopCause::Double
                | StopCause::PodEnds
                | StopCause::NodeDown
                | StopCause::Probe { .. }
                | StopCause::RestartAll,
            )
            | None => None,
        }
    }
}

/// Earlier records only said whether an instance was `interrupted`.
fn stop_cause<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<StopCause>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Old(bool),
        New(Option<StopCause>),
    }
    Ok(match Stored::deserialize(deserializer)? {
        Stored::Old(is_interrupted) => is_interrupted.then_some(StopCause::PodEnds),
        Stored::New(cause) => cause,
    })
}

/// Memory of one container over its instances.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ContainerHistory {
    /// The newest instance, from when it was first seen until its exit was.
    #[serde(default)]
    pub current: Option<LiveInstance>,
    /// The newest exited instance.
    #[serde(default)]
    pub last: Option<PastInstance>,
    /// The exited instance before that (lastState of an exited one, P-132).
    #[serde(default)]
    pub previous: Option<PastInstance>,
    /// P-64: current delay.
    #[serde(default)]
    pub backoff: Option<Backoff>,
    /// The reason to wait that an event has announced.
    #[serde(default)]
    pub announced: Option<String>,
}

impl ContainerHistory {
    /// The epoch of the newest instance.
    pub fn epoch(&self) -> Option<u32> {
        let current = self.current.as_ref().map(|current| current.epoch);
        current.or_else(|| self.last.as_ref().map(|last| last.epoch))
    }
}

/// An instance whose exit was not seen yet; enough to account for it when it is lost (P-165).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveInstance {
    /// Container id.
    pub id: String,
    /// Its restart count.
    pub restart_count: u32,
    /// `containers[].image` as written.
    pub image: String,
    /// Image id.
    pub image_id: String,
    /// P-40.
    pub hash: String,
    /// When.
    pub started_at: Stamp,
    /// In which boot.
    pub boot_id: String,
    /// In which [`PodHistory::epoch`] it was met.
    #[serde(default)]
    pub epoch: u32,
    /// P-136: it runs, and its startup probe has succeeded once if it has one.
    #[serde(default)]
    pub started: bool,
    /// P-135: by its readiness probe, if it has one. Counts over a restart of the agent until the first verdict.
    #[serde(default)]
    pub ready: bool,
    /// Why it is to end, from before it is asked to.
    #[serde(default, alias = "interrupted", deserialize_with = "stop_cause")]
    pub stop: Option<StopCause>,
}

/// An instance that ended; enough to show it without its holder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PastInstance {
    /// Container id.
    pub id: String,
    /// Its restart count.
    pub restart_count: u32,
    /// `containers[].image` as written.
    pub image: String,
    /// Image id.
    pub image_id: String,
    /// P-40.
    pub hash: String,
    /// How it ended.
    pub exit: Exit,
    /// In which [`PodHistory::epoch`] it was met.
    #[serde(default)]
    pub epoch: u32,
    /// Why it ended, unless by itself.
    #[serde(default, alias = "interrupted", deserialize_with = "stop_cause")]
    pub stop: Option<StopCause>,
}

/// Where a container stands on the back-off curve. Meaningless in another boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// Delay between the exit and the next start, in ms; 0 for the first.
    pub delay_ms: u64,
    /// When the exit was, CLOCK_BOOTTIME ms: the delay counts from here (P-65).
    pub advanced_at_boot_ms: u64,
    /// Boot id.
    pub boot_id: String,
}
