//! `vetch get`: pods and events, as tables or as data.

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::ValueEnum;
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use jiff::Timestamp;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;

use super::select::{self, Scope};
use super::{CliError, Reach, duration, output, summary, table};
use crate::api::client::Client;
use crate::api::types::EventRecord;
use crate::plan::Event;

/// Show pods or events
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  vetch get pods\n  vetch get pods -o wide\n  vetch get pod web -o yaml\n  vetch get events\n\nWithout -n, pods of every namespace are shown."
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
    match args.resource.resource {
        Resource::Pods => pods(&args, &client)?,
        Resource::Events => events(&args, &client)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn pods(args: &Args, client: &Client) -> Result<(), CliError> {
    let shown = match &args.name {
        Some(name) => vec![args.scope.pod(client, name)?],
        None => args.scope.pods(client)?,
    };
    match (args.output, &args.name) {
        (Some(Format::Json), Some(_)) => shown.iter().try_for_each(output::print_json),
        (Some(Format::Yaml), Some(_)) => shown.iter().try_for_each(output::print_yaml),
        (Some(Format::Json), None) => output::print_json(&list(shown)),
        (Some(Format::Yaml), None) => output::print_yaml(&list(shown)),
        (None | Some(Format::Wide), _) if shown.is_empty() => {
            output::say("no pods");
            Ok(())
        }
        (None | Some(Format::Wide), _) => output::print(&pod_table(
            &shown,
            columns(args, &shown),
            crate::sys::clock::now().wall,
        )),
    }
}

/// A v1 PodList.
fn list(items: Vec<Pod>) -> List<Pod> {
    List {
        items,
        ..List::default()
    }
}

/// Which of the optional columns a table has.
#[derive(Debug, Clone, Copy, Default)]
pub struct Columns {
    /// NAMESPACE
    pub namespace: bool,
    /// IP, NODE
    pub wide: bool,
}

fn columns(args: &Args, pods: &[Pod]) -> Columns {
    let elsewhere = |pod: &Pod| select::namespace(pod) != "default";
    Columns {
        namespace: args.all_namespaces
            || args.scope.namespace.is_none() && pods.iter().any(elsewhere),
        wide: args.output == Some(Format::Wide),
    }
}

/// The table of `get pods`.
pub fn pod_table(pods: &[Pod], columns: Columns, now: Timestamp) -> String {
    let mut head = vec!["NAME", "READY", "STATUS", "RESTARTS", "AGE"];
    if columns.namespace {
        head.insert(0, "NAMESPACE");
    }
    if columns.wide {
        head.extend(["IP", "NODE"]);
    }
    let head = head.into_iter().map(str::to_owned).collect();
    let rows: Vec<_> = std::iter::once(head)
        .chain(pods.iter().map(|pod| pod_row(pod, columns, now)))
        .collect();
    table::render(&rows)
}

fn pod_row(pod: &Pod, columns: Columns, now: Timestamp) -> Vec<String> {
    let sum = summary::summarize(pod, now);
    let mut row = vec![
        select::name(pod).to_owned(),
        sum.ready,
        sum.status,
        sum.restarts,
        born(pod).map_or("<unknown>".to_owned(), |then| duration::since(then, now)),
    ];
    if columns.namespace {
        row.insert(0, select::namespace(pod).to_owned());
    }
    if columns.wide {
        let ip = pod.status.as_ref().and_then(|s| s.pod_ip.as_deref());
        row.push(ip.unwrap_or("<none>").to_owned());
        row.push(select::node(pod).to_owned());
    }
    row
}

/// creationTimestamp, or else when the agent first planned it.
fn born(pod: &Pod) -> Option<Timestamp> {
    let created = pod.metadata.creation_timestamp.as_ref();
    let started = pod.status.as_ref().and_then(|s| s.start_time.as_ref());
    created.or(started).map(|time| time.0)
}

fn events(args: &Args, client: &Client) -> Result<(), CliError> {
    let mut events = client.events()?;
    if let Some(wanted) = &args.scope.namespace {
        events.retain(|record| &record.event.namespace == wanted);
    }
    if let Some(name) = &args.name {
        let pod = args.scope.pod(client, name)?;
        events.retain(|record| record.event.name == select::name(&pod));
    }
    match args.output {
        Some(Format::Json) => output::print_json(&Events { items: events }),
        Some(Format::Yaml) => output::print_yaml(&Events { items: events }),
        None | Some(Format::Wide) if events.is_empty() => {
            output::say("no events");
            Ok(())
        }
        None | Some(Format::Wide) => {
            output::print(&event_table(&events, crate::sys::clock::now().wall))
        }
    }
}

#[derive(Debug, Serialize)]
struct Events {
    items: Vec<EventRecord>,
}

/// What an event is about, with the container as in kubectl's field paths: `pod/web-box{main}`.
fn object(event: &Event) -> String {
    let container = event.container.as_ref();
    let container = container.map(|name| format!("{{{name}}}"));
    format!("pod/{}{}", event.name, container.unwrap_or_default())
}

/// The table of `get events`.
pub fn event_table(events: &[EventRecord], now: Timestamp) -> String {
    let head = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head.to_vec())
        .chain(events.iter().map(|record| event_row(record, now)))
        .collect();
    table::render(&rows)
}

fn event_row(record: &EventRecord, now: Timestamp) -> Vec<String> {
    vec![
        last_seen(record, now),
        kind(record).to_owned(),
        record.event.reason.clone(),
        object(&record.event),
        record.event.message.clone(),
    ]
}

/// `5m10s`, or `10s (x4 over 5m)` for a repeated one.
pub fn last_seen(record: &EventRecord, now: Timestamp) -> String {
    let last = duration::since(record.last, now);
    if record.count > 1 {
        let first = duration::since(record.first, now);
        format!("{last} (x{} over {first})", record.count)
    } else {
        last
    }
}

/// `Normal` or `Warning`.
pub fn kind(record: &EventRecord) -> &'static str {
    if record.event.warning {
        "Warning"
    } else {
        "Normal"
    }
}
