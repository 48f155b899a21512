//! Who is stopped, and why (P-40, P-42, P-56, P-63, P-76, P-90). [`super::stop`] says how.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::outcome::Outcome;
use super::pass::{Goal, PodView};
use super::stop::{self, StopOrder};
use super::{
    Action, EndingCause, LiveInstance, PodHistory, SandboxState, StopCause, container, events,
    eviction, probes, shutdown,
};
use crate::holder::proto::{ContainerRecord, HookState, InstanceState, MIN_GRACE_MS};
use crate::pod::lifecycle::{self, RestartPolicy};
use crate::pod::probe;

/// Finds who has a cause to end in a pod that runs, before anything is decided: nobody starts behind a sidecar that is to
/// end. A cause that has gone before its stop reached the holder is forgotten.
pub(super) fn note(view: &PodView<'_>, memory: &mut PodHistory, out: &mut Outcome) {
    let Some(SandboxState::Ready { containers, .. }) = view.sandbox.map(|s| &s.state) else {
        return;
    };
    if view.goal != Goal::Run {
        return;
    }
    for record in containers {
        let is_running = match record.state {
            InstanceState::Running { .. } => true,
            InstanceState::Stopping { .. } | InstanceState::Exited(_) => false,
        };
        if is_running {
            let cause = cause(view, memory, record);
            remember(view, memory, (record, cause), out);
        }
    }
}

/// The event is for the first cause.
fn remember(
    view: &PodView<'_>,
    memory: &mut PodHistory,
    (record, cause): (&ContainerRecord, Option<StopCause>),
    out: &mut Outcome,
) {
    let Some(current) = current_mut(memory, record) else {
        return;
    };
    match cause {
        Some(cause) if current.stop.is_none() => {
            let reason = order(view, record, &cause).reason;
            current.stop = Some(cause);
            out.events
                .push(events::killing(view, &record.name, &reason));
        }
        Some(_) => {}
        None => current.stop = None,
    }
}

/// Stops every instance that has a cause to end.
pub(super) fn stop_due(
    view: &PodView<'_>,
    memory: &mut PodHistory,
    records: &[ContainerRecord],
    out: &mut Outcome,
) {
    for record in records {
        match (cause(view, memory, record), &record.state) {
            (_, InstanceState::Exited(_)) | (None, _) => {}
            (Some(cause), InstanceState::Running { .. } | InstanceState::Stopping { .. }) => {
                stop(view, memory, (record, cause), out);
            }
        }
    }
}

/// Why this instance is to end, if it is.
fn cause(view: &PodView<'_>, memory: &PodHistory, record: &ContainerRecord) -> Option<StopCause> {
    match view.goal {
        Goal::End(_) | Goal::Rest => return Some(StopCause::PodEnds),
        Goal::Hold => return None,
        Goal::Run => {}
    }
    let container = memory.containers.get(&record.name);
    let current = container.and_then(|c| c.current.as_ref());
    let Some((_, spec)) = lifecycle::member(&view.pod.pod, &record.name) else {
        return Some(StopCause::Dropped);
    };
    if container::hash(spec) != record.hash {
        return Some(StopCause::Changed);
    }
    let Some(current) = current.filter(|current| current.id == record.id) else {
        return Some(StopCause::Double);
    };
    if memory.restarting.is_some() {
        return Some(StopCause::RestartAll);
    }
    lasting(current)
        .or_else(|| failed_hook(record))
        .or_else(|| probes::failure(view, spec, current))
}

/// What was found once and cannot be found again: the verdict does not outlive the agent, the cause does.
fn lasting(current: &LiveInstance) -> Option<StopCause> {
    let found = current.stop.as_ref();
    found.filter(|cause| !cause.is_interruption()).cloned()
}

/// P-90.
fn failed_hook(record: &ContainerRecord) -> Option<StopCause> {
    match &record.post_start {
        HookState::Failed { message } => Some(StopCause::PostStart {
            message: message.clone(),
        }),
        HookState::None | HookState::Running | HookState::Done => None,
    }
}

/// Asks for the end of an instance, again until the holder says that it is stopping, and then only to shorten the wait
/// (P-75).
fn stop(
    view: &PodView<'_>,
    memory: &mut PodHistory,
    (record, cause): (&ContainerRecord, StopCause),
    out: &mut Outcome,
) {
    let order = order(view, record, &cause);
    let is_due = match &record.state {
        InstanceState::Running { .. } => true,
        InstanceState::Stopping {
            kill_at_boot_ms, ..
        } => {
            let wait_ms = order.grace_ms.max(MIN_GRACE_MS);
            view.world.now.boot_ms.saturating_add(wait_ms) < *kill_at_boot_ms
        }
        InstanceState::Exited(_) => false,
    };
    if !is_due {
        return;
    }
    remember(view, memory, (record, Some(cause)), out);
    out.actions.push(Action::StopContainer {
        uid: view.uid.clone(),
        order,
    });
}

fn current_mut<'a>(
    memory: &'a mut PodHistory,
    record: &ContainerRecord,
) -> Option<&'a mut LiveInstance> {
    let container = memory.containers.get_mut(&record.name)?;
    let current = container.current.as_mut();
    current.filter(|current| current.id == record.id)
}

/// With its pod, a container ends in the pod's order (P-81); alone, at once. Without grace there is no hook (P-77).
fn order(view: &PodView<'_>, record: &ContainerRecord, cause: &StopCause) -> StopOrder {
    let pod = spec_of(view, record);
    let order = stop::order(pod, record, grace_ms(view, record, cause));
    StopOrder {
        reason: reason(pod, &record.name, cause).unwrap_or(order.reason),
        pre_stop: order.pre_stop.filter(|_| order.grace_ms > 0),
        after: match cause {
            StopCause::PodEnds => order.after,
            StopCause::Changed
            | StopCause::Dropped
            | StopCause::Double
            | StopCause::NodeDown
            | StopCause::Probe { .. }
            | StopCause::PostStart { .. }
            | StopCause::RestartAll => Vec::new(),
        },
        ..order
    }
}

/// The spec that the instance was made from, as far as it is known: the present one, unless the container has changed
/// since.
fn spec_of<'a>(view: &PodView<'a>, record: &ContainerRecord) -> &'a Pod {
    let is_same = |c: &Container| container::hash(c) == record.hash;
    let present = lifecycle::member(&view.pod.pod, &record.name);
    match (present, view.sandbox) {
        (Some((_, spec)), _) if is_same(spec) => &view.pod.pod,
        (Some(_) | None, Some(sandbox)) => &sandbox.record.pod.pod,
        (Some(_) | None, None) => &view.pod.pod,
    }
}

/// P-76. A pod on its way out has the grace it was started with (D-4), when the node goes down not more than its turn has
/// (N-26); one that stays has its present one.
fn grace_ms(view: &PodView<'_>, record: &ContainerRecord, cause: &StopCause) -> u64 {
    let pod = match (view.goal, view.sandbox) {
        (Goal::End(_), Some(sandbox)) => &sandbox.record.pod,
        (Goal::End(_), None) | (Goal::Run | Goal::Hold | Goal::Rest, _) => view.pod,
    };
    let of_pod = match view.goal {
        Goal::End(EndingCause::NodeShutdown) => shutdown::grace_ms(&view.world.rules.shutdown, pod),
        Goal::End(EndingCause::Evicted) => eviction::GRACE_MS,
        Goal::End(_) | Goal::Run | Goal::Hold | Goal::Rest => u64::from(pod.grace_s()) * 1000,
    };
    match cause {
        StopCause::Probe { kind, .. } => {
            let spec = lifecycle::member(&pod.pod, &record.name)
                .and_then(|(_, container)| probe::spec(container, *kind));
            let own = spec.and_then(|spec| spec.grace_s);
            own.map_or(of_pod, |seconds| u64::from(seconds) * 1000)
        }
        StopCause::RestartAll => 0,
        StopCause::Changed
        | StopCause::Dropped
        | StopCause::Double
        | StopCause::PodEnds
        | StopCause::NodeDown
        | StopCause::PostStart { .. } => of_pod,
    }
}

/// P-84; none for what is said of every container that ends with its pod.
fn reason(pod: &Pod, name: &str, cause: &StopCause) -> Option<String> {
    let text = match cause {
        StopCause::PodEnds | StopCause::NodeDown => return None,
        StopCause::Changed => format!("Container {name} definition changed, will be restarted"),
        StopCause::Dropped => format!("Container {name} was removed from the pod"),
        StopCause::Double => format!("Container {name} was started twice, the second is stopped"),
        StopCause::Probe { kind, .. } => {
            let kind = kind.as_str().to_lowercase();
            let then = what_follows(pod, name);
            format!("Container {name} failed {kind} probe{then}")
        }
        StopCause::PostStart { .. } => {
            let then = what_follows(pod, name);
            format!("Container {name} failed its postStart hook{then}")
        }
        StopCause::RestartAll => {
            format!("Container {name} is restarted with all containers of its pod")
        }
    };
    Some(text)
}

/// P-42.
fn what_follows(pod: &Pod, name: &str) -> &'static str {
    let member = lifecycle::member(pod, name);
    match member.map(|(role, container)| lifecycle::restart_policy(pod, role, container)) {
        Some(RestartPolicy::Always | RestartPolicy::OnFailure) => ", will be restarted",
        Some(RestartPolicy::Never) | None => "",
    }
}
