//! What probes make of an instance (P-42, P-135, P-136, R-11…R-14), and which of them run (R-13, R-16… ).

use k8s_openapi::api::core::v1::Container;

use super::outcome::Outcome;
use super::pass::{Goal, PodView};
use super::{
    Finding, LiveInstance, PodHistory, ProbeKey, ProbeOrder, ProbeVerdict, SandboxState, StopCause,
};
use crate::holder::proto::{ContainerRecord, InstanceState};
use crate::pod::lifecycle::{self, Role};
use crate::pod::probe::{self, ProbeKind};

/// Takes in what the probes found about each instance that lives. Without a verdict the remembered one counts.
pub(super) fn update(view: &PodView<'_>, memory: &mut PodHistory) {
    let Some(SandboxState::Ready { containers, .. }) = view.sandbox.map(|s| &s.state) else {
        return;
    };
    for (role, container) in lifecycle::members(&view.pod.pod) {
        let past = memory.containers.get_mut(&container.name);
        let current = past.and_then(|past| past.current.as_mut());
        let current = current.filter(|c| containers.iter().any(|record| record.id == c.id));
        let Some(current) = current else {
            continue;
        };
        match role {
            Role::Init => current.started = true,
            Role::Sidecar | Role::Regular => judge(view, container, current),
        }
    }
}

fn judge(view: &PodView<'_>, container: &Container, current: &mut LiveInstance) {
    let says = |current: &LiveInstance, kind| {
        finding(view, current, kind).map(|found| found.verdict == ProbeVerdict::Success)
    };
    current.started |=
        container.startup_probe.is_none() || says(current, ProbeKind::Startup).unwrap_or_default();
    let is_ready = match container.readiness_probe {
        //
        None => true,
        Some(_) => says(current, ProbeKind::Readiness).unwrap_or(current.ready),
    };
    current.ready = current.started && is_ready;
}

fn finding<'a>(view: &PodView<'a>, current: &LiveInstance, kind: ProbeKind) -> Option<&'a Finding> {
    view.world.observed.probes.get(&key(view, current, kind))
}

fn key(view: &PodView<'_>, current: &LiveInstance, kind: ProbeKind) -> ProbeKey {
    ProbeKey {
        uid: view.uid.clone(),
        id: current.id.clone(),
        kind,
    }
}

/// P-42: whether a probe wants the instance's end.
pub(super) fn failure(
    view: &PodView<'_>,
    container: &Container,
    current: &LiveInstance,
) -> Option<StopCause> {
    let kind = if current.started {
        ProbeKind::Liveness
    } else {
        ProbeKind::Startup
    };
    kind.of(container)?;
    let found = finding(view, current, kind)?;
    (found.verdict == ProbeVerdict::Failure).then(|| StopCause::Probe {
        kind,
        output: found.output.clone(),
    })
}

/// Every probe of the pod that is to run now.
pub(super) fn order(view: &PodView<'_>, memory: &PodHistory, out: &mut Outcome) {
    let Some(SandboxState::Ready { containers, .. }) = view.sandbox.map(|s| &s.state) else {
        return;
    };
    if view.goal == Goal::Rest || memory.finished.is_some() {
        //
        return;
    }
    for record in containers {
        let member = lifecycle::member(&view.pod.pod, &record.name);
        let past = memory.containers.get(&record.name);
        let current = past.and_then(|past| past.current.as_ref());
        let current = current.filter(|current| current.id == record.id);
        match (member, current) {
            (Some((Role::Sidecar | Role::Regular, container)), Some(current)) => {
                order_of_instance(view, container, (record, current), out);
            }
            (Some((Role::Init, _)), _) | (None, _) | (_, None) => {}
        }
    }
}

fn order_of_instance(
    view: &PodView<'_>,
    container: &Container,
    (record, current): (&ContainerRecord, &LiveInstance),
    out: &mut Outcome,
) {
    let Some((_, started_at)) = record.state.live() else {
        return;
    };
    let kinds = ProbeKind::ALL
        .into_iter()
        .filter(|kind| runs(*kind, record, current));
    for kind in kinds {
        let Some(spec) = probe::spec(container, kind) else {
            continue;
        };
        let order = ProbeOrder {
            container: container.name.clone(),
            spec,
            started_at,
            initial: initial(kind, current),
        };
        out.probes.insert(key(view, current, kind), order);
    }
}

/// An instance that is to end has a cause to, whether its pod ends or not.
fn runs(kind: ProbeKind, record: &ContainerRecord, current: &LiveInstance) -> bool {
    let is_ending = current.stop.is_some()
        || match record.state {
            InstanceState::Running { .. } => false,
            InstanceState::Stopping { .. } | InstanceState::Exited(_) => true,
        };
    match kind {
        ProbeKind::Startup => !current.started && !is_ending,
        ProbeKind::Liveness => current.started && !is_ending,
        ProbeKind::Readiness => current.started,
    }
}

///
fn initial(kind: ProbeKind, current: &LiveInstance) -> Option<ProbeVerdict> {
    match kind {
        ProbeKind::Startup => None,
        ProbeKind::Liveness => Some(ProbeVerdict::Success),
        ProbeKind::Readiness if current.ready => Some(ProbeVerdict::Success),
        ProbeKind::Readiness => Some(ProbeVerdict::Failure),
    }
}
