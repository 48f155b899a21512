//! Keeps the limits of pods, of QoS classes and of all pods together (C-77, C-85…C-88) as documents and configuration say.
//! Those of a new pod are set before its holder starts; what changes later is written by a thread, since the kernel may
//! have to make room first. What could not be set is tried again with each periodic look.

use std::collections::{BTreeMap, BTreeSet};

use super::conditions::About;
use super::events::{Logged, warning};
use super::news::{News, SandboxId};
use super::sandboxes::Phase;
use super::state::Agent;
use super::store;
use crate::error::chain;
use crate::holder::cgroup::CgroupError;
use crate::holder::limits::LimitError;
use crate::holder::proto::{PodRecord, Stamp};
use crate::oci::limits::{self, Limits, Missing};
use crate::plan::{self, QosClass};
use crate::pod::requests::effective_requests;
use crate::pod::{PodUid, StaticPod};

/// What was set, and for which document.
#[derive(Debug, Default)]
pub struct Kept {
    pods: BTreeMap<PodUid, Pod>,
    classes: BTreeMap<String, Limits>,
    is_writing: bool,
}

/// Of one sandbox.
#[derive(Debug)]
struct Pod {
    serial: u64,
    document_hash: String,
    cgroup: String,
    cpu_milli: u64,
    missing: Vec<Missing>,
    stand: Stand,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// To be written; → `Set` or `Failed` when that is done.
    Due,
    /// In force.
    Set,
    /// → `Due` at the next periodic look.
    Failed,
}

/// One cgroup's limits on the way to the kernel, and back.
#[derive(Debug)]
pub struct Order {
    id: SandboxId,
    document_hash: String,
    cgroup: String,
    limits: Limits,
}

/// How it went.
pub type Outcomes = Vec<(Order, Result<(), LimitError>)>;

impl Kept {
    /// What failed may work now.
    pub fn try_again(&mut self) {
        for pod in self.pods.values_mut() {
            if pod.stand == Stand::Failed {
                pod.stand = Stand::Due;
            }
        }
    }

    /// Nothing could be written.
    fn give_up(&mut self) {
        for pod in self.pods.values_mut() {
            if pod.stand == Stand::Due {
                pod.stand = Stand::Failed;
            }
        }
    }

    /// Thousandths of a CPU that the pods of a class request together.
    fn requested(&self, class: &str) -> u64 {
        let members = self.pods.values().filter(|pod| is_in(&pod.cgroup, class));
        members.fold(0, |sum, pod| sum.saturating_add(pod.cpu_milli))
    }
}

fn is_in(cgroup: &str, class: &str) -> bool {
    cgroup
        .strip_prefix(class)
        .is_some_and(|rest| rest.starts_with('/'))
}

impl Agent {
    /// C-85, N-20: at the start. Memory only if some is kept from pods.
    pub fn limit_all_pods(&mut self) -> Result<(), CgroupError> {
        let can = &self.node.controllers;
        let allocatable = self.rules.allocatable;
        let is_kept = self.config.enforces_allocatable && self.config.reserved.memory > 0;
        // What is unknown is no limit, and nothing is no limit to live with.
        let is_known = |bytes: &u64| can.memory && !matches!(*bytes, 0 | u64::MAX);
        let mut all = limits::of_class(allocatable.cpu_milli, &self.node);
        all.memory = is_kept.then_some(allocatable.memory).filter(is_known);
        if self.node.cpus == 0 {
            all.cpu_shares = None;
        }
        let outcome = self.cgroups.limit(&self.config.cgroup_root, &all);
        self.conditions.report(About::AllPods, outcome);
        for class in QosClass::ALL {
            self.cgroups
                .create(&plan::class_cgroup(&self.config.cgroup_root, class))?;
        }
        Ok(())
    }

    /// Sets those of a sandbox that is about to start.
    pub fn limit_new_pod(&self, record: &PodRecord) -> Result<(), LimitError> {
        let limits = limits::of_pod(&record.pod.pod, &self.node);
        self.cgroups.limit(&record.sandbox.pod_cgroup, &limits)
    }

    /// Those of this new sandbox are set.
    pub fn note_limits(&mut self, id: &SandboxId, now: Stamp) {
        self.look_at(id.uid.clone(), Stand::Set, now);
    }

    /// Finds out what has changed: sandboxes that were adopted, or edited in place, or are gone.
    pub fn keep_limits(&mut self, now: Stamp) {
        let sandboxes = &self.sandboxes;
        self.limits.pods.retain(|uid, pod| {
            sandboxes
                .get(uid)
                .is_some_and(|holding| holding.id.serial == pod.serial)
        });
        let is_known = |uid: &PodUid, pod: &StaticPod| {
            let kept = self.limits.pods.get(uid);
            kept.is_some_and(|kept| kept.document_hash == pod.document_hash)
        };
        let changed: Vec<PodUid> = sandboxes
            .iter()
            .filter(|(uid, holding)| {
                !matches!(holding.phase, Phase::Dead(_))
                    && !is_known(uid, self.desired.get(*uid).unwrap_or(&holding.record.pod))
            })
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in changed {
            self.look_at(uid, Stand::Due, now);
        }
        self.write_limits();
    }

    fn look_at(&mut self, uid: PodUid, stand: Stand, now: Stamp) {
        let Some(holding) = self.sandboxes.get(&uid) else {
            return;
        };
        let pod = self.desired.get(&uid).unwrap_or(&holding.record.pod);
        let missing = limits::missing(&pod.pod, &self.node);
        let event = (!missing.is_empty()).then(|| {
            let texts: Vec<&str> = missing.iter().map(|missing| missing.text()).collect();
            warning(pod, None, "LimitsNotEnforced", texts.join("; "))
        });
        let kept = Pod {
            serial: holding.id.serial,
            document_hash: pod.document_hash.clone(),
            cgroup: holding.record.sandbox.pod_cgroup.clone(),
            cpu_milli: effective_requests(&pod.pod).cpu_milli,
            missing,
            stand,
        };
        self.limits.pods.insert(uid, kept);
        if let Some(event) = event {
            // The node's condition is a line in the log already.
            self.record(event, now, Logged::Never);
        }
    }

    fn write_limits(&mut self) {
        if self.limits.is_writing {
            return;
        }
        let due = self
            .limits
            .pods
            .iter()
            .filter(|(_, kept)| kept.stand == Stand::Due);
        let orders: Vec<Order> = due
            .filter_map(|(uid, kept)| {
                let holding = self.sandboxes.get(uid)?;
                let pod = self.desired.get(uid).unwrap_or(&holding.record.pod);
                Some(Order {
                    id: holding.id.clone(),
                    document_hash: kept.document_hash.clone(),
                    cgroup: kept.cgroup.clone(),
                    limits: limits::of_pod(&pod.pod, &self.node),
                })
            })
            .collect();
        if orders.is_empty() {
            return;
        }
        self.limits.is_writing = true;
        let (news, cgroups) = (self.news.clone(), (*self.cgroups).clone());
        let write = move || {
            let outcome = |order: Order| {
                let outcome = cgroups.limit(&order.cgroup, &order.limits);
                (order, outcome)
            };
            orders.into_iter().map(outcome).collect::<Outcomes>()
        };
        self.executor
            .spawn(async move {
                let outcomes = store::aside("limits", write).await.ok();
                let _ = news.send(News::Limited(outcomes)).await;
            })
            .detach();
    }

    /// Takes in what the thread did.
    pub fn limited(&mut self, outcomes: Option<Outcomes>) {
        self.limits.is_writing = false;
        if outcomes.is_none() {
            self.limits.give_up();
        }
        for (order, outcome) in outcomes.into_iter().flatten() {
            let label = self.pod_label(&order.id.uid);
            let kept = self.limits.pods.get_mut(&order.id.uid).filter(|kept| {
                kept.serial == order.id.serial && kept.document_hash == order.document_hash
            });
            let Some(kept) = kept else { continue };
            let about = About::Limits(order.id.uid);
            match outcome {
                Ok(()) => {
                    kept.stand = Stand::Set;
                    self.conditions.clear(&about);
                }
                Err(error) => {
                    kept.stand = Stand::Failed;
                    let text = format!(
                        "pod {label}: its new limits are not in force yet, they are once its containers have started anew: {}",
                        chain(&error)
                    );
                    self.conditions.set(about, text);
                }
            }
        }
    }

    /// C-86, C-87; and what the kernel lacks, as long as there are pods that ask for it.
    pub fn limit_classes(&mut self) {
        for class in QosClass::ALL {
            let cgroup = plan::class_cgroup(&self.config.cgroup_root, class);
            let requested = match class {
                QosClass::Guaranteed | QosClass::Burstable => self.limits.requested(&cgroup),
                QosClass::BestEffort => 0,
            };
            let limits = limits::of_class(requested, &self.node);
            if self.limits.classes.get(&cgroup) != Some(&limits) {
                let outcome = self.cgroups.limit(&cgroup, &limits);
                self.conditions
                    .report(About::Class(cgroup.clone()), outcome);
                self.limits.classes.insert(cgroup, limits);
            }
        }
        let missing = self
            .limits
            .pods
            .values()
            .flat_map(|pod| pod.missing.clone());
        let missing: BTreeSet<Missing> = missing.collect();
        self.conditions.keep_missing(&missing);
    }
}
