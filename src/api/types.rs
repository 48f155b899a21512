//! What goes over the API, as JSON.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/status` | [`AgentStatus`] |
//! | `GET /v1/pods` | a v1 PodList, with full status |
//! | `GET /v1/describe/{uid}` | [`Description`] |
//! | `GET /v1/events` | `Vec<EventRecord>`, oldest first |
//! | `GET /v1/objects` | `Vec<ObjectView>`: ConfigMaps and Secrets |
//! | `GET /v1/plan` | [`PlanView`] |
//! | `GET /v1/changes?after=N` | [`Changes`]; answers when the generation is not N, or after 30 s |
//! | `GET /stats/summary` | [`crate::figures::summary::Summary`]; with `?only_cpu_and_memory=true` less of it (H-24) |
//! | `POST /v1/stop` | 202; ends every pod with its grace, then the agent |
//! | `POST /v1/drain` | [`Draining`]; ends every pod, turn by turn, and starts none from now on |

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use crate::config::Paths;
use crate::holder::proto::{HookState, StopPhase};
use crate::plan::{Action, Allocatable, Event, Note, ProbeVerdict, ShutdownTurn};
use crate::pod::objects::ObjectKey;
use crate::pod::probe::ProbeKind;
use crate::pod::{Diagnostic, Origin, PodUid, stored};

/// The agent itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// vetch version.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Node name.
    pub node_name: String,
    /// Where things live.
    pub paths: Paths,
    /// The manifest source.
    pub pod_manifest_path: PathBuf,
    /// Sources have delivered.
    pub ready: bool,
    /// Ending all pods.
    pub stopping: bool,
    /// The node goes down: pods end, and none starts.
    #[serde(default)]
    pub draining: bool,
    /// Labels of the node.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What the node has for pods.
    #[serde(default)]
    pub allocatable: Option<Allocatable>,
    /// Rises with each change of anything a client can see.
    pub generation: u64,
    /// Each manifest file, with its problems.
    pub files: Vec<FileStatus>,
    /// N-5: as a Node object has them.
    #[serde(default)]
    pub node_conditions: Vec<NodeCondition>,
    /// Node-level conditions worth a person's attention (missing controllers, log trouble, directory missing …).
    pub conditions: Vec<String>,
}

/// A condition of the node, as a Node object has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCondition {
    /// `MemoryPressure`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// `True` or `False`.
    pub status: String,
    /// In one word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// When the status changed last.
    pub last_transition_time: jiff::Timestamp,
}

/// The agent ends its pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draining {
    /// In this order (N-26).
    pub turns: Vec<ShutdownTurn>,
}

/// One manifest file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStatus {
    /// Path.
    pub file: String,
    /// `namespace/name` of the pods that count because of this file.
    pub pods: Vec<String>,
    /// `configmap namespace/name` and `secret namespace/name` of those that count because of this file.
    #[serde(default)]
    pub objects: Vec<String>,
    /// D-1: the file is bad (or its directory vanished) and its last good content is kept.
    pub held: bool,
    /// Problems.
    pub diagnostics: Vec<Diagnostic>,
}

/// Everything `vetch describe` shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// With full status.
    #[serde(deserialize_with = "stored::pod")]
    pub pod: Pod,
    /// Its document.
    pub origin: Origin,
    /// D-1: its file is bad or gone with its directory, and this is the last good content.
    #[serde(default)]
    pub held: bool,
    /// Remarks about its document, or about the bad content of its file.
    pub diagnostics: Vec<Diagnostic>,
    /// The plan's reasons.
    pub notes: Vec<Note>,
    /// Its events, oldest first.
    pub events: Vec<EventRecord>,
    /// Per container: init containers and sidecars, then regular ones, in the order of the spec.
    pub containers: Vec<ContainerDetail>,
    /// Directory of the holder; absent when the pod has none.
    pub holder: Option<PathBuf>,
}

/// What the v1 status does not say about a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerDetail {
    /// Name.
    pub name: String,
    /// Id of the running instance, for exec.
    pub running_id: Option<String>,
    /// Live log file of the newest instance.
    pub log: Option<PathBuf>,
    /// Live log file of the instance before.
    pub previous_log: Option<PathBuf>,
    /// When a waiting restart is due.
    pub next_restart: Option<jiff::Timestamp>,
    /// Why the last instance ended, which is why there is a newer one.
    #[serde(default)]
    pub last_exit: Option<String>,
    /// Of the newest instance (P-90).
    #[serde(default)]
    pub post_start: HookState,
    /// Of the newest instance (P-77).
    #[serde(default)]
    pub pre_stop: HookState,
    /// Set while it is on its way out.
    #[serde(default)]
    pub stopping: Option<Stopping>,
    /// What the probes of the running instance have found so far.
    #[serde(default)]
    pub probes: Vec<ProbeDetail>,
}

/// A container on its way out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopping {
    /// Why.
    pub reason: String,
    /// How far.
    pub phase: StopPhase,
    /// When SIGKILL is due.
    pub kill_at: jiff::Timestamp,
}

/// What a probe has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeDetail {
    /// Which.
    pub kind: ProbeKind,
    /// After thresholds; `None` before there is one.
    pub verdict: Option<ProbeVerdict>,
    /// Of the run that settled it.
    pub output: String,
    /// What the last run said that failed or found nothing out, since the last change of the verdict to success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
}

/// An event with its count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// Rises; newer or repeated events have higher ones.
    pub sequence: u64,
    /// What.
    pub event: Event,
    /// How often.
    pub count: u32,
    /// First time.
    pub first: jiff::Timestamp,
    /// Last time.
    pub last: jiff::Timestamp,
}

/// A ConfigMap or a Secret, without what must not be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectView {
    /// Its name.
    pub key: ObjectKey,
    /// `type` of a Secret.
    #[serde(rename = "type")]
    pub type_: String,
    /// Its document.
    pub origin: Origin,
    /// In order.
    pub keys: Vec<KeyView>,
}

/// One key of a ConfigMap or a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyView {
    /// The key.
    pub name: String,
    /// Length of the value.
    pub bytes: usize,
    /// Of `binaryData`.
    pub binary: bool,
    /// The value, if it is of a ConfigMap and text.
    #[serde(default)]
    pub text: Option<String>,
}

/// What the agent would do now, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanView {
    /// Actions of a pass right now (usually none: they were just done).
    pub actions: Vec<Action>,
    /// Reasons, for every pod.
    pub notes: Vec<Note>,
    /// Next planned wake-up, ms from now.
    pub wake_in_ms: Option<u64>,
    /// Uids known.
    pub pods: Vec<PodUid>,
}

/// Something changed, or the wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Current generation.
    pub generation: u64,
}
