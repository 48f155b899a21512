//! Small builders for pods, records and observations.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::config::BackoffCurve;
use crate::holder::proto::{
    ContainerRecord, Exit, HookState, InstanceState, PROTO_VERSION, PodRecord, ProcessId,
    SandboxSpec, Stamp, StopPhase,
};
use crate::plan::{
    Allocatable, Desired, History, ImagePresence, Observed, Plan, Rules, Sandbox, SandboxState,
    container_hash, plan,
};
use crate::pod::{Origin, PodUid, StaticPod};

/// Wall clock at boot 0.
pub(super) const EPOCH_S: i64 = 1_700_000_000;

pub(super) fn at(boot_ms: u64) -> Stamp {
    Stamp {
        boot_ms,
        wall: Timestamp::from_millisecond(EPOCH_S * 1000 + i64::try_from(boot_ms).unwrap())
            .unwrap(),
    }
}

pub(super) fn uid(text: &str) -> PodUid {
    PodUid::try_from(text.to_owned()).unwrap()
}

/// A pod whose containers all use the image `app`.
pub(super) fn pod(id: &str, policy: &str, containers: &[&str]) -> StaticPod {
    let containers: Vec<_> = containers
        .iter()
        .map(|name| json!({"name": name, "image": "app", "imagePullPolicy": "IfNotPresent"}))
        .collect();
    StaticPod {
        uid: uid(id),
        pod: serde_json::from_value::<Pod>(json!({
            "metadata": {"name": "web-node", "namespace": "default", "uid": id},
            "spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 5, "containers": containers},
        }))
        .unwrap().into(),
        document_hash: id.to_owned(),
        origin: Origin {
            file: "web.yaml".into(),
            line: 1,
        },
        diagnostics: Vec::new(),
    }
}

pub(super) fn with_image(mut pod: StaticPod, index: usize, image: &str) -> StaticPod {
    let spec = pod.pod.spec.as_mut().unwrap();
    spec.containers[index].image = Some(image.to_owned());
    pod
}

pub(super) fn rules() -> Rules {
    Rules {
        labels: BTreeMap::new(),
        allocatable: Allocatable {
            cpu_milli: 4000,
            memory: 1 << 30,
            ephemeral_storage: 1 << 30,
            pods: 110,
        },
        shutdown: Vec::new(),
        unsafe_sysctls: Vec::new(),
        apparmor: false,
        boot_id: "boot-1".into(),
        backoff: BackoffCurve::default(),
        node_name: "node".into(),
        host_ip: Some("10.0.0.1".into()),
    }
}

pub(super) fn desired(pods: &[&StaticPod]) -> Desired {
    pods.iter().map(|p| (p.uid.clone(), (*p).clone())).collect()
}

/// No sandbox; sources ready; the image `app` is there.
pub(super) fn nothing() -> Observed {
    Observed {
        images: BTreeMap::from([(
            "app".to_owned(),
            ImagePresence::Present("sha256:app".to_owned()),
        )]),
        sources_ready: true,
        ..Observed::default()
    }
}

pub(super) fn pod_record(pod: &StaticPod, attempt: u32) -> PodRecord {
    PodRecord {
        version: PROTO_VERSION,
        pod: pod.clone(),
        attempt,
        sandbox: SandboxSpec {
            holder_cgroup: "/v/holders/x".into(),
            pod_cgroup: "/v/besteffort/podx".into(),
            host_network: false,
            hostname: "web-node".into(),
            host_ipc: false,
            pid: Default::default(),
            sysctls: Default::default(),
            trash: "/trash".into(),
        },
    }
}

pub(super) fn ready(containers: Vec<ContainerRecord>) -> SandboxState {
    SandboxState::Ready {
        containers,
        creating: BTreeSet::new(),
        removing: BTreeSet::new(),
        leaving: false,
        log_trouble: None,
    }
}

pub(super) fn dead(containers: Vec<ContainerRecord>) -> SandboxState {
    SandboxState::Dead {
        containers,
        cgroup_empty: false,
        cleaning: false,
    }
}

/// One sandbox of this pod, attempt 0.
pub(super) fn seen(pod: &StaticPod, state: SandboxState) -> Observed {
    let mut observed = nothing();
    observed.sandboxes.insert(
        pod.uid.clone(),
        Sandbox {
            record: pod_record(pod, 0),
            state,
        },
    );
    observed
}

pub(super) fn process() -> ProcessId {
    ProcessId {
        pid: 7,
        start_ticks: 70,
    }
}

fn instance(name: &str, restart_count: u32, state: InstanceState) -> ContainerRecord {
    ContainerRecord {
        user: None,
        id: format!("{name}-{restart_count}"),
        name: name.to_owned(),
        restart_count,
        hash: container_hash(name, "app"),
        image: "app".into(),
        image_id: "sha256:app".into(),
        log: format!("/log/{name}/{restart_count}.log").into(),
        stop_signal: 15,
        resources: Default::default(),
        post_start: HookState::None,
        pre_stop: HookState::None,
        state,
    }
}

pub(super) fn running(name: &str, restart_count: u32, started: u64) -> ContainerRecord {
    let state = InstanceState::Running {
        process: process(),
        started_at: at(started),
    };
    instance(name, restart_count, state)
}

pub(super) fn stopping(name: &str, restart_count: u32, kill_at_boot_ms: u64) -> ContainerRecord {
    let state = InstanceState::Stopping {
        process: process(),
        started_at: at(0),
        kill_at_boot_ms,
        reason: "told".into(),
        phase: StopPhase::Signalled,
    };
    instance(name, restart_count, state)
}

pub(super) fn exited(
    name: &str,
    restart_count: u32,
    (started, finished): (u64, u64),
    code: i32,
) -> ContainerRecord {
    let state = InstanceState::Exited(Exit {
        started_at: Some(at(started)),
        finished_at: at(finished),
        code,
        signal: None,
        reason: if code == 0 { "Completed" } else { "Error" }.into(),
        message: None,
    });
    instance(name, restart_count, state)
}

/// Plans with the usual rules.
pub(super) fn planned(
    wanted: &[&StaticPod],
    observed: &Observed,
    history: &History,
    boot_ms: u64,
) -> Plan {
    plan(&desired(wanted), observed, history, &rules(), at(boot_ms))
}

/// The history after these observations in turn.
pub(super) fn history_of(wanted: &[&StaticPod], steps: &[(u64, Observed)]) -> History {
    steps
        .iter()
        .fold(History::default(), |history, (boot_ms, observed)| {
            planned(wanted, observed, &history, *boot_ms).history
        })
}

/// `reason container message` of each event.
pub(super) fn event_lines(plan: &Plan) -> Vec<String> {
    plan.events
        .iter()
        .map(|e| {
            let container = e.container.as_deref().unwrap_or("-");
            format!("{} {container} {}", e.reason, e.message)
        })
        .collect()
}

/// `container text` of each note.
pub(super) fn note_lines(plan: &Plan) -> Vec<String> {
    plan.notes
        .iter()
        .map(|n| format!("{} {}", n.container.as_deref().unwrap_or("-"), n.text))
        .collect()
}

pub(super) fn phase(plan: &Plan, pod: &StaticPod) -> String {
    let status = plan.pods[&pod.uid].status.as_ref().unwrap();
    status.phase.clone().unwrap()
}
