//! `vetch status`: the agent itself.

use std::fmt::Write;
use std::process::ExitCode;

use clap::ValueEnum;

use super::{CliError, Reach, check, output};
use crate::api::client::Client;
use crate::api::types::{AgentStatus, FileStatus};
use crate::plan::Allocatable;

/// Show the agent: its paths, its files and their problems
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  vetch status\n  vetch status -o json")]
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
    let status = Client::new(&args.reach.paths()).status()?;
    match args.output {
        Some(Format::Json) => output::print_json(&status)?,
        None => output::print(&text(&status))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn text(status: &AgentStatus) -> String {
    let state = match (status.stopping, status.draining, status.ready) {
        (true, _, _) => "stopping",
        (false, true, _) => "draining",
        (false, false, true) => "ready",
        (false, false, false) => "has not read its manifests yet",
    };
    let mut out = String::new();
    let mut row = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name:12}{value}");
    };
    row(
        "Agent:",
        &format_args!("{state}, pid {}, vetch {}", status.pid, status.version),
    );
    row("Node:", &status.node_name);
    if let Some(allocatable) = &status.allocatable {
        row("For pods:", &for_pods(allocatable));
    }
    for (key, value) in &status.labels {
        row("Label:", &format_args!("{key}={value}"));
    }
    row("Manifests:", &status.pod_manifest_path.display());
    row("Root dir:", &status.paths.root_dir.display());
    row("Run dir:", &status.paths.run_dir.display());
    row("Log dir:", &status.paths.log_dir.display());
    for condition in &status.conditions {
        let _ = writeln!(out, "{:12}{condition}", "Condition:");
    }
    if !status.files.is_empty() {
        let _ = writeln!(out, "Files:");
    }
    out + &status.files.iter().map(file).collect::<String>()
}

/// `cpu 4, memory 7821Mi, 110 pods`; what is unknown is left out.
fn for_pods(allocatable: &Allocatable) -> String {
    const MI: u64 = 1 << 20;
    let Allocatable {
        cpu_milli,
        memory,
        pods,
        ephemeral_storage: _,
    } = *allocatable;
    let cpu = (cpu_milli < u64::MAX).then(|| match cpu_milli % 1000 {
        0 => format!("cpu {}", cpu_milli / 1000),
        _ => format!("cpu {cpu_milli}m"),
    });
    let memory = (memory < u64::MAX).then(|| format!("memory {}Mi", memory / MI));
    let pods = Some(format!("{pods} pods"));
    let parts: Vec<String> = [cpu, memory, pods].into_iter().flatten().collect();
    parts.join(", ")
}

fn file(file: &FileStatus) -> String {
    let held = if file.held {
        " (last good content)"
    } else {
        ""
    };
    let mut pods = [file.pods.as_slice(), &file.objects].concat().join(", ");
    if pods.is_empty() {
        pods = "no pods".to_owned();
    }
    let remarks: String = file
        .diagnostics
        .iter()
        .map(|d| format!("    {}\n", check::line(d)))
        .collect();
    format!("  {}: {pods}{held}\n{remarks}", file.file)
}
