//! A node in memory with a virtual clock: the laws of each pass, and where everything has to end.

use std::collections::{BTreeMap, BTreeSet};

use super::fixtures::{at, nothing, rules};
use super::sim_node::Luck;
use crate::holder::proto::{InstanceState, Stamp};
use crate::plan::{
    Action, Desired, Finished, Halt, History, Observed, Plan, Rules, SandboxState, container_hash,
    plan,
};
use crate::pod::{PodUid, StaticPod};

#[derive(Debug)]
pub(super) struct World {
    pub(super) desired: Desired,
    pub(super) observed: Observed,
    pub(super) history: History,
    pub(super) rules: Rules,
    pub(super) boot_ms: u64,
    /// Wall clock of boot 0, ms after the usual epoch.
    pub(super) wall_offset_ms: u64,
    pub(super) next_id: u64,
    /// Restart count of each create in flight.
    pub(super) asked: BTreeMap<(PodUid, String), u32>,
    /// Restart count of the newest instance that was ever made. Cleared with the pod.
    pub(super) made: BTreeMap<(PodUid, String), u32>,
    /// Containers that were out of their pod's spec for a while: their counts may begin anew.
    pub(super) dropped: BTreeSet<(PodUid, String)>,
    /// Pods that were seen to have finished.
    pub(super) finished: BTreeSet<PodUid>,
    /// Final phases that were shown.
    pub(super) final_phases: BTreeMap<PodUid, String>,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            desired: Desired::new(),
            observed: nothing(),
            history: History::default(),
            rules: rules(),
            boot_ms: 1000,
            wall_offset_ms: 0,
            next_id: 0,
            asked: BTreeMap::new(),
            made: BTreeMap::new(),
            dropped: BTreeSet::new(),
            finished: BTreeSet::new(),
            final_phases: BTreeMap::new(),
        }
    }

    pub(super) fn now(&self) -> Stamp {
        Stamp {
            boot_ms: self.boot_ms,
            wall: at(self.boot_ms + self.wall_offset_ms).wall,
        }
    }

    fn plan(&self) -> Plan {
        self.plan_at(self.boot_ms)
    }

    fn plan_at(&self, boot_ms: u64) -> Plan {
        let now = Stamp {
            boot_ms,
            wall: at(boot_ms + self.wall_offset_ms).wall,
        };
        plan(
            &self.desired,
            &self.observed,
            &self.history,
            &self.rules,
            now,
        )
    }

    /// One pass and its actions; then a second one, which must have nothing to say.
    pub(super) fn pass(&mut self) -> Plan {
        self.note_dropped();
        let first = self.plan();
        self.check(&first);
        self.history = first.history.clone();
        let again = self.plan();
        assert_eq!(again.events, [], "an event was repeated");
        if first.history == again.history {
            assert_eq!(again.notes, first.notes);
            assert_eq!(again.pods, first.pods);
        }
        assert_eq!(again.history, first.history, "history moved without news");
        self.check_later(&first);
        for action in &first.actions {
            self.apply(action);
        }
        let after = self.plan();
        assert_eq!(after.actions, [], "planned again without news");
        assert_eq!(after.events, [], "announced again without news");
        first
    }

    /// Until the next pass that was asked for, time alone changes nothing that is shown. Where an answer is awaited anyway
    /// (of a source, of a sandbox that comes or goes), none is asked for.
    fn check_later(&self, plan: &Plan) {
        let is_awaited = |state: &SandboxState| match state {
            SandboxState::Ready { leaving, .. } => *leaving,
            SandboxState::Starting | SandboxState::Dead { .. } => true,
        };
        let mut sandboxes = self.observed.sandboxes.values();
        if self.observed.sources_ready
            && plan.actions.is_empty()
            && !sandboxes.any(|sandbox| is_awaited(&sandbox.state))
        {
            let later = plan.wake_at_boot_ms.unwrap_or(self.boot_ms + 1_000_000) - 1;
            let shown = self.plan_at(later).pods;
            assert_eq!(shown, plan.pods, "status moved by itself");
        }
    }

    /// P-111. All pods that are ended together show how they ended, and run again after it; one that comes back while it
    /// is ended is another one already.
    fn check_phases(&mut self, plan: &Plan) {
        self.final_phases
            .retain(|uid, _| plan.history.pods.contains_key(uid));
        for (uid, pod) in &plan.pods {
            let status = pod.status.as_ref().unwrap();
            let phase = status.phase.clone().unwrap();
            let is_ending = plan.history.pods[uid].ending.is_some();
            let came_back = is_ending && self.desired.contains_key(uid);
            if self.forgets(plan, uid) || self.observed.halt != Halt::No || came_back {
                self.final_phases.remove(uid);
                continue;
            }
            if let Some(before) = self.final_phases.get(uid) {
                assert_eq!(phase, *before, "{uid}: a final phase changed");
            }
            if matches!(phase.as_str(), "Succeeded" | "Failed") {
                self.final_phases.insert(uid.clone(), phase);
            }
        }
    }

    fn note_dropped(&mut self) {
        for key in self.made.keys() {
            let spec = self.desired.get(&key.0).and_then(|p| p.pod.spec.as_ref());
            if spec.is_some_and(|s| s.containers.iter().all(|c| c.name != key.1)) {
                self.dropped.insert(key.clone());
            }
        }
    }

    fn check(&mut self, plan: &Plan) {
        let is_addition = |a: &Action| {
            matches!(
                a,
                Action::StartSandbox { .. } | Action::StartContainer { .. }
            )
        };
        let additions: Vec<bool> = plan.actions.iter().map(is_addition).collect();
        assert!(additions.is_sorted(), "addition before removal");
        assert!(
            plan.wake_at_boot_ms.is_none_or(|at| at > self.boot_ms),
            "hot loop"
        );
        let text = serde_json::to_string(&plan.history).unwrap();
        let back: History = serde_json::from_str(&text).unwrap();
        assert_eq!(back, plan.history);
        self.check_phases(plan);
        for (uid, memory) in &plan.history.pods {
            if self.finished.contains(uid) && !self.forgets(plan, uid) {
                assert!(memory.finished.is_some(), "a finished pod came back");
            }
            if memory.finished.is_some() {
                self.finished.insert(uid.clone());
            }
        }
    }

    fn forgets(&self, plan: &Plan, uid: &PodUid) -> bool {
        plan.actions
            .iter()
            .any(|a| matches!(a, Action::ForgetPod { uid: gone, .. } if gone == uid))
    }

    /// Passes, good luck and time until nothing moves any more.
    pub(super) fn settle(&mut self) -> Plan {
        for _ in 0..500 {
            let plan = self.pass();
            if self.progress(Luck::Good) || !plan.actions.is_empty() {
                continue;
            }
            match plan.wake_at_boot_ms {
                Some(at) => self.boot_ms = at,
                None => return plan,
            }
        }
        panic!("never settles");
    }

    /// The node is as desired: nothing else, everything of it, in its last version.
    pub(super) fn check_settled(&self) {
        for uid in self.observed.sandboxes.keys() {
            assert!(self.desired.contains_key(uid), "{uid} is left over");
        }
        let known: Vec<&PodUid> = self.history.pods.keys().collect();
        let wanted: Vec<&PodUid> = self.desired.keys().collect();
        assert_eq!(known, wanted);
        for (uid, pod) in &self.desired {
            self.check_pod(uid, pod);
        }
    }

    fn check_pod(&self, uid: &PodUid, pod: &StaticPod) {
        let memory = &self.history.pods[uid];
        assert_eq!(memory.ending, None);
        let sandbox = self.observed.sandboxes.get(uid);
        match memory.finished {
            Some(Finished::Succeeded | Finished::Failed | Finished::DeadlineExceeded) => {
                assert_eq!(sandbox, None, "a finished pod keeps its sandbox");
                return;
            }
            None => {}
        }
        let Some(SandboxState::Ready { containers, .. }) = sandbox.map(|s| &s.state) else {
            panic!("{uid} does not run: {sandbox:?}");
        };
        let spec = pod.pod.spec.as_ref().unwrap();
        for c in &spec.containers {
            let records = || containers.iter().filter(|r| r.name == c.name);
            let live = records().filter(|r| matches!(r.state, InstanceState::Running { .. }));
            let hashes: Vec<&String> = live.map(|r| &r.hash).collect();
            let hash = container_hash(&c.name, c.image.as_deref().unwrap());
            let is_over = spec.restart_policy.as_deref() != Some("Always")
                && memory.containers[&c.name].last.is_some();
            assert!(
                hashes == [&hash] || (hashes.is_empty() && is_over),
                "{uid} {}: {hashes:?}",
                c.name
            );
            assert!(records().count() <= 2, "too many dead instances");
        }
    }
}
