//! `vetch top`: what the node and its pods use. Read here, from the kernel: that needs no agent.

use std::cmp::Reverse;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;

use super::select::Scope;
use super::{CliError, Reach, duration, output, table};
use crate::api::client::Client;
use crate::figures::summary::{NodeStats, PodStats, Summary, Usage};
use crate::figures::{self, Ask, Depth};
use crate::plan::Allocatable;

/// Longest interval: who wants more wants another tool.
const MAX_INTERVAL: Duration = Duration::from_secs(3600);
const MI: u64 = 1 << 20;

/// Show what pods, or the node, use of CPU and memory
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  vetch top pods\n  vetch top pods --sort-by memory\n  vetch top pod web --containers\n  vetch top node --interval 10s"
)]
pub struct Args {
    /// What to show
    resource: Resource,
    /// Only this pod, with or without the node's name at its end
    name: Option<String>,
    /// A row for each container
    #[arg(long)]
    containers: bool,
    /// The largest first
    #[arg(long, value_name = "WHAT")]
    sort_by: Option<SortBy>,
    /// CPU is measured over this time
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    interval: Duration,
    /// Output format
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Resource {
    #[value(aliases = ["pod", "po"])]
    Pods,
    #[value(aliases = ["nodes", "no"])]
    Node,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SortBy {
    Cpu,
    Memory,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Json,
}

/// Looks twice and prints.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    if args.interval.is_zero() || args.interval > MAX_INTERVAL {
        return Err(CliError::Usage(
            "--interval must be more than 0 and at most 1h".to_owned(),
        ));
    }
    let summary = look(args)?;
    match (args.resource, args.output) {
        (Resource::Node, Some(Format::Json)) => output::print_json(&summary.node)?,
        (Resource::Node, None) => {
            let status = Client::new(&args.reach.paths()).status().ok();
            let allocatable = status.and_then(|status| status.allocatable);
            output::print(&node_table(&summary.node, allocatable))?;
        }
        (Resource::Pods, format) => pods(args, wanted(args, summary.pods)?, format)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn look(args: &Args) -> Result<Summary, CliError> {
    let paths = args.reach.paths();
    let holders = paths.holders();
    if let Err(source) = std::fs::read_dir(&holders) {
        // Nobody's run directory, or not for our eyes.
        Client::new(&paths).status()?;
        return Err(CliError::Io {
            operation: "read",
            path: holders,
            source,
        });
    }
    let node_name = rustix::system::uname();
    let node_name = node_name.nodename().to_string_lossy().to_lowercase();
    let ask = Ask {
        paths,
        node_name,
        cgroup_root: None,
        depth: Depth::CpuAndMemory,
        interval: args.interval,
    };
    Ok(figures::gather(&ask)?)
}

/// The pods that the arguments mean.
fn wanted(args: &Args, mut pods: Vec<PodStats>) -> Result<Vec<PodStats>, CliError> {
    if let Some(namespace) = &args.scope.namespace {
        pods.retain(|pod| pod.pod_ref.namespace == *namespace);
    }
    if let Some(name) = &args.name {
        let pod = args.scope.pod(&Client::new(&args.reach.paths()), name)?;
        pods.retain(|p| p.pod_ref.uid == pod.metadata.uid.as_deref().unwrap_or_default());
    }
    let key = |usage: &Usage| match args.sort_by {
        Some(SortBy::Cpu) => Reverse(nano_cores(usage)),
        Some(SortBy::Memory) => Reverse(memory(usage)),
        None => Reverse(0),
    };
    pods.sort_by_key(|pod| key(&pod.usage));
    for pod in &mut pods {
        pod.containers.sort_by_key(|c| key(&c.usage));
    }
    Ok(pods)
}

fn pods(args: &Args, pods: Vec<PodStats>, format: Option<Format>) -> Result<(), CliError> {
    if let Some(Format::Json) = format {
        return output::print_json(&pods);
    }
    if pods.is_empty() {
        output::say("no pods");
        return Ok(());
    }
    output::print(&pod_table(&pods, args.containers))
}

fn pod_table(pods: &[PodStats], containers: bool) -> String {
    let with_namespace = pods.iter().any(|pod| pod.pod_ref.namespace != "default");
    let with = |namespace: &str, mut row: Vec<String>| {
        if with_namespace {
            row.insert(0, namespace.to_owned());
        }
        row
    };
    let head = match containers {
        true => ["POD", "NAME", "CPU(cores)", "MEMORY(bytes)"].as_slice(),
        false => ["NAME", "CPU(cores)", "MEMORY(bytes)"].as_slice(),
    };
    let head = head.iter().map(|&cell| cell.to_owned()).collect();
    let mut rows = vec![with("NAMESPACE", head)];
    for pod in pods {
        let name = || pod.pod_ref.name.clone();
        let own = |names: Vec<String>, usage: &Usage| {
            let figures = [milli(usage), mebi(usage)];
            with(
                &pod.pod_ref.namespace,
                names.into_iter().chain(figures).collect(),
            )
        };
        if containers {
            let of_containers = pod.containers.iter();
            rows.extend(of_containers.map(|c| own(vec![name(), c.name.clone()], &c.usage)));
        } else {
            rows.push(own(vec![name()], &pod.usage));
        }
    }
    table::render(&rows)
}

/// Shares are of what pods can have, as far as an agent says it.
fn node_table(node: &NodeStats, allocatable: Option<Allocatable>) -> String {
    let machine = node.usage.memory.as_ref();
    let all_memory = machine.map_or(0, |m| {
        m.working_set_bytes
            .saturating_add(m.available_bytes.unwrap_or(0))
    });
    let all_cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let all_milli = u64::try_from(all_cpus)
        .unwrap_or(u64::MAX)
        .saturating_mul(1000);
    let cpu_milli = allocatable.map_or(all_milli, |a| a.cpu_milli.min(all_milli));
    let bytes = allocatable.map_or(all_memory, |a| a.memory.min(all_memory));
    let nanos = u128::from(cpu_milli) * 1_000_000;
    let head = ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"];
    let row = [
        node.node_name.clone(),
        milli(&node.usage),
        percent(nano_cores(&node.usage), nanos),
        mebi(&node.usage),
        percent(memory(&node.usage), u128::from(bytes)),
    ];
    table::render(&[head.map(str::to_owned).to_vec(), row.to_vec()])
}

fn percent(part: u64, whole: u128) -> String {
    let share = (u128::from(part) * 100).checked_div(whole);
    share.map_or_else(|| "<unknown>".to_owned(), |share| format!("{share}%"))
}

fn nano_cores(usage: &Usage) -> u64 {
    let cpu = usage.cpu.as_ref();
    cpu.and_then(|cpu| cpu.usage_nano_cores).unwrap_or(0)
}

fn memory(usage: &Usage) -> u64 {
    usage.memory.as_ref().map_or(0, |m| m.working_set_bytes)
}

/// Thousandths of a CPU, rounded up as a Quantity rounds.
fn milli(usage: &Usage) -> String {
    let known = usage.cpu.as_ref().and_then(|cpu| cpu.usage_nano_cores);
    known.map_or_else(unknown, |nanos| format!("{}m", nanos.div_ceil(1_000_000)))
}

fn mebi(usage: &Usage) -> String {
    let known = usage.memory.as_ref().map(|m| m.working_set_bytes);
    known.map_or_else(unknown, |bytes| format!("{}Mi", bytes / MI))
}

/// The kernel has no such controller.
fn unknown() -> String {
    "<unknown>".to_owned()
}

#[cfg(test)]
mod tests;
