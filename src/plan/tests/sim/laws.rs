//! What holds in each pass, whatever happens. Judged by facts that were seen, not by what the plan remembers, as far as
//! that is possible.

use std::collections::{BTreeMap, BTreeSet};

use super::holder::Signal;
use super::rounds::Rounds;
use super::{reasons, timing};
use crate::holder::proto::{ContainerRecord, HookState, InstanceState, Stamp};
use crate::plan::{
    Action, Desired, EndingCause, Finished, Halt, History, Observed, Plan, PodHistory, Rules,
    SandboxState, container_hash,
};
use crate::pod::lifecycle::{self, Role};
use crate::pod::ports::{HostPort, host_ports};
use crate::pod::{PodUid, StaticPod};

/// One pass.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    pub desired: &'a Desired,
    pub observed: &'a Observed,
    pub before: &'a History,
    pub rules: &'a Rules,
    pub now: Stamp,
    pub true_ms: u64,
    pub plan: &'a Plan,
}

impl<'a> Scene<'a> {
    pub fn records(&self, uid: &PodUid) -> &'a [ContainerRecord] {
        match self.observed.sandboxes.get(uid).map(|s| &s.state) {
            Some(
                SandboxState::Ready { containers, .. } | SandboxState::Dead { containers, .. },
            ) => containers,
            Some(SandboxState::Starting) | None => &[],
        }
    }

    pub fn memory(&self, uid: &PodUid) -> &'a PodHistory {
        &self.plan.history.pods[uid]
    }

    /// Its containers are to run.
    pub fn is_to_run(&self, uid: &PodUid) -> bool {
        let memory = self.memory(uid);
        self.desired.contains_key(uid)
            && self.observed.halt == Halt::No
            && memory.ending.is_none()
            && memory.finished.is_none()
    }
}

pub fn is_live(record: &ContainerRecord) -> bool {
    !matches!(record.state, InstanceState::Exited(_))
}

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Laws {
    rounds: Rounds,
    finished: BTreeMap<PodUid, Finished>,
    /// S-160: pods that were seen to be on their way out for good.
    removed: BTreeSet<PodUid>,
    /// Final phases that were shown.
    phases: BTreeMap<PodUid, String>,
    /// True time at which a pod was first planned, and in which boot.
    since: BTreeMap<PodUid, (u64, u64)>,
    pub boots: u64,
    /// Highest restart count that was seen of a container.
    counts: BTreeMap<(PodUid, String), u32>,
    /// Ids whose startup probe has succeeded.
    pub started: BTreeSet<String>,
    /// Ids that a probe wanted to end.
    pub failed: BTreeSet<String>,
}

impl Laws {
    /// Everything of this pod is gone.
    fn forget(&mut self, uid: &PodUid) {
        self.finished.remove(uid);
        self.phases.remove(uid);
        self.removed.remove(uid);
        self.since.remove(uid);
        self.counts.retain(|(pod, _), _| pod != uid);
        self.rounds.forget(uid);
    }

    /// Nothing came of a plan but its first removals.
    pub fn forget_some(&mut self, plan: &Plan, count: usize) {
        let forgotten = plan.actions.iter().filter_map(|action| match action {
            Action::ForgetPod { uid, .. } => Some(uid),
            Action::StartSandbox { .. }
            | Action::StartContainer { .. }
            | Action::StopContainer { .. }
            | Action::RemoveContainer { .. }
            | Action::StopSandbox { .. }
            | Action::CleanSandbox { .. } => None,
        });
        for uid in forgotten.take(count) {
            self.forget(uid);
        }
    }

    pub fn check(&mut self, scene: Scene<'_>) {
        self.hear_probes(scene);
        let is_forgotten = |uid: &PodUid| {
            let forgets = |a: &Action| matches!(a, Action::ForgetPod { uid: u, .. } if u == uid);
            scene.plan.actions.iter().any(forgets)
        };
        for uid in scene.before.pods.keys().filter(|uid| is_forgotten(uid)) {
            self.forget(uid);
        }
        self.rounds.see(scene);
        check_order(scene);
        timing::check_wake(scene);
        for action in &scene.plan.actions {
            self.check_action(scene, action);
        }
        for (uid, memory) in &scene.plan.history.pods {
            self.check_end(scene, (uid, memory));
            timing::check_backoff(scene, (uid, memory));
            self.count(scene, uid);
        }
        self.check_phases(scene);
        self.check_probes(scene);
        self.check_decided(scene);
        reasons::check(scene);
    }

    fn check_action(&self, scene: Scene<'_>, action: &Action) {
        match action {
            Action::StartSandbox { uid, .. } => self.check_sandbox(scene, uid),
            Action::StartContainer {
                uid,
                container,
                restart_count,
            } => {
                assert!(scene.is_to_run(uid), "{uid} is not to run");
                self.check_start(scene, (uid, container), *restart_count);
                self.rounds
                    .check_start(scene, (uid, container), &self.started);
            }
            Action::StopContainer { uid, order } => {
                let mut records = scene.records(uid).iter();
                let record = records.find(|r| r.id == order.id).unwrap();
                assert!(is_live(record), "stopped after its end");
                assert!(!order.after.contains(&record.name), "waits for itself");
                self.check_stop(scene, uid, record);
            }
            Action::RemoveContainer { uid, id, .. } => {
                let record = scene.records(uid).iter().find(|r| r.id == *id).unwrap();
                assert!(!is_live(record), "removed alive");
            }
            Action::StopSandbox { uid } => {
                assert!(!scene.is_to_run(uid), "{uid} loses its sandbox");
                assert!(
                    !scene.records(uid).iter().any(is_live),
                    "{uid} has containers"
                );
            }
            Action::CleanSandbox { uid } => {
                let state = &scene.observed.sandboxes[uid].state;
                assert!(matches!(
                    state,
                    SandboxState::Dead {
                        cleaning: false,
                        ..
                    }
                ));
            }
            Action::ForgetPod { uid, .. } => {
                assert!(!scene.observed.sandboxes.contains_key(uid), "still there");
                let is_wanted = scene.desired.contains_key(uid);
                assert!(scene.observed.sources_ready || is_wanted);
            }
        }
    }

    fn check_sandbox(&self, scene: Scene<'_>, uid: &PodUid) {
        assert!(scene.is_to_run(uid), "{uid} is not to run");
        assert!(!self.finished.contains_key(uid), "{uid} has finished");
        assert!(scene.observed.sources_ready);
        let own = host_ports(&scene.desired[uid].pod);
        for (other, sandbox) in &scene.observed.sandboxes {
            let pod = &sandbox.record.pod;
            assert_ne!(
                pod.full_name(),
                scene.desired[uid].full_name(),
                "two of one name"
            );
            check_ports(uid, &own, (other, pod));
        }
        for (other, pod) in scene.desired.iter().filter(|(other, _)| *other != uid) {
            let starts =
                |a: &Action| matches!(a, Action::StartSandbox { uid: u, .. } if u == other);
            if scene.plan.actions.iter().any(starts) {
                check_ports(uid, &own, (other, pod));
            }
        }
    }

    fn check_start(&self, scene: Scene<'_>, (uid, name): (&PodUid, &String), count: u32) {
        assert!(!self.finished.contains_key(uid), "{uid} has finished");
        let Some(SandboxState::Ready {
            creating, leaving, ..
        }) = scene.observed.sandboxes.get(uid).map(|s| &s.state)
        else {
            panic!("started without a sandbox");
        };
        assert!(!leaving && creating.is_empty());
        let lives = |r: &ContainerRecord| r.name == *name && is_live(r);
        assert!(
            !scene.records(uid).iter().any(lives),
            "{uid} {name} started twice"
        );
        let past = scene.memory(uid).containers.get(name);
        let last = past.and_then(|past| past.last.as_ref());
        // A container that was out of the spec for a while begins anew; its logs keep the count (P-47).
        if let Some(highest) = self.counts.get(&(uid.clone(), name.clone())) {
            assert!(
                count > *highest || last.is_none(),
                "{uid} {name}: count {count}"
            );
        }
        let (Some(last), Some(backoff)) = (last, past.and_then(|p| p.backoff.as_ref())) else {
            return;
        };
        let (_, spec) = lifecycle::member(&scene.desired[uid].pod, name).unwrap();
        let is_same = last.hash == container_hash(name, spec.image.as_deref().unwrap());
        if is_same && backoff.boot_id == scene.rules.boot_id {
            let due = backoff.advanced_at_boot_ms + backoff.delay_ms;
            assert!(
                scene.now.boot_ms >= due,
                "{uid} {name}: started before it is due"
            );
        }
    }

    /// A container that is wanted and well is left alone.
    fn check_stop(&self, scene: Scene<'_>, uid: &PodUid, record: &ContainerRecord) {
        let memory = scene.memory(uid);
        if !scene.is_to_run(uid) || memory.restarting.is_some() {
            return;
        }
        let spec = lifecycle::member(&scene.desired[uid].pod, &record.name);
        let image = spec.and_then(|(_, c)| c.image.as_deref());
        let is_same = image.is_some_and(|image| container_hash(&record.name, image) == record.hash);
        let current = memory.containers.get(&record.name);
        let current = current.and_then(|c| c.current.as_ref());
        let counts = current.is_some_and(|current| current.id == record.id);
        let has_failed = self.failed.contains(&record.id)
            || matches!(record.post_start, HookState::Failed { .. });
        assert!(
            !is_same || !counts || has_failed,
            "{uid} {}: stopped for nothing",
            record.name
        );
    }

    fn check_end(&mut self, scene: Scene<'_>, (uid, memory): (&PodUid, &PodHistory)) {
        let is_removed = memory
            .ending
            .is_some_and(|e| e.cause == EndingCause::Removed);
        assert!(is_removed || !self.removed.contains(uid), "{uid} is back");
        if is_removed {
            self.removed.insert(uid.clone());
        }
        let begin = (scene.true_ms, self.boots);
        let (since_ms, boots) = *self.since.entry(uid.clone()).or_insert(begin);
        if let Some(before) = self.finished.get(uid) {
            assert_eq!(memory.finished, Some(*before), "{uid} came back");
        }
        let Some(finished) = memory.finished else {
            return;
        };
        if self.finished.insert(uid.clone(), finished).is_some() {
            return;
        }
        let spec = scene.desired[uid].pod.spec.as_ref().unwrap();
        if finished == Finished::DeadlineExceeded {
            let deadline_s = u64::try_from(spec.active_deadline_seconds.unwrap()).unwrap();
            let age_ms = scene.true_ms - since_ms;
            // Nobody can tell a clock that was set by less than this from one that drifts.
            let doubt_ms = 61_000 * (self.boots - boots);
            assert!(age_ms + doubt_ms >= deadline_s * 1000, "{uid}: {age_ms} ms");
            return;
        }
        let codes = spec.containers.iter().map(|c| {
            let past = memory.containers.get(&c.name);
            past.and_then(|past| past.last.as_ref())
                .map(|l| l.exit.code)
        });
        let is_good = codes.into_iter().all(|code| code == Some(0));
        assert_eq!(finished == Finished::Succeeded, is_good, "{uid}");
        let is_lasting = |r: &&ContainerRecord| {
            let member = lifecycle::member(&scene.desired[uid].pod, &r.name);
            member.is_some_and(|(role, _)| role == Role::Regular)
        };
        let mut lasting = scene.records(uid).iter().filter(is_lasting);
        assert!(
            !lasting.any(is_live) || finished == Finished::Failed,
            "{uid} runs"
        );
    }

    /// P-111. What an earlier agent asked for may still start. Pods that are ended together run again.
    fn check_phases(&mut self, scene: Scene<'_>) {
        for (uid, pod) in &scene.plan.pods {
            let phase = pod.status.as_ref().and_then(|s| s.phase.clone()).unwrap();
            let is_late = match scene.observed.sandboxes.get(uid).map(|s| &s.state) {
                Some(SandboxState::Ready { creating, .. }) => !creating.is_empty(),
                Some(SandboxState::Starting | SandboxState::Dead { .. }) | None => false,
            };
            if is_late || scene.observed.halt != Halt::No || scene.memory(uid).ending.is_some() {
                self.phases.remove(uid);
                continue;
            }
            if let Some(before) = self.phases.get(uid) {
                assert_eq!(phase, *before, "{uid}: a final phase changed");
            }
            if matches!(phase.as_str(), "Succeeded" | "Failed") {
                self.phases.insert(uid.clone(), phase);
            }
        }
    }

    fn count(&mut self, scene: Scene<'_>, uid: &PodUid) {
        for record in scene.records(uid) {
            let key = (uid.clone(), record.name.clone());
            let highest = self.counts.entry(key).or_default();
            *highest = record.restart_count.max(*highest);
        }
    }

    /// P-81, by the holder's truth: with its pod, a sidecar is told to end when all that outlives it has ended.
    pub fn check_signal(&self, started: &StaticPod, wanted: Option<&StaticPod>, signal: &Signal) {
        let pod = &started.pod;
        // After an edit in place both orders are right.
        if wanted.is_some_and(|w| w.document_hash != started.document_hash) {
            return;
        }
        if !signal.is_early || !signal.reason.starts_with("Stopping container") {
            return;
        }
        let mut later = lifecycle::members(pod).skip_while(|(_, c)| c.name != signal.name);
        let Some((Role::Sidecar, _)) = later.next() else {
            return;
        };
        let mut later = later.filter(|(role, _)| *role != Role::Init);
        let left = later.find(|(_, c)| signal.others.contains(&c.name));
        assert!(left.is_none(), "{} ends before {left:?}", signal.name);
    }
}

fn check_ports(uid: &PodUid, own: &[HostPort], (other, pod): (&PodUid, &StaticPod)) {
    let theirs = host_ports(&pod.pod);
    let clash = own
        .iter()
        .find(|port| theirs.iter().any(|t| t.clashes(port)));
    assert_eq!(clash, None, "{uid} and {other}");
}

/// Removals precede additions.
fn check_order(scene: Scene<'_>) {
    let is_addition = |a: &Action| {
        matches!(
            a,
            Action::StartSandbox { .. } | Action::StartContainer { .. }
        )
    };
    let additions: Vec<bool> = scene.plan.actions.iter().map(is_addition).collect();
    assert!(additions.is_sorted(), "addition before removal");
}
