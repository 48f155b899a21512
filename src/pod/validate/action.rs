//! What probes and hooks do (S-118, S-120). What the API takes and what still cannot work is warned of.

use core::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, ExecAction, HTTPGetAction, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::one_of;
use crate::pod::names::{is_header_name, is_port_name};
use crate::pod::probe;
use crate::pod::report::Scope;
use crate::pod::suggest::nearest;

/// Of the actions `names`, `count` are written.
pub(super) fn exactly_one(names: &str, count: usize, path: &str, scope: Scope<'_>) {
    match count {
        0 => scope.error(path, &format!("needs one of {names}")),
        1 => {}
        _ => scope.error(path, &format!("only one of {names} is possible")),
    }
}

/// `path` is that of the probe or hook, as in the other functions.
pub(super) fn exec(exec: &ExecAction, path: &str, scope: Scope<'_>) {
    let path = format!("{path}.exec.command");
    match exec.command.as_deref() {
        None | Some([]) => scope.error(&path, "missing"),
        Some([program, ..]) if program.is_empty() => {
            scope.warn(&format!("{path}[0]"), "empty, so it cannot work");
        }
        Some(_) => {}
    }
}

///
pub(super) fn http_get(container: &Container, get: &HTTPGetAction, path: &str, scope: Scope<'_>) {
    let path = format!("{path}.httpGet");
    host(get.host.as_deref(), &path, scope);
    port(container, &get.port, &format!("{path}.port"), scope);
    one_of(
        get.scheme.as_deref(),
        &["HTTP", "HTTPS"],
        &format!("{path}.scheme"),
        scope,
    );
    for (index, header) in get.http_headers.iter().flatten().enumerate() {
        let path = format!("{path}.httpHeaders[{index}]");
        if header.name.is_empty() {
            scope.error(&format!("{path}.name"), "missing");
        } else if !is_header_name(&header.name) {
            scope.error(&format!("{path}.name"), "must be letters, digits and '-'");
        }
        if !probe::is_header_value(&header.value) {
            let message = "no header may have control characters in its value, so it cannot work";
            scope.warn(&format!("{path}.value"), message);
        }
    }
}

///
pub(super) fn tcp(container: &Container, tcp: &TCPSocketAction, path: &str, scope: Scope<'_>) {
    let path = format!("{path}.tcpSocket");
    host(tcp.host.as_deref(), &path, scope);
    port(container, &tcp.port, &format!("{path}.port"), scope);
}

/// The API takes every text.
fn host(host: Option<&str>, path: &str, scope: Scope<'_>) {
    let host = host.unwrap_or_default();
    let without_zone = host.split_once('%').map_or(host, |(address, _)| address);
    let is_address = without_zone.parse::<IpAddr>().is_ok();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if !is_address && !host.chars().all(is_name) {
        let message = format!(
            "{host:?} is no host, so it cannot work; write a name or an address, and nothing else"
        );
        scope.warn(&format!("{path}.host"), &message);
    }
}

const PORT: &str = "must be a number from 1 to 65535, or the name of one of the container's ports";

/// R-30; a name that the container does not have passes the API's checks.
fn port(container: &Container, port: &IntOrString, path: &str, scope: Scope<'_>) {
    let name = match port {
        IntOrString::Int(number) if (1..=65535).contains(number) => return,
        IntOrString::Int(_) => return scope.error(path, PORT),
        IntOrString::String(name) => name,
    };
    if name.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() {
        return scope.error(path, "a number must be without quotes");
    }
    if !is_port_name(name) {
        return scope.error(path, PORT);
    }
    let ports = container.ports.iter().flatten();
    let names: Vec<&str> = ports.filter_map(|port| port.name.as_deref()).collect();
    if names.contains(&name.as_str()) {
        return;
    }
    let hint = match nearest(name, &names) {
        Some(name) => format!("did you mean {name}?"),
        None => "write its number, or name one of its ports so".to_owned(),
    };
    let message = format!("the container has no port named {name:?}, so it cannot work; {hint}");
    scope.warn(path, &message);
}

/// 1 to 65535.
pub(super) fn number(port: i32, path: &str, scope: Scope<'_>) {
    if !(1..=65535).contains(&port) {
        scope.error(path, "must be from 1 to 65535");
    }
}
