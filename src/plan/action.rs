//! What a pass asks for and tells.

use serde::{Deserialize, Serialize};

use super::ProbeVerdict;
use super::stop::StopOrder;
use crate::holder::proto::Stamp;
use crate::pod::PodUid;
use crate::pod::probe::ProbeSpec;

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
        /// Which one, and how.
        #[serde(flatten)]
        order: StopOrder,
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
}

impl ProbeOrder {
    /// Whether a task of the other order does what this one asks. [`Self::initial`] is only for one that begins.
    pub fn is_same_work(&self, other: &Self) -> bool {
        let Self {
            container,
            spec,
            started_at,
            initial: _,
        } = self;
        (container, spec, started_at) == (&other.container, &other.spec, &other.started_at)
    }
}
