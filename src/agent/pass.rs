//! One pass: gather what is wanted and what is seen, plan, remember, act, show. The same for every wake-up.

use std::collections::BTreeMap;

use super::conditions::About;
use super::state::Agent;
use super::view::Shown;
use crate::holder::proto::Stamp;
use crate::plan::{self, Action, Halt, ImagePresence, Observed, Plan};
use crate::pod::{PodUid, lifecycle};

/// What the loop does after a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Wait for news, not longer than until this CLOCK_BOOTTIME ms.
    WaitUntil(u64),
    /// The agent's work is done.
    Quit,
}

impl Agent {
    /// Runs one pass.
    pub fn pass(&mut self, now: Stamp) -> Next {
        if self.wishes.leave {
            return Next::Quit;
        }
        self.rescan_if_due(now);
        self.expire(now);
        self.drop_old_problems();
        let observed = self.observe();
        let plan = plan::plan(&self.desired, &observed, &self.history, &self.rules, now);
        let Plan {
            actions,
            history,
            wake_at_boot_ms,
            notes,
            events,
            probes,
            restarts,
            pods,
        } = plan;
        // S-160: the old things of a pod that came back go before the record of the new one is written.
        let is_forgetting = |action: &Action| matches!(action, Action::ForgetPod { .. });
        let (forgetting, actions): (Vec<_>, Vec<_>) = actions.into_iter().partition(is_forgetting);
        for action in forgetting {
            self.apply(action, now);
        }
        self.records.note_changes(&self.history, &history);
        self.history = history;
        self.save_records();
        if self.manifests.has_delivered && !std::mem::replace(&mut self.is_tidy, true) {
            self.throw_orphaned_pods();
        }
        let has_events = !events.is_empty();
        for event in events {
            self.record_of_plan(event, now);
        }
        self.keep_limits(now);
        let is_over = self.wishes.stop && self.sandboxes.is_empty() && actions.is_empty();
        for action in actions {
            self.apply(action, now);
        }
        self.limit_classes();
        self.reconcile_probes(probes, now);
        self.renew_volumes(now);
        self.start_jobs();
        self.start_reclaim(now);
        let shown = Shown {
            pods,
            notes: notes.into_iter().chain(self.volumes.notes()).collect(),
            restarts,
            conditions: self.conditions.texts(),
        };
        self.view.show(shown);
        if has_events {
            self.rise();
        }
        self.wake_at_boot_ms = wake_at_boot_ms;
        if is_over {
            return Next::Quit;
        }
        Next::WaitUntil(self.next_wake())
    }

    fn next_wake(&self) -> u64 {
        let deadlines = self.sandboxes.values().filter_map(|h| h.next_deadline());
        deadlines
            .chain(self.wake_at_boot_ms)
            .fold(self.manifests.wake_at_boot_ms(), u64::min)
    }

    fn expire(&mut self, now: Stamp) {
        let mut failures = Vec::new();
        for (uid, holding) in &mut self.sandboxes {
            let expired = holding.expire(now.boot_ms);
            failures.extend(expired.into_iter().map(|failure| (uid.clone(), failure)));
        }
        for (uid, failure) in failures {
            self.container_failed(&uid, failure, now);
        }
    }

    /// What is seen right now.
    pub fn observe(&mut self) -> Observed {
        Observed {
            sandboxes: self
                .sandboxes
                .iter()
                .map(|(uid, holding)| (uid.clone(), holding.observe()))
                .collect(),
            images: self.image_presence(),
            start_problems: self.problems.containers.clone(),
            sandbox_problems: self.problems.sandboxes.clone(),
            probes: self.probes.findings(),
            pressure: self.pressure.observe(),
            halt: match self.wishes.drain {
                _ if self.wishes.stop => Halt::AgentStop,
                Some(since_boot_ms) => Halt::NodeShutdown { since_boot_ms },
                None => Halt::No,
            },
            sources_ready: self.manifests.has_delivered,
        }
    }

    fn image_presence(&mut self) -> BTreeMap<String, ImagePresence> {
        let names = self
            .desired
            .values()
            .flat_map(|pod| lifecycle::images(&pod.pod));
        let mut seen = BTreeMap::new();
        for name in names {
            if !self.images.contains_key(name) {
                self.images
                    .insert(name.to_owned(), self.store.presence(name));
            }
            if let Some(presence) = self.images.get(name) {
                seen.insert(name.to_owned(), presence.clone());
            }
        }
        seen
    }

    fn save_records(&mut self) {
        let pod_of = |uid: &PodUid| {
            let started = || self.sandboxes.get(uid).map(|h| &h.record.pod);
            self.desired.get(uid).or_else(started)
        };
        let outcome = self
            .records
            .save(&self.config.paths, &self.history.pods, pod_of);
        let outcome = outcome.and(self.renew_sandbox_records());
        let outcome = outcome.and(self.save_objects());
        self.conditions.report(About::Records, outcome);
    }
}
