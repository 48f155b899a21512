//! Probes and hooks of a container: as kubectl prints them, with what they have found.

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::page::Page;
use crate::api::types::{ContainerDetail, ProbeDetail};
use crate::holder::proto::HookState;
use crate::plan::ProbeVerdict;
use crate::pod::probe::ProbeKind;

/// Rows of a container.
pub fn rows(page: &mut Page, wanted: &Container, detail: Option<&ContainerDetail>) {
    for kind in ProbeKind::ALL {
        let Some(probe) = kind.of(wanted) else {
            continue;
        };
        page.row(2, kind.as_str(), text(probe));
        let found = detail.and_then(|d| d.probes.iter().find(|found| found.kind == kind));
        if let Some(found) = found {
            result(page, found);
        }
    }
    let lifecycle = wanted.lifecycle.as_ref();
    let post_start = lifecycle.and_then(|l| l.post_start.as_ref());
    let pre_stop = lifecycle.and_then(|l| l.pre_stop.as_ref());
    hook(
        page,
        ("Post Start", post_start),
        detail.map(|d| &d.post_start),
    );
    hook(page, ("Pre Stop", pre_stop), detail.map(|d| &d.pre_stop));
}

/// The verdict, and what the last bad run said if the verdict does not say the same.
fn result(page: &mut Page, found: &ProbeDetail) {
    let verdict = match found.verdict {
        Some(ProbeVerdict::Success) => "success",
        Some(ProbeVerdict::Failure) => "failure",
        None => "none yet",
    };
    let output = match found.output.trim() {
        "" => String::new(),
        output => format!(": {output}"),
    };
    page.row(3, "Verdict", format_args!("{verdict}{output}"));
    let last = found.last_failure.as_deref().unwrap_or_default().trim();
    if !last.is_empty() && last != found.output.trim() {
        page.row(3, "Last Failure", last);
    }
}

/// kubectl's text of a probe.
pub fn text(probe: &Probe) -> String {
    let number = |field: Option<i32>, default: i32| field.unwrap_or(default);
    let attributes = format!(
        "delay={}s timeout={}s period={}s #success={} #failure={}",
        number(probe.initial_delay_seconds, 0),
        number(probe.timeout_seconds, 1),
        number(probe.period_seconds, 10),
        number(probe.success_threshold, 1),
        number(probe.failure_threshold, 3),
    );
    let handler = match (&probe.exec, &probe.http_get, &probe.tcp_socket, &probe.grpc) {
        (Some(exec), ..) => format!("exec {}", words(exec.command.as_deref())),
        (None, Some(get), ..) => format!("http-get {}", url(get)),
        (None, None, Some(tcp), _) => {
            let host = tcp.host.as_deref().unwrap_or_default();
            format!("tcp-socket {host}:{}", port(&tcp.port))
        }
        (None, None, None, Some(grpc)) => {
            let service = grpc.service.as_deref().unwrap_or_default();
            format!("grpc <pod>:{} {service}", grpc.port)
        }
        (None, None, None, None) => "unknown".to_owned(),
    };
    format!("{handler} {attributes}")
}

/// As Go prints a list.
fn words(words: Option<&[String]>) -> String {
    format!("[{}]", words.unwrap_or_default().join(" "))
}

fn url(get: &HTTPGetAction) -> String {
    let scheme = get.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
    let host = get.host.as_deref().unwrap_or_default();
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let path = get.path.as_deref().unwrap_or("/");
    let slash = if path.starts_with('/') { "" } else { "/" };
    format!("{scheme}://{host}:{}{slash}{path}", port(&get.port))
}

fn port(port: &IntOrString) -> String {
    match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => name.clone(),
    }
}

fn hook(
    page: &mut Page,
    (name, handler): (&str, Option<&LifecycleHandler>),
    state: Option<&HookState>,
) {
    let Some(handler) = handler else { return };
    let what = match (&handler.exec, &handler.http_get, &handler.sleep) {
        (Some(exec), ..) => format!("exec {}", words(exec.command.as_deref())),
        (None, Some(get), _) => format!("http-get {}", url(get)),
        (None, None, Some(sleep)) => format!("sleep {}s", sleep.seconds),
        (None, None, None) if handler.tcp_socket.is_some() => "tcp-socket".to_owned(),
        (None, None, None) => "unknown".to_owned(),
    };
    page.row(2, name, what);
    match state {
        Some(HookState::Running) => page.row(3, "Result", "still runs"),
        Some(HookState::Done) => page.row(3, "Result", "succeeded"),
        Some(HookState::Failed { message }) => {
            page.row(3, "Result", format_args!("failed: {message}"));
        }
        Some(HookState::None) | None => {}
    }
}
