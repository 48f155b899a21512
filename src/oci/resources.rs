//! Quantities as variables (C-18…C-20) and the order in which the kernel kills when memory runs out (C-78).

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{ContainerInput, NodeFacts};
use crate::plan::{QosClass, qos_class};
use crate::pod::quantity;

/// Quantities are counted in billionths, Kubernetes' finest unit.
const NANOS: i128 = 1_000_000_000;

const NODE_CRITICAL: &str = "system-node-critical";

/// Which of a container's two maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Limit,
    Request,
}

/// C-18…C-20: value ÷ divisor, rounded up. `None` leaves the variable out: the limit is unset and the node's own amount
/// is unknown.
pub fn field_value(
    input: &ContainerInput<'_>,
    selector: &ResourceFieldSelector,
) -> Result<Option<String>, String> {
    let container = selected_container(input, selector.container_name.as_deref())?;
    quantity((&input.pod.pod, input.node), container, selector)
}

/// The same of a container that is known.
pub(super) fn quantity(
    (pod, node): (&Pod, &NodeFacts),
    container: &Container,
    selector: &ResourceFieldSelector,
) -> Result<Option<String>, String> {
    let (kind, resource) = match selector.resource.split_once('.') {
        Some(("limits", resource)) => (Kind::Limit, resource),
        Some(("requests", resource)) => (Kind::Request, resource),
        Some(_) | None => return Err(format!("resource {:?} is not supported", selector.resource)),
    };
    let amount = match (kind, amount(container, kind, resource)) {
        // A limit of nothing is none.
        (Kind::Limit, None | Some(0)) => {
            let limits = pod.spec.as_ref();
            let limits = limits.and_then(|spec| spec.resources.as_ref()?.limits.as_ref());
            let of_pod = limits
                .and_then(|limits| limits.get(resource))
                .and_then(nanos);
            of_pod
                .filter(|amount| *amount > 0)
                .or_else(|| node_amount(node, resource))
        }
        (_, Some(amount)) => Some(amount),
        (Kind::Request, None) => Some(0),
    };
    let divisor = selector
        .divisor
        .as_ref()
        .and_then(nanos)
        .filter(|divisor| *divisor > 0);
    let divisor = divisor.unwrap_or(NANOS);
    Ok(amount.map(|amount| div_ceil(amount, divisor).to_string()))
}

fn selected_container<'a>(
    input: &ContainerInput<'a>,
    name: Option<&str>,
) -> Result<&'a Container, String> {
    let Some(name) = name.filter(|name| !name.is_empty() && *name != input.container.name) else {
        return Ok(input.container);
    };
    let spec = input.pod.pod.spec.as_ref();
    let all = spec.into_iter().flat_map(|spec| {
        spec.containers
            .iter()
            .chain(spec.init_containers.iter().flatten())
    });
    let mut matching = all.filter(|container| container.name == name);
    matching
        .next()
        .ok_or_else(|| format!("there is no container {name:?}"))
}

/// In billionths. A request that is not set is the limit, as the API server has it.
fn amount(container: &Container, kind: Kind, resource: &str) -> Option<i128> {
    let resources = container.resources.as_ref()?;
    let limit = || resources.limits.as_ref()?.get(resource);
    let request = || resources.requests.as_ref()?.get(resource);
    match kind {
        Kind::Limit => limit(),
        Kind::Request => request().or_else(limit),
    }
    .and_then(nanos)
}

/// C-19: what pods can have of the node together. In billionths.
fn node_amount(node: &NodeFacts, resource: &str) -> Option<i128> {
    let (capacity, reserved, unit) = match resource {
        "cpu" => (
            u64::from(node.cpus) * 1000,
            node.reserved_cpu_milli,
            NANOS / 1000,
        ),
        "memory" => (node.memory_bytes, node.reserved_memory, NANOS),
        "ephemeral-storage" => (node.storage_bytes, 0, NANOS),
        _ if resource.starts_with("hugepages-") => return Some(0),
        _ => return None,
    };
    let left = i128::from(capacity.saturating_sub(reserved));
    (capacity > 0).then_some(left * unit)
}

fn nanos(quantity: &Quantity) -> Option<i128> {
    quantity::nanos(&quantity.0)
}

/// For a positive divisor.
fn div_ceil(value: i128, divisor: i128) -> i128 {
    value.div_euclid(divisor) + i128::from(value.rem_euclid(divisor) != 0)
}

/// C-78; `node_memory` in bytes, 0 if unknown (then requests do not count).
pub fn oom_score_adj(pod: &Pod, container: &Container, node_memory: u64) -> i32 {
    let priority_class = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.priority_class_name.as_deref());
    if priority_class == Some(NODE_CRITICAL) {
        return -997;
    }
    match qos_class(pod) {
        QosClass::Guaranteed => -997,
        QosClass::BestEffort => 1000,
        QosClass::Burstable => {
            let request = amount(container, Kind::Request, "memory").unwrap_or(0);
            let node = i128::from(node_memory) * NANOS;
            let share = if node == 0 {
                0
            } else {
                request.saturating_mul(1000) / node
            };
            let score = (1000 - share).clamp(3, 999);
            i32::try_from(score).expect("clamped")
        }
    }
}

#[cfg(test)]
mod tests;
