//! `vetch plan`: what the agent would do now, and why.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use k8s_openapi::api::core::v1::Pod;

use super::{CliError, Reach, duration, output, select};
use crate::api::client::Client;
use crate::api::types::PlanView;
use crate::plan::{Action, Note};
use crate::pod::PodUid;

/// Show what the agent would do now, and why
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  vetch plan\n  vetch plan -o json")]
pub struct Args {
    /// Output format
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Json,
}

/// Asks the agent and prints.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let client = Client::new(&args.reach.paths());
    let plan = client.plan()?;
    match args.output {
        Some(Format::Json) => output::print_json(&plan)?,
        None => output::print(&text(&plan, &client.pods()?))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Actions, then reasons pod by pod.
pub fn text(plan: &PlanView, pods: &[Pod]) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    if plan.actions.is_empty() {
        let _ = writeln!(out, "Nothing to do now.");
    } else {
        let _ = writeln!(out, "To do now:");
    }
    for action in &plan.actions {
        let _ = writeln!(out, "  {}", describe(action, pods));
    }
    if !plan.notes.is_empty() {
        let _ = writeln!(out, "Why:");
    }
    for note in &plan.notes {
        let _ = writeln!(out, "  {}: {}", subject(note, pods), note.text);
    }
    if let Some(ms) = plan.wake_in_ms {
        let wait = duration::human(Duration::from_millis(ms));
        let _ = writeln!(out, "Looks again in {wait}, or when something happens.");
    }
    out
}

fn subject(note: &Note, pods: &[Pod]) -> String {
    let pod = pod_name(&note.uid, pods);
    match &note.container {
        Some(container) => format!("{pod}/{container}"),
        None => pod,
    }
}

fn pod_name(uid: &PodUid, pods: &[Pod]) -> String {
    pods.iter()
        .find(|pod| pod.metadata.uid.as_deref() == Some(uid.as_str()))
        .map_or_else(|| uid.to_string(), |pod| select::name(pod).to_owned())
}

fn describe(action: &Action, pods: &[Pod]) -> String {
    let pod = |uid| pod_name(uid, pods);
    match action {
        Action::StartSandbox { uid, attempt } => {
            format!("start the holder of {} (attempt {attempt})", pod(uid))
        }
        Action::StartContainer {
            uid,
            container,
            restart_count,
        } => format!("start {}/{container} (restart {restart_count})", pod(uid)),
        Action::StopContainer { uid, order } => format!(
            "stop container {} of {} within {}: {}",
            short(&order.id),
            pod(uid),
            duration::human(Duration::from_millis(order.grace_ms)),
            order.reason
        ),
        Action::RemoveContainer { uid, id, .. } => {
            format!("remove container {} of {}", short(id), pod(uid))
        }
        Action::StopSandbox { uid } => format!("end the holder of {}", pod(uid)),
        Action::CleanSandbox { uid } => format!("clean up after the dead holder of {}", pod(uid)),
        Action::ForgetPod {
            namespace, name, ..
        } => format!("forget {namespace}/{name}"),
    }
}

/// Enough of a container id to recognise it.
pub fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}
