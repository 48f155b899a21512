//! Ports (S-113, S-114).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ContainerPort, PodSpec};

use super::{action, one_of};
use crate::pod::lifecycle::{Role, init_role};
use crate::pod::names::is_port_name;
use crate::pod::ports::{HostPort, host_port};
use crate::pod::report::Scope;

/// Those of all containers.
pub(super) fn all(spec: &PodSpec, scope: Scope<'_>) {
    let host_network = spec.host_network == Some(true);
    let mut regular = BTreeSet::new();
    for (index, container) in spec.containers.iter().enumerate() {
        let path = format!("spec.containers[{index}].ports");
        let ports = container.ports.as_deref().unwrap_or_default();
        self::ports(ports, &path, scope);
        claims(ports, &path, &mut regular, scope);
        if host_network {
            equal(ports, &path, scope);
        }
    }
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let path = format!("spec.initContainers[{index}].ports");
        let ports = container.ports.as_deref().unwrap_or_default();
        self::ports(ports, &path, scope);
        claims(ports, &path, &mut BTreeSet::new(), scope);
        if host_network {
            equal(ports, &path, scope);
        }
        if init_role(container) == Role::Sidecar {
            shared(ports, &path, &mut regular, scope);
        }
    }
}

/// One container's, each by itself.
fn ports(ports: &[ContainerPort], path: &str, scope: Scope<'_>) {
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let container_path = format!("{path}.containerPort");
        action::number(port.container_port, &container_path, scope);
        if let Some(port) = port.host_port.filter(|port| *port != 0) {
            action::number(port, &format!("{path}.hostPort"), scope);
        }
        one_of(
            port.protocol.as_deref(),
            &["TCP", "UDP", "SCTP"],
            &format!("{path}.protocol"),
            scope,
        );
        if let Some(name) = port.name.as_deref().filter(|n| !n.is_empty()) {
            if !is_port_name(name) {
                scope.error(&format!("{path}.name"), PORT_NAME);
            } else if !names.insert(name) {
                scope.error(&format!("{path}.name"), "another port has this name");
            }
        }
    }
}

const PORT_NAME: &str =
    "must be at most 15 lower-case letters, digits and single '-', with a letter";

fn equal(ports: &[ContainerPort], path: &str, scope: Scope<'_>) {
    for (index, port) in ports.iter().enumerate() {
        if port.host_port.is_some_and(|p| p != port.container_port) {
            scope.error(
                &format!("{path}[{index}].hostPort"),
                "must equal containerPort, as the pod has the host's network",
            );
        }
    }
}

/// The same claim twice; `taken` grows.
fn claims(ports: &[ContainerPort], path: &str, taken: &mut BTreeSet<HostPort>, scope: Scope<'_>) {
    for (index, claim) in ports.iter().map(host_port).enumerate() {
        if claim.is_some_and(|claim| !taken.insert(claim)) {
            scope.error(&format!("{path}[{index}].hostPort"), "twice in this pod");
        }
    }
}

/// The API does not compare a sidecar's with those of others, but both containers run at the same time.
fn shared(ports: &[ContainerPort], path: &str, taken: &mut BTreeSet<HostPort>, scope: Scope<'_>) {
    for (index, claim) in ports.iter().map(host_port).enumerate() {
        if claim.is_some_and(|claim| !taken.insert(claim)) {
            scope.warn(
                &format!("{path}[{index}].hostPort"),
                "another container of this pod that runs at the same time has it too, only one can listen",
            );
        }
    }
}
