//! Probes (S-118, R-1…R-8).

use k8s_openapi::api::core::v1::{Container, Probe};

use super::action;
use crate::pod::probe::ProbeKind;
use crate::pod::report::Scope;

/// All of a container's, whose path is `path`.
pub(super) fn all(container: &Container, path: &str, scope: Scope<'_>) {
    for kind in ProbeKind::ALL {
        if let Some(probe) = kind.of(container) {
            let path = format!("{path}.{}", field(kind));
            handler(container, probe, &path, scope);
            numbers(kind, probe, &path, scope);
        }
    }
}

/// Where a container has it.
pub(super) fn field(kind: ProbeKind) -> &'static str {
    match kind {
        ProbeKind::Liveness => "livenessProbe",
        ProbeKind::Readiness => "readinessProbe",
        ProbeKind::Startup => "startupProbe",
    }
}

///
fn handler(container: &Container, probe: &Probe, path: &str, scope: Scope<'_>) {
    let written = [
        probe.exec.is_some(),
        probe.http_get.is_some(),
        probe.tcp_socket.is_some(),
        probe.grpc.is_some(),
    ];
    let count = written.into_iter().filter(|is_set| *is_set).count();
    action::exactly_one("exec, httpGet, tcpSocket and grpc", count, path, scope);
    if let Some(exec) = &probe.exec {
        action::exec(exec, path, scope);
    }
    if let Some(get) = &probe.http_get {
        action::http_get(container, get, path, scope);
    }
    if let Some(tcp) = &probe.tcp_socket {
        action::tcp(container, tcp, path, scope);
    }
    if let Some(grpc) = &probe.grpc {
        action::number(grpc.port, &format!("{path}.grpc.port"), scope);
    }
}

fn numbers(kind: ProbeKind, probe: &Probe, path: &str, scope: Scope<'_>) {
    for (field, value) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        if value.is_some_and(|value| value < 0) {
            scope.error(&format!("{path}.{field}"), "must not be negative");
        }
    }
    let grace = probe.termination_grace_period_seconds;
    let grace_path = format!("{path}.terminationGracePeriodSeconds");
    match kind {
        ProbeKind::Readiness if grace.is_some() => scope.error(
            &grace_path,
            "not possible here, as a readiness probe ends no container",
        ),
        ProbeKind::Readiness => {}
        ProbeKind::Liveness | ProbeKind::Startup => {
            if grace.is_some_and(|grace| !(1..=i64::from(u32::MAX)).contains(&grace)) {
                scope.error(&grace_path, "must be from 1 to 4294967295");
            }
            if probe.success_threshold.is_some_and(|count| count > 1) {
                let message = "must be 1; only a readiness probe can ask for more";
                scope.error(&format!("{path}.successThreshold"), message);
            }
        }
    }
}
