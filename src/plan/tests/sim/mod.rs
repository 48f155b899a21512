//! A node in memory with a virtual clock: the real plan, the agent's real table of sandboxes, and holders by their own
//! rules, under everything that happens to a node.
//!
//! | file | what it has |
//! |---|---|
//! | `agent` | the agent's side: problems, probes, what it hears |
//! | `machine` | the wire between an agent and a holder |
//! | `holder`, `instance` | holders and containers |
//! | `pass` | one pass, and its actions |
//! | `faults`, `pods`, `dice` | what happens, to which pods, by which chance |
//! | `laws`, `rounds`, `probing`, `timing`, `reasons`, `settled` | what has to hold |

use std::collections::{BTreeMap, BTreeSet};

use self::agent::FakeAgent;
use self::dice::Dice;
use self::laws::Laws;
use self::machine::Machine;
use super::fixtures::{at, rules};
use crate::config::ShutdownTurn;
use crate::holder::proto::{InstanceState, Stamp};
use crate::plan::{Desired, History, ImagePresence, Rules};
use crate::pod::{PodUid, StaticPod};

mod agent;
pub mod dice;
pub mod faults;
mod holder;
mod instance;
mod laws;
mod machine;
mod pass;
pub mod pods;
mod probing;
mod reasons;
mod rounds;
mod settled;
mod timing;

/// The node and its only agent.
#[derive(Debug)]
pub struct World {
    pub dice: Dice,
    /// The manifests that can be.
    pub library: Vec<Vec<StaticPod>>,
    pub desired: Desired,
    pub images: BTreeMap<String, ImagePresence>,
    pub rules: Rules,
    /// CLOCK_BOOTTIME.
    pub boot_ms: u64,
    /// What the wall clock says beyond it, ms.
    pub wall_offset_ms: i64,
    /// What really passed since the beginning, over all boots.
    pub true_ms: u64,
    /// As on disk.
    pub history: History,
    agent: Option<FakeAgent>,
    /// When the next agent comes, while there is none.
    agent_at_ms: u64,
    /// When the manifests are read.
    sources_at_ms: Option<u64>,
    machines: BTreeMap<PodUid, Machine>,
    /// Log files: the highest restart count of each container.
    made: BTreeMap<(PodUid, String), u32>,
    next_id: u64,
    wake_at_ms: Option<u64>,
    has_news: bool,
    pub passes: u64,
    /// Every pass is printed.
    pub is_loud: bool,
    laws: Laws,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let library = pods::library(&mut dice);
        Self {
            library,
            desired: Desired::new(),
            images: BTreeMap::new(),
            rules: Rules {
                shutdown: vec![turn(0, 20_000), turn(1000, 5000)],
                ..rules()
            },
            boot_ms: 1000,
            wall_offset_ms: 0,
            true_ms: 0,
            history: History::default(),
            agent: None,
            agent_at_ms: 0,
            sources_at_ms: None,
            machines: BTreeMap::new(),
            made: BTreeMap::new(),
            next_id: 0,
            wake_at_ms: None,
            has_news: true,
            passes: 0,
            is_loud: false,
            laws: Laws::default(),
            dice,
        }
    }

    pub fn now(&self) -> Stamp {
        self.at(self.boot_ms)
    }

    fn at(&self, boot_ms: u64) -> Stamp {
        let wall_ms = i64::try_from(boot_ms).unwrap() + self.wall_offset_ms;
        Stamp {
            boot_ms,
            wall: at(0)
                .wall
                .checked_add(jiff::SignedDuration::from_millis(wall_ms))
                .unwrap(),
        }
    }

    pub fn put(&mut self, pod: StaticPod) {
        let name = pod.full_name();
        self.desired.retain(|_, p| p.full_name() != name);
        self.desired.insert(pod.uid.clone(), pod);
        self.has_news = true;
    }

    /// Time goes on to the next thing that is due, but not beyond this.
    pub fn advance(&mut self, at_most_ms: u64) {
        let agent = self.agent.as_ref();
        let machines = self.machines.values().filter_map(Machine::wake_at_ms);
        let own = agent.and_then(FakeAgent::wake_at_ms);
        let plan = self.wake_at_ms.filter(|_| agent.is_some());
        let comes = agent.is_none().then_some(self.agent_at_ms);
        let next = machines
            .chain([own, plan, comes, self.sources_at_ms].into_iter().flatten())
            .min();
        let limit = self.boot_ms + at_most_ms;
        let next = next.unwrap_or(limit).clamp(self.boot_ms, limit);
        self.true_ms += next - self.boot_ms;
        self.boot_ms = next;
    }

    /// Everything that is due happens; then the agent looks, if it has a reason to.
    pub fn turn(&mut self) {
        let now = self.now();
        for machine in self.machines.values_mut() {
            machine.turn(now, &mut self.dice);
            let signals = std::mem::take(&mut machine.holder.signals);
            let pod = &machine.holder.record.pod;
            for signal in signals {
                self.laws
                    .check_signal(pod, self.desired.get(&pod.uid), &signal);
            }
        }
        if self.agent.is_none() && self.agent_at_ms <= now.boot_ms {
            self.start_agent();
        }
        if self.sources_at_ms.is_some_and(|at| at <= now.boot_ms) {
            self.sources_at_ms = None;
            self.has_news = true;
            if let Some(agent) = &mut self.agent {
                agent.sources_ready = true;
            }
        }
        self.hear(now);
        let is_due = self.wake_at_ms.is_some_and(|at| at <= now.boot_ms);
        if self.agent.is_some() && (self.has_news || is_due) {
            self.has_news = false;
            self.pass();
        }
    }

    fn hear(&mut self, now: Stamp) {
        let Some(agent) = &mut self.agent else {
            return;
        };
        for machine in self.machines.values_mut() {
            for fact in machine.hear(now.boot_ms) {
                self.has_news = true;
                agent.absorb(machine, fact, now, &mut self.dice);
            }
        }
        let is_done = |_: &PodUid, at: &mut u64| *at <= now.boot_ms;
        let done: BTreeSet<PodUid> = agent
            .cleanings
            .extract_if(.., is_done)
            .map(|(u, _)| u)
            .collect();
        for uid in done {
            self.has_news = true;
            agent.sandboxes.remove(&uid);
            self.machines.remove(&uid);
        }
        self.has_news |= agent.run_probes(&self.machines, now.boot_ms, &mut self.dice);
        let requests = agent.sandboxes.values().filter_map(|h| h.next_deadline());
        self.has_news |= requests.min().is_some_and(|at| at <= now.boot_ms);
    }

    /// When the instance of this container began that runs.
    pub fn running_since(&self, name: &str) -> Option<u64> {
        let mut all = self.machines.values().flat_map(|m| &m.holder.instances);
        all.find_map(|i| match i.record.state {
            InstanceState::Running { started_at, .. } if i.record.name == name => {
                i.is_alive().then_some(started_at.boot_ms)
            }
            InstanceState::Running { .. }
            | InstanceState::Stopping { .. }
            | InstanceState::Exited(_) => None,
        })
    }

    pub fn end_container(&mut self, name: &str, code: i32) {
        let now = self.now();
        let machines = self.machines.values_mut();
        for instance in machines.flat_map(|m| &mut m.holder.instances) {
            if instance.record.name == name {
                instance.end(code, now, &mut self.dice);
            }
        }
    }

    fn start_agent(&mut self) {
        self.agent = Some(FakeAgent::adopt(&mut self.machines, self.boot_ms));
        self.sources_at_ms = Some(self.boot_ms + self.dice.delay_ms());
        let text = serde_json::to_string(&self.history).unwrap();
        let back: History = serde_json::from_str(&text).unwrap();
        assert_eq!(back, self.history, "something is lost on disk");
        self.history = back;
        self.wake_at_ms = None;
        self.has_news = true;
    }

    /// The agent is killed; another one comes after this time.
    pub fn kill_agent(&mut self, pause_ms: u64) {
        if self.agent.take().is_none() {
            return;
        }
        for machine in self.machines.values_mut() {
            machine.detach(self.boot_ms, &mut self.dice);
        }
        self.sources_at_ms = None;
        self.agent_at_ms = self.boot_ms + pause_ms;
    }
}

fn turn(priority: i32, grace_ms: u64) -> ShutdownTurn {
    ShutdownTurn { priority, grace_ms }
}
