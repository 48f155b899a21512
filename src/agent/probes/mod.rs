//! The probes that run now: one task for each of the plan's. A task tells the loop only what somebody has to know: that
//! its verdict changed, or that a run went badly. The first leads to a pass, the second only to an event.
//!
//! | file | what it has |
//! |---|---|
//! | `task` | the life of one probe: run, count, tell, hold |
//! | `schedule` | when it runs |

mod schedule;
mod task;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};

use smol::Task;

use self::schedule::Schedule;
use self::task::Runner;
use super::events::{Logged, warning};
use super::sandboxes::Phase;
use super::state::{Agent, Need};
use crate::plan::{Finding, ProbeKey, ProbeOrder, ProbeVerdict};
use crate::pod::probe::ProbeKind;
use crate::probe::{Network, Target};
use crate::sys::clock::{self, Stamp};

/// Every probe that runs.
#[derive(Debug)]
pub struct Probes {
    running: BTreeMap<ProbeKey, Running>,
    /// When this agent started, CLOCK_BOOTTIME ms.
    agent_since_boot_ms: u64,
    /// Gives each probe its random part of a period.
    dice: RandomState,
}

/// One of them. Its task ends with the value, and the run that is under way with it.
#[derive(Debug)]
struct Running {
    order: ProbeOrder,
    finding: Option<Finding>,
    /// What the last run said that failed or found nothing out. Only for people.
    last_failure: Option<String>,
    /// What the log has told of this instance's runs.
    logged: BTreeSet<Ill>,
    _task: Task<()>,
}

/// What a task tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Whose.
    pub key: ProbeKey,
    /// The run went badly.
    pub complaint: Option<Complaint>,
    /// The verdict has changed.
    pub finding: Option<Finding>,
}

/// what is to be said about one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// In which way it went badly.
    pub ill: Ill,
    /// At most 10 KiB.
    pub text: String,
}

/// In which way a run went badly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ill {
    /// It failed.
    Failed,
    /// It succeeded, and yet.
    Doubtful,
    /// nothing was found out.
    Errored,
}

impl Probes {
    /// None yet, for an agent that starts now.
    pub fn new(now: Stamp) -> Self {
        Self {
            running: BTreeMap::new(),
            agent_since_boot_ms: now.boot_ms,
            dice: RandomState::new(),
        }
    }

    /// For the plan.
    pub fn findings(&self) -> BTreeMap<ProbeKey, Finding> {
        let found = |(key, running): (&ProbeKey, &Running)| {
            let finding = running.finding.clone()?;
            Some((key.clone(), finding))
        };
        self.running.iter().filter_map(found).collect()
    }

    /// For people: the verdict of this probe, and what its last run said that did not go well.
    pub fn told(&self, key: &ProbeKey) -> (Option<&Finding>, Option<&str>) {
        let running = self.running.get(key);
        (
            running.and_then(|running| running.finding.as_ref()),
            running.and_then(|running| running.last_failure.as_deref()),
        )
    }

    fn schedule(&self, key: &ProbeKey, order: &ProbeOrder, now: Stamp) -> Schedule {
        let agent_age_ms = now.boot_ms.saturating_sub(self.agent_since_boot_ms);
        let random = self.dice.hash_one((key.uid.as_str(), &key.id, key.kind));
        Schedule::new(order, now.boot_ms, (agent_age_ms, random))
    }
}

impl Agent {
    /// Makes the tasks those of the plan. What stays is left alone.
    pub fn reconcile_probes(&mut self, orders: BTreeMap<ProbeKey, ProbeOrder>, now: Stamp) {
        self.probes.running.retain(|key, running| {
            let order = orders.get(key);
            order.is_some_and(|order| order.is_same_work(&running.order))
        });
        for (key, order) in orders {
            if !self.probes.running.contains_key(&key) {
                self.start_probe(key, order, now);
            }
        }
    }

    fn start_probe(&mut self, key: ProbeKey, order: ProbeOrder, now: Stamp) {
        let Some(target) = self.target(&key) else {
            // The holder is gone; the next plan has no probe of it.
            return;
        };
        let schedule = self.probes.schedule(&key, &order, now);
        let runner = Runner::new(key.clone(), &order, (target, schedule), self.news.clone());
        let running = Running {
            _task: self.executor.spawn(runner.live()),
            order,
            finding: None,
            last_failure: None,
            logged: BTreeSet::new(),
        };
        self.probes.running.insert(key, running);
    }

    fn target(&self, key: &ProbeKey) -> Option<Target> {
        let holding = self.sandboxes.get(&key.uid)?;
        let Phase::Connected(state) = &holding.phase else {
            return None;
        };
        let network = if holding.record.sandbox.host_network {
            Network::Host
        } else {
            Network::Pod(state.process)
        };
        Some(Target {
            network,
            holder: self.config.paths.holder(&key.uid),
            container_id: key.id.clone(),
        })
    }

    /// Takes in what a task tells; one that was ended meanwhile has nothing to say.
    pub fn probe_reported(&mut self, report: Report) -> Need {
        let Report {
            key,
            complaint,
            finding,
        } = report;
        let Some(running) = self.probes.running.get_mut(&key) else {
            return Need::Nothing;
        };
        let container = running.order.container.clone();
        // A line for each change: the verdict's, and each way to go badly that is new with this instance.
        let is_new = complaint
            .as_ref()
            .is_some_and(|complaint| running.logged.insert(complaint.ill));
        let verdict = finding.as_ref().map(|finding| finding.verdict);
        running.last_failure = said(complaint.as_ref(), running.last_failure.take());
        let need = if finding.is_some() {
            running.finding = finding;
            Need::Pass
        } else {
            Need::Nothing
        };
        if let Some(complaint) = complaint {
            let logged = if is_new || verdict.is_some() {
                Logged::Always
            } else {
                Logged::Never
            };
            self.complain((&key, container), complaint, logged);
        } else if verdict == Some(ProbeVerdict::Success) {
            let pod = self.pod_label(&key.uid);
            let kind = key.kind.as_str();
            self.log
                .info(format_args!("{pod} {container}: {kind} probe succeeds"));
        }
        need
    }

    ///
    fn complain(
        &mut self,
        (key, container): (&ProbeKey, String),
        complaint: Complaint,
        logged: Logged,
    ) {
        let Some(holding) = self.sandboxes.get(&key.uid) else {
            return;
        };
        let pod = &holding.record.pod;
        let (reason, message) = words(key.kind, &complaint);
        let event = warning(pod, Some(&container), reason, message);
        self.record(event, clock::now(), logged);
        self.rise();
    }
}

/// What the last run that failed or erred said, after this one. One that is told and has no complaint went well.
fn said(complaint: Option<&Complaint>, before: Option<String>) -> Option<String> {
    let complaint = complaint?;
    match complaint.ill {
        Ill::Failed | Ill::Errored => Some(complaint.text.clone()),
        Ill::Doubtful => before,
    }
}

/// Reason and message of an event, in kubelet's words.
fn words(kind: ProbeKind, complaint: &Complaint) -> (&'static str, String) {
    let Complaint { ill, text } = complaint;
    let kind = kind.as_str();
    match ill {
        Ill::Failed => ("Unhealthy", format!("{kind} probe failed: {text}")),
        Ill::Doubtful => ("ProbeWarning", format!("{kind} probe warning: {text}")),
        Ill::Errored => (
            "Unhealthy",
            format!("{kind} probe errored and resulted in unknown state: {text}"),
        ),
    }
}
