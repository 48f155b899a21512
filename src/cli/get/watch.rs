//! `-w`: what is there, then each change, until the person has seen enough.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::super::changes::{self, is_away};
use super::super::{CliError, output, select, table};
use super::pods::{Columns, Rows, columns, print_name};
use super::{Args, Format};
use crate::api::client::Client;
use crate::api::server::LONG_POLL;
use crate::api::types::EventRecord;
use crate::sys::clock;

/// Shows pods, and from then on one line for each change that shows.
pub fn pods(args: &Args, client: &Client) -> Result<(), CliError> {
    let mut watch: Option<PodWatch> = None;
    follow(client, |client| {
        let mut pods = args.scope.pods(client)?;
        if let Some(name) = &args.name {
            pods = match (select::find(pods, name), &watch) {
                (Ok(pod), _) => vec![pod],
                // It was there.
                (Err(CliError::NotFound(_)), Some(_)) => Vec::new(),
                (Err(error), _) => return Err(error),
            };
        }
        let format = args.output;
        watch
            .get_or_insert_with(|| PodWatch::new(format, columns(args, &pods)))
            .show(&pods)
    })
}

/// Shows events, and from then on each that is new or repeated.
pub fn events(args: &Args, client: &Client) -> Result<(), CliError> {
    let mut watch = EventWatch::default();
    follow(client, |client| {
        watch.show(super::events::wanted(args, client)?, args.output)
    })
}

/// Looks now and after each change. An agent that goes away is waited for; one that was never there is not.
fn follow(
    client: &Client,
    mut look: impl FnMut(&Client) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut seen = client.status()?.generation;
    let mut is_alone = false;
    loop {
        match look_once(client, &mut look) {
            Ok(generation) => {
                seen = generation;
                is_alone = false;
            }
            Err(error) if is_away(&error) => {
                if !is_alone {
                    output::say("the agent has gone; waiting for the next one");
                }
                is_alone = true;
            }
            Err(error) => return Err(error),
        }
        changes::pause(client, seen, LONG_POLL)?;
    }
}

/// The generation comes first, so that no change between the two is missed. What an agent shows before it has read its
/// manifests is not all there is.
fn look_once(
    client: &Client,
    look: &mut impl FnMut(&Client) -> Result<(), CliError>,
) -> Result<u64, CliError> {
    let status = client.status()?;
    if status.ready {
        look(client)?;
    }
    Ok(status.generation)
}

/// What was shown of the pods.
#[derive(Debug)]
struct PodWatch {
    format: Option<Format>,
    columns: Columns,
    layout: table::Layout,
    shown: BTreeMap<String, Pod>,
    has_head: bool,
}

impl PodWatch {
    fn new(format: Option<Format>, columns: Columns) -> Self {
        Self {
            format,
            columns,
            layout: table::Layout::default(),
            shown: BTreeMap::new(),
            has_head: false,
        }
    }

    fn show(&mut self, pods: &[Pod]) -> Result<(), CliError> {
        let uid = |pod: &Pod| pod.metadata.uid.clone().unwrap_or_default();
        let now: BTreeMap<String, Pod> = pods.iter().map(|pod| (uid(pod), pod.clone())).collect();
        let before = std::mem::replace(&mut self.shown, now);
        let gone: Vec<&Pod> = before
            .iter()
            .filter(|(uid, _)| !self.shown.contains_key(*uid))
            .map(|(_, pod)| pod)
            .collect();
        let news: Vec<&Pod> = pods
            .iter()
            .filter(|pod| {
                before
                    .get(&uid(pod))
                    .is_none_or(|old| self.differs(old, pod))
            })
            .collect();
        match self.format {
            None | Some(Format::Wide) => self.rows(&gone, &news),
            Some(Format::Json) => news.into_iter().try_for_each(output::print_json),
            Some(Format::Yaml) => news.into_iter().try_for_each(|pod| {
                output::print("---\n")?;
                output::print_yaml(pod)
            }),
            Some(Format::Name) => news.into_iter().try_for_each(print_name),
        }
    }

    /// Time alone changes nothing in a table.
    fn differs(&self, old: &Pod, new: &Pod) -> bool {
        let rows = Rows::new(self.columns, Timestamp::UNIX_EPOCH);
        match self.format {
            None | Some(Format::Wide) => rows.row(old) != rows.row(new),
            Some(Format::Json | Format::Yaml) => old != new,
            Some(Format::Name) => false,
        }
    }

    fn rows(&mut self, gone: &[&Pod], news: &[&Pod]) -> Result<(), CliError> {
        let rows = Rows::new(self.columns, clock::now().wall);
        let is_first = !std::mem::replace(&mut self.has_head, true);
        let cells: Vec<_> = is_first
            .then(|| rows.head())
            .into_iter()
            .chain(gone.iter().map(|pod| rows.last_row(pod)))
            .chain(news.iter().map(|pod| rows.row(pod)))
            .collect();
        output::print(&self.layout.render(&cells))
    }
}

/// What was shown of the events.
#[derive(Debug, Default)]
struct EventWatch {
    layout: table::Layout,
    has_head: bool,
    sequence: u64,
}

impl EventWatch {
    fn show(&mut self, events: Vec<EventRecord>, format: Option<Format>) -> Result<(), CliError> {
        let newest = events.iter().map(|record| record.sequence).max();
        // Another agent counts from the beginning.
        if newest.is_some_and(|newest| newest < self.sequence) {
            self.sequence = 0;
        }
        let news: Vec<EventRecord> = events
            .into_iter()
            .filter(|record| record.sequence > self.sequence)
            .collect();
        self.sequence = newest.unwrap_or(self.sequence);
        match format {
            Some(Format::Json) => news.iter().try_for_each(output::print_json),
            Some(Format::Yaml) => news.iter().try_for_each(|record| {
                output::print("---\n")?;
                output::print_yaml(record)
            }),
            Some(Format::Name) => Err(CliError::Usage("events have no names".to_owned())),
            None | Some(Format::Wide) => self.rows(&news),
        }
    }

    fn rows(&mut self, news: &[EventRecord]) -> Result<(), CliError> {
        let now = clock::now().wall;
        let is_first = !std::mem::replace(&mut self.has_head, true);
        let cells: Vec<_> = is_first
            .then(super::events::head)
            .into_iter()
            .chain(news.iter().map(|record| super::events::row(record, now)))
            .collect();
        output::print(&self.layout.render(&cells))
    }
}
