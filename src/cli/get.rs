//! `vetch get`: pods, events, ConfigMaps and Secrets, as tables or as data; with `-w`, what becomes of pods and events.

mod events;
mod objects;
mod pods;
mod watch;

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::ValueEnum;
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};

use super::select::Scope;
use super::{CliError, Reach};
use crate::api::client::Client;
use crate::pod::objects::ObjectKind;

pub use events::{kind, last_seen};
#[cfg(test)]
pub use pods::{Columns, Rows};

/// Show pods, events, ConfigMaps or Secrets
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  vetch get pods\n  vetch get pods -o wide\n  vetch get pod web -o yaml\n  vetch get pods -w\n  vetch get events\n  vetch get cm app -o yaml\n  vetch get secrets\n\nWithout -n, every namespace is shown. Values of Secrets never are."
)]
pub struct Args {
    /// What to show; `pod/NAME` is understood, too
    #[arg(value_parser = TargetParser)]
    resource: Target,
    /// Only this one; a pod with or without the node's name at its end
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
    #[value(aliases = ["configmap", "cm"])]
    Configmaps,
    #[value(aliases = ["secret"])]
    Secrets,
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
        (Resource::Configmaps, false) => objects::show(&args, &client, ObjectKind::ConfigMap)?,
        (Resource::Secrets, false) => objects::show(&args, &client, ObjectKind::Secret)?,
        (Resource::Pods, true) => watch::pods(&args, &client)?,
        (Resource::Events, true) => watch::events(&args, &client)?,
        (Resource::Configmaps | Resource::Secrets, true) => {
            let message = "only pods and events can be watched";
            return Err(CliError::Usage(message.to_owned()));
        }
    }
    Ok(ExitCode::SUCCESS)
}
