//! `status` of a pod, as an API server would show it.

use k8s_openapi::api::core::v1::{ContainerStatus, HostIP, Pod, PodIP, PodStatus};

use super::container::Verdict;
use super::container_status::{statuses, time};
use super::pass::PodView;
use super::qos::qos_class;
use super::run::Verdicts;
use super::{Finished, PodHistory, conditions};

/// `status.phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

/// The pod with its status; with a deletion timestamp while it is being ended.
pub(super) fn pod_with_status(
    view: &PodView<'_>,
    memory: &mut PodHistory,
    verdicts: &Verdicts,
) -> Pod {
    let mut pod = view.pod.pod.clone();
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
    let statuses = statuses(view, memory, verdicts);
    let phase = memory
        .finished
        .map_or_else(|| phase(&statuses, verdicts), finished_phase);
    let host_ip = view.world.rules.host_ip.clone();
    let pod_ip = host_ip.clone().filter(|_| is_host_network(&view.pod.pod));
    PodStatus {
        phase: Some(phase.as_str().to_owned()),
        conditions: Some(conditions::conditions(view, memory, (phase, &statuses))),
        container_statuses: Some(statuses),
        host_ips: host_ip.clone().map(|ip| vec![HostIP { ip }]),
        host_ip,
        pod_ips: pod_ip.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip,
        qos_class: Some(qos_class(&view.pod.pod).as_str().to_owned()),
        start_time: Some(time(memory.start_time)),
        ..PodStatus::default()
    }
}

fn is_host_network(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    spec.and_then(|s| s.host_network).unwrap_or_default()
}

fn finished_phase(finished: Finished) -> Phase {
    match finished {
        Finished::Succeeded => Phase::Succeeded,
        Finished::Failed | Finished::DeadlineExceeded => Phase::Failed,
    }
}

/// P-103…P-108; init containers come before (P-100…P-102). A pod on its way out restarts nothing, so that it shows how
/// it ended, which kubelet does for API pods only (P-112).
fn phase(statuses: &[ContainerStatus], verdicts: &Verdicts) -> Phase {
    let exit_code = |s: &ContainerStatus| {
        let state = s.state.as_ref().and_then(|s| s.terminated.as_ref());
        let last = s.last_state.as_ref().and_then(|s| s.terminated.as_ref());
        state.or(last).map(|t| t.exit_code)
    };
    let is_running = |s: &ContainerStatus| {
        s.state
            .as_ref()
            .is_some_and(|state| state.running.is_some())
    };
    let is_restartable =
        |s: &ContainerStatus| verdicts.get(&s.name).is_some_and(|v| *v != Verdict::Done);
    if statuses
        .iter()
        .any(|s| !is_running(s) && exit_code(s).is_none())
        || statuses.is_empty()
    {
        Phase::Pending
    } else if statuses.iter().any(|s| is_running(s) || is_restartable(s)) {
        Phase::Running
    } else if statuses.iter().all(|s| exit_code(s) == Some(0)) {
        Phase::Succeeded
    } else {
        Phase::Failed
    }
}
