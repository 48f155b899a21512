//! What a pass has decided so far.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::{Action, Event, History, Note, Plan, ProbeKey, ProbeOrder};
use crate::pod::PodUid;

/// Collects the parts of a [`Plan`].
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) actions: Vec<Action>,
    pub(super) history: History,
    pub(super) notes: Vec<Note>,
    pub(super) events: Vec<Event>,
    pub(super) probes: BTreeMap<ProbeKey, ProbeOrder>,
    pub(super) restarts: BTreeMap<(PodUid, String), u64>,
    pub(super) pods: BTreeMap<PodUid, Pod>,
    wake_at_boot_ms: Option<u64>,
}

impl Outcome {
    pub(super) fn new(history: History) -> Self {
        Self {
            actions: Vec::new(),
            history,
            notes: Vec::new(),
            events: Vec::new(),
            probes: BTreeMap::new(),
            restarts: BTreeMap::new(),
            pods: BTreeMap::new(),
            wake_at_boot_ms: None,
        }
    }

    /// Asks for a pass at this time, or earlier.
    pub(super) fn wake_at(&mut self, boot_ms: u64) {
        self.wake_at_boot_ms = Some(self.wake_at_boot_ms.map_or(boot_ms, |at| at.min(boot_ms)));
    }

    /// The plan, with its actions in order: by kind first, then by pod.
    pub(super) fn finish(mut self) -> Plan {
        self.actions.sort_by_key(rank);
        Plan {
            actions: self.actions,
            history: self.history,
            wake_at_boot_ms: self.wake_at_boot_ms,
            notes: self.notes,
            events: self.events,
            probes: self.probes,
            restarts: self.restarts,
            pods: self.pods,
        }
    }
}

/// Removals before additions; what takes longest to come true goes first.
fn rank(action: &Action) -> u8 {
    match action {
        Action::StopContainer { .. } => 0,
        Action::StopSandbox { .. } => 1,
        Action::CleanSandbox { .. } => 2,
        Action::ForgetPod { .. } => 3,
        Action::RemoveContainer { .. } => 4,
        Action::StartSandbox { .. } => 5,
        Action::StartContainer { .. } => 6,
    }
}
