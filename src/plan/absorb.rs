//! Facts into history: each instance is met once when it is first seen, and buried once when its exit is. What a holder
//! knew is complete in the history before the holder goes.

use std::collections::BTreeSet;

use super::events;
use super::outcome::Outcome;
use super::pass::PodView;
use super::{
    Backoff, ContainerHistory, LiveInstance, PastInstance, PodHistory, SandboxState, StopCause,
    backoff, probes,
};
use crate::holder::proto::{ContainerRecord, Exit, InstanceState, Stamp};

/// P-165: exit code of an instance whose real one nobody saw.
const LOST_CODE: i32 = 137;
/// P-165.
pub(super) const LOST_REASON: &str = "ContainerStatusUnknown";

/// Takes in everything that the sandbox shows.
pub(super) fn absorb(view: &PodView<'_>, memory: &mut PodHistory, out: &mut Outcome) {
    take_in_containers(view, memory, out);
    probes::update(view, memory);
}

fn take_in_containers(view: &PodView<'_>, memory: &mut PodHistory, out: &mut Outcome) {
    let Some(sandbox) = view.sandbox else {
        lose_all_but(&BTreeSet::new(), view, memory);
        return;
    };
    let next_attempt = sandbox.record.attempt.saturating_add(1);
    if memory.next_attempt < next_attempt {
        memory.next_attempt = next_attempt;
        memory.epoch = memory.epoch.saturating_add(1);
    }
    match &sandbox.state {
        SandboxState::Starting => {}
        SandboxState::Ready { containers, .. } => {
            meet_all(containers, view, memory, out);
            let known = containers.iter().map(|c| c.id.as_str()).collect();
            lose_all_but(&known, view, memory);
        }
        SandboxState::Dead { containers, .. } => {
            meet_all(containers, view, memory, out);
            lose_all_but(&BTreeSet::new(), view, memory);
        }
    }
}

fn meet_all(
    containers: &[ContainerRecord],
    view: &PodView<'_>,
    memory: &mut PodHistory,
    out: &mut Outcome,
) {
    let epoch = memory.epoch;
    for record in containers {
        let container = memory.containers.entry(record.name.clone()).or_default();
        if !is_old_or_double(record, container) {
            meet((record, epoch), view, container, out);
        }
    }
}

/// Restart counts only rise (P-47), so an instance is newer than the last buried one, or was buried itself. A second
/// instance of the same count is never taken in: two agents, one after the other, asked for the same start.
fn is_old_or_double(record: &ContainerRecord, container: &ContainerHistory) -> bool {
    let is_old = container
        .last
        .as_ref()
        .is_some_and(|last| record.restart_count <= last.restart_count);
    let is_double = container.current.as_ref().is_some_and(|current| {
        record.id != current.id && record.restart_count <= current.restart_count
    });
    is_old || is_double
}

fn meet(
    (record, epoch): (&ContainerRecord, u32),
    view: &PodView<'_>,
    container: &mut ContainerHistory,
    out: &mut Outcome,
) {
    let is_new = container.current.as_ref().is_none_or(|c| c.id != record.id);
    if is_new {
        out.events.extend(events::appeared(view, record));
        container.announced = None;
    }
    if let Some(trouble) = events::failed_hook(record) {
        events::announce(view, &mut container.announced, &trouble, out);
    }
    match &record.state {
        InstanceState::Running { started_at, .. } | InstanceState::Stopping { started_at, .. } => {
            if is_new {
                container.current = Some(LiveInstance {
                    epoch,
                    ..live(record, *started_at, view)
                });
            }
            note_foreign_stop(record, container);
        }
        InstanceState::Exited(exit) => {
            let met = container.current.take().filter(|_| !is_new);
            let past = PastInstance {
                epoch: met.as_ref().map_or(epoch, |met| met.epoch),
                stop: met.and_then(|met| met.stop),
                ..past(record, exit)
            };
            bury(past, view, container);
        }
    }
}

/// A stop that is not of our asking is no verdict about the container either.
fn note_foreign_stop(record: &ContainerRecord, container: &mut ContainerHistory) {
    let is_stopping = match record.state {
        InstanceState::Stopping { .. } => true,
        InstanceState::Running { .. } | InstanceState::Exited(_) => false,
    };
    if let Some(current) = container.current.as_mut()
        && is_stopping
    {
        current.stop.get_or_insert(StopCause::PodEnds);
    }
}

fn live(record: &ContainerRecord, started_at: Stamp, view: &PodView<'_>) -> LiveInstance {
    LiveInstance {
        id: record.id.clone(),
        restart_count: record.restart_count,
        image: record.image.clone(),
        image_id: record.image_id.clone(),
        hash: record.hash.clone(),
        started_at,
        boot_id: view.world.rules.boot_id.clone(),
        epoch: 0,
        started: false,
        ready: false,
        stop: None,
    }
}

fn past(record: &ContainerRecord, exit: &Exit) -> PastInstance {
    PastInstance {
        id: record.id.clone(),
        restart_count: record.restart_count,
        image: record.image.clone(),
        image_id: record.image_id.clone(),
        hash: record.hash.clone(),
        exit: exit.clone(),
        epoch: 0,
        stop: None,
    }
}

/// P-165: an instance that is gone without a recorded exit was killed with its holder, or with the whole node.
fn lose_all_but(known: &BTreeSet<&str>, view: &PodView<'_>, memory: &mut PodHistory) {
    for container in memory.containers.values_mut() {
        if let Some(current) = container
            .current
            .take_if(|current| !known.contains(current.id.as_str()))
        {
            bury(lost(current, view), view, container);
        }
    }
}

fn lost(current: LiveInstance, view: &PodView<'_>) -> PastInstance {
    PastInstance {
        epoch: current.epoch,
        stop: current
            .stop
            .clone()
            .or_else(|| went_down_in_order(&current, view).then_some(StopCause::NodeDown)),
        exit: Exit {
            started_at: Some(current.started_at),
            finished_at: view.world.now,
            code: LOST_CODE,
            signal: None,
            reason: LOST_REASON.to_owned(),
            message: Some("the container was killed together with its pod's holder, or by a reboot; its exit code is not known".to_owned()),
        },
        id: current.id,
        restart_count: current.restart_count,
        image: current.image,
        image_id: current.image_id,
        hash: current.hash,
    }
}

/// A holder that dies leaves a dead sandbox behind, and that counts against its containers (P-32). Where there is none,
/// the node went down, or the holders were told to end while no agent ran.
fn went_down_in_order(current: &LiveInstance, view: &PodView<'_>) -> bool {
    view.sandbox.is_none() || current.boot_id != view.world.rules.boot_id
}

fn bury(ended: PastInstance, view: &PodView<'_>, container: &mut ContainerHistory) {
    let next = backoff::after_exit(
        container.backoff.as_ref(),
        container.last.as_ref(),
        &ended,
        (&view.pod.pod, view.world.rules),
    );
    // A finish time ahead of the clock is from another boot: it must not stretch the delay.
    container.backoff = next.map(|b| Backoff {
        advanced_at_boot_ms: b.advanced_at_boot_ms.min(view.world.now.boot_ms),
        ..b
    });
    container.previous = container.last.replace(ended);
    container.current = None;
}
