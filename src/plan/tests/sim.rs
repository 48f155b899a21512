//! A node in memory: performs the plan's actions on a model, with a virtual clock, and checks the laws of each pass.

use std::collections::{BTreeMap, BTreeSet};

use super::fixtures::{at, nothing, pod_record, process, ready, rules};
use crate::holder::proto::{ContainerRecord, Exit, InstanceState, Stamp};
use crate::plan::{
    Action, Desired, Finished, History, ImagePresence, Observed, Plan, Rules, Sandbox,
    SandboxState, StartProblem, container_hash, plan,
};
use crate::pod::{PodUid, StaticPod};

/// How in-flight work ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Luck {
    Good,
    /// Creates fail without a record, sandboxes do not start.
    Bad,
    /// Containers end with a start error.
    StartError,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) desired: Desired,
    pub(super) observed: Observed,
    pub(super) history: History,
    pub(super) rules: Rules,
    pub(super) boot_ms: u64,
    /// Wall clock of boot 0, ms after the usual epoch.
    wall_offset_ms: u64,
    next_id: u64,
    /// Restart count of each create in flight.
    asked: BTreeMap<(PodUid, String), u32>,
    /// Restart count of the newest instance that was ever made. Cleared with the pod.
    made: BTreeMap<(PodUid, String), u32>,
    /// Containers that were out of their pod's spec for a while: their counts may begin anew.
    dropped: BTreeSet<(PodUid, String)>,
    /// Pods that were seen to have finished.
    finished: BTreeSet<PodUid>,
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
        }
    }

    fn now(&self) -> Stamp {
        Stamp {
            boot_ms: self.boot_ms,
            wall: at(self.boot_ms + self.wall_offset_ms).wall,
        }
    }

    fn plan(&self) -> Plan {
        plan(
            &self.desired,
            &self.observed,
            &self.history,
            &self.rules,
            self.now(),
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
        for action in &first.actions {
            self.apply(action);
        }
        let after = self.plan();
        assert_eq!(after.actions, [], "planned again without news");
        assert_eq!(after.events, [], "announced again without news");
        first
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

    fn apply(&mut self, action: &Action) {
        match action {
            Action::StartSandbox { uid, attempt } => self.start_sandbox(uid, *attempt),
            Action::StartContainer {
                uid,
                container,
                restart_count,
            } => self.start_container(uid, container, *restart_count),
            Action::StopContainer {
                uid, id, grace_ms, ..
            } => self.stop_container(uid, id, *grace_ms),
            Action::RemoveContainer { uid, id, .. } => {
                let (containers, _, removing, _) = self.ready(uid);
                let record = containers.iter().find(|c| c.id == *id).unwrap();
                assert!(matches!(record.state, InstanceState::Exited(_)));
                assert!(removing.insert(id.clone()), "removed twice");
            }
            Action::StopSandbox { uid } => {
                let (containers, creating, _, leaving) = self.ready(uid);
                let is_exited = |c: &ContainerRecord| matches!(c.state, InstanceState::Exited(_));
                assert!(containers.iter().all(is_exited) && creating.is_empty());
                assert!(!*leaving, "asked to leave twice");
                *leaving = true;
            }
            Action::CleanSandbox { uid } => {
                let sandbox = self.observed.sandboxes.get_mut(uid).unwrap();
                let SandboxState::Dead { cleaning, .. } = &mut sandbox.state else {
                    panic!("cleaned while alive");
                };
                assert!(!*cleaning, "cleaned twice");
                *cleaning = true;
            }
            Action::ForgetPod { uid, .. } => {
                assert!(!self.observed.sandboxes.contains_key(uid));
                self.made.retain(|(pod, _), _| pod != uid);
                self.finished.remove(uid);
            }
        }
    }

    fn start_sandbox(&mut self, uid: &PodUid, attempt: u32) {
        assert!(!self.finished.contains(uid), "a finished pod was started");
        let pod = &self.desired[uid];
        let rival = self
            .observed
            .sandboxes
            .values()
            .find(|s| s.record.pod.full_name() == pod.full_name());
        assert_eq!(rival, None, "two live sandboxes of one name");
        let sandbox = Sandbox {
            record: pod_record(pod, attempt),
            state: SandboxState::Starting,
        };
        self.observed.sandboxes.insert(uid.clone(), sandbox);
    }

    fn start_container(&mut self, uid: &PodUid, container: &str, restart_count: u32) {
        assert!(!self.finished.contains(uid), "a finished pod was started");
        let key = (uid.clone(), container.to_owned());
        let next = self.made.get(&key).map_or(0, |count| count + 1);
        let is_new = restart_count == 0 && self.dropped.contains(&key);
        assert!(restart_count == next || is_new, "count {restart_count}");
        self.asked.insert(key, restart_count);
        let (containers, creating, _, leaving) = self.ready(uid);
        let is_live = |c: &ContainerRecord| {
            c.name == container && !matches!(c.state, InstanceState::Exited(_))
        };
        assert!(!containers.iter().any(is_live), "started twice");
        assert!(!*leaving, "started in a leaving sandbox");
        assert!(creating.is_empty(), "not one after another");
        creating.insert(container.to_owned());
    }

    fn stop_container(&mut self, uid: &PodUid, id: &str, grace_ms: u64) {
        let kill_at = self.boot_ms + grace_ms.max(2000);
        let (containers, ..) = self.ready(uid);
        let record = containers.iter_mut().find(|c| c.id == id).unwrap();
        let (process, started_at) = match record.state {
            InstanceState::Running {
                process,
                started_at,
            } => (process, started_at),
            InstanceState::Stopping {
                process,
                started_at,
                kill_at_boot_ms,
                ..
            } => {
                assert!(kill_at < kill_at_boot_ms, "stopped twice");
                (process, started_at)
            }
            InstanceState::Exited(_) => panic!("stopped after its end"),
        };
        record.state = InstanceState::Stopping {
            process,
            started_at,
            kill_at_boot_ms: kill_at,
            reason: "told".into(),
        };
    }

    fn ready(
        &mut self,
        uid: &PodUid,
    ) -> (
        &mut Vec<ContainerRecord>,
        &mut BTreeSet<String>,
        &mut BTreeSet<String>,
        &mut bool,
    ) {
        match &mut self.observed.sandboxes.get_mut(uid).unwrap().state {
            SandboxState::Ready {
                containers,
                creating,
                removing,
                leaving,
                ..
            } => (containers, creating, removing, leaving),
            other => panic!("not ready: {other:?}"),
        }
    }

    /// Everything in flight comes to its end. False when nothing was in flight.
    pub(super) fn progress(&mut self, luck: Luck) -> bool {
        let uids: Vec<PodUid> = self.observed.sandboxes.keys().cloned().collect();
        let mut moved = false;
        for uid in uids {
            moved |= self.progress_pod(&uid, luck);
        }
        moved
    }

    fn progress_pod(&mut self, uid: &PodUid, luck: Luck) -> bool {
        match self.observed.sandboxes[uid].state.clone() {
            SandboxState::Starting => self.sandbox_started(uid, luck),
            SandboxState::Dead { cleaning, .. } => {
                if cleaning {
                    self.observed.sandboxes.remove(uid);
                }
                return cleaning;
            }
            SandboxState::Ready { leaving: true, .. } => {
                self.observed.sandboxes.remove(uid);
            }
            SandboxState::Ready {
                creating, removing, ..
            } => {
                let moved = !creating.is_empty() || !removing.is_empty();
                for name in creating {
                    self.created(uid, &name, luck);
                }
                let (containers, _, removing, _) = self.ready(uid);
                containers.retain(|c| !removing.contains(&c.id));
                removing.clear();
                return self.stops_end(uid) || moved;
            }
        }
        true
    }

    fn sandbox_started(&mut self, uid: &PodUid, luck: Luck) {
        let problem = self.problem(
            "FailedCreatePodSandBox",
            self.observed.sandbox_problems.get(uid),
        );
        let state = &mut self.observed.sandboxes.get_mut(uid).unwrap().state;
        match luck {
            Luck::Good | Luck::StartError => {
                *state = ready(Vec::new());
                self.observed.sandbox_problems.remove(uid);
            }
            Luck::Bad => {
                self.observed.sandboxes.remove(uid);
                self.observed.sandbox_problems.insert(uid.clone(), problem);
            }
        }
    }

    fn problem(&self, reason: &str, before: Option<&StartProblem>) -> StartProblem {
        StartProblem {
            reason: reason.into(),
            message: "it failed".into(),
            at_boot_ms: self.boot_ms,
            failures: before.map_or(0, |p| p.failures) + 1,
        }
    }

    fn created(&mut self, uid: &PodUid, name: &str, luck: Luck) {
        let key = (uid.clone(), name.to_owned());
        let problem = self.problem(
            "CreateContainerError",
            self.observed.start_problems.get(&key),
        );
        let spec = self.image_of(uid, name);
        let restart_count = self.asked[&key];
        let now = self.now();
        let id = format!("id{}", self.next_id);
        self.next_id += 1;
        let (containers, creating, ..) = self.ready(uid);
        creating.remove(name);
        let state = match luck {
            Luck::Good => InstanceState::Running {
                process: process(),
                started_at: now,
            },
            Luck::StartError => InstanceState::Exited(Exit {
                started_at: None,
                finished_at: now,
                code: 128,
                signal: None,
                reason: "StartError".into(),
                message: Some("no such file".into()),
            }),
            Luck::Bad => {
                self.observed.start_problems.insert(key, problem);
                return;
            }
        };
        containers.push(ContainerRecord {
            id,
            name: name.to_owned(),
            restart_count,
            hash: container_hash(name, &spec),
            image_id: format!("sha256:{spec}"),
            image: spec,
            log: "/log".into(),
            state,
        });
        self.observed.start_problems.remove(&key);
        self.dropped.remove(&key);
        self.made.insert(key, restart_count);
    }

    fn image_of(&self, uid: &PodUid, name: &str) -> String {
        let record = || &self.observed.sandboxes[uid].record.pod;
        let find = |pod: &StaticPod| {
            let spec = pod.pod.spec.clone().unwrap();
            let container = spec.containers.into_iter().find(|c| c.name == name);
            container.and_then(|c| c.image)
        };
        let desired = self.desired.get(uid).and_then(find);
        desired.or_else(|| find(record())).unwrap_or("app".into())
    }

    fn stops_end(&mut self, uid: &PodUid) -> bool {
        let now = self.now();
        let (containers, ..) = self.ready(uid);
        let mut moved = false;
        for record in containers {
            if let InstanceState::Stopping { started_at, .. } = record.state {
                record.state = exit(started_at, now, 143);
                moved = true;
            }
        }
        moved
    }

    /// The n-th running container of all ends by itself.
    pub(super) fn exit(&mut self, n: usize, code: i32) {
        let now = self.now();
        let running: Vec<&mut ContainerRecord> = self
            .observed
            .sandboxes
            .values_mut()
            .filter_map(|s| match &mut s.state {
                SandboxState::Ready { containers, .. } => Some(containers),
                SandboxState::Starting | SandboxState::Dead { .. } => None,
            })
            .flatten()
            .filter(|c| matches!(c.state, InstanceState::Running { .. }))
            .collect();
        let count = running.len().max(1);
        if let Some(record) = running.into_iter().nth(n % count)
            && let InstanceState::Running { started_at, .. } = record.state
        {
            record.state = exit(started_at, now, code);
        }
    }

    /// The n-th holder dies.
    pub(super) fn kill_holder(&mut self, n: usize) {
        let count = self.observed.sandboxes.len().max(1);
        let Some(sandbox) = self.observed.sandboxes.values_mut().nth(n % count) else {
            return;
        };
        let containers = match &sandbox.state {
            SandboxState::Starting => Vec::new(),
            SandboxState::Ready { containers, .. } => containers.clone(),
            SandboxState::Dead { .. } => return,
        };
        sandbox.state = SandboxState::Dead {
            containers,
            cgroup_empty: false,
            cleaning: false,
        };
    }

    /// What the agent held only in memory is gone; requests in flight have come to their end meanwhile.
    pub(super) fn restart_agent(&mut self) {
        self.progress(Luck::Good);
        self.forget_memory();
    }

    fn forget_memory(&mut self) {
        self.observed.start_problems.clear();
        self.observed.sandbox_problems.clear();
        self.observed.stopping_all = false;
        for sandbox in self.observed.sandboxes.values_mut() {
            if let SandboxState::Dead { cleaning, .. } = &mut sandbox.state {
                *cleaning = false;
            }
        }
        let text = serde_json::to_string(&self.history).unwrap();
        self.history = serde_json::from_str(&text).unwrap();
    }

    /// Power is cut: every process and the run directory are gone.
    pub(super) fn reboot(&mut self) {
        self.forget_memory();
        self.observed.sandboxes.clear();
        self.wall_offset_ms += self.boot_ms;
        self.boot_ms = 1000;
        self.rules.boot_id.push('x');
    }

    /// Every image can be had, or not.
    pub(super) fn set_image(&mut self, image: &str, presence: ImagePresence) {
        self.observed.images.insert(image.to_owned(), presence);
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
            Some(Finished::Succeeded | Finished::Failed) => {
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

fn exit(started_at: Stamp, finished_at: Stamp, code: i32) -> InstanceState {
    InstanceState::Exited(Exit {
        started_at: Some(started_at),
        finished_at,
        code,
        signal: None,
        reason: if code == 0 { "Completed" } else { "Error" }.into(),
        message: None,
    })
}
