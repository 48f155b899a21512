//! The plan's reasons, in words that a person understands.

use super::container::Verdict;
use super::pass::{Goal, PodView};
use super::sandbox::Obstacle;
use super::{ContainerHistory, EndingCause, Halt, Note, PastInstance, SandboxState, StartProblem};
use crate::holder::proto::{Exit, InstanceState};

/// Why there is no sandbox.
pub(super) fn obstacle(obstacle: Obstacle<'_>, view: &PodView<'_>) -> String {
    match obstacle {
        Obstacle::SourcesNotReady => {
            "waits until every source has delivered its manifests".to_owned()
        }
        Obstacle::OldPod(old) => format!(
            "waits for the old pod {} (uid {old}) to end",
            view.pod.full_name()
        ),
        Obstacle::Refused(refusal) => format!(
            "not taken ({}): {}; starts when that has changed",
            refusal.reason, refusal.message
        ),
        Obstacle::Failed {
            problem,
            retry_at_boot_ms,
        } => format!(
            "no sandbox: {}; next try in {}",
            problem.message,
            until(view, retry_at_boot_ms)
        ),
    }
}

/// A pod that stays as it is.
pub(super) fn held(view: &PodView<'_>) -> &'static str {
    match view.world.observed.halt {
        Halt::NodeShutdown { .. } => "the node shuts down; ends when it is its turn",
        Halt::No | Halt::AgentStop => {
            "in no manifest; kept until every source has delivered its manifests"
        }
    }
}

/// Nothing of the pod is there, and nothing of it starts.
pub(super) fn down(view: &PodView<'_>) -> &'static str {
    if view.goal == Goal::End(EndingCause::Evicted) {
        return "evicted, because the node was short of something; starts again when there has been enough of it for a while";
    }
    match view.world.observed.halt {
        Halt::NodeShutdown { .. } => {
            "the node shuts down; no pod starts until the agent is started anew"
        }
        Halt::No | Halt::AgentStop => "ended, because all pods are ended",
    }
}

/// A pod on its way out.
pub(super) fn winding_down(view: &PodView<'_>, live: usize) -> String {
    let why = match view.goal {
        Goal::End(EndingCause::Removed) => "removed from its manifest",
        Goal::End(EndingCause::AgentStop) => "all pods are to end",
        Goal::End(EndingCause::NodeShutdown) => "the node shuts down",
        Goal::End(EndingCause::Evicted) => "evicted",
        Goal::Rest | Goal::Run | Goal::Hold => "finished",
    };
    match live {
        0 => format!("{why}; its holder is leaving"),
        1 => format!("{why}; 1 container is still to stop{}", deadline(view)),
        n => format!("{why}; {n} containers are still to stop{}", deadline(view)),
    }
}

/// When the last container will be killed, as far as it is known.
fn deadline(view: &PodView<'_>) -> String {
    let Some(SandboxState::Ready { containers, .. }) = view.sandbox.map(|s| &s.state) else {
        return String::new();
    };
    let kill_at = containers.iter().filter_map(|c| match c.state {
        InstanceState::Stopping {
            kill_at_boot_ms, ..
        } => Some(kill_at_boot_ms),
        InstanceState::Running { .. } | InstanceState::Exited(_) => None,
    });
    kill_at.max().map_or_else(String::new, |at| {
        format!(", the last is killed in {} at the latest", until(view, at))
    })
}

/// Where a container stands.
pub(super) fn container(
    view: &PodView<'_>,
    name: &str,
    (verdict, past): (&Verdict, &ContainerHistory),
) -> Note {
    let text = match verdict {
        Verdict::Running => "running".to_owned(),
        Verdict::Stopping => "stopping; starts anew when it has ended".to_owned(),
        Verdict::Creating => "being created".to_owned(),
        Verdict::Start { restart_count: 0 } => "starts now".to_owned(),
        Verdict::Start { .. } => format!("restarts now ({})", ended(past.last.as_ref())),
        Verdict::Wait(wait) => wait.note.clone(),
        Verdict::Done => format!("ended ({}); not restarted", ended(past.last.as_ref())),
    };
    Note {
        container: Some(name.to_owned()),
        ..view.note(text)
    }
}

/// P-50: a regular init container has not exited 0 yet.
pub(super) fn waits_for_init(name: &str) -> String {
    format!("waits for init container {name} to succeed")
}

/// P-50: a sidecar does not run, or its startup probe has not succeeded yet.
pub(super) fn waits_for_sidecar(name: &str) -> String {
    format!("waits for sidecar {name} to be started")
}

/// P-90.
pub(super) fn waits_for_hook(name: &str) -> String {
    format!("waits for the postStart hook of container {name}")
}

/// "restarts in 40 s (exit 1, back-off)".
pub(super) fn back_off(view: &PodView<'_>, due_boot_ms: u64, last: &PastInstance) -> String {
    format!(
        "restarts in {} ({}, back-off)",
        until(view, due_boot_ms),
        ended(Some(last))
    )
}

/// A start that failed.
pub(super) fn start_problem(
    view: &PodView<'_>,
    due_boot_ms: u64,
    problem: &StartProblem,
) -> String {
    format!(
        "did not start: {}; next try in {}",
        problem.message,
        until(view, due_boot_ms)
    )
}

/// A duration as Go prints it: `40s`, `2m40s`, `5m0s` (P-71).
pub(super) fn go_duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let fraction = match ms % 1000 {
        0 => String::new(),
        rest => format!(".{rest:03}").trim_end_matches('0').to_owned(),
    };
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0) if !fraction.is_empty() => format!("{ms}ms"),
        (0, 0, s) => format!("{s}{fraction}s"),
        (0, m, s) => format!("{m}m{s}{fraction}s"),
        (h, m, s) => format!("{h}h{m}m{s}{fraction}s"),
    }
}

fn ended(last: Option<&PastInstance>) -> String {
    last.map_or_else(|| "never ran".to_owned(), |last| exit_text(&last.exit))
}

fn exit_text(exit: &Exit) -> String {
    match exit.reason.as_str() {
        "Completed" | "Error" => format!("exit {}", exit.code),
        reason => format!("exit {}, {reason}", exit.code),
    }
}

/// Whole seconds from now, rounded up.
fn until(view: &PodView<'_>, boot_ms: u64) -> String {
    let ms = boot_ms.saturating_sub(view.world.now.boot_ms);
    format!("{} s", ms.div_ceil(1000))
}
