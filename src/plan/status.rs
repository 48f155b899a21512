//! `status` of a pod, as an API server would show it.

use k8s_openapi::api::core::v1::{ContainerStatus, HostIP, Pod, PodIP, PodStatus};

use super::admission::Refusal;
use super::container_status::{self, Member, time};
use super::pass::PodView;
use super::phase::{Phase, Stand};
use super::qos::qos_class;
use super::run::Verdicts;
use super::{EndingCause, Finished, PodHistory, SandboxState, conditions, events, phase};
use crate::pod::lifecycle::Role;

/// N-28.
pub(super) const NODE_SHUTDOWN: &str = "Pod was terminated in response to imminent node shutdown.";

/// The pod with its status; with a deletion timestamp while it is being ended.
pub(super) fn pod_with_status(
    view: &PodView<'_>,
    memory: &mut PodHistory,
    verdicts: &Verdicts,
) -> Pod {
    let mut pod = Pod::clone(&view.pod.pod);
    if let Some(ending) = memory.ending {
        let started = view.sandbox.map_or(view.pod, |s| &s.record.pod);
        let grace = i64::from(started.grace_s());
        let deadline = ending
            .since
            .checked_add(jiff::SignedDuration::from_secs(grace))
            .unwrap_or(ending.since);
        pod.metadata.deletion_timestamp = Some(time(deadline));
        pod.metadata.deletion_grace_period_seconds = Some(grace);
    }
    pod.status = Some(status(view, memory, verdicts));
    pod
}

fn status(view: &PodView<'_>, memory: &mut PodHistory, verdicts: &Verdicts) -> PodStatus {
    // As kubelet, nothing is shown of the containers of a pod that was not taken.
    let members = match view.refusal() {
        Some(_) => Vec::new(),
        None => container_status::members(view, memory, verdicts),
    };
    let outcome = outcome(view, memory, &members);
    let host_ip = view.world.rules.host_ip.clone();
    let pod_ip = host_ip.clone().filter(|_| view.pod.is_host_network());
    let conditions = conditions::conditions(view, memory, (outcome.phase, &members));
    let (init, regular) = statuses(members);
    PodStatus {
        phase: Some(outcome.phase.as_str().to_owned()),
        reason: outcome.reason,
        message: outcome.message,
        conditions: Some(conditions),
        init_container_statuses: init,
        container_statuses: regular,
        host_ips: host_ip.clone().map(|ip| vec![HostIP { ip }]),
        host_ip,
        pod_ips: pod_ip.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip,
        qos_class: Some(qos_class(&view.pod.pod).as_str().to_owned()),
        start_time: Some(time(memory.start_time)),
        observed_generation: view.pod.pod.metadata.generation,
        ..PodStatus::default()
    }
}

/// Of init containers and of regular ones.
type Statuses = (Option<Vec<ContainerStatus>>, Option<Vec<ContainerStatus>>);

/// P-138: init containers in spec order, regular ones by name.
fn statuses(members: Vec<Member>) -> Statuses {
    let (regular, init): (Vec<Member>, Vec<Member>) = members
        .into_iter()
        .partition(|member| member.role == Role::Regular);
    let shown = |members: Vec<Member>| -> Vec<ContainerStatus> {
        members.into_iter().map(|member| member.status).collect()
    };
    let mut regular = shown(regular);
    regular.sort_by(|a, b| a.name.cmp(&b.name));
    let unless_empty = |list: Vec<ContainerStatus>| Some(list).filter(|list| !list.is_empty());
    (unless_empty(shown(init)), unless_empty(regular))
}

/// The phase, and why it is what it is.
struct PodOutcome {
    phase: Phase,
    reason: Option<String>,
    message: Option<String>,
}

impl PodOutcome {
    fn plain(phase: Phase) -> Self {
        Self {
            phase,
            reason: None,
            message: None,
        }
    }

    fn failed(reason: &str, message: &str) -> Self {
        Self {
            phase: Phase::Failed,
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
        }
    }

    /// D-3: unlike kubelet's, not final.
    fn refused(refusal: &Refusal) -> Self {
        Self {
            phase: Phase::Pending,
            reason: Some(refusal.reason.clone()),
            message: Some(refusal.status_message()),
        }
    }
}

/// P-111: what is remembered counts. As with kubelet, a phase is only final when no container runs any more.
fn outcome(view: &PodView<'_>, memory: &PodHistory, members: &[Member]) -> PodOutcome {
    if let Some(refusal) = view.refusal() {
        return PodOutcome::refused(refusal);
    }
    let stands: Vec<(Role, Stand)> = members.iter().map(|m| (m.role, m.stand)).collect();
    let runs = |stand: Stand| matches!(stand, Stand::Starting | Stand::Started);
    let is_live = stands.iter().any(|(_, stand)| runs(*stand)) || is_busy(view);
    let goes_down = memory
        .ending
        .is_some_and(|ending| ending.cause == EndingCause::NodeShutdown);
    let outcome = match memory.finished {
        Some(Finished::Succeeded) => PodOutcome::plain(Phase::Succeeded),
        Some(Finished::Failed) => PodOutcome::plain(Phase::Failed),
        Some(Finished::DeadlineExceeded) => {
            PodOutcome::failed("DeadlineExceeded", events::DEADLINE_MESSAGE)
        }
        None if goes_down => PodOutcome::failed("Terminated", NODE_SHUTDOWN),
        None if memory.evicted.is_some() => {
            let evicted = memory.evicted.as_ref();
            PodOutcome::failed("Evicted", evicted.map_or("", |e| e.message.as_str()))
        }
        None => PodOutcome::plain(phase::phase(&stands)),
    };
    match outcome.phase {
        Phase::Succeeded | Phase::Failed if is_live => PodOutcome::plain(unfinished(&stands)),
        Phase::Pending | Phase::Running | Phase::Succeeded | Phase::Failed => outcome,
    }
}

/// A container is being made, and may yet run, or one runs, perhaps none of the present spec.
fn is_busy(view: &PodView<'_>) -> bool {
    match view.sandbox.map(|sandbox| &sandbox.state) {
        Some(SandboxState::Ready {
            containers,
            creating,
            ..
        }) => !creating.is_empty() || containers.iter().any(|record| record.state.is_live()),
        Some(SandboxState::Starting | SandboxState::Dead { .. }) | None => false,
    }
}

/// The phase of a pod that is over but for what still runs in it.
fn unfinished(stands: &[(Role, Stand)]) -> Phase {
    let has_begun = |(role, stand): &(Role, Stand)| *role == Role::Regular && *stand != Stand::New;
    if stands.iter().any(has_begun) {
        Phase::Running
    } else {
        Phase::Pending
    }
}
