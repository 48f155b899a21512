//! Everything the agent knows, in one place with one owner: the loop. News are taken in by [`super::absorb`], the pass is
//! in [`super::pass`], the doing in [`super::apply`].

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use async_channel::Sender;
use smol::LocalExecutor;

use super::conditions::Conditions;
use super::figures::Turns;
use super::imports::Imports;
use super::jobs::Jobs;
use super::limits::Kept;
use super::log::Log;
use super::manifests::Manifests;
use super::news::{News, SandboxId};
use super::objects::ObjectCopy;
use super::pressure::Pressure;
use super::probes::Probes;
use super::problems::Problems;
use super::records::Records;
use super::ring::Ring;
use super::sandboxes::{Holding, Phase, Sandboxes};
use super::view::View;
use super::volumes::Upkeep;
use crate::config::Config;
use crate::holder::cgroup::Cgroups;
use crate::image::Store;
use crate::oci::NodeFacts;
use crate::plan::{Desired, History, ImagePresence, Rules};
use crate::pod::objects::Objects;
use crate::pod::{PodUid, StaticPod};

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
    /// The source of manifests.
    pub manifests: Manifests,
    /// The import directory.
    pub imports: Imports,
    /// Runs the tasks.
    pub executor: Rc<LocalExecutor<'static>>,
    /// Given to tasks.
    pub news: Sender<News>,
    /// What the source wants.
    pub desired: Desired,
    /// The ConfigMaps and Secrets that it may refer to.
    pub objects: Objects,
    /// Their copy on disk.
    pub object_copy: ObjectCopy,
    /// Whether the files in volumes are what they should be.
    pub volumes: Upkeep,
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
    /// What could not be started.
    pub problems: Problems,
    /// Node conditions.
    pub conditions: Conditions,
    /// From outside.
    pub wishes: Wishes,
    /// For the API.
    pub view: View,
    /// The plan's next wake-up.
    pub wake_at_boot_ms: Option<u64>,
    /// Slow work.
    pub jobs: Jobs,
    /// What the node is short of.
    pub pressure: Pressure,
    /// Who may start a child for figures.
    pub figures: Turns,
    /// Directories of unknown pods were looked for, once after the source's first delivery.
    pub is_tidy: bool,
    /// Ask tasks that watch paths whether these are still what they were.
    pub watches: Vec<Sender<()>>,
    /// How much pods may use.
    pub limits: Kept,
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

    /// A client can see something new.
    pub fn rise(&mut self) {
        self.view.rise();
    }

    /// Makes the loop look again soon.
    pub fn look_again(&mut self) {
        self.wishes.look = true;
        // Full means that it wakes up anyway.
        let _ = self.news.try_send(News::Look);
    }

    /// The sandbox that news are about, unless it was replaced meanwhile.
    pub fn holding(&mut self, id: &SandboxId) -> Option<&mut Holding> {
        self.sandboxes
            .get_mut(&id.uid)
            .filter(|holding| holding.id == *id)
    }

    /// The pod as it is wanted now, or else as it was started.
    pub fn pod(&self, uid: &PodUid) -> Option<&StaticPod> {
        let started = || self.sandboxes.get(uid).map(|h| &h.record.pod);
        self.desired.get(uid).or_else(started)
    }

    /// `namespace/name`, or the UID of one that has no name any more.
    pub fn pod_label(&self, uid: &PodUid) -> String {
        self.pod(uid)
            .map_or_else(|| uid.to_string(), |pod| pod.full_name())
    }

    /// Pods and containers that nobody knows any more have no problems.
    pub fn drop_old_problems(&mut self) {
        let known: BTreeSet<&PodUid> = self.desired.keys().chain(self.sandboxes.keys()).collect();
        self.problems.retain(|uid| known.contains(uid));
        self.volumes.retain(|uid| known.contains(uid));
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
