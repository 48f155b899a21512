//! One container's state machine, the same for init containers, sidecars and regular ones: [`super::restart`] knows their
//! policies, [`super::init`] their order, [`super::cause`] what turns `Running` into a stop.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::events::Announcement;
use super::pass::PodView;
use super::{
    ContainerHistory, ImagePresence, LiveInstance, PodHistory, SandboxState, StartProblem,
    VOLUME_PROBLEM, backoff, container_hash, notes, restart,
};
use crate::holder::proto::InstanceState;
use crate::pod::image_ref::BUILTIN;
use crate::pod::lifecycle::{self, Role};

/// What is to be done about one container now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It runs (or an instance was left running and its holder has not been heard yet). Its exit leads on.
    Running,
    /// It was told to stop. Its exit leads on.
    Stopping,
    /// A create request is in flight. Its outcome, an instance or a problem, leads on.
    Creating,
    /// Create and start it. The request in flight leads on.
    Start {
        /// P-47.
        restart_count: u32,
    },
    /// It should run but must wait. The due time, or news about its image, leads on.
    Wait(Wait),
    /// It ended and is not restarted. Final, unless its definition changes while the pod lives.
    Done,
}

/// Why a container waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wait {
    /// P-150…P-155.
    pub(super) reason: String,
    /// For `state.waiting.message`.
    pub(super) message: Option<String>,
    /// For `vetch describe`.
    pub(super) note: String,
    /// When it may be tried again without other news.
    pub(super) due_boot_ms: Option<u64>,
    /// To be announced once.
    pub(super) announcement: Option<Announcement>,
}

/// P-40.
pub(super) fn hash(container: &Container) -> String {
    container_hash(&container.name, image(container))
}

/// The image as written.
pub(super) fn image(container: &Container) -> &str {
    container.image.as_deref().unwrap_or_default()
}

/// P-41: decides about one container from its history and what is in flight, as if nobody had to be waited for.
pub(super) fn judge(
    view: &PodView<'_>,
    memory: &PodHistory,
    (role, container): (Role, &Container),
) -> Verdict {
    let past = memory.containers.get(&container.name);
    if let Some(current) = past.and_then(|p| p.current.as_ref()) {
        return live(view, current);
    }
    if is_creating(view, &container.name) {
        return Verdict::Creating;
    }
    if has_double(view, &container.name) {
        return Verdict::Stopping;
    }
    if let Some(restart) = &memory.restarting {
        return Verdict::Wait(restarting_all(&restart.container));
    }
    if !restart::starts(view, memory, (role, container)) {
        return Verdict::Done;
    }
    let wait = past
        .and_then(|p| back_off(view, container, p))
        .or_else(|| image_trouble(view, container))
        .or_else(|| problem(view, container));
    let last = past.and_then(|p| p.last.as_ref());
    match wait {
        Some(wait) => Verdict::Wait(wait),
        None => Verdict::Start {
            restart_count: last.map_or(0, |last| last.restart_count.saturating_add(1)),
        },
    }
}

/// P-131: the reason of a container that waits for nothing of its own.
pub(super) fn default_reason(pod: &Pod) -> &'static str {
    if lifecycle::has_init(pod) {
        "PodInitializing"
    } else {
        "ContainerCreating"
    }
}

/// Waits for news that are certain to come.
pub(super) fn default_wait(pod: &Pod, note: String) -> Wait {
    Wait {
        reason: default_reason(pod).to_owned(),
        message: None,
        note,
        due_boot_ms: None,
        announcement: None,
    }
}

/// P-159.
fn restarting_all(trigger: &str) -> Wait {
    Wait {
        reason: "RestartingAllContainers".to_owned(),
        message: Some(format!(
            "all containers are restarted, because container {trigger} exited"
        )),
        note: format!("starts when every container has ended, because {trigger} exited"),
        due_boot_ms: None,
        announcement: None,
    }
}

fn live(view: &PodView<'_>, current: &LiveInstance) -> Verdict {
    let Some(SandboxState::Ready { containers, .. }) = view.sandbox.map(|s| &s.state) else {
        return Verdict::Running;
    };
    let record = containers.iter().find(|r| r.id == current.id);
    match record.map(|r| &r.state) {
        Some(InstanceState::Stopping { .. }) => Verdict::Stopping,
        Some(InstanceState::Running { .. } | InstanceState::Exited(_)) | None => Verdict::Running,
    }
}

/// Two agents, one after the other, asked for the same start, and the instance that does not count still lives.
fn has_double(view: &PodView<'_>, name: &str) -> bool {
    match view.sandbox.map(|s| &s.state) {
        Some(SandboxState::Ready { containers, .. }) => containers
            .iter()
            .any(|r| r.name == name && r.state.is_live()),
        Some(SandboxState::Starting | SandboxState::Dead { .. }) | None => false,
    }
}

fn is_creating(view: &PodView<'_>, name: &str) -> bool {
    match view.sandbox.map(|s| &s.state) {
        Some(SandboxState::Ready { creating, .. }) => creating.contains(name),
        Some(SandboxState::Starting | SandboxState::Dead { .. }) | None => false,
    }
}

/// P-64…P-71; P-156 when a postStart hook is the cause.
fn back_off(view: &PodView<'_>, container: &Container, past: &ContainerHistory) -> Option<Wait> {
    let last = past
        .last
        .as_ref()
        .filter(|last| last.hash == hash(container))?;
    let backoff = past.backoff.as_ref()?;
    let due = backoff::due_boot_ms(backoff, view.world.rules)?;
    (due > view.world.now.boot_ms).then(|| {
        let pod = format!("{}_{}({})", view.pod.name(), view.pod.namespace(), view.uid);
        let name = &container.name;
        let delay = notes::go_duration(backoff.delay_ms);
        let message = format!("back-off {delay} restarting failed container={name} pod={pod}");
        let (reason, message) = match last.failed_hook() {
            Some(hook) => ("PostStartHookError", format!("{hook}; {message}")),
            None => ("CrashLoopBackOff", message),
        };
        Wait {
            reason: reason.to_owned(),
            message: Some(message),
            note: notes::back_off(view, due, last),
            due_boot_ms: Some(due),
            announcement: Some(
                Announcement::warning(
                    format!("BackOff {}", last.id),
                    "BackOff",
                    format!("Back-off restarting failed container {name} in pod {pod}"),
                )
                .about(name),
            ),
        }
    })
}

/// P-151, P-152: of its own image, then of those that it mounts (V-57). No timer: an import is news.
fn image_trouble(view: &PodView<'_>, container: &Container) -> Option<Wait> {
    let own = (image(container), container.image_pull_policy.as_deref());
    let volumes = lifecycle::mounted_volumes(&view.pod.pod, container);
    let mounted = volumes.filter_map(|volume| {
        let source = volume.image.as_ref()?;
        let image = source.reference.as_deref().unwrap_or_default();
        Some((image, source.pull_policy.as_deref()))
    });
    let mut needed = std::iter::once(own).chain(mounted);
    needed.find_map(|needed| trouble_of(view, container, needed))
}

fn trouble_of(
    view: &PodView<'_>,
    container: &Container,
    (image, pull_policy): (&str, Option<&str>),
) -> Option<Wait> {
    let is_never = pull_policy == Some("Never");
    let missing = || {
        let archive = if image == BUILTIN { image } else { "FILE" };
        format!(
            "image {image:?} is not in the local store; load it with: vetch image import {archive}"
        )
    };
    let (reason, event, message) = match view.world.observed.images.get(image) {
        Some(ImagePresence::Present(_)) => return None,
        None => {
            let note = format!("image {image:?} is being looked up");
            return Some(default_wait(&view.pod.pod, note));
        }
        Some(ImagePresence::InvalidName(why)) => (
            "InvalidImageName",
            "InspectFailed",
            format!("image {image:?} is not a valid image name: {why}"),
        ),
        Some(ImagePresence::Absent) if is_never => {
            ("ErrImageNeverPull", "ErrImageNeverPull", missing())
        }
        Some(ImagePresence::Absent) => ("ErrImagePull", "Failed", missing()),
    };
    let key = format!("{reason} {image}");
    Some(Wait {
        reason: reason.to_owned(),
        note: message.clone(),
        message: Some(message.clone()),
        due_boot_ms: None,
        announcement: Some(Announcement::warning(key, event, message).about(&container.name)),
    })
}

/// P-133, P-153, P-154, V-25.
fn problem(view: &PodView<'_>, container: &Container) -> Option<Wait> {
    let key = (view.uid.clone(), container.name.clone());
    let problem: &StartProblem = view.world.observed.start_problems.get(&key)?;
    let due = backoff::retry_container_at(problem);
    let (reason, event, text) = if problem.reason == VOLUME_PROBLEM {
        let reason = default_reason(&view.pod.pod);
        (reason, "FailedMount", problem.message.clone())
    } else {
        let text = format!("Error: {}", problem.message);
        (problem.reason.as_str(), "Failed", text)
    };
    let key = format!("{event} {}", problem.at_boot_ms);
    (due > view.world.now.boot_ms).then(|| Wait {
        reason: reason.to_owned(),
        message: Some(problem.message.clone()),
        note: notes::start_problem(view, due, problem),
        due_boot_ms: Some(due),
        announcement: Some(Announcement::warning(key, event, text).about(&container.name)),
    })
}
