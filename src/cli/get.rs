//! `vetch get`: pods and events, as tables or as data; with `-w`, what becomes of them.

mod events;
mod pods;
mod watch;

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::ValueEnum;
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};

use super::select::Scope;
use super::{CliError, Reach};
use crate::api::client::Client;

pub use events::{kind, last_seen};
#[cfg(test)]
pub use pods::{Columns, Rows};

/// Show pods or events
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  vetch get pods\n  vetch get pods -o wide\n  vetch get pod web -o yaml\n  vetch get pods -w\n  vetch get events\n\nWithout -n, pods of every namespace are shown."
)]
pub struct Args {
    /// What to show; `pod/NAME` is understood, too
    #[arg(value_parser = TargetParser)]
    resource: Target,
    /// Only this pod, with or without the node's name at its end
    name: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
    /// Go on, and show each change; an agent that is restarted meanwhile is waited for
    #[arg(short, long)]
    watch: bool,
    /// Show the namespace column, and every namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Resource {
    #[value(aliases = ["pod", "po"])]
    Pods,
    #[value(aliases = ["event", "ev"])]
    Events,
}

/// `pods`, or `pod/web`.
#[derive(Debug, Clone)]
struct Target {
    resource: Resource,
    name: Option<String>,
}

/// A resource with an optional name behind it; completion offers the resources.
#[derive(Debug, Clone)]
struct TargetParser;

impl TypedValueParser for TargetParser {
    type Value = Target;
    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Target, clap::Error> {
        let text = value.to_string_lossy();
        let (resource, name) = match text.split_once('/') {
            Some((resource, name)) => (resource, Some(name.to_owned())),
            None => (&*text, None),
        };
        let resources = EnumValueParser::<Resource>::new();
        Ok(Target {
            resource: resources.parse_ref(command, arg, OsStr::new(resource))?,
            name,
        })
    }
    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = Resource::value_variants().iter();
        Some(Box::new(values.filter_map(ValueEnum::to_possible_value)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Wide,
    Json,
    Yaml,
    Name,
}

/// Asks the agent and prints.
pub fn run(mut args: Args) -> Result<ExitCode, CliError> {
    if args.all_namespaces {
        args.scope.namespace = None;
    }
    if let Some(name) = args.resource.name.take()
        && args.name.replace(name).is_some()
    {
        return Err(CliError::Usage("one name is enough".to_owned()));
    }
    let client = Client::new(&args.reach.paths());
    match (args.resource.resource, args.watch) {
        (Resource::Pods, false) => pods::show(&args, &client)?,
        (Resource::Events, false) => events::show(&args, &client)?,
        (Resource::Pods, true) => watch::pods(&args, &client)?,
        (Resource::Events, true) => watch::events(&args, &client)?,
    }
    Ok(ExitCode::SUCCESS)
}
