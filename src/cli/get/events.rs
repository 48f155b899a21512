//! Events, with their counts.

use jiff::Timestamp;
use serde::Serialize;

use super::super::{CliError, duration, output, select, table};
use super::{Args, Format};
use crate::api::client::Client;
use crate::api::types::EventRecord;
use crate::plan::Event;
use crate::sys::clock;

/// Asks and prints once.
pub fn show(args: &Args, client: &Client) -> Result<(), CliError> {
    let events = wanted(args, client)?;
    match args.output {
        Some(Format::Json) => output::print_json(&Events { items: events }),
        Some(Format::Yaml) => output::print_yaml(&Events { items: events }),
        Some(Format::Name) => Err(CliError::Usage("events have no names".to_owned())),
        None | Some(Format::Wide) if events.is_empty() => {
            output::say("no events");
            Ok(())
        }
        None | Some(Format::Wide) => output::print(&event_table(&events, clock::now().wall)),
    }
}

/// The events that the arguments ask for, oldest first.
pub fn wanted(args: &Args, client: &Client) -> Result<Vec<EventRecord>, CliError> {
    let mut events = client.events()?;
    if let Some(wanted) = &args.scope.namespace {
        events.retain(|record| &record.event.namespace == wanted);
    }
    if let Some(name) = &args.name {
        let pod = args.scope.pod(client, name)?;
        events.retain(|record| record.event.name == select::name(&pod));
    }
    Ok(events)
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

fn event_table(events: &[EventRecord], now: Timestamp) -> String {
    let rows: Vec<_> = std::iter::once(head())
        .chain(events.iter().map(|record| row(record, now)))
        .collect();
    table::render(&rows)
}

/// The first row of `get events`.
pub fn head() -> Vec<String> {
    ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
        .map(str::to_owned)
        .to_vec()
}

/// Of one event.
pub fn row(record: &EventRecord, now: Timestamp) -> Vec<String> {
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
