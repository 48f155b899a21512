//! `status.conditions` (section 2.10). A condition's time moves only with its status.

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition};

use super::container_status::time;
use super::events;
use super::pass::PodView;
use super::status::Phase;
use super::{PodHistory, SandboxState};

/// A condition before its transition time is known.
struct Draft {
    kind: &'static str,
    /// None: true. Some: false, with reason and message.
    fault: Option<(&'static str, String)>,
    /// A reason beside a true status.
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Draft {
    fn is_true(kind: &'static str) -> Self {
        Self {
            kind,
            fault: None,
            reason: None,
            message: None,
        }
    }
    fn with_fault(kind: &'static str, fault: Option<(&'static str, String)>) -> Self {
        Self {
            fault,
            ..Self::is_true(kind)
        }
    }
}

/// P-120…P-124, in kubelet's order; the times are taken from, and go to, the history.
pub(super) fn conditions(
    view: &PodView<'_>,
    memory: &mut PodHistory,
    (phase, statuses): (Phase, &[ContainerStatus]),
) -> Vec<PodCondition> {
    let unready = unready(phase, statuses);
    let gates = unready.clone().or_else(|| open_gates(view));
    let drafts = [
        Some(sandbox_condition(view)),
        Some(initialized(phase)),
        Some(Draft::with_fault("Ready", gates)),
        Some(Draft::with_fault("ContainersReady", unready)),
        Some(Draft::is_true("PodScheduled")),
        ignored_fields(view),
    ];
    drafts
        .into_iter()
        .flatten()
        .map(|draft| stamp(draft, view, memory))
        .collect()
}

/// P-120.
fn sandbox_condition(view: &PodView<'_>) -> Draft {
    let is_ready = match view.sandbox.map(|s| &s.state) {
        Some(SandboxState::Ready { leaving, .. }) => !leaving,
        Some(SandboxState::Starting | SandboxState::Dead { .. }) | None => false,
    };
    let fault = (!is_ready).then(|| ("", String::new()));
    Draft::with_fault("PodReadyToStartContainers", fault)
}

/// P-121, without init containers.
fn initialized(phase: Phase) -> Draft {
    Draft {
        reason: (phase == Phase::Succeeded).then_some("PodCompleted"),
        ..Draft::is_true("Initialized")
    }
}

/// P-122.
fn unready(phase: Phase, statuses: &[ContainerStatus]) -> Option<(&'static str, String)> {
    let names: Vec<&str> = statuses
        .iter()
        .filter(|s| !s.ready)
        .map(|s| s.name.as_str())
        .collect();
    match phase {
        Phase::Succeeded => Some(("PodCompleted", String::new())),
        Phase::Failed => Some(("PodFailed", String::new())),
        Phase::Pending | Phase::Running if names.is_empty() => None,
        Phase::Pending | Phase::Running => Some((
            "ContainersNotReady",
            format!("containers with unready status: [{}]", names.join(" ")),
        )),
    }
}

/// P-123: nobody but an API client could make a readiness gate true.
fn open_gates(view: &PodView<'_>) -> Option<(&'static str, String)> {
    let gates = view.pod.pod.spec.as_ref()?.readiness_gates.as_ref()?;
    let texts: Vec<String> = gates
        .iter()
        .map(|gate| {
            let kind = &gate.condition_type;
            format!("corresponding condition of pod readiness gate {kind:?} does not exist.")
        })
        .collect();
    (!texts.is_empty()).then(|| ("ReadinessGatesNotReady", texts.join(", ")))
}

/// D-10: what the manifest asks for and does not get.
fn ignored_fields(view: &PodView<'_>) -> Option<Draft> {
    events::remarks(view).map(|message| Draft {
        reason: Some("ManifestWarning"),
        message: Some(message),
        ..Draft::is_true("vetch/ManifestWarning")
    })
}

fn stamp(draft: Draft, view: &PodView<'_>, memory: &mut PodHistory) -> PodCondition {
    let is_true = draft.fault.is_none();
    let entry = memory
        .conditions
        .entry(draft.kind.to_owned())
        .or_insert((is_true, view.world.now.wall));
    if entry.0 != is_true {
        *entry = (is_true, view.world.now.wall);
    }
    let (reason, message) = draft.fault.unzip();
    PodCondition {
        type_: draft.kind.to_owned(),
        status: if is_true { "True" } else { "False" }.to_owned(),
        reason: reason
            .or(draft.reason)
            .filter(|r| !r.is_empty())
            .map(str::to_owned),
        message: message.or(draft.message).filter(|m| !m.is_empty()),
        last_transition_time: Some(time(entry.1)),
        ..PodCondition::default()
    }
}
