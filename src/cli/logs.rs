//! `vetch logs`: what a container wrote. The agent says where the file is; the reading is done here.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::exec::default_container;
use super::select::{self, Scope};
use super::{CliError, Reach, duration, holders};
use crate::api::client::Client;
use crate::config::HolderPaths;
use crate::holder::logs::read::{Query, ReadError, read_logs};
use crate::sys::clock;

/// Print what a container wrote
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  vetch logs web\n  vetch logs -f web -c app --tail 20\n  vetch logs -p web            what the instance before the last restart wrote\n  vetch logs web --since 10m --timestamps\n\nWith -f, ends when the container does. Rotated files are read, too."
)]
pub struct Args {
    /// The pod, with or without the node's name at its end
    pod: String,
    /// Container [default: the pod's first]
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Go on until the container ends
    #[arg(short, long)]
    follow: bool,
    /// Of the instance before this one
    #[arg(short, long)]
    previous: bool,
    /// Only so many of the last lines; negative shows all
    #[arg(long, value_name = "N", default_value_t = -1, allow_negative_numbers = true)]
    tail: i64,
    /// Only what is younger than this
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    since: Option<Duration>,
    /// Put its time before each line
    #[arg(long)]
    timestamps: bool,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    reach: Reach,
}

/// Finds the file and reads it.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let (log, holder) = find(args)?;
    let query = Query {
        tail: u64::try_from(args.tail).ok(),
        since: args.since.map(|age| ago(age, clock::now().wall)),
        timestamps: args.timestamps,
        follow: args.follow,
        ..Query::default()
    };
    let mut is_running = || {
        holder
            .as_ref()
            .is_some_and(|holder| holders::writes_log(holder, &log))
    };
    read_logs(&log, &query, &mut is_running, &mut io::stdout().lock()).map_err(
        |error| match error {
            ReadError::Output(source) => CliError::Output(source),
            ReadError::NoLog(_) | ReadError::Read { .. } => CliError::Log(error),
        },
    )?;
    Ok(ExitCode::SUCCESS)
}

fn ago(age: Duration, now: Timestamp) -> Timestamp {
    // A time before the calendar is the beginning of everything.
    now.checked_sub(age).unwrap_or(Timestamp::MIN)
}

/// The live file of the wanted instance, and the holder that may still write it.
fn find(args: &Args) -> Result<(PathBuf, Option<HolderPaths>), CliError> {
    let client = Client::new(&args.reach.paths());
    let pod = args.scope.pod(&client, &args.pod)?;
    let name = match &args.container {
        Some(name) => name.clone(),
        None => default_container(&pod),
    };
    let description = client.describe(&select::uid(&pod)?)?;
    let detail = description
        .containers
        .iter()
        .find(|detail| detail.name == name)
        .ok_or_else(|| {
            let pod = select::name(&pod);
            CliError::NotFound(format!("pod {pod:?} has no container {name:?}"))
        })?;
    // While the next instance is waited for, the newest one is the previous one, as for kubectl.
    let log = if args.previous && !is_between_instances(&description.pod, &name) {
        detail.previous_log.as_ref()
    } else {
        detail.log.as_ref()
    };
    let log = log.ok_or_else(|| CliError::NotFound(nothing(args, &name)))?;
    Ok((log.clone(), description.holder.map(HolderPaths::new)))
}

fn is_between_instances(pod: &Pod, container: &str) -> bool {
    let statuses = pod.status.iter().flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    });
    statuses
        .filter(|status| status.name == container)
        .any(|status| {
            status
                .state
                .as_ref()
                .is_some_and(|state| state.waiting.is_some())
        })
}

fn nothing(args: &Args, container: &str) -> String {
    let pod = &args.pod;
    if args.previous {
        format!("container {container:?} of pod {pod:?} has no instance before this one")
    } else {
        format!("container {container:?} of pod {pod:?} has not started yet")
    }
}
