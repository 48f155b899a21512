//! `RestartAllContainers` (P-63): an exit that restarts the whole pod within its sandbox. First everything ends, without
//! grace; then a new epoch begins, in which every container starts anew, init containers first.

use super::pass::{Goal, PodView};
use super::{PodHistory, RestartAll, SandboxState, absorb};
use crate::pod::lifecycle::{self, OnExit};

/// Begins such a restart, ends one that has nothing left to stop, and forgets one whose sandbox is gone: a new sandbox is
/// a new epoch anyway.
pub(super) fn update(view: &PodView<'_>, memory: &mut PodHistory) {
    let state = view.sandbox.map(|s| &s.state);
    match (view.goal, state) {
        (
            Goal::Run,
            Some(SandboxState::Ready {
                containers,
                creating,
                leaving: false,
                ..
            }),
        ) => {
            begin(view, memory);
            if creating.is_empty() && !containers.iter().any(|c| c.state.is_live()) {
                finish(memory);
            }
        }
        (Goal::Run | Goal::Hold, Some(SandboxState::Starting))
        | (Goal::Hold, Some(SandboxState::Ready { .. })) => {}
        (Goal::Run, Some(SandboxState::Ready { .. }))
        | (Goal::Run | Goal::Hold, Some(SandboxState::Dead { .. }) | None)
        | (Goal::End(_) | Goal::Rest, _) => memory.restarting = None,
    }
}

fn begin(view: &PodView<'_>, memory: &mut PodHistory) {
    if memory.restarting.is_some() {
        return;
    }
    let mut members = lifecycle::members(&view.pod.pod);
    let trigger = members.find(|member| {
        exit_of_this_epoch(memory, &member.1.name).is_some_and(|code| {
            lifecycle::on_exit(&view.pod.pod, *member, code) == OnExit::RestartAll
        })
    });
    memory.restarting = trigger.map(|(_, container)| RestartAll {
        since: view.world.now.wall,
        container: container.name.clone(),
    });
}

/// The exit code of a container that does not run, if it ended by itself and nothing came after.
fn exit_of_this_epoch(memory: &PodHistory, name: &str) -> Option<i32> {
    let past = memory.containers.get(name)?;
    let last = past.last.as_ref()?;
    let is_own_end = last.stop.is_none() && last.exit.reason != absorb::LOST_REASON;
    (past.current.is_none() && last.epoch == memory.epoch && is_own_end).then_some(last.exit.code)
}

/// Only who asked for the restart waits for its back-off.
fn finish(memory: &mut PodHistory) {
    let Some(restart) = memory.restarting.take() else {
        return;
    };
    memory.epoch = memory.epoch.saturating_add(1);
    memory.anew_from = memory.epoch;
    for (name, container) in &mut memory.containers {
        if *name != restart.container {
            container.backoff = None;
        }
    }
}
