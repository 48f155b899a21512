//! `status.conditions` (section 2.10). A condition's time moves only with its status.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, PodCondition};

use super::container_status::{Member, has_begun, time};
use super::events;
use super::pass::PodView;
use super::phase::Phase;
use super::status::NODE_SHUTDOWN;
use super::{EndingCause, PodHistory, SandboxState};
use crate::pod::lifecycle::{self, Role};

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

/// P-120…P-126, in kubelet's order; the times are taken from, and go to, the history.
pub(super) fn conditions(
    view: &PodView<'_>,
    memory: &mut PodHistory,
    (phase, members): (Phase, &[Member]),
) -> Vec<PodCondition> {
    let unready = unready(phase, members);
    let gates = unready.clone().or_else(|| open_gates(view));
    let drafts = [
        Some(sandbox_condition(view)),
        Some(initialized(view, memory, (phase, members))),
        Some(Draft::with_fault("Ready", gates)),
        Some(Draft::with_fault("ContainersReady", unready)),
        Some(Draft::is_true("PodScheduled")),
        restarting_all(view, memory),
        disruption(memory),
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

/// P-121. A sidecar counts once it has started, any other init container once it has succeeded.
fn initialized(
    view: &PodView<'_>,
    memory: &PodHistory,
    (phase, members): (Phase, &[Member]),
) -> Draft {
    let is_done = |member: &Member| match member.role {
        Role::Init => member.status.ready,
        Role::Sidecar => member.status.started == Some(true),
        Role::Regular => true,
    };
    let incomplete = names(members, |member| !is_done(member));
    if members.is_empty() && lifecycle::has_init(&view.pod.pod) {
        Draft::with_fault("Initialized", Some(unknown()))
    } else if phase == Phase::Succeeded {
        Draft {
            reason: Some("PodCompleted"),
            ..Draft::is_true("Initialized")
        }
    } else if incomplete.is_empty() || has_begun(&view.pod.pod, memory) {
        Draft::is_true("Initialized")
    } else {
        let message = format!("containers with incomplete status: [{incomplete}]");
        Draft::with_fault("Initialized", Some(("ContainersNotInitialized", message)))
    }
}

/// P-122.
fn unready(phase: Phase, members: &[Member]) -> Option<(&'static str, String)> {
    let counts = |member: &Member| match member.role {
        Role::Init => false,
        Role::Sidecar | Role::Regular => true,
    };
    let names = names(members, |member| counts(member) && !member.status.ready);
    match phase {
        Phase::Succeeded => Some(("PodCompleted", String::new())),
        Phase::Failed => Some(("PodFailed", String::new())),
        Phase::Pending | Phase::Running if members.is_empty() => Some(unknown()),
        Phase::Pending | Phase::Running if names.is_empty() => None,
        Phase::Pending | Phase::Running => Some((
            "ContainersNotReady",
            format!("containers with unready status: [{names}]"),
        )),
    }
}

/// Nothing is shown of the containers.
fn unknown() -> (&'static str, String) {
    ("UnknownContainerStatuses", String::new())
}

/// As Go prints a list, without its brackets.
fn names(members: &[Member], wanted: impl Fn(&Member) -> bool) -> String {
    let names: Vec<&str> = members
        .iter()
        .filter(|member| wanted(member))
        .map(|member| member.status.name.as_str())
        .collect();
    names.join(" ")
}

/// P-126: of pods with such a rule only.
fn restarting_all(view: &PodView<'_>, memory: &PodHistory) -> Option<Draft> {
    let is_such = |rule: &ContainerRestartRule| rule.action == "RestartAllContainers";
    let has_rule = |container: &Container| {
        let mut rules = container.restart_policy_rules.iter().flatten();
        rules.any(is_such)
    };
    let fault = memory.restarting.is_none().then(|| ("", String::new()));
    lifecycle::members(&view.pod.pod)
        .any(|(_, container)| has_rule(container))
        .then(|| Draft::with_fault("AllContainersRestarting", fault))
}

/// P-125: at a node shutdown, and when it was evicted.
fn disruption(memory: &PodHistory) -> Option<Draft> {
    let message = match (memory.ending?.cause, &memory.evicted) {
        (EndingCause::NodeShutdown, _) => NODE_SHUTDOWN.to_owned(),
        (EndingCause::Evicted, Some(evicted)) => evicted.message.clone(),
        (EndingCause::Removed | EndingCause::AgentStop | EndingCause::Evicted, _) => return None,
    };
    Some(Draft {
        reason: Some("TerminationByKubelet"),
        message: Some(message),
        ..Draft::is_true("DisruptionTarget")
    })
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
