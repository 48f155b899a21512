//! What a pod asks of its node (P-58, S-170).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::lifecycle::{Role, members};
use super::quantity;

/// Amounts that are set aside for a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requests {
    /// Thousandths of a CPU, rounded up.
    pub cpu_milli: u64,
    /// Bytes, rounded up.
    pub memory: u64,
}

/// P-58: the larger of what all containers need together and what each init container needs beside the sidecars before
/// it; what the pod as a whole requests counts instead (S-100); its overhead comes on top.
pub fn effective_requests(pod: &Pod) -> Requests {
    Requests {
        cpu_milli: effective(pod, "cpu", 1000),
        memory: effective(pod, "memory", 1),
    }
}

/// In units of which `per_one` make one.
fn effective(pod: &Pod, resource: &str, per_one: i128) -> u64 {
    let Some(spec) = &pod.spec else { return 0 };
    let amount = |list: Option<&BTreeMap<String, Quantity>>| {
        let Quantity(text) = list?.get(resource)?;
        Some(units(quantity::nanos(text)?, per_one))
    };
    let of_containers = peak(pod, |container| {
        let resources = container.resources.as_ref();
        amount(resources.and_then(|r| r.requests.as_ref())).unwrap_or(0)
    });
    let whole = spec.resources.as_ref();
    let limit = || whole.and_then(|r| amount(r.limits.as_ref()));
    let requested = whole
        .and_then(|r| amount(r.requests.as_ref()))
        .or_else(|| (of_containers == 0).then(limit).flatten())
        .unwrap_or(of_containers);
    requested.saturating_add(amount(spec.overhead.as_ref()).unwrap_or(0))
}

/// The most that is needed at any time.
fn peak(pod: &Pod, amount: impl Fn(&Container) -> u64) -> u64 {
    let (mut lasting, mut most) = (0_u64, 0_u64);
    for (role, container) in members(pod) {
        let needed = lasting.saturating_add(amount(container));
        most = most.max(needed);
        match role {
            Role::Init => {}
            Role::Sidecar | Role::Regular => lasting = needed,
        }
    }
    most
}

/// Rounded up; what is less than nothing is nothing.
fn units(nanos: i128, per_one: i128) -> u64 {
    const NANO: i128 = 1_000_000_000;
    let scaled = nanos.max(0).saturating_mul(per_one);
    u64::try_from(scaled.saturating_add(NANO - 1) / NANO).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
