//! One pod in one line: the columns READY, STATUS and RESTARTS, computed as kubectl computes them.

use std::fmt::Write;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use super::{duration, select};

/// What `get pods` shows of a pod.
#[derive(Debug, PartialEq, Eq)]
pub struct Summary {
    /// `2/3`
    pub ready: String,
    /// `Running`, `CrashLoopBackOff`, `Init:0/1`, `Terminating`, …
    pub status: String,
    /// `4 (10s ago)`
    pub restarts: String,
}

/// What was counted on the way.
#[derive(Default)]
struct Count {
    ready: usize,
    restarts: i32,
    last_restart: Option<Timestamp>,
    reason: String,
}

/// Sums a pod up, as kubectl's `printPod` does.
pub fn summarize(pod: &Pod, now: Timestamp) -> Summary {
    let nothing = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&nothing);
    let phase = status.phase.as_deref().unwrap_or("Unknown");
    let mut count = Count {
        reason: status.reason.as_deref().unwrap_or(phase).to_owned(),
        ..Count::default()
    };
    let init = count_init(pod, status, &mut count);
    if init.is_through || has_condition(status, "Initialized") {
        count.restarts = init.sidecars.restarts;
        count.last_restart = init.sidecars.last_restart;
        count_regular(status, &mut count);
    }
    let over = matches!(phase, "Succeeded" | "Failed");
    if select::is_ending(pod) && !over {
        count.reason = "Terminating".to_owned();
    }
    Summary {
        ready: format!("{}/{}", count.ready, total(pod)),
        status: count.reason,
        restarts: restarts(count.restarts, count.last_restart, now),
    }
}

fn restarts(number: i32, last: Option<Timestamp>, now: Timestamp) -> String {
    let mut text = number.to_string();
    if let Some(last) = last.filter(|_| number > 0) {
        // Writing to a String cannot fail.
        let _ = write!(text, " ({} ago)", duration::since(last, now));
    }
    text
}

/// Regular containers and sidecars.
fn total(pod: &Pod) -> usize {
    pod.spec.as_ref().map_or(0, |spec| {
        let sidecars = spec
            .init_containers
            .iter()
            .flatten()
            .filter(|c| c.restart_policy.as_deref() == Some("Always"))
            .count();
        spec.containers.len() + sidecars
    })
}

/// What there is to tell of the init containers. Restarts of plain ones count only while they run, those of sidecars
/// always.
struct Init {
    is_through: bool,
    sidecars: Count,
}

/// Looks at the init containers, up to the first that is not through.
fn count_init(pod: &Pod, status: &PodStatus, count: &mut Count) -> Init {
    let all = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.init_containers.as_deref())
        .unwrap_or_default();
    let is_sidecar = |name: &str| {
        all.iter()
            .any(|c| c.name == name && c.restart_policy.as_deref() == Some("Always"))
    };
    let mut sidecars = Count::default();
    for (index, container) in status.init_container_statuses.iter().flatten().enumerate() {
        add_restarts(container, count);
        let sidecar = is_sidecar(&container.name);
        if sidecar {
            add_restarts(container, &mut sidecars);
        }
        if sidecar && container.started == Some(true) {
            count.ready += usize::from(container.ready);
        } else if let Some(reason) = init_trouble(container, index, all.len()) {
            count.reason = reason;
            return Init {
                is_through: false,
                sidecars,
            };
        }
    }
    Init {
        is_through: true,
        sidecars,
    }
}

/// Why the pod waits for this init container; none when it is through.
fn init_trouble(container: &ContainerStatus, index: usize, total: usize) -> Option<String> {
    let state = container.state.as_ref();
    let waiting = state
        .and_then(|s| s.waiting.as_ref())
        .and_then(|w| w.reason.as_deref())
        .filter(|reason| !reason.is_empty() && *reason != "PodInitializing");
    match (state.and_then(|s| s.terminated.as_ref()), waiting) {
        (Some(end), _) if end.exit_code == 0 => None,
        (Some(end), _) => Some(format!("Init:{}", end_reason(end))),
        (None, Some(reason)) => Some(format!("Init:{reason}")),
        (None, None) => Some(format!("Init:{index}/{total}")),
    }
}

fn count_regular(status: &PodStatus, count: &mut Count) {
    let mut running = false;
    for container in status.container_statuses.iter().flatten().rev() {
        add_restarts(container, count);
        let state = container.state.as_ref();
        let waiting = state
            .and_then(|s| s.waiting.as_ref())
            .and_then(|w| w.reason.as_deref())
            .filter(|reason| !reason.is_empty());
        let end = state.and_then(|s| s.terminated.as_ref());
        if let Some(reason) = waiting {
            count.reason = reason.to_owned();
        } else if let Some(end) = end {
            count.reason = end_reason(end);
        } else if container.ready && state.is_some_and(|s| s.running.is_some()) {
            running = true;
            count.ready += 1;
        }
    }
    // One container is done, another one still works.
    if count.reason == "Completed" && running {
        count.reason = if has_condition(status, "Ready") {
            "Running".to_owned()
        } else {
            "NotReady".to_owned()
        };
    }
}

fn end_reason(end: &k8s_openapi::api::core::v1::ContainerStateTerminated) -> String {
    match (end.reason.as_deref(), end.signal.unwrap_or(0)) {
        (Some(reason), _) if !reason.is_empty() => reason.to_owned(),
        (_, 0) => format!("ExitCode:{}", end.exit_code),
        (_, signal) => format!("Signal:{signal}"),
    }
}

fn add_restarts(container: &ContainerStatus, count: &mut Count) {
    count.restarts = count.restarts.saturating_add(container.restart_count);
    let last = container
        .last_state
        .as_ref()
        .and_then(|s| s.terminated.as_ref())
        .and_then(|end| end.finished_at.as_ref())
        .map(|time| time.0);
    count.last_restart = count.last_restart.max(last);
}

fn has_condition(status: &PodStatus, kind: &str) -> bool {
    status
        .conditions
        .iter()
        .flatten()
        .any(|c| c.type_ == kind && c.status == "True")
}
