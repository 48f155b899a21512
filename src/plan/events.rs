//! Kubernetes events, with kubelet's names and texts (J-67). Each is made on a transition only: the history remembers
//! what was announced.

use super::admission::Refusal;
use super::outcome::Outcome;
use super::pass::PodView;
use super::{Event, PodHistory, StartProblem};
use crate::holder::proto::{ContainerRecord, HookState, InstanceState};

/// P-98: also `status.message`.
pub(super) const DEADLINE_MESSAGE: &str =
    "Pod was active on the node longer than the specified deadline";

/// A trouble that is worth an event once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Announcement {
    key: String,
    container: Option<String>,
    reason: String,
    message: String,
}

impl Announcement {
    /// A trouble of the pod. Another `key` is another trouble.
    pub(super) fn warning(key: String, reason: &str, message: String) -> Self {
        Self {
            key,
            container: None,
            reason: reason.to_owned(),
            message,
        }
    }

    /// The same of a container.
    pub(super) fn about(self, container: &str) -> Self {
        Self {
            container: Some(container.to_owned()),
            ..self
        }
    }
}

/// Makes the event unless it was the last one announced.
pub(super) fn announce(
    view: &PodView<'_>,
    announced: &mut Option<String>,
    news: &Announcement,
    out: &mut Outcome,
) {
    if announced.as_ref() == Some(&news.key) {
        return;
    }
    *announced = Some(news.key.clone());
    out.events.push(Event {
        container: news.container.clone(),
        warning: true,
        ..event(view, &news.reason, news.message.clone())
    });
}

/// P-46: an instance was seen for the first time; P-163: it may never have run.
pub(super) fn appeared(view: &PodView<'_>, record: &ContainerRecord) -> Vec<Event> {
    let about = |event: Event| Event {
        container: Some(record.name.clone()),
        ..event
    };
    let last = match &record.state {
        InstanceState::Exited(exit) if exit.started_at.is_none() => {
            let cause = exit.message.as_deref().unwrap_or(&exit.reason);
            Event {
                warning: true,
                ..event(view, "Failed", format!("Error: {cause}"))
            }
        }
        InstanceState::Running { .. }
        | InstanceState::Stopping { .. }
        | InstanceState::Exited(_) => event(view, "Started", "Container started".to_owned()),
    };
    let image = &record.image;
    let pulled = format!("Container image {image:?} already present on machine");
    vec![
        about(event(view, "Pulled", pulled)),
        about(event(view, "Created", "Container created".to_owned())),
        about(last),
    ]
}

/// P-77, P-90: the last hook of an instance, if it failed.
pub(super) fn failed_hook(record: &ContainerRecord) -> Option<Announcement> {
    let (reason, hook, message) = match (&record.pre_stop, &record.post_start) {
        (HookState::Failed { message }, _) => ("FailedPreStopHook", "PreStopHook", message),
        (_, HookState::Failed { message }) => ("FailedPostStartHook", "PostStartHook", message),
        (HookState::None | HookState::Running | HookState::Done, _) => return None,
    };
    let key = format!("{reason} {}", record.id);
    let text = format!("{hook} failed: {message}");
    Some(Announcement::warning(key, reason, text).about(&record.name))
}

/// P-98.
pub(super) fn deadline_exceeded(view: &PodView<'_>) -> Event {
    event(view, "DeadlineExceeded", DEADLINE_MESSAGE.to_owned())
}

/// N-10.
pub(super) fn evicted(view: &PodView<'_>, message: &str) -> Event {
    Event {
        warning: true,
        ..event(view, "Evicted", message.to_owned())
    }
}

/// P-84.
pub(super) fn killing(view: &PodView<'_>, container: &str, message: &str) -> Event {
    Event {
        container: Some(container.to_owned()),
        ..event(view, "Killing", message.to_owned())
    }
}

/// P-33: the sandbox before `attempt` is lost.
pub(super) fn sandbox_changed(attempt: u32) -> Announcement {
    Announcement::warning(
        format!("SandboxChanged {attempt}"),
        "SandboxChanged",
        "Pod sandbox changed, it will be killed and re-created.".to_owned(),
    )
}

/// P-35.
pub(super) fn sandbox_failed(problem: &StartProblem) -> Announcement {
    Announcement::warning(
        format!("FailedCreatePodSandBox {}", problem.at_boot_ms),
        "FailedCreatePodSandBox",
        format!("Failed to create pod sandbox: {}", problem.message),
    )
}

/// D-3: the node does not take the pod. Once for each reason: who has the port, or how much, changes with every other pod.
pub(super) fn refused(refusal: &Refusal) -> Announcement {
    let Refusal { reason, message } = refusal;
    Announcement::warning(format!("refused: {reason}"), reason, message.clone())
}

/// The holder drops log lines. The pod runs on.
pub(super) fn logs_dropped(trouble: &str) -> Announcement {
    Announcement::warning(
        format!("LogsDropped {trouble}"),
        "LogsDropped",
        format!("Log lines are being dropped: {trouble}"),
    )
}

/// D-10: the remarks about a document, once for each document.
pub(super) fn ignored_fields(view: &PodView<'_>, memory: &mut PodHistory) -> Option<Event> {
    let hash = &view.pod.document_hash;
    let is_wanted = view.world.desired.contains_key(view.uid);
    if !is_wanted || memory.announced_document.as_ref() == Some(hash) {
        return None;
    }
    memory.announced_document = Some(hash.clone());
    let message = remarks(view)?;
    Some(Event {
        warning: true,
        ..event(view, "ManifestWarning", message)
    })
}

/// What is ignored or doubtful in the pod's manifest, in one text.
pub(super) fn remarks(view: &PodView<'_>) -> Option<String> {
    let texts: Vec<String> = view
        .pod
        .diagnostics
        .iter()
        .map(ToString::to_string)
        .collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

fn event(view: &PodView<'_>, reason: &str, message: String) -> Event {
    Event {
        uid: view.uid.clone(),
        namespace: view.pod.namespace().to_owned(),
        name: view.pod.name().to_owned(),
        container: None,
        warning: false,
        reason: reason.to_owned(),
        message,
    }
}
