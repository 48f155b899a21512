//! What the plan remembers between passes. Everything but the announcements and [`LiveInstance::interrupted`] is a fact
//! that was seen; the agent saves it when it changes (D-9).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::holder::proto::{Exit, Stamp};
use crate::pod::PodUid;

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
    /// By container name.
    #[serde(default)]
    pub containers: BTreeMap<String, ContainerHistory>,
    /// Set once when the pod reached a terminal phase (P-111, P-114).
    #[serde(default)]
    pub finished: Option<Finished>,
    /// Set while the pod is being ended (P-3); one that was removed never goes back to running (S-160).
    #[serde(default)]
    pub ending: Option<Ending>,
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

/// A terminal phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finished {
    /// All containers exited 0.
    Succeeded,
    /// Some did not.
    Failed,
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
    /// We asked for its end, other than by restart policy; see [`PastInstance::interrupted`].
    #[serde(default)]
    pub interrupted: bool,
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
    /// It did not end by itself: its definition changed (P-40), the agent ended all pods, or the node went down. It is
    /// started anew whatever the restart policy says, and without back-off.
    #[serde(default)]
    pub interrupted: bool,
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
