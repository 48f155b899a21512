//! The law of the end: when faults stop, everything that is wanted runs, has finished, or says why not.

use super::World;
use crate::holder::proto::{ContainerRecord, InstanceState};
use crate::plan::{Finished, PodHistory, SandboxState, container_hash};
use crate::pod::lifecycle::{self, OnExit, Role};
use crate::pod::ports::host_ports;
use crate::pod::{PodUid, StaticPod};

/// Longer than any delay, and no deadline ends with it.
const REST_MS: u64 = 4_000_000;

impl World {
    /// Twice this long without a fault; there is little to do.
    pub fn settle(&mut self) {
        self.calm_down();
        for _ in 0..2 {
            let (until_ms, passes) = (self.boot_ms + REST_MS, self.passes);
            while self.boot_ms < until_ms {
                self.advance(until_ms - self.boot_ms);
                self.turn();
                assert!(self.passes < passes + 2000, "never settles");
            }
        }
        self.check_settled();
    }

    fn check_settled(&self) {
        let agent = self.agent.as_ref().unwrap();
        for uid in agent.sandboxes.keys() {
            assert!(self.desired.contains_key(uid), "{uid} is left over");
        }
        let known: Vec<&PodUid> = self.history.pods.keys().collect();
        let wanted: Vec<&PodUid> = self.desired.keys().collect();
        assert_eq!(known, wanted);
        for (uid, pod) in &self.desired {
            self.check_settled_pod(uid, pod);
        }
    }

    fn check_settled_pod(&self, uid: &PodUid, pod: &StaticPod) {
        let memory = &self.history.pods[uid];
        assert_eq!(memory.ending, None);
        let observed = self.agent.as_ref().unwrap().observe();
        let sandbox = observed.sandboxes.get(uid);
        match memory.finished {
            Some(Finished::Succeeded | Finished::Failed | Finished::DeadlineExceeded) => {
                assert_eq!(sandbox, None, "a finished pod keeps its sandbox");
                return;
            }
            None => {}
        }
        match sandbox.map(|s| &s.state) {
            Some(SandboxState::Ready { containers, .. }) => {
                for member in lifecycle::members(&pod.pod) {
                    let is_it = |r: &&ContainerRecord| r.name == member.1.name;
                    if member.0 == Role::Init
                        && containers.iter().filter(is_it).any(|r| r.state.is_live())
                    {
                        // An edit made it an init container, and it runs on.
                        break;
                    }
                    check_member((uid, pod), member, (memory, containers));
                }
            }
            Some(SandboxState::Starting | SandboxState::Dead { .. }) => {
                panic!("{uid} does not run: {sandbox:?}")
            }
            None => assert!(self.is_refused(pod), "{uid} has no sandbox"),
        }
    }

    fn is_refused(&self, pod: &StaticPod) -> bool {
        let spec = pod.pod.spec.as_ref().unwrap();
        let own = host_ports(&pod.pod);
        let sandboxes = &self.agent.as_ref().unwrap().sandboxes;
        let mut others = sandboxes.iter().map(|(uid, h)| {
            let started = host_ports(&h.record.pod.pod);
            let wanted = self.desired.get(uid).map(|pod| host_ports(&pod.pod));
            [started, wanted.unwrap_or_default()].concat()
        });
        spec.node_selector.as_ref().is_some_and(|s| !s.is_empty())
            || others.any(|ports| ports.iter().any(|p| own.iter().any(|o| o.clashes(p))))
    }
}

fn check_member(
    (uid, pod): (&PodUid, &StaticPod),
    (role, spec): (Role, &k8s_openapi::api::core::v1::Container),
    (memory, containers): (&PodHistory, &[ContainerRecord]),
) {
    let records = || containers.iter().filter(|r| r.name == spec.name);
    assert!(records().count() <= 2, "too many dead instances");
    let live = records().filter(|r| matches!(r.state, InstanceState::Running { .. }));
    let hashes: Vec<&String> = live.map(|r| &r.hash).collect();
    let hash = container_hash(&spec.name, spec.image.as_deref().unwrap());
    let last = memory.containers[&spec.name].last.as_ref();
    let stays = |role| {
        last.is_some_and(|l| {
            l.stop.is_some()
                || lifecycle::on_exit(&pod.pod, (role, spec), l.exit.code) == OnExit::Stay
        })
    };
    let is_over = match role {
        // Another one has taken over, or it is done.
        Role::Init => true,
        Role::Sidecar => false,
        Role::Regular => stays(role),
    };
    assert!(
        hashes == [&hash] || (hashes.is_empty() && is_over),
        "{uid} {}: {hashes:?} {last:?}",
        spec.name
    );
    let current = memory.containers[&spec.name].current.as_ref();
    assert!(
        current.is_none_or(|c| c.started && c.ready),
        "{uid} {}",
        spec.name
    );
}
