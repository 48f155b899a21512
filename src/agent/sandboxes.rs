//! The sandboxes that exist, as far as the agent has seen, and what was asked of their holders. Facts only: a request
//! changes nothing here but the list of open requests; its effect comes back in the holder's state.

use std::collections::{BTreeMap, BTreeSet};

use async_channel::Sender;

pub use super::errands::{Asked, Congested, CreateFailure, Errand, Failure, Parcel};
use super::news::SandboxId;
use crate::holder::proto::{ContainerRecord, FailureKind, HolderState, PodRecord, Reply, ToHolder};
use crate::plan::{self, Sandbox, SandboxState};
use crate::pod::lifecycle;
use crate::pod::{PodUid, StaticPod};

#[cfg(test)]
mod tests;

/// Requests a link may have waiting.
pub const MAX_WAITING: usize = 64;
/// A create that takes longer has failed, whatever the holder says later; the holder's own deadline is shorter.
const CREATE_DEADLINE_MS: u64 = 120_000;
/// The same for everything else.
const OTHER_DEADLINE_MS: u64 = 60_000;

/// One sandbox.
#[derive(Debug)]
pub struct Holding {
    /// Which.
    pub id: SandboxId,
    /// How it was made.
    pub record: PodRecord,
    /// Where it stands.
    pub phase: Phase,
    /// To its link.
    pub requests: Sender<Parcel>,
    open: BTreeMap<u64, Open>,
    next_request: u64,
}

/// Where a sandbox stands.
#[derive(Debug)]
pub enum Phase {
    /// Spawned; → `Connected` with the first state, → `Dead` when the process ends.
    Starting,
    /// The holder's newest state, of an adopted one that of its file. It stays while there is no connection. → `Dead`.
    Connected(Box<HolderState>),
    /// The process is gone. → removed when cleaned.
    Dead(Dead),
}

/// What a dead holder leaves.
#[derive(Debug)]
pub struct Dead {
    /// From its state file.
    pub containers: Vec<ContainerRecord>,
    /// The pod's cgroup has no process left.
    pub cgroup_empty: bool,
    /// A clean-up is in flight.
    pub cleaning: bool,
}

/// A request without a final outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Open {
    asked: Asked,
    deadline_boot_ms: u64,
}

impl Holding {
    /// A sandbox whose holder was just spawned or adopted.
    pub fn new(id: SandboxId, record: PodRecord, requests: Sender<Parcel>) -> Self {
        Self {
            id,
            record,
            phase: Phase::Starting,
            requests,
            open: BTreeMap::new(),
            next_request: 1,
        }
    }

    /// Instances as last seen; none before the first state.
    pub fn containers(&self) -> &[ContainerRecord] {
        match &self.phase {
            Phase::Starting => &[],
            Phase::Connected(state) => &state.containers,
            Phase::Dead(dead) => &dead.containers,
        }
    }

    /// What its volumes of files have, if its holder can change that.
    pub fn file_volumes(&self) -> Option<&BTreeMap<String, String>> {
        match &self.phase {
            Phase::Connected(state) => Some(&state.volumes),
            Phase::Starting | Phase::Dead(_) => None,
        }
    }

    /// True when a request makes no sense because the same is open already.
    pub fn is_open(&self, asked: &Asked) -> bool {
        self.open.values().any(|open| match (&open.asked, asked) {
            (Asked::Create { container, .. }, Asked::Create { container: new, .. }) => {
                container == new
            }
            (
                Asked::Stop { id, grace_ms },
                Asked::Stop {
                    id: new,
                    grace_ms: new_grace,
                },
            ) => id == new && grace_ms <= new_grace,
            (Asked::Remove { id }, Asked::Remove { id: new }) => id == new,
            (Asked::WriteVolumes, Asked::WriteVolumes) | (Asked::Leave, Asked::Leave) => true,
            (
                Asked::Create { .. }
                | Asked::Stop { .. }
                | Asked::Remove { .. }
                | Asked::WriteVolumes
                | Asked::Leave,
                _,
            ) => false,
        })
    }

    /// Hands a request to the link and keeps it open until its effect is seen, or its deadline.
    pub fn ask(
        &mut self,
        asked: Asked,
        errand: impl Into<Errand>,
        now_ms: u64,
    ) -> Result<(), Congested> {
        let id = self.next_request;
        let Errand { request, payload } = errand.into();
        let packet = ToHolder { id, request };
        self.requests
            .try_send(Parcel { packet, payload })
            .map_err(|_| Congested)?;
        self.next_request += 1;
        let patience = match asked {
            Asked::Create { .. } => CREATE_DEADLINE_MS,
            Asked::Stop { .. } | Asked::Remove { .. } | Asked::WriteVolumes | Asked::Leave => {
                OTHER_DEADLINE_MS
            }
        };
        let deadline_boot_ms = now_ms.saturating_add(patience);
        self.open.insert(
            id,
            Open {
                asked,
                deadline_boot_ms,
            },
        );
        Ok(())
    }

    /// Takes over a state; gives the containers whose creation it proves.
    pub fn see(&mut self, state: Box<HolderState>) -> Vec<String> {
        let ids: BTreeSet<&str> = state.containers.iter().map(|c| c.id.as_str()).collect();
        let mut created = Vec::new();
        self.open.retain(|_, open| match &open.asked {
            Asked::Create { container, id } if ids.contains(id.as_str()) => {
                created.push(container.clone());
                false
            }
            Asked::Remove { id } => ids.contains(id.as_str()),
            Asked::Create { .. } | Asked::Stop { .. } | Asked::WriteVolumes | Asked::Leave => true,
        });
        self.phase = Phase::Connected(state);
        created
    }

    /// Takes over an answer. A good answer to a create or remove closes nothing: only the state proves it.
    pub fn hear(&mut self, request: u64, reply: Reply) -> Option<Failure> {
        let open = self.open.get(&request)?;
        match (&open.asked, reply) {
            (Asked::Create { container, .. }, Reply::Failed { kind, message }) => {
                let container = container.clone();
                let failure = match kind {
                    // The state has (or will have) the exited instance.
                    FailureKind::Start | FailureKind::NotFound => return None,
                    FailureKind::Volume => CreateFailure {
                        container,
                        reason: plan::VOLUME_PROBLEM,
                        message,
                    },
                    FailureKind::Create | FailureKind::Refused => CreateFailure {
                        container,
                        reason: "CreateContainerError",
                        message,
                    },
                };
                self.open.remove(&request);
                Some(Failure::Create(failure))
            }
            (Asked::WriteVolumes, Reply::Failed { message, .. }) => {
                self.open.remove(&request);
                Some(Failure::WriteVolumes(message))
            }
            (Asked::Create { .. } | Asked::Remove { .. } | Asked::Leave, Reply::Done)
            | (
                Asked::Create { .. }
                | Asked::Stop { .. }
                | Asked::Remove { .. }
                | Asked::WriteVolumes
                | Asked::Leave,
                Reply::Started { .. },
            ) => None,
            (Asked::Stop { .. } | Asked::WriteVolumes, Reply::Done)
            | (Asked::Stop { .. } | Asked::Remove { .. } | Asked::Leave, Reply::Failed { .. }) => {
                self.open.remove(&request);
                None
            }
        }
    }

    /// Closes what is overdue; the plan will ask again. Gives the creates among it.
    pub fn expire(&mut self, now_ms: u64) -> Vec<CreateFailure> {
        let mut failures = Vec::new();
        self.open.retain(|_, open| {
            if open.deadline_boot_ms > now_ms {
                return true;
            }
            if let Asked::Create { container, .. } = &open.asked {
                failures.push(CreateFailure {
                    container: container.clone(),
                    reason: "CreateContainerError",
                    message: format!("no answer within {} s", CREATE_DEADLINE_MS / 1000),
                });
            }
            false
        });
        failures
    }

    /// When [`Self::expire`] has something to do at the earliest.
    pub fn next_deadline(&self) -> Option<u64> {
        self.open.values().map(|open| open.deadline_boot_ms).min()
    }

    /// The holder is dead: nothing it was asked will be answered.
    pub fn bury(&mut self, dead: Dead) {
        self.open.clear();
        self.phase = Phase::Dead(dead);
    }

    /// True when the holder was asked to leave.
    pub fn is_leaving(&self) -> bool {
        self.is_open(&Asked::Leave)
    }

    /// True when the pod was edited in place and nothing lives any more that its former document made.
    pub fn is_outdated(&self, wanted: &StaticPod) -> bool {
        let Phase::Connected(state) = &self.phase else {
            return false;
        };
        if wanted.document_hash == self.record.pod.document_hash {
            return false;
        }
        let is_wanted = |record: &ContainerRecord| {
            let member = lifecycle::member(&wanted.pod, &record.name);
            member.is_some_and(|(_, container)| {
                let image = container.image.as_deref().unwrap_or_default();
                plan::container_hash(&container.name, image) == record.hash
            })
        };
        let is_create = |open: &Open| matches!(open.asked, Asked::Create { .. });
        let is_creating = !state.creating.is_empty() || self.open.values().any(is_create);
        let mut living = state.containers.iter().filter(|c| c.state.is_live());
        !is_creating && living.all(is_wanted)
    }

    /// For the plan.
    pub fn observe(&self) -> Sandbox {
        let state = match &self.phase {
            Phase::Starting => SandboxState::Starting,
            Phase::Connected(state) => SandboxState::Ready {
                containers: state.containers.clone(),
                creating: &self.open_names(|asked| match asked {
                    Asked::Create { container, .. } => Some(container),
                    Asked::Stop { .. }
                    | Asked::Remove { .. }
                    | Asked::WriteVolumes
                    | Asked::Leave => None,
                }) | &state.creating,
                removing: self.open_names(|asked| match asked {
                    Asked::Remove { id } => Some(id),
                    Asked::Create { .. }
                    | Asked::Stop { .. }
                    | Asked::WriteVolumes
                    | Asked::Leave => None,
                }),
                leaving: self.is_leaving(),
                log_trouble: state.log_trouble.clone(),
            },
            Phase::Dead(dead) => SandboxState::Dead {
                containers: dead.containers.clone(),
                cgroup_empty: dead.cgroup_empty,
                cleaning: dead.cleaning,
            },
        };
        Sandbox {
            record: self.record.clone(),
            state,
        }
    }

    fn open_names(&self, pick: impl Fn(&Asked) -> Option<&String>) -> BTreeSet<String> {
        self.open
            .values()
            .filter_map(|open| pick(&open.asked))
            .cloned()
            .collect()
    }
}

/// All sandboxes, by pod.
pub type Sandboxes = BTreeMap<PodUid, Holding>;
