//! Whether the node is short of memory, disk or processes (10.1 of the specification): node conditions, what is given up
//! for it, and what the plan is told. It is looked at with everything else that is looked at once in a while, and at once
//! when the kernel says that processes wait for memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

mod kind;

use super::child::{self, ChildError};
use super::conditions::About;
use super::jobs::Job;
use super::news::News;
use super::state::Agent;
use crate::api::types::NodeCondition;
use crate::config::Threshold;
use crate::error::chain;
use crate::figures::Depth;
use crate::figures::pressure::{self, Shortage};
use crate::holder::proto::Stamp;
use crate::plan;
use crate::pod::{PodUid, lifecycle, quantity};
pub use kind::Kind;
use kind::resource;

/// How long images are left alone after they were looked through: none goes that is younger.
const RECLAIM_PAUSE_MS: u64 = 120_000;

/// Name of the hidden role that removes images: `vetch reclaim-images ROOT RUN NAME…`.
pub const RECLAIM_ROLE: &str = "reclaim-images";

/// Longest that figures of pods are waited for.
const WEIGHING_LIMIT: Duration = Duration::from_secs(60);

/// What is known of it.
#[derive(Debug)]
pub struct Pressure {
    /// When each kind was seen last, CLOCK_BOOTTIME ms; only those that hold (N-5).
    seen: BTreeMap<Kind, u64>,
    /// When each kind began or ended last.
    turned: BTreeMap<Kind, Timestamp>,
    /// Of the last look.
    shortages: Vec<Shortage>,
    /// No images are looked through before, CLOCK_BOOTTIME ms.
    next_reclaim_boot_ms: u64,
    /// Removing images.
    reclaim: Job,
    /// Which unused images are left, in words; empty until it is known.
    unused: String,
    /// Weighing pods.
    weighing: Job,
    /// What pods use, for the first shortage.
    weighed: Option<Weighed>,
}

/// What pods use.
#[derive(Debug)]
struct Weighed {
    at_boot_ms: u64,
    pods: Value,
}

impl Pressure {
    /// None so far.
    pub fn new(now: Stamp) -> Self {
        Self {
            seen: BTreeMap::new(),
            turned: Kind::ALL.map(|kind| (kind, now.wall)).into(),
            shortages: Vec::new(),
            next_reclaim_boot_ms: 0,
            reclaim: Job::Idle,
            unused: String::new(),
            weighing: Job::Idle,
            weighed: None,
        }
    }

    /// Takes in what a look found.
    fn update(&mut self, shortages: Vec<Shortage>, (transition, now): (Duration, Stamp)) {
        let transition_ms = u64::try_from(transition.as_millis()).unwrap_or(u64::MAX);
        let met: BTreeSet<Kind> = shortages.iter().map(|s| Kind::of(s.signal)).collect();
        for kind in Kind::ALL {
            let held = self.seen.contains_key(&kind);
            if met.contains(&kind) {
                self.seen.insert(kind, now.boot_ms);
            }
            let is_over = |at: &u64| now.boot_ms.saturating_sub(*at) >= transition_ms;
            if !met.contains(&kind) && self.seen.get(&kind).is_some_and(is_over) {
                self.seen.remove(&kind);
            }
            if held != self.seen.contains_key(&kind) {
                self.turned.insert(kind, now.wall);
            }
        }
        if !self.seen.contains_key(&Kind::Disk) {
            self.unused.clear();
        }
        self.shortages = shortages;
        if self.shortages.is_empty() {
            self.weighed = None;
        }
    }

    /// For clients.
    pub fn conditions(&self) -> Vec<NodeCondition> {
        let condition = |kind: Kind| {
            let holds = self.seen.contains_key(&kind);
            let (name, when_true, when_false) = kind.words();
            let [reason, words] = if holds { when_true } else { when_false };
            let mut message = words.to_owned();
            if kind == Kind::Disk && !self.unused.is_empty() {
                message = format!("{words}; {}", self.unused);
            }
            NodeCondition {
                kind: name.to_owned(),
                status: if holds { "True" } else { "False" }.to_owned(),
                reason: reason.to_owned(),
                message,
                last_transition_time: self.turned.get(&kind).copied().unwrap_or_default(),
            }
        };
        Kind::ALL.map(condition).into()
    }

    /// For the plan.
    pub fn observe(&self) -> plan::Pressure {
        let lasting = self.seen.keys().flat_map(|kind| kind.resources());
        let shortage = self.shortages.first().zip(self.weighed.as_ref());
        plan::Pressure {
            lasting: lasting.copied().collect(),
            shortage: shortage.map(|(shortage, weighed)| plan::Shortage {
                resource: resource(shortage.signal),
                message: message(shortage),
                weighed_at_boot_ms: weighed.at_boot_ms,
                usage: usage(&weighed.pods, resource(shortage.signal)),
            }),
        }
    }

    fn is_short_of_disk(&self) -> bool {
        let mut kinds = self.shortages.iter().map(|s| Kind::of(s.signal));
        kinds.any(|kind| kind == Kind::Disk)
    }

    /// N-6: what images can give goes before pods do.
    fn is_reclaim_due(&self, now: Stamp) -> bool {
        self.is_short_of_disk() && now.boot_ms >= self.next_reclaim_boot_ms
    }
}

/// N-10.
fn message(shortage: &Shortage) -> String {
    let threshold = shortage.threshold.of(shortage.level.capacity);
    format!(
        "The node was low on resource: {}. Threshold quantity: {}, available: {}.",
        resource(shortage.signal).as_str(),
        quantity::text(threshold),
        quantity::text(shortage.level.available)
    )
}

/// Of the pods of a summary.
fn usage(pods: &Value, resource: plan::Resource) -> BTreeMap<PodUid, u64> {
    let path = match resource {
        plan::Resource::Memory => "/memory/workingSetBytes",
        plan::Resource::Disk => "/ephemeral-storage/usedBytes",
        plan::Resource::Inodes => "/ephemeral-storage/inodesUsed",
        plan::Resource::Pids => "/process_stats/process_count",
    };
    let pods = pods.as_array().into_iter().flatten();
    pods.filter_map(|pod| {
        let uid = pod.pointer("/podRef/uid")?.as_str()?.to_owned();
        let amount = pod.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        Some((PodUid::try_from(uid).ok()?, amount))
    })
    .collect()
}

impl Agent {
    /// Looks how much there is of everything.
    pub fn look_for_pressure(&mut self, now: Stamp) {
        let eviction = &self.config.eviction;
        if eviction.thresholds.is_empty() {
            return;
        }
        let shortages = pressure::look(&self.config.paths).shortages(&eviction.thresholds);
        self.pressure.update(shortages, (eviction.transition, now));
        for kind in Kind::ALL {
            match self.told(kind) {
                Some(text) => self.conditions.set(About::Pressure(kind), text),
                None if !self.pressure.seen.contains_key(&kind) => {
                    self.conditions.clear(&About::Pressure(kind));
                }
                // It is over, but not for long enough.
                None => {}
            }
        }
        self.pressure.weighed = None;
        self.weigh_pods(now);
    }

    /// In words that stay the same while it lasts. None while there is enough.
    fn told(&self, kind: Kind) -> Option<String> {
        let of_kind = |s: &&Shortage| Kind::of(s.signal) == kind;
        let limits: Vec<String> = self
            .pressure
            .shortages
            .iter()
            .filter(of_kind)
            .map(limit)
            .collect();
        if limits.is_empty() {
            return None;
        }
        let limits = limits.join(", ");
        let root_dir = self.config.paths.root_dir.display();
        Some(match kind {
            Kind::Memory => {
                format!("memory pressure: {limits}; see `vetch top pods --sort-by memory`")
            }
            Kind::Disk => {
                let unused = &self.pressure.unused;
                let text = format!("{limits} of the file system of {root_dir}; {unused}");
                format!("disk pressure: {}", text.trim_end_matches("; "))
            }
            Kind::Pid => format!("pid pressure: {limits}"),
        })
    }

    /// N-6: what images can give goes first. Asked for in each pass; does something once in a while.
    pub fn start_reclaim(&mut self, now: Stamp) {
        let pressure = &mut self.pressure;
        if !pressure.is_reclaim_due(now)
            || pressure.reclaim == Job::Running
            || !self.manifests.has_delivered
        {
            return;
        }
        pressure.reclaim = Job::Running;
        pressure.next_reclaim_boot_ms = now.boot_ms.saturating_add(RECLAIM_PAUSE_MS);
        let dirs = [&self.config.paths.root_dir, &self.config.paths.run_dir];
        let known = self.desired.values();
        let started = self.sandboxes.values().map(|holding| &holding.record.pod);
        let wanted = known
            .chain(started)
            .flat_map(|pod| lifecycle::images(&pod.pod));
        let args: Vec<OsString> = std::iter::once(RECLAIM_ROLE.into())
            .chain(dirs.map(|dir| dir.clone().into_os_string()))
            .chain(wanted.map(OsString::from))
            .collect();
        let news = self.news.clone();
        self.executor
            .spawn(async move {
                let outcome = child::run(&args).await;
                let _ = news.send(News::Reclaimed(outcome)).await;
            })
            .detach();
    }

    /// It is looked at once more: perhaps that was enough.
    pub fn reclaimed(&mut self, outcome: Result<String, ChildError>, now: Stamp) {
        self.pressure.reclaim = Job::Idle;
        match outcome {
            Ok(unused) => self.pressure.unused = unused,
            Err(e) => self.log.warn(format_args!("unused images: {}", chain(&e))),
        }
        self.look_for_pressure(now);
    }

    /// D-8: before a pod is ended, it must be known what each of them uses.
    fn weigh_pods(&mut self, now: Stamp) {
        let pressure = &mut self.pressure;
        let is_busy = pressure.weighing == Job::Running || pressure.reclaim == Job::Running;
        if !self.config.eviction.of_pods
            || pressure.shortages.is_empty()
            || self.sandboxes.is_empty()
            || pressure.is_reclaim_due(now)
            || is_busy
        {
            return;
        }
        pressure.weighing = Job::Running;
        let depth = match pressure.is_short_of_disk() {
            true => Depth::Everything,
            false => Depth::CpuAndMemory,
        };
        let args = self.question(depth).args();
        let news = self.news.clone();
        self.executor
            .spawn(async move {
                let outcome = child::ask(&args, WEIGHING_LIMIT).await;
                let _ = news.send(News::Weighed(outcome)).await;
            })
            .detach();
    }

    /// What they use, or why that is not known.
    pub fn weighed(&mut self, outcome: Result<Vec<u8>, ChildError>, now: Stamp) {
        self.pressure.weighing = Job::Idle;
        let answer = outcome.map_err(|error| chain(&error));
        let summary = answer.and_then(|body| {
            serde_json::from_slice::<Value>(&body).map_err(|error| error.to_string())
        });
        match summary {
            Ok(mut summary) if !self.pressure.shortages.is_empty() => {
                self.pressure.weighed = Some(Weighed {
                    at_boot_ms: now.boot_ms,
                    pods: summary["pods"].take(),
                });
            }
            Ok(_) => {}
            Err(why) => self.log.warn(format_args!("weigh pods: {why}")),
        }
    }
}

/// `nodefs.available is below 10%`.
fn limit(shortage: &Shortage) -> String {
    let threshold = match shortage.threshold {
        Threshold::Amount(amount) => quantity::text(amount),
        Threshold::Share(share) if share.is_multiple_of(1000) => format!("{}%", share / 1000),
        Threshold::Share(share) => format!("{:.3}%", f64::from(share) / 1000.0),
    };
    format!("{} is below {threshold}", shortage.signal.as_str())
}

#[cfg(test)]
mod tests;
