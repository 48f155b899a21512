//! The order of init containers, sidecars and the rest (P-43, P-50…P-57, P-90): which init containers lie behind, and for
//! whom the following containers wait.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::container::{self, Verdict};
use super::pass::PodView;
use super::{ContainerHistory, PodHistory, SandboxState, notes};
use crate::holder::proto::HookState;
use crate::pod::lifecycle::{self, Role};

/// What keeps the following containers from being started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Gate {
    /// P-50: an init container or sidecar before them is not done. They are not even looked at.
    Initializing {
        /// For `vetch describe`.
        note: String,
    },
    /// P-90: a postStart hook before them runs.
    PostStart {
        /// For `vetch describe`.
        note: String,
    },
}

impl Gate {
    /// The one that counts after both.
    pub(super) fn and(earlier: Option<Self>, later: Option<Self>) -> Option<Self> {
        match (earlier, later) {
            (Some(Self::Initializing { note }), _) => Some(Self::Initializing { note }),
            (earlier, later) => later.or(earlier),
        }
    }

    /// What becomes of the verdict about a container behind this gate.
    pub(super) fn hold_up(&self, pod: &Pod, verdict: Verdict) -> Verdict {
        let note = match (self, &verdict) {
            (Self::Initializing { note }, Verdict::Start { .. } | Verdict::Wait(_))
            | (Self::PostStart { note }, Verdict::Start { .. }) => note,
            (Self::PostStart { .. }, Verdict::Wait(_))
            | (
                Self::Initializing { .. } | Self::PostStart { .. },
                Verdict::Running | Verdict::Stopping | Verdict::Creating | Verdict::Done,
            ) => return verdict,
        };
        Verdict::Wait(container::default_wait(pod, note.clone()))
    }
}

/// P-50…P-52: whether a regular init container has nothing to do any more: it exited 0 in this epoch, or a later container
/// has begun.
pub(super) fn has_passed(pod: &Pod, memory: &PodHistory, name: &str) -> bool {
    let last = memory.containers.get(name).and_then(|c| c.last.as_ref());
    let has_succeeded =
        last.is_some_and(|l| l.epoch == memory.epoch && l.stop.is_none() && l.exit.code == 0);
    has_succeeded || is_behind(pod, memory, name)
}

/// P-51, P-52, P-55: whether a container after this one has begun in this epoch.
fn is_behind(pod: &Pod, memory: &PodHistory, name: &str) -> bool {
    let later = lifecycle::members(pod)
        .skip_while(|(_, c)| c.name != name)
        .skip(1);
    later.into_iter().any(|(_, c)| has_begun(memory, &c.name))
}

/// Whether a container has had an instance in this epoch.
pub(super) fn has_begun(memory: &PodHistory, name: &str) -> bool {
    let past = memory.containers.get(name);
    past.and_then(ContainerHistory::epoch) == Some(memory.epoch)
}

/// What this container, in this state, means for those after it.
pub(super) fn gate(
    view: &PodView<'_>,
    memory: &PodHistory,
    (role, container): (Role, &Container),
    verdict: &Verdict,
) -> Option<Gate> {
    if memory.restarting.is_some() {
        return None;
    }
    let name = &container.name;
    let is_behind = || is_behind(&view.pod.pod, memory, name);
    let initializing = |note| Some(Gate::Initializing { note });
    match role {
        Role::Init if *verdict == Verdict::Done || is_behind() => None,
        Role::Init => initializing(notes::waits_for_init(name)),
        Role::Sidecar if !has_started(memory, name, verdict) && !is_behind() => {
            initializing(notes::waits_for_sidecar(name))
        }
        Role::Sidecar if is_hook_running(view, name) && !is_behind() => {
            initializing(notes::waits_for_hook(name))
        }
        Role::Sidecar | Role::Regular => is_hook_running(view, name).then(|| Gate::PostStart {
            note: notes::waits_for_hook(name),
        }),
    }
}

/// P-50: it runs, is meant to, and its startup probe has succeeded.
fn has_started(memory: &PodHistory, name: &str, verdict: &Verdict) -> bool {
    let current = memory.containers.get(name).and_then(|c| c.current.as_ref());
    let is_started = current.is_some_and(|current| current.started && current.stop.is_none());
    is_started && *verdict == Verdict::Running
}

fn is_hook_running(view: &PodView<'_>, name: &str) -> bool {
    let Some(SandboxState::Ready { containers, .. }) = view.sandbox.map(|s| &s.state) else {
        return false;
    };
    containers
        .iter()
        .any(|r| r.name == name && r.state.is_live() && r.post_start == HookState::Running)
}
