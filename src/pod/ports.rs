//! Ports of the node that pods claim (S-113, S-171).

use core::net::IpAddr;
use std::fmt;

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod};

use super::lifecycle::{Role, members};

/// A claim on a port of the node; `Display` gives `TCP 127.0.0.1:80`, or `TCP 80` on all addresses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Where.
    pub address: Address,
    /// From 1.
    pub port: u16,
}

/// Addresses of the node that a claim is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// None written, or `0.0.0.0`: every address.
    All,
    /// One; `::` is every one of IPv6.
    Ip(IpAddr),
    /// What is no address is equal to itself only.
    Text(String),
}

impl HostPort {
    /// Both cannot be had at once.
    pub fn clashes(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address.covers(&other.address) || other.address.covers(&self.address))
    }
}

impl Address {
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Ip(IpAddr::V6(ip)), Self::Ip(IpAddr::V6(_))) if ip.is_unspecified() => true,
            (Self::Ip(_) | Self::Text(_), _) => self == other,
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, port, .. } = self;
        match &self.address {
            Address::All => write!(f, "{protocol} {port}"),
            Address::Ip(ip @ IpAddr::V6(_)) => write!(f, "{protocol} [{ip}]:{port}"),
            Address::Ip(ip) => write!(f, "{protocol} {ip}:{port}"),
            Address::Text(text) => write!(f, "{protocol} {text}:{port}"),
        }
    }
}

/// The claims of a pod's regular containers and sidecars, each once; those of init containers that end do not count, as
/// in kubelet.
pub fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let lasting = members(pod).filter(|(role, _)| match role {
        Role::Init => false,
        Role::Sidecar | Role::Regular => true,
    });
    let mut ports: Vec<HostPort> = lasting.flat_map(|(_, c)| of_container(c)).collect();
    ports.sort();
    ports.dedup();
    ports
}

fn of_container(container: &Container) -> impl Iterator<Item = HostPort> {
    container.ports.iter().flatten().filter_map(host_port)
}

/// The claim of one port, if it makes any.
pub(super) fn host_port(port: &ContainerPort) -> Option<HostPort> {
    let number = port.host_port.and_then(|port| u16::try_from(port).ok());
    let protocol = port.protocol.as_deref().filter(|text| !text.is_empty());
    let ip = port.host_ip.as_deref().unwrap_or_default();
    Some(HostPort {
        protocol: protocol.unwrap_or("TCP").to_owned(),
        address: match (ip, ip.parse()) {
            ("" | "0.0.0.0", _) => Address::All,
            (_, Ok(ip)) => Address::Ip(ip),
            (text, Err(_)) => Address::Text(text.to_owned()),
        },
        port: number.filter(|port| *port > 0)?,
    })
}

#[cfg(test)]
mod tests;
