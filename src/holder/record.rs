//! The two records in a holder's directory: how the pod was made, and where it stands. They are also what holders report,
//! see [`super::proto`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use k8s_openapi::api::core::v1::ResourceRequirements;
use serde::{Deserialize, Serialize};

use crate::pod::{PodUid, StaticPod, stored};
use crate::sys::{clock::Stamp, process::ProcessId};

/// Written by the agent to `pod.json` before it starts the holder (N-81, S-165), so that a later agent, or `vetch stop`
/// without one, knows what runs and how to end it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PodRecord {
    /// [`super::proto::PROTO_VERSION`] of the writer.
    pub version: u32,
    /// The pod as it was started.
    pub pod: StaticPod,
    /// Sandbox attempt: 0 for the first of this UID.
    pub attempt: u32,
    /// How the holder sets itself up.
    pub sandbox: SandboxSpec,
}

/// What the holder needs to become the pod's pause process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Absolute cgroup path of the holder itself (`<cgroupRoot>/holders/<uid>`).
    pub holder_cgroup: String,
    /// Absolute cgroup path of the pod (`<cgroupRoot>/<qos>/pod<uid>`); containers are directly below.
    pub pod_cgroup: String,
    /// hostNetwork: no own network and UTS namespace (P-180).
    pub host_network: bool,
    /// Host name to set in the pod's UTS namespace; ignored with `host_network`.
    pub hostname: String,
    /// P-181: no own IPC namespace, and the host's /dev/shm.
    #[serde(default)]
    pub host_ipc: bool,
    /// P-182.
    #[serde(default)]
    pub pid: PidNamespace,
    /// C-60…C-62: to set in the pod's namespaces; names with dots, as the kernel has them under /proc/sys.
    #[serde(default)]
    pub sysctls: BTreeMap<String, String>,
    /// `<root-dir>/trash`: where removed writable layers are moved.
    pub trash: PathBuf,
}

/// P-182: which processes the pod's containers see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PidNamespace {
    /// Each its own.
    #[default]
    Container,
    /// shareProcessNamespace: each other's, below a process of the holder's that reaps.
    Pod,
    /// hostPID: all of the node.
    Host,
}

/// The whole truth of a holder, in `state.json` and in [`super::proto::FromHolder::State`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HolderState {
    /// [`super::proto::PROTO_VERSION`] of the holder.
    pub version: u32,
    /// vetch version of the holder's binary.
    pub release: String,
    /// The pod.
    pub uid: PodUid,
    /// The holder's process.
    pub process: ProcessId,
    /// Every container instance that was created and not yet removed, oldest first.
    pub containers: Vec<ContainerRecord>,
    /// Names of containers that are being made. Of another agent's doing, perhaps: nothing else may be asked for them.
    #[serde(default)]
    pub creating: BTreeSet<String>,
    /// V-31: which content each volume of files has: [`crate::volume::spec::FileSet::hash`] by name of the volume.
    #[serde(default)]
    pub volumes: BTreeMap<String, String>,
    /// Set while log lines are being dropped (disk full, …): what failed, in words.
    #[serde(default)]
    pub log_trouble: Option<String>,
    /// Set while a log is written, and yet is not as it should be (no link, no compression): what failed, in words.
    #[serde(default)]
    pub log_flaw: Option<String>,
    /// Set while `state.json` cannot be written (run directory full, …): the next agent would read an old one.
    #[serde(default)]
    pub record_trouble: Option<String>,
}

/// One container instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContainerRecord {
    /// 64 hex digits, unique.
    pub id: String,
    /// `containers[].name`.
    pub name: String,
    /// P-47: how often this container was started before this instance.
    pub restart_count: u32,
    /// P-40: hash over name and image, of the spec this instance was made from.
    pub hash: String,
    /// `containers[].image` as written.
    pub image: String,
    /// Image id (config digest, `sha256:…`).
    pub image_id: String,
    /// Live log file (`…/<n>.log`).
    pub log: PathBuf,
    /// P-79: as given at its creation.
    #[serde(default = "sigterm")]
    pub stop_signal: i32,
    /// What it was started with; an edit in place does not change it. Of older holders empty.
    #[serde(default, deserialize_with = "stored::resources")]
    pub resources: ResourceRequirements,
    /// P-90: how far its postStart hook is.
    #[serde(default)]
    pub post_start: HookState,
    /// P-77: how far its preStop hook is.
    #[serde(default)]
    pub pre_stop: HookState,
    /// C-36: as whom its process began.
    #[serde(default)]
    pub user: Option<LinuxUser>,
    /// Where it stands.
    pub state: InstanceState,
}

/// The ids of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinuxUser {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All groups, the primary one included.
    pub groups: Vec<u32>,
}

/// The signal that ends a container unless its image or manifest names another.
pub(super) fn sigterm() -> i32 {
    15
}

/// How far a hook is. Moved by the holder only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HookState {
    /// There is none, or it has not begun.
    #[default]
    None,
    /// It runs.
    Running,
    /// It succeeded.
    Done,
    /// It failed, or was given up: at the end of the grace, by a stop (postStart), or because the container ended.
    Failed {
        /// For people, with the last of its output.
        message: String,
    },
}

/// State of an instance. Moved by the holder only: Running on a successful create+start, Stopping on a
/// [`super::proto::Request::Stop`], Exited when init was reaped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum InstanceState {
    /// Its process runs.
    Running {
        /// The container's init process.
        process: ProcessId,
        /// When.
        started_at: Stamp,
    },
    /// It is on its way out: preStop, then the wait for others, then the stop signal; SIGKILL to the whole cgroup follows
    /// at the deadline.
    Stopping {
        /// The container's init process.
        process: ProcessId,
        /// When it started.
        started_at: Stamp,
        /// CLOCK_BOOTTIME of the SIGKILL, in ms.
        kill_at_boot_ms: u64,
        /// Why, for people.
        reason: String,
        /// How far.
        #[serde(default)]
        phase: StopPhase,
    },
    /// Its process is gone and reaped, and its cgroup is empty.
    Exited(Exit),
}

impl InstanceState {
    /// There is something left to end.
    pub fn is_live(&self) -> bool {
        match self {
            Self::Running { .. } | Self::Stopping { .. } => true,
            Self::Exited(_) => false,
        }
    }

    /// Its process, and when it started, while it lives.
    pub fn live(&self) -> Option<(ProcessId, Stamp)> {
        match self {
            Self::Running {
                process,
                started_at,
            }
            | Self::Stopping {
                process,
                started_at,
                ..
            } => Some((*process, *started_at)),
            Self::Exited(_) => None,
        }
    }
}

/// How far a stop is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopPhase {
    /// Its preStop hook runs. Left when that ends, or when the grace is over.
    PreStop,
    /// P-81: waits for other containers to end. Left when they have, or when the grace is over.
    Waiting,
    /// The signal was sent.
    #[default]
    Signalled,
}

/// How an instance ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// None when it never ran (`StartError`).
    pub started_at: Option<Stamp>,
    /// When.
    pub finished_at: Stamp,
    /// P-161: the exit code, 128+signal if killed, 128 for a start error.
    pub code: i32,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// P-160…P-163: `Completed`, `Error`, `OOMKilled` or `StartError`.
    pub reason: String,
    /// P-170…P-172: termination message, or the start error's text.
    pub message: Option<String>,
}
