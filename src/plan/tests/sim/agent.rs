//! The agent's side of the simulation: its table of sandboxes is the real one; probes are counted by the real tally. What
//! is here follows [`crate::agent`], without its I/O.

use std::collections::{BTreeMap, BTreeSet};

use super::dice::Dice;
use super::holder::Process;
use super::machine::Machine;
use crate::agent::news::{Fact, SandboxId};
use crate::agent::sandboxes::{Asked, CreateFailure, Dead, Failure, Holding, MAX_WAITING, Phase};
use crate::holder::proto::{HolderState, PodRecord, Stamp};
use crate::plan::{
    Desired, Finding, Halt, Observed, Pressure, ProbeKey, ProbeOrder, ProbeVerdict, StartProblem,
    Tally,
};
use crate::pod::PodUid;
use crate::pod::probe::ProbeKind;

#[derive(Debug, Default)]
pub struct FakeAgent {
    pub sandboxes: BTreeMap<PodUid, Holding>,
    /// When a clean-up is done.
    pub cleanings: BTreeMap<PodUid, u64>,
    pub start_problems: BTreeMap<(PodUid, String), StartProblem>,
    pub sandbox_problems: BTreeMap<PodUid, StartProblem>,
    pub probes: BTreeMap<ProbeKey, Probe>,
    pub halt: Halt,
    pub sources_ready: bool,
    serial: u64,
}

/// A probe that runs.
#[derive(Debug)]
pub struct Probe {
    order: ProbeOrder,
    tally: Tally,
    finding: Option<Finding>,
    next_ms: u64,
}

impl Probe {
    fn new(order: ProbeOrder, now_ms: u64) -> Self {
        let first = order.started_at.boot_ms + u64::from(order.spec.initial_delay_s) * 1000;
        Self {
            tally: Tally::new(order.initial),
            finding: None,
            next_ms: first.max(now_ms),
            order,
        }
    }

    /// True when the verdict changes.
    fn count(&mut self, result: ProbeVerdict) -> bool {
        let old = self.tally.verdict();
        let verdict = self.tally.count(&self.order.spec, result);
        let news = verdict.filter(|_| verdict != old);
        if let Some(verdict) = news {
            self.finding = Some(Finding {
                verdict,
                output: "it said so".into(),
            });
        }
        news.is_some()
    }
}

impl FakeAgent {
    /// Takes over what an earlier agent left.
    pub fn adopt(machines: &mut BTreeMap<PodUid, Machine>, now_ms: u64) -> Self {
        let mut agent = Self::default();
        for machine in machines.values_mut() {
            let record = machine.holder.record.clone();
            let written = machine.holder.written.clone();
            let uid = record.pod.uid.clone();
            match written.filter(|_| machine.holder.process == Process::Up) {
                Some(state) => {
                    agent.hold(record, machine, now_ms);
                    let holding = agent.sandboxes.get_mut(&uid).unwrap();
                    holding.phase = Phase::Connected(Box::new(state));
                }
                None => {
                    let (requests, _) = async_channel::bounded(1);
                    let id = agent.new_id(&uid);
                    let mut holding = Holding::new(id, record, requests);
                    holding.bury(dead(machine.holder.written.as_ref()));
                    agent.sandboxes.insert(uid, holding);
                }
            }
        }
        agent
    }

    fn new_id(&mut self, uid: &PodUid) -> SandboxId {
        self.serial += 1;
        SandboxId {
            uid: uid.clone(),
            serial: self.serial,
        }
    }

    /// A holder that lives, or will.
    pub fn hold(&mut self, record: PodRecord, machine: &mut Machine, now_ms: u64) {
        let (requests, asked) = async_channel::bounded(MAX_WAITING);
        machine.attach(asked, now_ms);
        let uid = record.pod.uid.clone();
        let id = self.new_id(&uid);
        self.sandboxes
            .insert(uid, Holding::new(id, record, requests));
    }

    pub fn observe(&self) -> Observed {
        let sandboxes = self.sandboxes.iter();
        let probes = self.probes.iter();
        Observed {
            sandboxes: sandboxes
                .map(|(uid, h)| (uid.clone(), h.observe()))
                .collect(),
            images: BTreeMap::new(),
            start_problems: self.start_problems.clone(),
            sandbox_problems: self.sandbox_problems.clone(),
            probes: probes
                .filter_map(|(key, probe)| Some((key.clone(), probe.finding.clone()?)))
                .collect(),
            pressure: Pressure::default(),
            halt: self.halt,
            sources_ready: self.sources_ready,
        }
    }

    pub fn expire(&mut self, now_ms: u64) {
        let mut failures = Vec::new();
        for (uid, holding) in &mut self.sandboxes {
            let expired = holding.expire(now_ms).into_iter();
            failures.extend(expired.map(|failure| (uid.clone(), failure)));
        }
        for (uid, failure) in failures {
            self.container_failed(&uid, failure, now_ms);
        }
    }

    pub fn drop_old_problems(&mut self, desired: &Desired) {
        let known: BTreeSet<PodUid> = desired
            .keys()
            .chain(self.sandboxes.keys())
            .cloned()
            .collect();
        self.start_problems
            .retain(|(uid, _), _| known.contains(uid));
        self.sandbox_problems.retain(|uid, _| known.contains(uid));
    }

    pub fn container_failed(&mut self, uid: &PodUid, failure: CreateFailure, now_ms: u64) {
        let key = (uid.clone(), failure.container);
        let failures = self.start_problems.get(&key).map_or(0, |p| p.failures);
        let problem = problem(failure.reason, failures + 1, now_ms);
        self.start_problems.insert(key, problem);
    }

    pub fn sandbox_failed(&mut self, uid: &PodUid, now_ms: u64) {
        let failures = self.sandbox_problems.get(uid).map_or(0, |p| p.failures);
        let problem = problem("FailedCreatePodSandBox", failures + 1, now_ms);
        self.sandbox_problems.insert(uid.clone(), problem);
    }

    pub fn absorb(&mut self, machine: &Machine, fact: Fact, now: Stamp, dice: &mut Dice) {
        let uid = machine.holder.record.pod.uid.clone();
        let Some(holding) = self.sandboxes.get_mut(&uid) else {
            return;
        };
        match fact {
            Fact::State(state) => {
                let created = holding.see(state);
                self.sandbox_problems.remove(&uid);
                for container in created {
                    self.start_problems.remove(&(uid.clone(), container));
                }
            }
            Fact::Reply { id, reply } => {
                if let Some(Failure::Create(failure)) = holding.hear(id, reply) {
                    self.container_failed(&uid, failure, now.boot_ms);
                }
            }
            Fact::NeverCame(_) => {
                self.sandbox_failed(&uid, now.boot_ms);
                self.cleanings.insert(uid, now.boot_ms + dice.delay_ms());
            }
            Fact::Died => {
                let was_leaving = holding.is_leaving();
                holding.bury(dead(machine.holder.written.as_ref()));
                if was_leaving {
                    self.clean(&uid, now.boot_ms, dice);
                }
            }
        }
    }

    pub fn clean(&mut self, uid: &PodUid, now_ms: u64, dice: &mut Dice) {
        let phase = self.sandboxes.get_mut(uid).map(|h| &mut h.phase);
        if let Some(Phase::Dead(dead)) = phase {
            assert!(!dead.cleaning, "cleaned twice");
            dead.cleaning = true;
            self.cleanings.insert(uid.clone(), now_ms + dice.delay_ms());
        }
    }

    pub fn reconcile_probes(&mut self, orders: BTreeMap<ProbeKey, ProbeOrder>, now_ms: u64) {
        self.probes.retain(|key, probe| {
            let order = orders.get(key);
            order.is_some_and(|order| order.is_same_work(&probe.order))
        });
        for (key, order) in orders {
            let probe = || Probe::new(order, now_ms);
            self.probes.entry(key).or_insert_with(probe);
        }
    }

    /// Runs what is due. True when a verdict changed.
    pub fn run_probes(
        &mut self,
        machines: &BTreeMap<PodUid, Machine>,
        now_ms: u64,
        dice: &mut Dice,
    ) -> bool {
        let mut has_news = false;
        for (key, probe) in &mut self.probes {
            if probe.next_ms > now_ms || probe.tally.is_settled(key.kind) {
                continue;
            }
            probe.next_ms = now_ms + u64::from(probe.order.spec.period_s) * 1000;
            // an error counts as nothing.
            if !dice.fails(20) {
                has_news |= probe.count(ask(machines, key, now_ms));
            }
        }
        has_news
    }

    pub fn wake_at_ms(&self) -> Option<u64> {
        let requests = self.sandboxes.values().filter_map(Holding::next_deadline);
        let unsettled = self
            .probes
            .iter()
            .filter(|(k, p)| !p.tally.is_settled(k.kind));
        requests
            .chain(unsettled.map(|(_, probe)| probe.next_ms))
            .chain(self.cleanings.values().copied())
            .min()
    }

    /// Whether a request that would be made is open already.
    pub fn is_open(&self, uid: &PodUid, asked: &Asked) -> bool {
        self.sandboxes.get(uid).is_some_and(|h| h.is_open(asked))
    }
}

fn dead(written: Option<&HolderState>) -> Dead {
    Dead {
        containers: written
            .map(|state| state.containers.clone())
            .unwrap_or_default(),
        cgroup_empty: false,
        cleaning: false,
    }
}

fn problem(reason: &str, failures: u32, at_boot_ms: u64) -> StartProblem {
    StartProblem {
        reason: reason.into(),
        message: "it failed".into(),
        at_boot_ms,
        failures,
    }
}

fn ask(machines: &BTreeMap<PodUid, Machine>, key: &ProbeKey, now_ms: u64) -> ProbeVerdict {
    let machine = machines.get(&key.uid);
    let mut instances = machine.iter().flat_map(|m| &m.holder.instances);
    let is_good = instances
        .find(|i| i.record.id == key.id)
        .filter(|i| i.is_alive())
        .is_some_and(|i| match key.kind {
            ProbeKind::Startup => i.up_at_ms <= now_ms,
            ProbeKind::Liveness => i.is_healthy,
            ProbeKind::Readiness => i.is_ready,
        });
    if is_good {
        ProbeVerdict::Success
    } else {
        ProbeVerdict::Failure
    }
}
