//! The text of a description.

use std::fmt::{Display, Write};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, EnvVar, Pod,
};

use super::super::{check, duration, get, select, summary, table};
use crate::api::types::{ContainerDetail, Description};

/// Lines of `name: value`, at a depth. Writing to a String cannot fail, so results are dropped.
struct Page {
    text: String,
}

impl Page {
    fn row(&mut self, depth: usize, name: &str, value: impl Display) {
        // kubectl's columns.
        let column: usize = if depth == 0 { 17 } else { 19 };
        let width = column.saturating_sub(depth * 2);
        // Further lines of a message are set in, so that they cannot be taken for rows.
        let further = format!("\n{:column$} ", "");
        let value = value.to_string().trim_end().replace('\n', &further);
        let _ = writeln!(
            self.text,
            "{:indent$}{:width$} {value}",
            "",
            format!("{name}:"),
            indent = depth * 2
        );
    }
    fn head(&mut self, depth: usize, name: &str) {
        let _ = writeln!(self.text, "{:indent$}{name}:", "", indent = depth * 2);
    }
    fn line(&mut self, depth: usize, value: impl Display) {
        let _ = writeln!(self.text, "{:indent$}{value}", "", indent = depth * 2);
    }
    fn map(
        &mut self,
        name: &str,
        map: Option<&std::collections::BTreeMap<String, String>>,
        separator: &str,
    ) {
        let mut name = format!("{name}:");
        for (key, value) in map.into_iter().flatten() {
            let _ = writeln!(self.text, "{name:17} {key}{separator}{value}");
            name.clear();
        }
        if !name.is_empty() {
            let _ = writeln!(self.text, "{name:17} <none>");
        }
    }
}

/// The whole page.
pub fn render(of: &Description, now: Timestamp) -> String {
    let mut page = Page {
        text: String::new(),
    };
    identity(&mut page, &of.pod, now);
    let held = if of.held { " (last good content)" } else { "" };
    page.row(
        0,
        "Manifest",
        format_args!("{}:{}{held}", of.origin.file, of.origin.line),
    );
    containers(&mut page, of, now);
    conditions(&mut page, &of.pod);
    remarks(&mut page, of);
    events(&mut page, of, now);
    page.text
}

fn identity(page: &mut Page, pod: &Pod, now: Timestamp) {
    let spec = pod.spec.as_ref();
    let status = pod.status.as_ref();
    page.row(0, "Name", select::name(pod));
    page.row(0, "Namespace", select::namespace(pod));
    page.row(0, "UID", pod.metadata.uid.as_deref().unwrap_or_default());
    page.row(0, "Node", select::node(pod));
    if let Some(start) = status.and_then(|s| s.start_time.as_ref()) {
        page.row(0, "Start Time", start.0);
    }
    page.map("Labels", pod.metadata.labels.as_ref(), "=");
    page.map("Annotations", pod.metadata.annotations.as_ref(), ": ");
    page.row(0, "Status", summary::summarize(pod, now).status);
    for (name, value) in [
        ("Reason", status.and_then(|s| s.reason.as_ref())),
        ("Message", status.and_then(|s| s.message.as_ref())),
        ("IP", status.and_then(|s| s.pod_ip.as_ref())),
        ("QoS Class", status.and_then(|s| s.qos_class.as_ref())),
        (
            "Restart Policy",
            spec.and_then(|s| s.restart_policy.as_ref()),
        ),
    ] {
        if let Some(value) = value {
            page.row(0, name, value);
        }
    }
    if let Some(grace) = spec.and_then(|s| s.termination_grace_period_seconds) {
        page.row(0, "Grace Period", format_args!("{grace}s"));
    }
    if spec.and_then(|s| s.host_network) == Some(true) {
        page.row(0, "Host Network", true);
    }
}

fn containers(page: &mut Page, of: &Description, now: Timestamp) {
    let Some(spec) = &of.pod.spec else { return };
    let statuses = of.pod.status.as_ref();
    let init = statuses.and_then(|s| s.init_container_statuses.as_deref());
    let regular = statuses.and_then(|s| s.container_statuses.as_deref());
    for (title, list, statuses) in [
        ("Init Containers", spec.init_containers.as_deref(), init),
        ("Containers", Some(spec.containers.as_slice()), regular),
    ] {
        let Some(list) = list.filter(|list| !list.is_empty()) else {
            continue;
        };
        page.head(0, title);
        for wanted in list {
            let found = statuses
                .into_iter()
                .flatten()
                .find(|s| s.name == wanted.name);
            let detail = of.containers.iter().find(|d| d.name == wanted.name);
            container(page, wanted, found);
            if let Some(detail) = detail {
                details(page, detail, now);
            }
            environment(page, wanted);
        }
    }
}

fn container(page: &mut Page, wanted: &Container, status: Option<&ContainerStatus>) {
    page.head(1, &wanted.name);
    let id = status.and_then(|s| s.container_id.as_deref());
    page.row(2, "Container ID", id.unwrap_or_default());
    page.row(2, "Image", wanted.image.as_deref().unwrap_or_default());
    page.row(2, "Image ID", status.map_or("", |s| &s.image_id));
    for (name, words) in [("Command", &wanted.command), ("Args", &wanted.args)] {
        let Some(words) = words else { continue };
        page.head(2, name);
        for word in words {
            page.line(3, word);
        }
    }
    if let Some(status) = status {
        state(page, "State", status.state.as_ref());
        if status
            .last_state
            .as_ref()
            .is_some_and(|s| s.terminated.is_some())
        {
            state(page, "Last State", status.last_state.as_ref());
        }
        page.row(2, "Ready", if status.ready { "True" } else { "False" });
        page.row(2, "Restart Count", status.restart_count);
    }
}

fn state(page: &mut Page, name: &str, state: Option<&ContainerState>) {
    let Some(state) = state else {
        return page.row(2, name, "Waiting");
    };
    if let Some(running) = &state.running {
        page.row(2, name, "Running");
        if let Some(started) = &running.started_at {
            page.row(3, "Started", started.0);
        }
    } else if let Some(end) = &state.terminated {
        terminated(page, name, end);
    } else {
        page.row(2, name, "Waiting");
        let waiting = state.waiting.as_ref();
        optional(page, "Reason", waiting.and_then(|w| w.reason.as_ref()));
        optional(page, "Message", waiting.and_then(|w| w.message.as_ref()));
    }
}

fn terminated(page: &mut Page, name: &str, end: &ContainerStateTerminated) {
    page.row(2, name, "Terminated");
    optional(page, "Reason", end.reason.as_ref());
    optional(page, "Message", end.message.as_ref());
    page.row(3, "Exit Code", end.exit_code);
    optional(page, "Signal", end.signal.as_ref());
    optional(page, "Started", end.started_at.as_ref().map(|t| t.0));
    optional(page, "Finished", end.finished_at.as_ref().map(|t| t.0));
}

fn optional(page: &mut Page, name: &str, value: Option<impl Display>) {
    if let Some(value) = value {
        page.row(3, name, value);
    }
}

fn details(page: &mut Page, detail: &ContainerDetail, now: Timestamp) {
    if let Some(due) = detail.next_restart {
        // `since` counts a time in the future as now, so the two are swapped.
        page.row(
            2,
            "Next Restart",
            format_args!("in {}", duration::since(now, due)),
        );
    }
    if let Some(log) = &detail.log {
        page.row(2, "Log", log.display());
    }
}

fn environment(page: &mut Page, wanted: &Container) {
    let Some(variables) = wanted.env.as_deref().filter(|env| !env.is_empty()) else {
        return page.row(2, "Environment", "<none>");
    };
    page.head(2, "Environment");
    for variable in variables {
        page.line(3, format_args!("{}: {}", variable.name, value(variable)));
    }
}

fn value(variable: &EnvVar) -> String {
    let source = variable.value_from.as_ref();
    let field = source.and_then(|s| s.field_ref.as_ref());
    match (&variable.value, field, source) {
        (Some(value), _, _) => value.clone(),
        (None, Some(field), _) => format!("({})", field.field_path),
        (None, None, Some(_)) => "<set from elsewhere>".to_owned(),
        (None, None, None) => String::new(),
    }
}

fn conditions(page: &mut Page, pod: &Pod) {
    let Some(conditions) = pod.status.as_ref().and_then(|s| s.conditions.as_ref()) else {
        return;
    };
    page.head(0, "Conditions");
    let cells = |a: &str, b: &str, c: &str| vec![format!("  {a}"), b.to_owned(), c.to_owned()];
    let rows: Vec<_> = std::iter::once(cells("Type", "Status", "Reason"))
        .chain(
            conditions
                .iter()
                .map(|c| cells(&c.type_, &c.status, c.reason.as_deref().unwrap_or_default())),
        )
        .collect();
    page.text.push_str(&table::render(&rows));
}

fn remarks(page: &mut Page, of: &Description) {
    if !of.diagnostics.is_empty() {
        page.head(0, "Remarks about the manifest");
    }
    for diagnostic in &of.diagnostics {
        page.line(1, check::line(diagnostic));
    }
    if !of.notes.is_empty() {
        page.head(0, "Plan");
    }
    for note in &of.notes {
        match &note.container {
            Some(container) => page.line(1, format_args!("{container}: {}", note.text)),
            None => page.line(1, &note.text),
        }
    }
    if let Some(holder) = &of.holder {
        page.row(0, "Holder", holder.display());
    }
}

fn events(page: &mut Page, of: &Description, now: Timestamp) {
    if of.events.is_empty() {
        return page.row(0, "Events", "<none>");
    }
    page.head(0, "Events");
    let head = ["  Type", "Reason", "Age", "Container", "Message"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head.to_vec())
        .chain(of.events.iter().map(|record| {
            vec![
                format!("  {}", get::kind(record)),
                record.event.reason.clone(),
                get::last_seen(record, now),
                record.event.container.clone().unwrap_or_default(),
                record.event.message.clone(),
            ]
        }))
        .collect();
    page.text.push_str(&table::render(&rows));
}
