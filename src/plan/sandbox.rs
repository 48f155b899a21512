//! A pod's sandbox: when one is started, replaced, wound down and cleaned.

use super::admission::Refusal;
use super::outcome::Outcome;
use super::pass::PodView;
use super::{Action, PodHistory, SandboxState, StartProblem, backoff, cause, events, notes};
use crate::pod::{PodUid, StaticPod};

/// Why a pod that should run has no sandbox yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle<'a> {
    /// S-162: what is on disk may be outdated.
    SourcesNotReady,
    /// S-157: this pod of the same full name is not completely gone.
    OldPod(&'a PodUid),
    /// D-3: the node does not take it.
    Refused(&'a Refusal),
    /// L-4: the last attempt failed.
    Failed {
        problem: &'a StartProblem,
        retry_at_boot_ms: u64,
    },
}

/// What keeps the pod's sandbox from being started now.
pub(super) fn obstacle<'a>(view: &PodView<'a>) -> Option<Obstacle<'a>> {
    let observed = view.world.observed;
    if !observed.sources_ready {
        return Some(Obstacle::SourcesNotReady);
    }
    if let Some(old) = old_pod(view) {
        return Some(Obstacle::OldPod(old));
    }
    if let Some(refusal) = view.refusal() {
        return Some(Obstacle::Refused(refusal));
    }
    let problem = observed.sandbox_problems.get(view.uid)?;
    let retry_at_boot_ms = backoff::retry_sandbox_at(problem);
    (retry_at_boot_ms > view.world.now.boot_ms).then_some(Obstacle::Failed {
        problem,
        retry_at_boot_ms,
    })
}

fn old_pod<'a>(view: &PodView<'a>) -> Option<&'a PodUid> {
    let same_name =
        |pod: &StaticPod| pod.name() == view.pod.name() && pod.namespace() == view.pod.namespace();
    view.world
        .observed
        .sandboxes
        .iter()
        .find(|(uid, sandbox)| *uid != view.uid && same_name(&sandbox.record.pod))
        .map(|(uid, _)| uid)
}

/// Starts a sandbox unless something is in the way.
pub(super) fn start(view: &PodView<'_>, memory: &mut PodHistory, out: &mut Outcome) {
    let problem = view.world.observed.sandbox_problems.get(view.uid);
    let trouble = view.refusal().map(events::refused);
    if let Some(announcement) = trouble.or_else(|| problem.map(events::sandbox_failed)) {
        events::announce(view, &mut memory.announced, &announcement, out);
    }
    let Some(obstacle) = obstacle(view) else {
        out.notes.push(view.note("its holder is being started"));
        out.actions.push(Action::StartSandbox {
            uid: view.uid.clone(),
            attempt: memory.next_attempt,
        });
        return;
    };
    if let Obstacle::Failed {
        retry_at_boot_ms, ..
    } = obstacle
    {
        out.wake_at(retry_at_boot_ms);
    }
    out.notes.push(view.note(notes::obstacle(obstacle, view)));
}

/// Nothing of the pod is there, and nothing starts. Who comes now is told that it is refused (S-179).
pub(super) fn stay_down(view: &PodView<'_>, memory: &mut PodHistory, out: &mut Outcome) {
    if let Some(refusal) = view.refusal() {
        events::announce(view, &mut memory.announced, &events::refused(refusal), out);
    }
    out.notes.push(view.note(notes::down(view)));
}

/// P-33: the holder died under a pod that should run. What is left of it goes first.
pub(super) fn replace(view: &PodView<'_>, memory: &mut PodHistory, out: &mut Outcome) {
    let announcement = events::sandbox_changed(memory.next_attempt);
    events::announce(view, &mut memory.announced, &announcement, out);
    clean(view, out);
}

/// Removes what a dead holder left, once.
pub(super) fn clean(view: &PodView<'_>, out: &mut Outcome) {
    let state = view.sandbox.map(|s| &s.state);
    let Some(SandboxState::Dead { cleaning, .. }) = state else {
        return;
    };
    out.notes
        .push(view.note("its holder died; what is left of the pod is being removed"));
    if !cleaning {
        out.actions.push(Action::CleanSandbox {
            uid: view.uid.clone(),
        });
    }
}

/// P-80, P-83: stops every container at once; when all are gone the sandbox goes too.
pub(super) fn wind_down(view: &PodView<'_>, memory: &mut PodHistory, out: &mut Outcome) {
    let state = view.sandbox.map(|s| &s.state);
    let Some(SandboxState::Ready {
        containers,
        creating,
        leaving,
        ..
    }) = state
    else {
        return;
    };
    cause::stop_due(view, memory, containers, out);
    let live = creating.len() + containers.iter().filter(|c| c.state.is_live()).count();
    out.notes.push(view.note(notes::winding_down(view, live)));
    if live == 0 && !leaving {
        out.actions.push(Action::StopSandbox {
            uid: view.uid.clone(),
        });
    }
}
