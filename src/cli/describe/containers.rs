//! The containers of a description.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, Pod,
};

use super::super::duration;
use super::page::Page;
use super::{environment, probes, volumes};
use crate::api::types::{ContainerDetail, Description, Stopping};
use crate::holder::proto::StopPhase;
use crate::pod::lifecycle::{self, Role};

/// Init containers and sidecars, then regular ones.
pub fn containers(page: &mut Page, of: &Description, now: Timestamp) {
    let (regular, init): (Vec<_>, Vec<_>) =
        lifecycle::members(&of.pod).partition(|(role, _)| *role == Role::Regular);
    for (title, members) in [("Init Containers", init), ("Containers", regular)] {
        if !members.is_empty() {
            page.head(0, title);
        }
        for (role, wanted) in members {
            let detail = of.containers.iter().find(|d| d.name == wanted.name);
            container(page, (role, wanted), status(&of.pod, &wanted.name));
            if let Some(detail) = detail {
                details(page, detail, now);
            }
            resources(page, wanted);
            probes::rows(page, wanted, detail);
            environment::rows(page, wanted);
            volumes::mounts(page, wanted);
        }
    }
}

fn status<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let init = status.init_container_statuses.iter().flatten();
    let mut all = init.chain(status.container_statuses.iter().flatten());
    all.find(|status| status.name == name)
}

fn container(
    page: &mut Page,
    (role, wanted): (Role, &Container),
    status: Option<&ContainerStatus>,
) {
    page.head(1, &wanted.name);
    match role {
        Role::Init => page.row(2, "Role", "init, ends before the next one starts"),
        Role::Sidecar => page.row(2, "Role", "sidecar, runs beside those after it"),
        Role::Regular => {}
    }
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
        page.optional(3, "Reason", waiting.and_then(|w| w.reason.as_ref()));
        page.optional(3, "Message", waiting.and_then(|w| w.message.as_ref()));
    }
}

fn terminated(page: &mut Page, name: &str, end: &ContainerStateTerminated) {
    page.row(2, name, "Terminated");
    page.optional(3, "Reason", end.reason.as_ref());
    page.optional(3, "Message", end.message.as_ref());
    page.row(3, "Exit Code", end.exit_code);
    page.optional(3, "Signal", end.signal.as_ref());
    page.optional(3, "Started", end.started_at.as_ref().map(|t| t.0));
    page.optional(3, "Finished", end.finished_at.as_ref().map(|t| t.0));
}

/// Why it is, or is not, as it should be.
fn details(page: &mut Page, detail: &ContainerDetail, now: Timestamp) {
    page.optional(2, "Last Exit", detail.last_exit.as_ref());
    if let Some(stopping) = &detail.stopping {
        page.row(2, "Stopping", self::stopping(stopping, now));
    }
    if let Some(due) = detail.next_restart {
        page.row(
            2,
            "Next Restart",
            format_args!("in {}", duration::until(due, now)),
        );
    }
    page.optional(2, "Log", detail.log.as_ref().map(|log| log.display()));
}

fn stopping(stopping: &Stopping, now: Timestamp) -> String {
    let phase = match stopping.phase {
        StopPhase::PreStop => "its preStop hook runs",
        StopPhase::Waiting => "waits for the containers that it has to outlive",
        StopPhase::Signalled => "its stop signal was sent",
    };
    let left = duration::until(stopping.kill_at, now);
    format!(
        "{phase}; killed in {left} at the latest ({})",
        stopping.reason
    )
}

fn resources(page: &mut Page, wanted: &Container) {
    let resources = wanted.resources.as_ref();
    for (name, list) in [
        ("Limits", resources.and_then(|r| r.limits.as_ref())),
        ("Requests", resources.and_then(|r| r.requests.as_ref())),
    ] {
        let Some(list) = list.filter(|list| !list.is_empty()) else {
            continue;
        };
        page.head(2, name);
        for (resource, quantity) in list {
            page.line(3, format_args!("{resource}: {}", quantity.0));
        }
    }
}
