//! What probes ask, with names, ports and defaults resolved (section 3.1 of the specification). Running them is
//! [`crate::probe`]'s work, deciding on their results [`crate::plan`]'s.

use k8s_openapi::api::core::v1::{
    Container, EnvVar, ExecAction, GRPCAction, HTTPGetAction, Probe, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};

use super::env;

/// Which of a container's probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ProbeKind {
    /// Its failure ends the container.
    Liveness,
    /// Its result is the container's `ready`.
    Readiness,
    /// Until it succeeds the others wait; its failure ends the container.
    Startup,
}

impl ProbeKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Liveness, Self::Readiness, Self::Startup];

    /// As events begin: `Liveness`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
            Self::Startup => "Startup",
        }
    }

    /// The container's probe of this kind.
    pub fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
            Self::Startup => container.startup_probe.as_ref(),
        }
    }
}

/// A probe, complete (R-1…R-7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSpec {
    /// What is asked.
    pub check: Check,
    /// From the container's start to the first run, seconds.
    pub initial_delay_s: u32,
    /// Longest time of one run, seconds.
    pub timeout_s: u32,
    /// From the begin of one run to the next, seconds.
    pub period_s: u32,
    /// Successes in a row that make a success.
    pub success_threshold: u32,
    /// Failures in a row that make a failure.
    pub failure_threshold: u32,
    /// grace of the kill that its failure causes; the pod's if none.
    pub grace_s: Option<u32>,
}

/// What one run of a probe does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Check {
    /// exit code 0 is success.
    Exec {
        /// argv; `$(VAR)` is expanded by literal env entries.
        args: Vec<String>,
    },
    /// R-30…R-34.
    HttpGet(HttpGet),
    ///
    TcpSocket {
        /// None: the pod itself.
        host: Option<String>,
        /// Number.
        port: u16,
    },
    /// health/v1 Check, always of the pod itself.
    Grpc {
        /// Number.
        port: u16,
        /// May be empty.
        service: String,
    },
    /// it cannot be run (unknown port name, …). Each run errs.
    Broken {
        /// Lower case, no full stop.
        why: String,
    },
}

/// A GET request (R-30, P-92).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpGet {
    /// HTTPS.
    pub tls: bool,
    /// None: the pod itself.
    pub host: Option<String>,
    /// Number.
    pub port: u16,
    /// With the query, as written; begins with `/`.
    pub path: String,
    /// as written; names may repeat, an empty value removes a default header.
    pub headers: Vec<(String, String)>,
}

/// Why a probe or hook that the API takes cannot be run (R-15, P-95).
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ActionError {
    /// Nothing says what to do.
    #[error("it has no handler")]
    NoHandler,
    /// Validation refuses it.
    #[error("it has more than one handler")]
    ManyHandlers,
    /// P-95.
    #[error("tcpSocket is not supported as a lifecycle hook")]
    TcpHook,
    /// It would end the header, or the request.
    #[error("header {0:?} has control characters in its value")]
    HeaderValue(String),
    ///
    #[error("the container has no port named {0:?}")]
    UnknownPort(String),
    ///
    #[error("port {0} is not between 1 and 65535")]
    PortRange(i32),
}

/// The container's probe of this kind, if it has one.
pub fn spec(container: &Container, kind: ProbeKind) -> Option<ProbeSpec> {
    let probe = kind.of(container)?;
    Some(ProbeSpec {
        check: check(container, probe),
        initial_delay_s: number(probe.initial_delay_seconds, 0),
        timeout_s: number(probe.timeout_seconds, 1).max(1),
        period_s: number(probe.period_seconds, 10).max(1),
        success_threshold: number(probe.success_threshold, 1).max(1),
        failure_threshold: number(probe.failure_threshold, 3).max(1),
        grace_s: probe
            .termination_grace_period_seconds
            .and_then(|s| u32::try_from(s).ok()),
    })
}

fn check(container: &Container, probe: &Probe) -> Check {
    let outcome = match (&probe.exec, &probe.http_get, &probe.tcp_socket, &probe.grpc) {
        (Some(exec), None, None, None) => Ok(self::exec(container, exec)),
        (None, Some(get), None, None) => http_get(container, get).map(Check::HttpGet),
        (None, None, Some(tcp), None) => self::tcp(container, tcp),
        (None, None, None, Some(grpc)) => self::grpc(grpc),
        (None, None, None, None) => Err(ActionError::NoHandler),
        (..) => Err(ActionError::ManyHandlers),
    };
    outcome.unwrap_or_else(|error| Check::Broken {
        why: error.to_string(),
    })
}

fn exec(container: &Container, exec: &ExecAction) -> Check {
    let literals = container.env.as_deref().unwrap_or_default();
    let lookup = |name: &str| literal(literals, name);
    let command = exec.command.iter().flatten();
    Check::Exec {
        args: command.map(|arg| env::expand(arg, lookup)).collect(),
    }
}

/// only what the manifest says literally; in kubelet an entry with `valueFrom` is empty here.
fn literal(env: &[EnvVar], name: &str) -> Option<String> {
    let entry = env.iter().rev().find(|entry| entry.name == name)?;
    Some(entry.value.clone().unwrap_or_default())
}

/// The request of an `httpGet` action; an error says why it cannot be made.
pub fn http_get(container: &Container, get: &HTTPGetAction) -> Result<HttpGet, ActionError> {
    let path = get.path.as_deref().unwrap_or_default();
    let headers = get.http_headers.as_deref().unwrap_or_default();
    if let Some(bad) = headers.iter().find(|h| !is_header_value(&h.value)) {
        return Err(ActionError::HeaderValue(bad.name.clone()));
    }
    Ok(HttpGet {
        tls: get
            .scheme
            .as_deref()
            .is_some_and(|s| s.eq_ignore_ascii_case("https")),
        host: get.host.clone().filter(|host| !host.is_empty()),
        port: port(container, &get.port)?,
        path: if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        },
        headers: headers
            .iter()
            .map(|h| (h.name.clone(), h.value.clone()))
            .collect(),
    })
}

/// Control characters would end the header, or the request.
pub(super) fn is_header_value(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && c != '\t')
}

fn tcp(container: &Container, tcp: &TCPSocketAction) -> Result<Check, ActionError> {
    Ok(Check::TcpSocket {
        host: tcp.host.clone().filter(|host| !host.is_empty()),
        port: port(container, &tcp.port)?,
    })
}

fn grpc(grpc: &GRPCAction) -> Result<Check, ActionError> {
    Ok(Check::Grpc {
        port: in_range(grpc.port)?,
        service: grpc.service.clone().unwrap_or_default(),
    })
}

/// a number, or a name among this container's ports, or a number written as text.
fn port(container: &Container, port: &IntOrString) -> Result<u16, ActionError> {
    match port {
        IntOrString::Int(number) => in_range(*number),
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            match ports.find(|p| p.name.as_ref() == Some(name)) {
                Some(port) => in_range(port.container_port),
                None => name
                    .parse()
                    .map_err(|_| ActionError::UnknownPort(name.clone()))
                    .and_then(in_range),
            }
        }
    }
}

fn in_range(port: i32) -> Result<u16, ActionError> {
    u16::try_from(port)
        .ok()
        .filter(|port| *port > 0)
        .ok_or(ActionError::PortRange(port))
}

/// A field that counts; what validation refuses is taken as its default.
fn number(field: Option<i32>, default: u32) -> u32 {
    field.map_or(default, |n| u32::try_from(n).unwrap_or(default))
}

#[cfg(test)]
mod tests;
