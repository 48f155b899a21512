//! What `vetch describe` needs to know of a container beyond its v1 status.

use k8s_openapi::api::core::v1::Container;

use super::sandboxes::Holding;
use super::state::Agent;
use crate::api::types::{ContainerDetail, ProbeDetail, Stopping};
use crate::holder::proto::{ContainerRecord, HookState, InstanceState};
use crate::plan::{self, ProbeKey};
use crate::pod::lifecycle;
use crate::pod::probe::ProbeKind;
use crate::pod::{PodUid, StaticPod};
use crate::sys::clock;

/// Of each container: init containers and sidecars, then regular ones, in the order of the spec.
pub fn details(
    agent: &Agent,
    document: &StaticPod,
    holding: Option<&Holding>,
) -> Vec<ContainerDetail> {
    let instances = holding.map(Holding::containers).unwrap_or_default();
    lifecycle::members(&document.pod)
        .map(|(_, container)| {
            let own = instances.iter().filter(|i| i.name == container.name);
            let newest_first: Vec<&ContainerRecord> = own.rev().collect();
            detail(agent, document, (container, &newest_first))
        })
        .collect()
}

fn detail(
    agent: &Agent,
    document: &StaticPod,
    (container, instances): (&Container, &[&ContainerRecord]),
) -> ContainerDetail {
    let (uid, name) = (&document.uid, &container.name);
    let newest = instances.first();
    let running = instances.iter().find(|instance| instance.state.is_live());
    let due = agent.view.shown.restarts.get(&(uid.clone(), name.clone()));
    let memory = agent.history.pods.get(uid);
    let past = memory.and_then(|memory| memory.containers.get(name)?.last.as_ref());
    let remembered = past.map(|last| last.restart_count);
    let count = newest.map(|instance| instance.restart_count).or(remembered);
    let logs = agent
        .config
        .paths
        .pod_logs(document.namespace(), document.name(), uid);
    let log_of = |count: u32| logs.join(name).join(format!("{count}.log"));
    let hook = |of: fn(&ContainerRecord) -> &HookState| {
        newest.map(|record| of(record).clone()).unwrap_or_default()
    };
    ContainerDetail {
        name: name.clone(),
        running_id: running.map(|instance| instance.id.clone()),
        log: count.map(log_of),
        previous_log: count
            .and_then(|count| count.checked_sub(1))
            .map(log_of)
            .filter(|path| path.exists()),
        next_restart: due.map(|due| plan::wall_time(*due, clock::now())),
        last_exit: past.map(|last| plan::last_exit(container, last)),
        post_start: hook(|record| &record.post_start),
        pre_stop: hook(|record| &record.pre_stop),
        stopping: newest.and_then(|record| stopping(record)),
        probes: running.map_or_else(Vec::new, |record| probes(agent, (uid, &record.id))),
    }
}

fn stopping(record: &ContainerRecord) -> Option<Stopping> {
    match &record.state {
        InstanceState::Stopping {
            kill_at_boot_ms,
            reason,
            phase,
            ..
        } => Some(Stopping {
            reason: reason.clone(),
            phase: *phase,
            kill_at: plan::wall_time(*kill_at_boot_ms, clock::now()),
        }),
        InstanceState::Running { .. } | InstanceState::Exited(_) => None,
    }
}

fn probes(agent: &Agent, (uid, id): (&PodUid, &str)) -> Vec<ProbeDetail> {
    let detail = |kind| {
        let key = ProbeKey {
            uid: uid.clone(),
            id: id.to_owned(),
            kind,
        };
        let (finding, last_failure) = agent.probes.told(&key);
        (finding.is_some() || last_failure.is_some()).then(|| ProbeDetail {
            kind,
            verdict: finding.map(|finding| finding.verdict),
            output: finding.map_or_else(String::new, |finding| finding.output.clone()),
            last_failure: last_failure.map(str::to_owned),
        })
    };
    ProbeKind::ALL.into_iter().filter_map(detail).collect()
}
