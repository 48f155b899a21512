//! The text of a description.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};

use super::super::{check, duration, get, select, summary, table};
use super::containers::containers;
use super::page::Page;
use super::volumes;
use crate::api::types::Description;

/// The whole page.
pub fn render(of: &Description, now: Timestamp) -> String {
    let mut page = Page::default();
    identity(&mut page, &of.pod, now);
    let held = if of.held { " (last good content)" } else { "" };
    page.row(
        0,
        "Manifest",
        format_args!("{}:{}{held}", of.origin.file, of.origin.line),
    );
    containers(&mut page, of, now);
    conditions(&mut page, &of.pod, now);
    volumes::volumes(&mut page, of.pod.spec.as_ref());
    remarks(&mut page, of);
    events(&mut page, of, now);
    page.into_text()
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
        page.optional(0, name, value);
    }
    if let Some(grace) = spec.and_then(|s| s.termination_grace_period_seconds) {
        page.row(0, "Grace Period", format_args!("{grace}s"));
    }
    if spec.and_then(|s| s.host_network) == Some(true) {
        page.row(0, "Host Network", true);
    }
}

fn conditions(page: &mut Page, pod: &Pod, now: Timestamp) {
    let Some(conditions) = pod.status.as_ref().and_then(|s| s.conditions.as_ref()) else {
        return;
    };
    page.head(0, "Conditions");
    let head = ["  Type", "Status", "Since", "Reason", "Message"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head.to_vec())
        .chain(conditions.iter().map(|c| condition(c, now)))
        .collect();
    page.paste(&table::render(&rows));
}

fn condition(condition: &PodCondition, now: Timestamp) -> Vec<String> {
    let since = condition.last_transition_time.as_ref();
    vec![
        format!("  {}", condition.type_),
        condition.status.clone(),
        since.map_or_else(String::new, |time| duration::since(time.0, now)),
        condition.reason.clone().unwrap_or_default(),
        condition.message.clone().unwrap_or_default(),
    ]
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
    page.paste(&table::render(&rows));
}
