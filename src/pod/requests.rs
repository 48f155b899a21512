//! What a pod asks of its node (P-58, S-170), and how far it may go (C-88).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::lifecycle::{Role, members};
use super::quantity::{self, Unit};

/// `hugepages-2Mi`, …
pub const HUGE_PAGES: &str = "hugepages-";

/// C-74 for one pod: an annotation that, when it is `true`, lets the kernel kill single processes of its containers.
pub const SINGLE_PROCESS_OOM_KILL: &str = "vetch.io/single-process-oom-kill";

/// Amounts that are set aside for a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests {
    /// Thousandths of a CPU, rounded up.
    pub cpu_milli: u64,
    /// Bytes, rounded up.
    pub memory: u64,
    /// Bytes, rounded up.
    pub ephemeral_storage: u64,
    /// Bytes, by resource name (`hugepages-2Mi`).
    pub huge_pages: BTreeMap<String, u64>,
}

/// P-58: the larger of what all containers need together and what each init container needs beside the sidecars before
/// it; what the pod as a whole requests counts instead (S-100); its overhead comes on top.
pub fn effective_requests(pod: &Pod) -> Requests {
    let huge_pages = huge_page_names(pod).map(|name| {
        let bytes = effective_request(pod, name, Unit::One);
        (name.to_owned(), bytes)
    });
    Requests {
        cpu_milli: effective_request(pod, "cpu", Unit::Milli),
        memory: effective_request(pod, "memory", Unit::One),
        ephemeral_storage: effective_request(pod, "ephemeral-storage", Unit::One),
        huge_pages: huge_pages.collect(),
    }
}

/// Which of the two lists of amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// What is set aside.
    Requests,
    /// How far it may go.
    Limits,
}

/// An amount in one of the lists; what is less than nothing is nothing.
pub fn amount(
    resources: Option<&ResourceRequirements>,
    list: List,
    resource: &str,
    unit: Unit,
) -> Option<u64> {
    let resources = resources?;
    let amounts = match list {
        List::Requests => resources.requests.as_ref(),
        List::Limits => resources.limits.as_ref(),
    };
    units(amounts?.get(resource)?, unit)
}

fn effective_request(pod: &Pod, resource: &str, unit: Unit) -> u64 {
    let Some(spec) = &pod.spec else { return 0 };
    let of_containers = peak(pod, |container| {
        amount(container.resources.as_ref(), List::Requests, resource, unit).unwrap_or(0)
    });
    let whole = |list| amount(spec.resources.as_ref(), list, resource, unit);
    let requested = whole(List::Requests)
        .or_else(|| (of_containers == 0).then(|| whole(List::Limits)).flatten())
        .unwrap_or(of_containers);
    requested.saturating_add(overhead(pod, resource, unit))
}

/// C-88: how far a pod may go: what is said of it as a whole, else the sum over its containers, if every one of them has a
/// limit; its overhead comes on top. Zero is no limit.
pub fn effective_limit(pod: &Pod, resource: &str, unit: Unit) -> Option<u64> {
    let spec = pod.spec.as_ref()?;
    let of = |resources: Option<&ResourceRequirements>| {
        amount(resources, List::Limits, resource, unit).filter(|&amount| amount > 0)
    };
    let of_containers = || {
        let limit = |container: &Container| of(container.resources.as_ref());
        let is_limited = members(pod).all(|(_, container)| limit(container).is_some());
        is_limited.then(|| peak(pod, |container| limit(container).unwrap_or(0)))
    };
    let limit = of(spec.resources.as_ref()).or_else(of_containers)?;
    Some(limit.saturating_add(overhead(pod, resource, unit)))
}

fn overhead(pod: &Pod, resource: &str, unit: Unit) -> u64 {
    let overhead = pod.spec.as_ref().and_then(|spec| spec.overhead.as_ref());
    let amount = overhead.and_then(|overhead| units(overhead.get(resource)?, unit));
    amount.unwrap_or(0)
}

/// The most that is needed at any time.
pub fn peak(pod: &Pod, amount: impl Fn(&Container) -> u64) -> u64 {
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

/// Of all of the pod's lists; with repetitions.
fn huge_page_names(pod: &Pod) -> impl Iterator<Item = &str> {
    let whole = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let of_containers = members(pod).filter_map(|(_, container)| container.resources.as_ref());
    of_containers
        .chain(whole)
        .flat_map(|resources| [&resources.requests, &resources.limits])
        .flatten()
        .flat_map(|list| list.keys().map(String::as_str))
        .filter(|name| name.starts_with(HUGE_PAGES))
}

/// Rounded up; what is less than nothing is nothing.
pub fn units(Quantity(text): &Quantity, unit: Unit) -> Option<u64> {
    let nanos = quantity::nanos(text)?.max(0);
    Some(unit.count(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
