//! `vetch wait`: returns when pods are as wished.

use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::select::{self, Scope};
use super::{CliError, Reach, changes, duration, output};
use crate::api::client::{Client, ClientError};
use crate::sys::clock;

/// Wait until pods are ready, gone, or in a phase
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  vetch wait --for=condition=Ready pod/web\n  vetch wait --for=condition=Ready --all --timeout 2m\n  vetch wait --for=delete pod/web\n  vetch wait --for=jsonpath='{.status.phase}'=Succeeded pod/job\n\nAn agent that does not answer yet is waited for, too. Exit codes: 0 done, 1 the time is over."
)]
pub struct Args {
    /// condition=NAME[=STATUS], delete, or jsonpath={.status.phase}=PHASE
    #[arg(long = "for", value_name = "WHAT")]
    goal: Goal,
    /// Pods, with or without the node's name at their end
    #[arg(
        value_name = "pod/NAME",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    names: Vec<String>,
    /// Every pod
    #[arg(long)]
    all: bool,
    /// How long; 0 looks once
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    reach: Reach,
}

impl Args {
    /// Without the `pod` of `pod web`, which kubectl also takes.
    fn names(&self) -> &[String] {
        match self.names.as_slice() {
            [kind, names @ ..] if !names.is_empty() && select::is_pods(kind) => names,
            names => names,
        }
    }
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Goal {
    Condition { name: String, status: String },
    Delete,
    Phase(String),
}

impl FromStr for Goal {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "delete" {
            return Ok(Self::Delete);
        }
        if let Some(rest) = text.strip_prefix("condition=") {
            let (name, status) = rest.split_once('=').unwrap_or((rest, "True"));
            return Ok(Self::Condition {
                name: name.to_owned(),
                status: status.to_owned(),
            });
        }
        text.strip_prefix("jsonpath=")
            .and_then(|rest| rest.strip_prefix("{.status.phase}="))
            .ok_or_else(|| {
                "must be condition=NAME[=STATUS], delete, or jsonpath={.status.phase}=PHASE"
                    .to_owned()
            })
            .and_then(phase)
    }
}

/// One that a pod can have: another would be waited for in vain.
fn phase(text: &str) -> Result<Goal, String> {
    ["Pending", "Running", "Succeeded", "Failed"]
        .into_iter()
        .find(|phase| phase.eq_ignore_ascii_case(text))
        .map(|phase| Goal::Phase(phase.to_owned()))
        .ok_or_else(|| {
            format!(
                "no pod has the phase {text:?}; there are Pending, Running, Succeeded and Failed"
            )
        })
}

impl Goal {
    fn is_met(&self, pod: &Pod) -> bool {
        let status = pod.status.as_ref();
        match self {
            Self::Condition {
                name,
                status: wanted,
            } => status
                .and_then(|s| s.conditions.as_ref())
                .into_iter()
                .flatten()
                .any(|c| {
                    c.type_.eq_ignore_ascii_case(name) && c.status.eq_ignore_ascii_case(wanted)
                }),
            // It is still there.
            Self::Delete => false,
            Self::Phase(phase) => status.and_then(|s| s.phase.as_ref()) == Some(phase),
        }
    }
}

/// Looks after each change the agent reports, until the goal is met or the time is over.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let client = Client::new(&args.reach.paths());
    let timeout_ms = u64::try_from(args.timeout.as_millis()).unwrap_or(u64::MAX);
    let deadline = clock::now().boot_ms.saturating_add(timeout_ms);
    let mut seen = 0;
    loop {
        let waits_for = match look(args, &client) {
            Ok((_, missing)) if missing.is_empty() => return Ok(ExitCode::SUCCESS),
            Ok((generation, missing)) => {
                seen = generation;
                missing.join(", ")
            }
            // It is not up yet, or is being restarted.
            Err(CliError::Client(
                ClientError::NoAgent { socket } | ClientError::Talk { socket, .. },
            )) => format!("an agent on {}", socket.display()),
            Err(error) => return Err(error),
        };
        let left = deadline.saturating_sub(clock::now().boot_ms);
        if left == 0 {
            return Err(CliError::TimedOut(format!(
                "timed out waiting for {waits_for}"
            )));
        }
        changes::pause(&client, seen, Duration::from_millis(left))?;
    }
}

/// Generation looked at, and the pods that are not as wished.
fn look(args: &Args, client: &Client) -> Result<(u64, Vec<String>), CliError> {
    let status = client.status()?;
    let pods = args.scope.pods(client)?;
    let mut missing = Vec::new();
    let mut met = args.names().to_vec();
    if !status.ready {
        missing.push("the agent to read its manifests".to_owned());
    } else if args.all {
        let (as_wished, others): (Vec<_>, Vec<_>) = pods.iter().partition(|p| args.goal.is_met(p));
        met.extend(as_wished.into_iter().map(select::full_name));
        missing.extend(others.into_iter().map(select::full_name));
        if pods.is_empty() && args.goal != Goal::Delete {
            missing.push("any pod".to_owned());
        }
    }
    for name in args.names() {
        match (select::find(pods.clone(), name), &args.goal) {
            (Ok(pod), goal) if goal.is_met(&pod) => {}
            (Err(CliError::NotFound(_)), Goal::Delete) => {}
            _ => missing.push(name.clone()),
        }
    }
    if missing.is_empty() {
        for name in met {
            output::say(&format!("{name} condition met"));
        }
    }
    Ok((status.generation, missing))
}
