//! `status.containerStatuses` and `status.initContainerStatuses` (section 2.11).

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, ContainerUser, LinuxContainerUser, Pod,
    ResourceRequirements, VolumeMount, VolumeMountStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::absorb::LOST_REASON;
use super::container::{self, Verdict};
use super::pass::{Goal, PodView};
use super::phase::Stand;
use super::run::Verdicts;
use super::sandbox::{self, Obstacle};
use super::{
    ContainerHistory, LiveInstance, PastInstance, PodHistory, SandboxState, StopCause, init, notes,
};
use crate::holder::proto::ContainerRecord;
use crate::pod::lifecycle::{self, Role};

/// P-141: bytes of termination messages in one pod's status.
const MESSAGES_MAX: usize = 12 * 1024;
/// P-159.
const RESTARTING_ALL: &str = "RestartingAllContainers";

/// A container, where it stands, and what it shows.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) role: Role,
    pub(super) stand: Stand,
    pub(super) status: ContainerStatus,
}

/// Init containers and sidecars, then regular ones, in spec order.
pub(super) fn members(view: &PodView<'_>, memory: &PodHistory, verdicts: &Verdicts) -> Vec<Member> {
    let pod = &view.pod.pod;
    let none = ContainerHistory::default();
    let has_begun = has_begun(pod, memory);
    let message_max = MESSAGES_MAX / lifecycle::members(pod).count().max(1);
    lifecycle::members(pod)
        .map(|(role, container)| {
            let subject = Subject {
                view,
                memory,
                role,
                container,
                past: memory.containers.get(&container.name).unwrap_or(&none),
                verdict: verdicts.get(&container.name),
                has_begun,
            };
            let mut status = subject.status();
            limit_messages(&mut status, message_max);
            Member {
                role,
                stand: subject.stand(),
                status,
            }
        })
        .collect()
}

/// P-52: some regular container has had an instance since the pod was last initialised anew.
pub(super) fn has_begun(pod: &Pod, memory: &PodHistory) -> bool {
    lifecycle::members(pod)
        .any(|(role, container)| role == Role::Regular && init::has_begun(memory, &container.name))
}

/// What a container shows.
#[derive(Debug, Clone, Copy)]
enum Shown<'a> {
    Running(&'a LiveInstance),
    Terminated(&'a PastInstance),
    /// P-167: an init container that must have succeeded, though nothing is known of it.
    Passed,
    Waiting,
}

/// A container and everything that its status depends on.
struct Subject<'a> {
    view: &'a PodView<'a>,
    memory: &'a PodHistory,
    role: Role,
    container: &'a Container,
    past: &'a ContainerHistory,
    verdict: Option<&'a Verdict>,
    /// See [`has_begun`].
    has_begun: bool,
}

impl<'a> Subject<'a> {
    fn stand(&self) -> Stand {
        if let Some(live) = &self.past.current {
            return if live.started {
                Stand::Started
            } else {
                Stand::Starting
            };
        }
        match &self.past.last {
            _ if self.role == Role::Init && self.has_begun => Stand::Over(0),
            Some(_) if self.has_passed() => Stand::Over(0),
            None => Stand::New,
            Some(last) if self.has_to_run_anew(last) => Stand::New,
            Some(_) if self.starts_again() => Stand::Again,
            Some(last) => Stand::Over(last.exit.code),
        }
    }

    /// Also when the pod was edited, and it was something else before: then its last exit does not matter (P-51).
    fn has_passed(&self) -> bool {
        self.role == Role::Init
            && self.verdict == Some(&Verdict::Done)
            && init::has_passed(&self.view.pod.pod, self.memory, &self.container.name)
    }

    /// A pod on its way out starts nothing, so that it shows how it ended, which kubelet does for API pods only (P-112).
    fn starts_again(&self) -> bool {
        self.verdict
            .is_some_and(|verdict| *verdict != Verdict::Done)
    }

    /// P-33: what a regular init container did for an earlier sandbox does not count for this one.
    fn has_to_run_anew(&self, last: &PastInstance) -> bool {
        self.role == Role::Init && last.epoch != self.memory.epoch && self.starts_again()
    }

    fn status(&self) -> ContainerStatus {
        let past = self.past;
        let shown = self.shown();
        let (state, last_state) = match shown {
            Shown::Running(live) => (running(live), past.last.as_ref()),
            Shown::Terminated(ended) => (terminated(ended), past.previous.as_ref()),
            Shown::Passed => (passed(), None),
            Shown::Waiting => (self.waiting(), past.last.as_ref()),
        };
        let resources = match shown {
            Shown::Running(live) => self.resources(live),
            Shown::Terminated(_) | Shown::Passed | Shown::Waiting => None,
        };
        let allocated = resources.and_then(|resources| resources.requests.clone());
        let base = ContainerStatus {
            allocated_resources: allocated.filter(|list| !list.is_empty()),
            resources: resources.cloned(),
            volume_mounts: volume_mounts(self.container),
            user: self.user(),
            name: self.container.name.clone(),
            ready: self.is_ready(shown),
            started: Some(matches!(shown, Shown::Running(live) if live.started)),
            state: Some(state),
            last_state: last_state.map(terminated),
            ..ContainerStatus::default()
        };
        identified(base, self.container, past)
    }

    /// The holder's record of an instance, while the holder lives.
    fn record(&self, id: &str) -> Option<&'a ContainerRecord> {
        match &self.view.sandbox?.state {
            SandboxState::Ready { containers, .. } => containers.iter().find(|r| r.id == id),
            SandboxState::Starting | SandboxState::Dead { .. } => None,
        }
    }

    /// C-36: of the newest instance.
    fn user(&self) -> Option<ContainerUser> {
        let (current, last) = (self.past.current.as_ref(), self.past.last.as_ref());
        let newest = current.map(|c| &c.id).or(last.map(|l| &l.id))?;
        let user = self.record(newest)?.user.as_ref()?;
        let groups = user.groups.iter().map(|gid| i64::from(*gid));
        Some(ContainerUser {
            linux: Some(LinuxContainerUser {
                uid: i64::from(user.uid),
                gid: i64::from(user.gid),
                supplemental_groups: Some(groups.collect()),
            }),
        })
    }

    /// P-139: those that the instance was started with: a pod that was edited in place may have others by now.
    fn resources(&self, live: &LiveInstance) -> Option<&'a ResourceRequirements> {
        let resources = &self.record(&live.id)?.resources;
        (*resources != ResourceRequirements::default()).then_some(resources)
    }

    /// P-133: what waits shows so, what is about to start again stays terminated. P-165: a lost instance is shown as the
    /// last state of one that waits.
    fn shown(&self) -> Shown<'a> {
        if let Some(live) = &self.past.current {
            return Shown::Running(live);
        }
        let Some(last) = &self.past.last else {
            return if self.role == Role::Init && self.has_begun {
                Shown::Passed
            } else {
                Shown::Waiting
            };
        };
        let waits = match self.verdict {
            Some(Verdict::Wait(_)) => true,
            Some(Verdict::Done) | None => false,
            Some(
                Verdict::Start { .. } | Verdict::Creating | Verdict::Running | Verdict::Stopping,
            ) => {
                last.exit.reason == LOST_REASON
                    || last.failed_hook().is_some()
                    || self.has_to_run_anew(last)
            }
        };
        if waits {
            Shown::Waiting
        } else {
            Shown::Terminated(last)
        }
    }

    /// P-135.
    fn is_ready(&self, shown: Shown<'_>) -> bool {
        match (self.role, shown) {
            (Role::Init, Shown::Terminated(ended)) => ended.exit.code == 0,
            (Role::Init, Shown::Passed) => true,
            (Role::Init, Shown::Running(_) | Shown::Waiting) => false,
            (Role::Sidecar | Role::Regular, Shown::Running(live)) => live.ready,
            (
                Role::Sidecar | Role::Regular,
                Shown::Terminated(_) | Shown::Passed | Shown::Waiting,
            ) => false,
        }
    }

    /// P-150…P-159.
    fn waiting(&self) -> ContainerState {
        let last = self.past.last.as_ref();
        let (reason, message) = match (self.verdict, last.and_then(PastInstance::failed_hook)) {
            (Some(Verdict::Wait(wait)), _) => (wait.reason.clone(), wait.message.clone()),
            (Some(Verdict::Start { .. } | Verdict::Creating), Some(message)) => {
                ("PostStartHookError".to_owned(), Some(message.to_owned()))
            }
            (
                Some(
                    Verdict::Start { .. }
                    | Verdict::Creating
                    | Verdict::Running
                    | Verdict::Stopping
                    | Verdict::Done,
                )
                | None,
                _,
            ) => (
                container::default_reason(&self.view.pod.pod).to_owned(),
                None,
            ),
        };
        ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(reason),
                message: message.or_else(|| held_up(self.view)),
            }),
            ..ContainerState::default()
        }
    }
}

/// P-137, P-134: from the newest instance.
fn identified(
    base: ContainerStatus,
    container: &Container,
    past: &ContainerHistory,
) -> ContainerStatus {
    let newest = match (&past.current, &past.last) {
        (Some(c), _) => Some((&c.id, &c.image, &c.image_id, c.restart_count)),
        (None, Some(l)) => Some((&l.id, &l.image, &l.image_id, l.restart_count)),
        (None, None) => None,
    };
    match newest {
        Some((id, image, image_id, count)) => ContainerStatus {
            image: image.clone(),
            image_id: image_id.clone(),
            container_id: Some(container_id(id)),
            restart_count: i32::try_from(count).unwrap_or(i32::MAX),
            ..base
        },
        None => ContainerStatus {
            image: container::image(container).to_owned(),
            ..base
        },
    }
}

/// V-51: as kubelet, which shows what the manifest says, but for `IfPossible`, of which it shows what came of it.
fn volume_mounts(container: &Container) -> Option<Vec<VolumeMountStatus>> {
    let status = |mount: &VolumeMount| {
        let is_read_only = mount.read_only == Some(true);
        let mode = match lifecycle::is_recursive_read_only(mount) {
            true => "Enabled",
            false => "Disabled",
        };
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: mount.read_only,
            recursive_read_only: is_read_only.then(|| mode.to_owned()),
            ..VolumeMountStatus::default()
        }
    };
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    let statuses: Vec<_> = mounts.iter().map(status).collect();
    Some(statuses).filter(|statuses| !statuses.is_empty())
}

fn running(live: &LiveInstance) -> ContainerState {
    ContainerState {
        running: Some(ContainerStateRunning {
            started_at: Some(time(live.started_at.wall)),
        }),
        ..ContainerState::default()
    }
}

fn terminated(ended: &PastInstance) -> ContainerState {
    let exit = &ended.exit;
    let reason = if ended.stop == Some(StopCause::RestartAll) {
        RESTARTING_ALL
    } else {
        &exit.reason
    };
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            container_id: Some(container_id(&ended.id)),
            exit_code: exit.code,
            signal: exit.signal,
            reason: Some(reason.to_owned()),
            message: exit.message.clone(),
            started_at: exit.started_at.map(|at| time(at.wall)),
            finished_at: Some(time(exit.finished_at.wall)),
        }),
        ..ContainerState::default()
    }
}

fn passed() -> ContainerState {
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            reason: Some("Completed".to_owned()),
            message: Some(
                "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally"
                    .to_owned(),
            ),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    }
}

/// What keeps the whole pod from starting. Without a countdown: a status that says nothing new must not change.
fn held_up(view: &PodView<'_>) -> Option<String> {
    if view.goal != Goal::Run || view.sandbox.is_some() {
        return None;
    }
    sandbox::obstacle(view).map(|obstacle| match obstacle {
        Obstacle::Failed { problem, .. } => problem.message.clone(),
        Obstacle::SourcesNotReady | Obstacle::OldPod(_) | Obstacle::Refused(_) => {
            notes::obstacle(obstacle, view)
        }
    })
}

/// P-141: the last part of a message is kept.
fn limit_messages(status: &mut ContainerStatus, max: usize) {
    for state in [&mut status.state, &mut status.last_state] {
        let ended = state.as_mut().and_then(|s| s.terminated.as_mut());
        if let Some(message) = ended.and_then(|t| t.message.as_mut()) {
            let start = message.len().saturating_sub(max);
            *message = message.split_off(message.ceil_char_boundary(start));
        }
    }
}

fn container_id(id: &str) -> String {
    format!("vetch://{id}")
}

/// P-140: whole seconds.
pub(super) fn time(at: jiff::Timestamp) -> Time {
    Time(jiff::Timestamp::from_second(at.as_second()).unwrap_or(at))
}
