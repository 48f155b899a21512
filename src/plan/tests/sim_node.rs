//! What happens to the simulated node: requests come to their end, containers exit, holders die, power fails.

use super::fixtures::{process, ready};
use super::sim::World;
use crate::holder::proto::{ContainerRecord, Exit, HookState, InstanceState, Stamp};
use crate::plan::{Halt, History, ImagePresence, SandboxState, StartProblem, container_hash};
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

impl World {
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
            stop_signal: 15,
            post_start: HookState::None,
            pre_stop: HookState::None,

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
        self.observed.halt = Halt::No;
        for sandbox in self.observed.sandboxes.values_mut() {
            if let SandboxState::Dead { cleaning, .. } = &mut sandbox.state {
                *cleaning = false;
            }
        }
        let text = serde_json::to_string(&self.history).unwrap();
        self.history = serde_json::from_str::<History>(&text).unwrap();
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
