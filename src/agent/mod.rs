//! The agent: an async shell around [`crate::plan`].
//!
//! One thread, one owner of state. Tasks turn descriptors into [`news`]; news update facts in [`state`]; after each burst
//! of them one [`pass`] gathers, plans, remembers, [`apply`]s and shows. Level, not edge: a lost piece of news costs
//! latency, the next pass finds out.
//!
//! | file | what it has |
//! |---|---|
//! | [`state`] | everything the agent knows |
//! | [`news`], `absorb` | what tasks tell, and what facts that changes |
//! | [`pass`], [`apply`], `launch` | one pass; doing what the plan says; a container's bundle |
//! | [`sources`], `manifests`, [`watch`] | the manifest directory; when it is read; hints that something changed |
//! | [`start`], `adopt`, [`host`] | what must be true first; holders of an earlier agent; facts about this machine |
//! | `confine`, `cdi`, `pod_files`, `older` | what of the node goes into a container; files of a pod; what old holders cannot do |
//! | `limits` | how much pods and QoS classes may use |
//! | [`link`], `sandboxes`, `errands`, `clean` | a holder's life: talking to it, what was asked of it, what it leaves |
//! | [`probes`], `volumes` | one task for each probe that runs; the files in volumes of running pods |
//! | `jobs`, `imports`, [`child`], [`trash`] | slow work: when, and how a child is run |
//! | `figures` | resource figures, by a child when they are asked for |
//! | [`pressure`], `stalls` | whether the node is short of something; the kernel's word for it |
//! | [`store`], `records`, `objects` | files that outlive the agent, and whom a ConfigMap wakes |
//! | `problems`, `conditions`, `events`, `ring` | what failed to start, what is wrong with the node, what happened |
//! | `view`, `answers`, `details` | what clients see, and how the API is answered |
//! | [`log`], [`notify`], [`signals`] | stderr, systemd, SIGTERM and its like |
//!
//! What it never does: fork without exec, wait for a holder, a disk sync, a network or a slow child in the loop.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use async_channel::Receiver;
use futures_lite::future;
use smol::{LocalExecutor, Timer};

mod absorb;
mod adopt;
mod answers;
mod apply;
mod cdi;
mod child;
mod clean;
mod conditions;
mod confine;
mod details;
mod errands;
mod events;
mod figures;
mod host;
mod imports;
mod jobs;
mod launch;
mod limits;
mod link;
pub mod log;
mod manifests;
pub(crate) mod news;
mod notify;
mod objects;
mod older;
mod pass;
mod pod_files;
pub mod pressure;
mod probes;
mod problems;
mod records;
mod ring;
pub(crate) mod sandboxes;
mod signals;
pub mod sources;
mod stalls;
pub mod start;
mod state;
pub mod store;
pub mod trash;
mod view;
mod volumes;
mod watch;

use crate::api::server::{self, ListenError};
use crate::config::{Config, Signal};
use crate::holder::cgroup::{CgroupError, Cgroups};
use crate::image::{Store, StoreError};
use crate::plan::History;
use crate::pod::objects::Objects;
use crate::sys::clock;
pub use adopt::AdoptError;
use answers::Answers;
use conditions::{About, Conditions};
use figures::Turns;
use imports::Imports;
use jobs::Jobs;
use limits::Kept;
use log::Log;
use manifests::Manifests;
use news::News;
use objects::ObjectCopy;
use pass::Next;
use pressure::Pressure;
use probes::Probes;
use problems::Problems;
use ring::Ring;
use sources::FileSource;
use start::StartError;
use state::{Agent, Need, Shared, Wishes};
use view::View;
use volumes::Upkeep;
use watch::Watch;

/// News that may wait; tasks wait when it is full.
const MAX_NEWS: usize = 256;

/// Why the agent could not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The machine, the directories or the lock.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The API socket.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The cgroup file system.
    #[error("use cgroups")]
    Cgroup(#[from] CgroupError),
    /// The image store.
    #[error("open the image store")]
    Images(#[from] StoreError),
    /// What an earlier agent left.
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    /// SIGTERM could not be caught.
    #[error("catch signals")]
    Signals(#[source] std::io::Error),
}

/// Runs the agent until SIGTERM or SIGINT (pods stay, P-87) or until a stop request is done (pods are gone).
pub fn run(config: Config) -> Result<(), AgentError> {
    let boot_id = start::boot_id()?;
    let (_lock, _boot) = start::prepare(&config, &boot_id)?;
    let socket = config.paths.api_socket();
    let listener = server::listen(&socket)?;
    let signals = signals::catch().map_err(AgentError::Signals)?;

    let executor = Rc::new(LocalExecutor::new());
    let (agent, inbox) = take_over(config, boot_id, Rc::clone(&executor))?;
    let backend = Rc::new(Answers(Rc::clone(&agent)));
    executor
        .spawn(server::serve(listener, backend, Rc::clone(&executor)))
        .detach();
    executor
        .spawn(signals::obey(signals, Rc::clone(&agent)))
        .detach();
    smol::block_on(executor.run(supervise(&agent, inbox)));

    notify::send("STOPPING=1");
    // A client that comes now is told the truth: no agent.
    let _ = std::fs::remove_file(&socket);
    agent.borrow_mut().finish();
    Ok(())
}

/// Builds the state from what is on disk and what lives.
fn take_over(
    config: Config,
    boot_id: String,
    executor: Rc<LocalExecutor<'static>>,
) -> Result<(Shared, Receiver<News>), AgentError> {
    let log = Log::from_env();
    let (news, inbox) = async_channel::bounded(MAX_NEWS);
    let mut conditions = Conditions::new(log);
    let loaded = records::load(&config.paths);
    if !loaded.warnings.is_empty() {
        conditions.set(About::BadRecords, loaded.warnings.join("; "));
    }
    let objects = objects::load(&config.paths.objects());
    let (objects, object_copy) = objects.unwrap_or_else(|problem| {
        conditions.set(About::ObjectCopy, problem);
        (Vec::new(), ObjectCopy::unknown())
    });
    let mut history = History::default();
    let mut known = Vec::new();
    for record in loaded.records {
        known.push((record.history.start_time, record.pod.clone()));
        history.pods.insert(record.pod.uid, record.history);
    }
    let cgroups = Cgroups::discover()?;
    let controllers = cgroups.controllers(&config.cgroup_root)?;
    let node = host::facts(&config, controllers);
    if let Some(text) = host::device_rules_condition(&node) {
        conditions.set(About::DeviceRules, text);
    }
    let mut agent = Agent {
        rules: host::rules(&config, &node, boot_id),
        log,
        cgroups: Rc::new(cgroups),
        store: Store::open(&config.paths.images())?,
        manifests: Manifests::new(FileSource::new(
            &config.pod_manifest_path,
            &config.node_name,
        )),
        imports: Imports::new(config.paths.images_import()),
        executor,
        news,
        desired: BTreeMap::new(),
        objects: Objects::default(),
        object_copy,
        volumes: Upkeep::default(),
        sandboxes: BTreeMap::new(),
        probes: Probes::new(clock::now()),
        history,
        records: loaded.files,
        ring: Ring::default(),
        images: BTreeMap::new(),
        problems: Problems::default(),
        conditions,
        wishes: Wishes::default(),
        view: View::new(),
        wake_at_boot_ms: None,
        jobs: Jobs::new(),
        figures: Turns::new(),
        pressure: Pressure::new(clock::now()),
        is_tidy: false,
        watches: Vec::new(),
        limits: Kept::default(),
        next_serial: 1,
        node,
        config,
    };
    agent.limit_all_pods()?;
    agent.adopt_all()?;
    agent.seed_source(known);
    agent.manifests.seed_objects(objects);
    agent.throw_orphaned_layers();
    agent.watch();
    Ok((Rc::new(RefCell::new(agent)), inbox))
}

impl Agent {
    /// Starts the tasks that hear of changes on disk: before the first look, or what changes meanwhile would wait for
    /// the periodic one.
    fn watch(&mut self) {
        let mut watch = |path: &Path, hint: fn() -> News| {
            let (look, asked) = async_channel::bounded(1);
            let telling = watch::tell(Watch::new(path), asked, (self.news.clone(), hint));
            self.executor.spawn(telling).detach();
            self.watches.push(look);
        };
        watch(&self.config.pod_manifest_path, || News::Manifests);
        watch(&self.config.paths.images_import(), || News::Imports);
        watch(&self.store.names_dir(), || News::Images);
        if self
            .config
            .eviction
            .thresholds
            .contains_key(&Signal::MemoryAvailable)
        {
            self.executor
                .spawn(stalls::tell(self.news.clone()))
                .detach();
        }
    }

    /// The last thing: records that were just renamed are synced, and nothing of a stopped node's cgroups stays.
    fn finish(&mut self) {
        if let Err(error) = store::sync(&self.records.take_unsynced()) {
            self.log.warn(crate::error::chain(&error));
        }
        if self.wishes.stop && self.sandboxes.is_empty() {
            // Busy only if somebody else put processes there.
            let _ = self.cgroups.remove(&self.config.cgroup_root);
        }
    }
}

/// The loop.
async fn supervise(agent: &RefCell<Agent>, inbox: Receiver<News>) {
    let mut is_first = true;
    let watchdog = notify::watchdog_period();
    loop {
        let now = clock::now();
        let next = agent.borrow_mut().pass(now);
        if std::mem::take(&mut is_first) {
            notify::send("READY=1");
        }
        if watchdog.is_some() {
            // A pass is the agent's whole work: who finishes one is well.
            notify::send("WATCHDOG=1");
        }
        let pause = match next {
            Next::Quit => return,
            Next::WaitUntil(at) => Duration::from_millis(at.saturating_sub(clock::now().boot_ms)),
        };
        let pause = watchdog.map_or(pause, |period| pause.min(period));
        listen(agent, &inbox, Timer::after(pause)).await;
    }
}

/// Takes in news until some of them ask for a pass, or it is time for one anyway.
async fn listen(agent: &RefCell<Agent>, inbox: &Receiver<News>, mut over: Timer) {
    loop {
        let first = future::or(async { inbox.recv().await.ok() }, async {
            (&mut over).await;
            None
        })
        .await;
        let Some(first) = first else { return };
        // Let every task that is ready speak first: one pass for a burst.
        future::yield_now().await;
        let mut agent = agent.borrow_mut();
        let burst = std::iter::once(first).chain(std::iter::from_fn(|| inbox.try_recv().ok()));
        let needs: Vec<Need> = burst.map(|news| agent.absorb(news)).collect();
        if std::mem::take(&mut agent.wishes.look) || needs.contains(&Need::Pass) {
            return;
        }
    }
}
