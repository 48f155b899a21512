//! `status.containerStatuses` (section 2.11).

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::absorb::LOST_REASON;
use super::container::{self, Verdict};
use super::pass::{Goal, PodView};
use super::run::{self, Verdicts};
use super::sandbox::{self, Obstacle};
use super::{ContainerHistory, LiveInstance, PastInstance, PodHistory, notes};

/// P-141: bytes of termination messages in one pod's status.
const MESSAGES_MAX: usize = 12 * 1024;

/// What a container shows.
#[derive(Debug, Clone, Copy)]
enum Shown<'a> {
    Running(&'a LiveInstance),
    Terminated(&'a PastInstance),
    Waiting,
}

/// P-138: sorted by name.
pub(super) fn statuses(
    view: &PodView<'_>,
    memory: &PodHistory,
    verdicts: &Verdicts,
) -> Vec<ContainerStatus> {
    let containers = run::containers(view.pod);
    let message_max = MESSAGES_MAX / containers.len().max(1);
    let mut statuses: Vec<ContainerStatus> = containers
        .iter()
        .map(|container| {
            let none = ContainerHistory::default();
            let past = memory.containers.get(&container.name).unwrap_or(&none);
            let mut status = status(view, container, (past, verdicts.get(&container.name)));
            limit_messages(&mut status, message_max);
            status
        })
        .collect();
    statuses.sort_by(|a, b| a.name.cmp(&b.name));
    statuses
}

fn status(
    view: &PodView<'_>,
    container: &Container,
    (past, verdict): (&ContainerHistory, Option<&Verdict>),
) -> ContainerStatus {
    let shown = shown(past, verdict);
    let (state, last_state) = match shown {
        Shown::Running(live) => (running(live), past.last.as_ref()),
        Shown::Terminated(ended) => (terminated(ended), past.previous.as_ref()),
        Shown::Waiting => (waiting(view, verdict), past.last.as_ref()),
    };
    let is_running = matches!(shown, Shown::Running(_));
    let base = ContainerStatus {
        name: container.name.clone(),
        ready: is_running,
        started: Some(is_running),
        state: Some(state),
        last_state: last_state.map(terminated),
        ..ContainerStatus::default()
    };
    identified(base, container, past)
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

/// P-133: what waits shows so, what is about to start again stays terminated. P-165: a lost instance is shown as the last
/// state of one that waits.
fn shown<'a>(past: &'a ContainerHistory, verdict: Option<&Verdict>) -> Shown<'a> {
    if let Some(live) = &past.current {
        return Shown::Running(live);
    }
    let Some(last) = &past.last else {
        return Shown::Waiting;
    };
    match verdict {
        Some(Verdict::Wait(_)) => Shown::Waiting,
        Some(Verdict::Start { .. } | Verdict::Creating | Verdict::Running | Verdict::Stopping)
            if last.exit.reason == LOST_REASON =>
        {
            Shown::Waiting
        }
        Some(
            Verdict::Start { .. }
            | Verdict::Creating
            | Verdict::Running
            | Verdict::Stopping
            | Verdict::Done,
        )
        | None => Shown::Terminated(last),
    }
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
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            container_id: Some(container_id(&ended.id)),
            exit_code: exit.code,
            signal: exit.signal,
            reason: Some(exit.reason.clone()),
            message: exit.message.clone(),
            started_at: exit.started_at.map(|at| time(at.wall)),
            finished_at: Some(time(exit.finished_at.wall)),
        }),
        ..ContainerState::default()
    }
}

/// P-150…P-155.
fn waiting(view: &PodView<'_>, verdict: Option<&Verdict>) -> ContainerState {
    let (reason, message) = match verdict {
        Some(Verdict::Wait(wait)) => (wait.reason.clone(), wait.message.clone()),
        Some(
            Verdict::Start { .. }
            | Verdict::Creating
            | Verdict::Running
            | Verdict::Stopping
            | Verdict::Done,
        )
        | None => ("ContainerCreating".to_owned(), None),
    };
    ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(reason),
            message: message.or_else(|| held_up(view)),
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
        Obstacle::SourcesNotReady | Obstacle::OldPod(_) => notes::obstacle(obstacle, view),
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
