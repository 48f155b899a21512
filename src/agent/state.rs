//! Everything the agent knows, in one place with one owner: the loop. News are taken in here ([`Agent::absorb`]), the
//! pass is in [`super::pass`], the doing in [`super::apply`].

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::PathBuf;
use std::rc::Rc;

use async_channel::{Receiver, Sender};
use k8s_openapi::api::core::v1::Pod;
use smol::LocalExecutor;

use super::conditions::{About, Conditions};
use super::imports::Imports;
use super::link;
use super::log::Log;
use super::news::{Fact, News, SandboxId};
use super::probes::Probes;
use super::records::Records;
use super::ring::Ring;
use super::sandboxes::{CreateFailure, Dead, Holding, Phase, Sandboxes};
use super::sources::{FileSource, Snapshot};
use crate::config::Config;
use crate::holder::cgroup::Cgroups;
use crate::holder::proto::{HolderState, Stamp};
use crate::image::Store;
use crate::oci::NodeFacts;
use crate::plan::{Desired, History, ImagePresence, Note, Rules, StartProblem};
use crate::pod::PodUid;
use crate::sys::{clock, state_file};

/// What was asked for from outside: flags, since asking twice is asking once.
#[derive(Debug, Default)]
pub struct Wishes {
    /// Read manifests and images again.
    pub rescan: bool,
    /// End every pod, then the agent.
    pub stop: bool,
    /// End every pod, turn by turn, and start none (N-26): since when, CLOCK_BOOTTIME ms.
    pub drain: Option<u64>,
    /// End the agent; pods stay (P-87).
    pub leave: bool,
    /// A pass soon, for any other reason.
    pub look: bool,
}

/// What the last pass showed.
#[derive(Debug, Default, PartialEq)]
pub struct Shown {
    /// With full status.
    pub pods: BTreeMap<PodUid, Pod>,
    /// Reasons; kept to tell clients when they change.
    pub notes: Vec<Note>,
    /// When waiting containers are due, CLOCK_BOOTTIME ms.
    pub restarts: BTreeMap<(PodUid, String), u64>,
    /// Node conditions.
    pub conditions: Vec<String>,
}

/// A child for slow work; one of a kind at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// None runs.
    Idle,
    /// One runs.
    Running,
}

/// What a piece of news leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A fact changed.
    Pass,
    /// Nothing that a plan would look at.
    Nothing,
}

/// The agent.
pub struct Agent {
    /// Settings.
    pub config: Config,
    /// Fixed facts for the plan.
    pub rules: Rules,
    /// The node.
    pub node: NodeFacts,
    /// Stderr.
    pub log: Log,
    /// The node's hierarchies.
    pub cgroups: Rc<Cgroups>,
    /// Images.
    pub store: Store,
    /// Manifests.
    pub source: FileSource,
    /// What the source said last, without its pods; `again_at_boot_ms` is part of the next wake-up.
    pub snapshot: Snapshot,
    /// D-2, D-7: the source has been readable once.
    pub has_delivered: bool,
    /// The import directory.
    pub imports: Imports,
    /// Runs the tasks.
    pub executor: Rc<LocalExecutor<'static>>,
    /// Given to tasks.
    pub news: Sender<News>,
    /// What the source wants.
    pub desired: Desired,
    /// What exists.
    pub sandboxes: Sandboxes,
    /// What runs to see whether containers are well.
    pub probes: Probes,
    /// What happened.
    pub history: History,
    /// Its files.
    pub records: Records,
    /// Events.
    pub ring: Ring,
    /// Presence of each image name, until something changes in the store.
    pub images: BTreeMap<String, ImagePresence>,
    /// Containers that could not be started.
    pub start_problems: BTreeMap<(PodUid, String), StartProblem>,
    /// Sandboxes that could not be made.
    pub sandbox_problems: BTreeMap<PodUid, StartProblem>,
    /// Node conditions.
    pub conditions: Conditions,
    /// From outside.
    pub wishes: Wishes,
    /// For the API.
    pub shown: Shown,
    /// Rises with each visible change.
    pub generation: u64,
    /// Closed and replaced at each rise.
    pub gate: (Sender<Infallible>, Receiver<Infallible>),
    /// The plan's next wake-up.
    pub wake_at_boot_ms: Option<u64>,
    /// Syncing records.
    pub sync: Job,
    /// Emptying the trash.
    pub sweep: Job,
    /// Directories of unknown pods were looked for, once after the source's first delivery.
    pub is_tidy: bool,
    /// Something was thrown into the trash.
    pub trash_is_dirty: bool,
    /// Next full look at everything.
    pub next_rescan_boot_ms: u64,
    /// Serial of the next sandbox.
    pub next_serial: u64,
}

/// The agent as its loop and its API share it: the loop changes it, never across an await.
pub type Shared = Rc<RefCell<Agent>>;

impl Agent {
    /// A name for a new sandbox.
    pub fn new_sandbox_id(&mut self, uid: PodUid) -> SandboxId {
        let serial = self.next_serial;
        self.next_serial += 1;
        SandboxId { uid, serial }
    }

    /// Makes the loop look again soon.
    pub fn look_again(&mut self) {
        self.wishes.look = true;
        // Full means that it wakes up anyway.
        let _ = self.news.try_send(News::Look);
    }

    /// Takes in one piece of news.
    pub fn absorb(&mut self, news: News) -> Need {
        match news {
            News::Probe(report) => return self.probe_reported(report),
            News::Look => return Need::Nothing,
            News::Watched { path, problem } => self.watched(path, problem),
            News::Manifests => self.wishes.rescan = true,
            News::Images => self.images.clear(),
            News::Imports => self.imports.look(),
            News::Imported(outcome) => self.imported(outcome),
            News::Holder(id, fact) => self.absorb_fact(&id, fact),
            News::Cleaned(id) => self.cleaned(&id),
            News::CleaningStuck(id) => {
                let text = format!("pod {}: its processes do not die", self.pod_label(&id.uid));
                self.conditions.set(About::Pod(id.uid.to_string()), text);
            }
            News::Synced(outcome) => {
                self.sync = Job::Idle;
                self.conditions.report(About::Sync, outcome);
            }
            News::Swept => self.sweep = Job::Idle,
        }
        Need::Pass
    }

    fn watched(&mut self, path: PathBuf, problem: Option<String>) {
        match problem {
            None => self.conditions.clear(&About::Watch(path)),
            Some(problem) => {
                let late = format!(
                    "changes of {} are noticed by the periodic scan only: {problem}",
                    path.display()
                );
                self.conditions.set(About::Watch(path), late);
            }
        }
    }

    fn imported(&mut self, outcome: Result<(), String>) {
        let is_settled = self.imports.finished(&outcome);
        match outcome {
            Ok(()) => self.conditions.clear(&About::Import),
            Err(_) if !is_settled => {}
            Err(why) => {
                let dir = self.config.paths.images_import();
                let text = format!("import from {}: {why}", dir.display());
                self.conditions.set(About::Import, text);
            }
        }
        self.images.clear();
    }

    /// The sandbox that news are about, unless it was replaced meanwhile.
    fn holding(&mut self, id: &SandboxId) -> Option<&mut Holding> {
        self.sandboxes
            .get_mut(&id.uid)
            .filter(|holding| holding.id == *id)
    }

    fn absorb_fact(&mut self, id: &SandboxId, fact: Fact) {
        match fact {
            Fact::State(state) => self.holder_state(id, state),
            Fact::Reply { id: request, reply } => {
                let failure = self.holding(id).and_then(|h| h.hear(request, reply));
                if let Some(failure) = failure {
                    self.container_failed(&id.uid, failure, clock::now());
                }
            }
            Fact::NeverCame(why) if self.holding(id).is_some() => {
                self.sandbox_failed(&id.uid, why, clock::now());
                // It stays `Starting` until it is gone: there was no sandbox that could have changed.
                self.start_remains(&id.uid);
            }
            Fact::NeverCame(_) => {}
            Fact::Died => self.holder_died(id),
        }
    }

    fn holder_state(&mut self, id: &SandboxId, state: Box<HolderState>) {
        let lost_lines = state
            .log_trouble
            .iter()
            .map(|t| format!("log lines are lost: {t}"));
        let flawed = state
            .log_flaw
            .iter()
            .map(|t| format!("its logs are not as they should be: {t}"));
        let no_record = state
            .record_trouble
            .iter()
            .map(|t| format!("its holder's record is old: {t}"));
        let troubles: Vec<_> = lost_lines.chain(flawed).chain(no_record).collect();
        let Some(holding) = self.holding(id) else {
            return;
        };
        let created = holding.see(state);
        // The writable layer of a container that is gone lies there now, put by the holder.
        self.trash_is_dirty = true;
        self.sandbox_problems.remove(&id.uid);
        for container in created {
            self.start_problems.remove(&(id.uid.clone(), container));
        }
        let about = About::Pod(id.uid.to_string());
        if troubles.is_empty() {
            self.conditions.clear(&about);
        } else {
            let pod = self.pod_label(&id.uid);
            let text = format!("pod {pod}: {}", troubles.join("; "));
            self.conditions.set(about, text);
        }
    }

    fn holder_died(&mut self, id: &SandboxId) {
        let Some(holding) = self.holding(id) else {
            return;
        };
        if holding.is_leaving() {
            self.bury(id);
            self.clean(&id.uid);
            return;
        }
        self.bury(id);
        let words = link::last_words(&self.config.paths.holder(&id.uid));
        let is_empty = |holding: &Holding| holding.containers().is_empty();
        if words.is_none() && self.sandboxes.get(&id.uid).is_some_and(is_empty) {
            // It left because an earlier agent asked it to.
            return;
        }
        let words = words.map(|words| format!(": {words}"));
        self.log.error(format_args!(
            "the holder of pod {} died{}",
            self.pod_label(&id.uid),
            words.unwrap_or_default()
        ));
    }

    /// The holder is dead: what it recorded last is what we know.
    fn bury(&mut self, id: &SandboxId) {
        let state = recorded_state(&self.config, &id.uid);
        let cgroups = Rc::clone(&self.cgroups);
        if let Some(holding) = self.holding(id) {
            let recorded = state.map(|state| state.containers);
            let containers = recorded.unwrap_or_else(|| holding.containers().to_vec());
            let cgroup_empty = !cgroups.is_populated(&holding.record.sandbox.pod_cgroup);
            holding.bury(Dead {
                containers,
                cgroup_empty,
                cleaning: false,
            });
        }
    }

    fn cleaned(&mut self, id: &SandboxId) {
        if self.holding(id).is_some() {
            self.trash_is_dirty = true;
            self.sandboxes.remove(&id.uid);
            self.conditions.clear(&About::Pod(id.uid.to_string()));
        }
    }

    /// Remembers a container that could not be started, for its waiting reason and the retry.
    pub fn container_failed(&mut self, uid: &PodUid, failure: CreateFailure, now: Stamp) {
        let key = (uid.clone(), failure.container);
        let failures = self.start_problems.get(&key).map_or(0, |p| p.failures);
        self.start_problems.insert(
            key,
            StartProblem {
                reason: failure.reason.to_owned(),
                message: failure.message,
                at_boot_ms: now.boot_ms,
                failures: failures.saturating_add(1),
            },
        );
        self.look_again();
    }

    /// P-35.
    pub fn sandbox_failed(&mut self, uid: &PodUid, message: String, now: Stamp) {
        let failures = self.sandbox_problems.get(uid).map_or(0, |p| p.failures);
        self.sandbox_problems.insert(
            uid.clone(),
            StartProblem {
                reason: "FailedCreatePodSandBox".to_owned(),
                message,
                at_boot_ms: now.boot_ms,
                failures: failures.saturating_add(1),
            },
        );
        self.look_again();
    }

    /// `namespace/name`, or the UID of one that has no name any more.
    pub fn pod_label(&self, uid: &PodUid) -> String {
        let desired = self.desired.get(uid);
        let started = || self.sandboxes.get(uid).map(|h| &h.record.pod);
        desired
            .or_else(started)
            .map_or_else(|| uid.to_string(), |pod| pod.full_name())
    }

    /// Pods and containers that nobody knows any more have no problems.
    pub fn drop_old_problems(&mut self) {
        let known: BTreeSet<&PodUid> = self.desired.keys().chain(self.sandboxes.keys()).collect();
        self.start_problems
            .retain(|(uid, _), _| known.contains(uid));
        self.sandbox_problems.retain(|uid, _| known.contains(uid));
    }

    /// True when a cleaning is not yet in flight and should be.
    pub fn start_cleaning(&mut self, uid: &PodUid) -> bool {
        match self
            .sandboxes
            .get_mut(uid)
            .map(|holding| &mut holding.phase)
        {
            Some(Phase::Dead(dead)) => !std::mem::replace(&mut dead.cleaning, true),
            Some(Phase::Starting | Phase::Connected(_)) | None => false,
        }
    }
}

/// What a holder wrote last.
pub fn recorded_state(config: &Config, uid: &PodUid) -> Option<HolderState> {
    state_file::read(&config.paths.holder(uid).state()).ok()?
}
