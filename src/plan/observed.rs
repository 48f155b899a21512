//! What a pass is given: what is wanted, what is seen, and what is fixed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::config::{BackoffCurve, ShutdownTurn};
use crate::holder::proto::{ContainerRecord, PodRecord, Stamp};
use crate::pod::probe::ProbeKind;
use crate::pod::{PodUid, StaticPod};

/// The present moment on both clocks.
pub type Now = Stamp;

/// What the sources want. Keyed by UID; one entry per full name.
pub type Desired = BTreeMap<PodUid, StaticPod>;

/// What is seen right now. Facts only: from the kernel, the holders and the image store, never from what we asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Each sandbox that exists in any form.
    pub sandboxes: BTreeMap<PodUid, Sandbox>,
    /// Each image name that a desired container or volume uses, as written in the manifest.
    pub images: BTreeMap<String, ImagePresence>,
    /// What went wrong with the last attempt to start a container: (pod, container) → problem. Cleared by success.
    pub start_problems: BTreeMap<(PodUid, String), StartProblem>,
    /// What went wrong with the last attempt to make a sandbox (P-35). Cleared by success.
    pub sandbox_problems: BTreeMap<PodUid, StartProblem>,
    /// What the probes have found, each since its verdict last changed. Nothing while there is no verdict yet.
    pub probes: BTreeMap<ProbeKey, Finding>,
    /// What the node is short of.
    pub pressure: Pressure,
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

/// What the node is short of, as far as pods are ended for it (N-6, D-8).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Of these there is too little, or was a moment ago (N-5).
    pub lasting: BTreeSet<Resource>,
    /// Nothing else has helped: one pod is to end.
    pub shortage: Option<Shortage>,
}

/// Why a pod is to end, and what each of them uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// Of what.
    pub resource: Resource,
    /// N-10.
    pub message: String,
    /// When pods were weighed, CLOCK_BOOTTIME ms; each weighing ends one.
    pub weighed_at_boot_ms: u64,
    /// Bytes, inodes or processes of each pod.
    pub usage: BTreeMap<PodUid, u64>,
}

/// What a node can be short of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Resource {
    /// Memory.
    Memory,
    /// Room on a disk.
    Disk,
    /// Files on a disk.
    Inodes,
    /// Processes.
    Pids,
}

impl Resource {
    /// kubelet's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "ephemeral-storage",
            Self::Inodes => "inodes",
            Self::Pids => "pids",
        }
    }
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

/// [`StartProblem::reason`] of a volume that cannot be mounted (V-25): what its container shows, as if it were still on
/// its way.
pub const VOLUME_PROBLEM: &str = "ContainerCreating";

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
    /// C-61: which kernel parameters pods may set beside the safe ones; see [`crate::pod::sysctl::is_allowed`].
    pub unsafe_sysctls: Vec<String>,
    /// C-54: the node has AppArmor.
    pub apparmor: bool,
}

/// What the node has for pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocatable {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Bytes.
    pub memory: u64,
    /// Bytes; nothing is reserved of them.
    #[serde(default)]
    pub ephemeral_storage: u64,
    /// Pods.
    pub pods: u32,
}
