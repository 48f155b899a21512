//! Pods, one line each as kubectl has it, or whole.

use jiff::Timestamp;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;

use super::super::{CliError, duration, output, select, summary, table};
use super::{Args, Format};
use crate::api::client::Client;
use crate::sys::clock;

/// Asks and prints once.
pub fn show(args: &Args, client: &Client) -> Result<(), CliError> {
    let shown = match &args.name {
        Some(name) => vec![args.scope.pod(client, name)?],
        None => args.scope.pods(client)?,
    };
    match (args.output, &args.name) {
        (Some(Format::Json), Some(_)) => shown.iter().try_for_each(output::print_json),
        (Some(Format::Yaml), Some(_)) => shown.iter().try_for_each(output::print_yaml),
        (Some(Format::Json), None) => output::print_json(&list(shown)),
        (Some(Format::Yaml), None) => output::print_yaml(&list(shown)),
        (Some(Format::Name), _) => shown.iter().try_for_each(print_name),
        (None | Some(Format::Wide), _) if shown.is_empty() => {
            output::say("no pods");
            Ok(())
        }
        (None | Some(Format::Wide), _) => {
            let rows = Rows::new(columns(args, &shown), clock::now().wall);
            output::print(&rows.table(&shown))
        }
    }
}

/// `pod/web`.
pub fn print_name(pod: &Pod) -> Result<(), CliError> {
    output::print(&format!("pod/{}\n", select::name(pod)))
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

/// The columns that the arguments ask for, or these pods need.
pub fn columns(args: &Args, pods: &[Pod]) -> Columns {
    let elsewhere = |pod: &Pod| select::namespace(pod) != "default";
    Columns {
        namespace: args.all_namespaces
            || args.scope.namespace.is_none() && pods.iter().any(elsewhere),
        wide: args.output == Some(Format::Wide),
    }
}

/// The rows of `get pods` at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    columns: Columns,
    now: Timestamp,
}

impl Rows {
    /// Ages are told from `now`.
    pub fn new(columns: Columns, now: Timestamp) -> Self {
        Self { columns, now }
    }

    /// Head and rows.
    pub fn table(self, pods: &[Pod]) -> String {
        let rows: Vec<_> = std::iter::once(self.head())
            .chain(pods.iter().map(|pod| self.row(pod)))
            .collect();
        table::render(&rows)
    }

    /// The first row.
    pub fn head(self) -> Vec<String> {
        let head = ["NAME", "READY", "STATUS", "RESTARTS", "AGE"];
        let head = head.map(str::to_owned).to_vec();
        self.with_optional(head, "NAMESPACE", ["IP", "NODE"])
    }

    /// Of one pod.
    pub fn row(self, pod: &Pod) -> Vec<String> {
        let sum = summary::summarize(pod, self.now);
        let age = born(pod).map(|then| duration::since(then, self.now));
        let row = vec![
            select::name(pod).to_owned(),
            sum.ready,
            sum.status,
            sum.restarts,
            age.unwrap_or("<unknown>".to_owned()),
        ];
        let ip = pod.status.as_ref().and_then(|s| s.pod_ip.as_deref());
        let wide = [ip.unwrap_or("<none>"), select::node(pod)];
        self.with_optional(row, select::namespace(pod), wide)
    }

    /// Of one that is no more.
    pub fn last_row(self, pod: &Pod) -> Vec<String> {
        let mut row = self.row(pod);
        let status = 2 + usize::from(self.columns.namespace);
        row[status] = "Deleted".to_owned();
        row
    }

    fn with_optional(self, mut row: Vec<String>, namespace: &str, wide: [&str; 2]) -> Vec<String> {
        if self.columns.namespace {
            row.insert(0, namespace.to_owned());
        }
        if self.columns.wide {
            row.extend(wide.map(str::to_owned));
        }
        row
    }
}

/// creationTimestamp, or else when the agent first planned it.
fn born(pod: &Pod) -> Option<Timestamp> {
    let created = pod.metadata.creation_timestamp.as_ref();
    let started = pod.status.as_ref().and_then(|s| s.start_time.as_ref());
    created.or(started).map(|time| time.0)
}
