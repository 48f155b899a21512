//! A container's limits in its specification (C-70…C-76), the order in which the kernel kills when memory runs out (C-78),
//! and quantities as variables (C-18…C-20).

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use oci_spec::runtime::{
    LinuxCpu, LinuxHugepageLimit, LinuxHugepageLimitBuilder, LinuxMemory, LinuxResources,
};

use super::limits::{Limits, of_container};
use super::volumes::Facts;
use super::{ContainerInput, NodeFacts};
use crate::plan::{QosClass, qos_class};
use crate::pod::lifecycle::{self, Role};
use crate::pod::quantity::{self, NANOS, Unit};
use crate::pod::requests::{self, HUGE_PAGES, List, SINGLE_PROCESS_OOM_KILL};

const NODE_CRITICAL: &str = "system-node-critical";

/// Which of a container's two maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Limit,
    Request,
}

/// C-18…C-20: value ÷ divisor, rounded up, of the container that is named, or else of `own`. `None` leaves the variable
/// out: the limit is unset and the node's own amount is unknown.
pub(super) fn field_value(
    facts: Facts<'_>,
    own: Option<&Container>,
    selector: &ResourceFieldSelector,
) -> Result<Option<String>, String> {
    let pod = &facts.pod.pod;
    let name = selector.container_name.as_deref().unwrap_or_default();
    let named = lifecycle::member(pod, name).map(|(_, container)| container);
    let container = if name.is_empty() { own } else { named };
    let container = container.ok_or_else(|| format!("there is no container {name:?}"))?;
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
                .or_else(|| node_amount(facts.node, resource))
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
    let (left, unit) = match resource {
        "cpu" => (node.cpu_milli_for_pods(), NANOS / 1000),
        "memory" => (node.memory_for_pods(), NANOS),
        "ephemeral-storage" => (node.storage_for_pods(), NANOS),
        _ if resource.starts_with(HUGE_PAGES) => (Some(0), NANOS),
        _ => (None, NANOS),
    };
    left.map(|left| i128::from(left) * unit)
}

fn nanos(quantity: &Quantity) -> Option<i128> {
    quantity::nanos(&quantity.0)
}

/// For a positive divisor.
fn div_ceil(value: i128, divisor: i128) -> i128 {
    value.div_euclid(divisor) + i128::from(value.rem_euclid(divisor) != 0)
}

/// Puts the container's limits beside its device rules.
pub fn limit(resources: &mut LinuxResources, input: &ContainerInput<'_>) {
    let node = input.node;
    let limits = of_container(&input.pod.pod, input.container, node);
    resources
        .set_cpu(cpu(&limits))
        .set_memory(memory(&limits, node))
        .set_hugepage_limits(huge_pages(&limits));
    if node.unified_cgroups {
        resources.set_unified(unified(&input.pod.pod, node));
    }
}

fn cpu(limits: &Limits) -> Option<LinuxCpu> {
    limits.cpu_shares?;
    let mut cpu = LinuxCpu::default();
    cpu.set_shares(limits.cpu_shares);
    if let Some(cfs) = limits.cpu_quota {
        cpu.set_quota(Some(signed(cfs.quota)))
            .set_period(Some(cfs.period));
    }
    Some(cpu)
}

/// C-75: on v1 swap is limited together with memory.
fn memory(limits: &Limits, node: &NodeFacts) -> Option<LinuxMemory> {
    let limit = signed(limits.memory?);
    let mut memory = LinuxMemory::default();
    memory.set_limit(Some(limit));
    if node.controllers.swap && !node.unified_cgroups {
        memory.set_swap(Some(limit));
    }
    Some(memory)
}

fn huge_pages(limits: &Limits) -> Option<Vec<LinuxHugepageLimit>> {
    let limit = |(size, bytes): (&String, &u64)| {
        LinuxHugepageLimitBuilder::default()
            .page_size(size.clone())
            .limit(signed(*bytes))
            .build()
            .expect("every field is set")
    };
    let list: Vec<_> = limits.huge_pages.iter().map(limit).collect();
    (!list.is_empty()).then_some(list)
}

/// C-74, C-75: what libcontainer has no field for, or would leave out when it is 0.
fn unified(pod: &Pod, node: &NodeFacts) -> Option<HashMap<String, String>> {
    let annotations = pod.metadata.annotations.as_ref();
    let wish = annotations.and_then(|all| all.get(SINGLE_PROCESS_OOM_KILL));
    let is_single = match wish.map(String::as_str) {
        Some("true") => true,
        Some("false") => false,
        Some(_) | None => node.limit_rules.single_process_oom_kill,
    };
    let mut files = HashMap::new();
    if node.controllers.memory && !is_single {
        files.insert("memory.oom.group".to_owned(), "1".to_owned());
    }
    if node.controllers.swap {
        files.insert("memory.swap.max".to_owned(), "0".to_owned());
    }
    (!files.is_empty()).then_some(files)
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
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
        QosClass::Burstable => burstable_score(pod, container, node_memory),
    }
}

/// The more of the node's memory it requests, the later. A sidecar is not killed before the regular containers that it
/// serves.
fn burstable_score(pod: &Pod, container: &Container, node_memory: u64) -> i32 {
    let share_of_rest = unclaimed_memory(pod);
    let score = |container: &Container| {
        let own = requested_memory(container.resources.as_ref());
        let request = u128::from(own) + u128::from(share_of_rest);
        let share = (request * 1000).checked_div(u128::from(node_memory));
        1000 - i32::try_from(share.unwrap_or(0).min(1000)).expect("at most 1000")
    };
    let own = score(container);
    let is_sidecar =
        lifecycle::member(pod, &container.name).is_some_and(|(role, _)| role == Role::Sidecar);
    let regular = lifecycle::members(pod).filter(|(role, _)| *role == Role::Regular);
    // The smallest request has the highest score.
    let highest = regular.map(|(_, container)| score(container)).max();
    let adapted = match highest {
        Some(highest) if is_sidecar => own.min(highest),
        Some(_) | None => own,
    };
    adapted.clamp(3, 999)
}

fn requested_memory(resources: Option<&ResourceRequirements>) -> u64 {
    requests::amount(resources, List::Requests, "memory", Unit::One).unwrap_or(0)
}

/// Bytes for each container of what the pod requests as a whole, beyond what they request themselves.
fn unclaimed_memory(pod: &Pod) -> u64 {
    let whole = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let whole = requested_memory(whole);
    let claimed = requests::peak(pod, |container| {
        requested_memory(container.resources.as_ref())
    });
    let count = lifecycle::members(pod).count().max(1) as u64;
    whole.saturating_sub(claimed) / count
}

#[cfg(test)]
mod tests;
