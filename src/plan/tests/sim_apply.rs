//! The agent's hands in the simulation: performs actions, and refuses those that must never be asked for.

use std::collections::BTreeSet;

use super::fixtures::pod_record;
use super::sim::World;
use crate::holder::proto::{ContainerRecord, InstanceState, StopPhase};
use crate::plan::{Action, Sandbox, SandboxState};
use crate::pod::PodUid;

impl World {
    pub(super) fn apply(&mut self, action: &Action) {
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
            phase: StopPhase::Signalled,
        };
    }

    pub(super) fn ready(
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
            SandboxState::Starting | SandboxState::Dead { .. } => panic!("not ready"),
        }
    }
}
