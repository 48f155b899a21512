//! How much a cgroup may use: of a container (C-70…C-76), of a pod (C-77, C-88), of a QoS class and of all pods together
//! (C-85…C-87). Numbers only; [`super::resources`] puts those of a container into its specification, `holder::limits`
//! writes the others.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::NodeFacts;
use crate::plan::{QosClass, qos_class};
use crate::pod::lifecycle;
use crate::pod::quantity::{self, NANOS, Unit};
use crate::pod::requests::{HUGE_PAGES, List, amount, effective_limit, effective_requests};

/// C-70: what a cgroup has that asks for nothing.
pub const MIN_SHARES: u64 = 2;
const MAX_SHARES: u64 = 262_144;
/// C-72: microseconds.
const MIN_QUOTA: u64 = 1000;

/// Which limits the kernel can keep.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Controllers {
    /// Shares or weights of processors.
    pub cpu: bool,
    /// Quotas (CONFIG_CFS_BANDWIDTH).
    pub cpu_quota: bool,
    /// Memory.
    pub memory: bool,
    /// Swap, apart from memory.
    pub swap: bool,
    /// Number of processes and threads.
    pub pids: bool,
    /// Sizes of huge pages, as in the names of files: `2MB`.
    pub huge_pages: Vec<String>,
}

/// What the configuration says about limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitRules {
    /// C-72: microseconds of `cpuCFSQuotaPeriod`; none with `cpuCFSQuota: false`.
    pub cpu_period: Option<u64>,
    /// C-77: `podPidsLimit`.
    pub pod_pids: Option<u64>,
    /// C-74: `singleProcessOOMKill`.
    pub single_process_oom_kill: bool,
}

impl Default for LimitRules {
    fn default() -> Self {
        Self {
            cpu_period: Some(100_000),
            pod_pids: None,
            single_process_oom_kill: false,
        }
    }
}

/// How much a cgroup may use. What the kernel cannot limit is not limited here either.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// v1's measure, 2 to 262144; [`weight`] is that of v2. None leaves it as it is.
    pub cpu_shares: Option<u64>,
    /// None is no limit; so in the following.
    pub cpu_quota: Option<CpuQuota>,
    /// Bytes.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Bytes for each size of pages that can be limited; `2MB`.
    pub huge_pages: BTreeMap<String, u64>,
}

/// So many microseconds of processor time in each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuQuota {
    /// Microseconds, of all processors together.
    pub quota: u64,
    /// Microseconds.
    pub period: u64,
}

/// C-70…C-76. Where a container has no limit, that of its pod as a whole holds (C-73), so that the container itself is told
/// of it and ended by it.
pub fn of_container(pod: &Pod, container: &Container, node: &NodeFacts) -> Limits {
    let own = container.resources.as_ref();
    let whole = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let set = |resources, list, resource, unit| {
        amount(resources, list, resource, unit).filter(|&amount| amount > 0)
    };
    let limit = |resource, unit| {
        let limits = [own, whole].map(|of| set(of, List::Limits, resource, unit));
        match limits {
            // On v1 the kernel takes no quota above the parent's.
            [Some(own), Some(whole)] => Some(own.min(whole)),
            [own, whole] => own.or(whole),
        }
    };
    let cpu = limit("cpu", Unit::Milli);
    let request = set(own, List::Requests, "cpu", Unit::Milli).or(cpu);
    let pages = |name: &str| amount(own, List::Limits, name, Unit::One).unwrap_or(0);
    Limits {
        cpu_shares: Some(shares(request.unwrap_or(0))),
        cpu_quota: cpu.and_then(|milli| quota(milli, node)),
        memory: limit("memory", Unit::One),
        pids: None,
        huge_pages: huge_pages(own.and_then(|own| own.limits.as_ref()), pages),
    }
    .kept_by(node)
}

/// C-88, C-77.
pub fn of_pod(pod: &Pod, node: &NodeFacts) -> Limits {
    let requests = effective_requests(pod);
    let cpu = effective_limit(pod, "cpu", Unit::Milli);
    let limits = Limits {
        cpu_shares: Some(shares(requests.cpu_milli)),
        cpu_quota: cpu.and_then(|milli| quota(milli, node)),
        memory: effective_limit(pod, "memory", Unit::One),
        pids: node.limit_rules.pod_pids,
        huge_pages: huge_pages(Some(&requests.huge_pages), |name| {
            requests.huge_pages.get(name).copied().unwrap_or(0)
        }),
    };
    match qos_class(pod) {
        QosClass::Guaranteed | QosClass::Burstable => limits,
        QosClass::BestEffort => Limits {
            cpu_shares: Some(MIN_SHARES),
            cpu_quota: None,
            memory: None,
            ..limits
        },
    }
    .kept_by(node)
}

/// C-86, C-87, from what all pods of the class request together.
pub fn of_class(cpu_milli: u64, node: &NodeFacts) -> Limits {
    Limits {
        cpu_shares: Some(shares(cpu_milli)),
        ..Limits::default()
    }
    .kept_by(node)
}

impl Limits {
    /// Without what the kernel cannot keep, and with nothing for each size of huge pages that was not asked for (C-76).
    fn kept_by(self, node: &NodeFacts) -> Self {
        let can = &node.controllers;
        let pages = |size: &String| {
            (
                size.clone(),
                self.huge_pages.get(size).copied().unwrap_or(0),
            )
        };
        Self {
            cpu_shares: self.cpu_shares.filter(|_| can.cpu),
            cpu_quota: self.cpu_quota.filter(|_| can.cpu_quota),
            memory: self.memory.filter(|_| can.memory),
            pids: self.pids.filter(|_| can.pids),
            huge_pages: can.huge_pages.iter().map(pages).collect(),
        }
    }
}

/// A limit that the kernel cannot keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// Shares and weights.
    Cpu,
    /// Quotas.
    CpuQuota,
    /// All of memory.
    Memory,
    /// Of swap only.
    Swap,
    /// Processes.
    Pids,
    /// Of some size.
    HugePages,
}

impl Missing {
    /// What does not hold, and what to do.
    pub fn text(self) -> &'static str {
        match self {
            Self::Cpu => {
                "cpu requests decide nothing while processors are busy: this kernel has no cpu controller (CONFIG_CGROUP_SCHED)"
            }
            Self::CpuQuota => {
                "cpu limits are not enforced: this kernel has no quotas (CONFIG_CFS_BANDWIDTH)"
            }
            Self::Memory => {
                "memory limits are not enforced: the kernel's memory controller is off; add `cgroup_enable=memory cgroup_memory=1` to its command line (on a Raspberry Pi: /boot/firmware/cmdline.txt) and restart the machine"
            }
            Self::Swap => {
                "containers with a memory limit can still swap: add `swapaccount=1` to the kernel's command line and restart the machine, or turn swap off"
            }
            Self::Pids => {
                "podPidsLimit is not enforced: this kernel has no pids controller (CONFIG_CGROUP_PIDS)"
            }
            Self::HugePages => {
                "limits of huge pages are not enforced: this kernel has no hugetlb controller (CONFIG_CGROUP_HUGETLB), or it is not mounted"
            }
        }
    }
}

/// What is asked for by a pod and cannot be kept.
pub fn missing(pod: &Pod, node: &NodeFacts) -> Vec<Missing> {
    let able = NodeFacts {
        controllers: Controllers {
            cpu: true,
            cpu_quota: true,
            memory: true,
            swap: true,
            pids: true,
            huge_pages: Vec::new(),
        },
        limit_rules: node.limit_rules.clone(),
        ..NodeFacts::default()
    };
    let requests = effective_requests(pod);
    let members = lifecycle::members(pod).map(|(_, container)| of_container(pod, container, &able));
    let all: Vec<Limits> = members.chain([of_pod(pod, &able)]).collect();
    let can = &node.controllers;
    let limits_memory = all.iter().any(|limits| limits.memory.is_some());
    let has_pages = |name: &String| page_size(name).is_none_or(|s| can.huge_pages.contains(&s));
    [
        (Missing::Cpu, !can.cpu && requests.cpu_milli > 0),
        (
            Missing::CpuQuota,
            !can.cpu_quota && all.iter().any(|limits| limits.cpu_quota.is_some()),
        ),
        (Missing::Memory, !can.memory && limits_memory),
        (
            Missing::Swap,
            can.memory && !can.swap && node.has_swap && limits_memory,
        ),
        (
            Missing::Pids,
            !can.pids && node.limit_rules.pod_pids.is_some(),
        ),
        (
            Missing::HugePages,
            !requests.huge_pages.keys().all(has_pages),
        ),
    ]
    .into_iter()
    .filter_map(|(limit, is_missing)| is_missing.then_some(limit))
    .collect()
}

/// C-70.
pub fn shares(cpu_milli: u64) -> u64 {
    (cpu_milli.saturating_mul(1024) / 1000).clamp(MIN_SHARES, MAX_SHARES)
}

/// C-71: shares as a `cpu.weight` of v2, by the formula of runc and libcontainer.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "between 2 and 262144, and between 1 and 10000"
)]
pub fn weight(shares: u64) -> u64 {
    match shares {
        0..=MIN_SHARES => 1,
        MAX_SHARES.. => 10_000,
        _ => {
            let l = (shares as f64).log2();
            let exponent = (l * l + 125.0 * l) / 612.0 - 7.0 / 34.0;
            (10_f64.powf(exponent).ceil() as u64).clamp(1, 10_000)
        }
    }
}

/// C-72.
fn quota(cpu_milli: u64, node: &NodeFacts) -> Option<CpuQuota> {
    let period = node.limit_rules.cpu_period?;
    let quota = (cpu_milli.saturating_mul(period) / 1000).max(MIN_QUOTA);
    Some(CpuQuota { quota, period })
}

/// By sizes as the kernel writes them.
fn huge_pages<T>(
    list: Option<&BTreeMap<String, T>>,
    bytes: impl Fn(&str) -> u64,
) -> BTreeMap<String, u64> {
    let names = list.into_iter().flat_map(BTreeMap::keys);
    let named = names.filter_map(|name| Some((page_size(name)?, bytes(name))));
    named.collect()
}

/// `hugepages-2Mi` → `2MB`.
pub fn page_size(resource: &str) -> Option<String> {
    let bytes = quantity::nanos(resource.strip_prefix(HUGE_PAGES)?)? / NANOS;
    let units = [(30, "GB"), (20, "MB"), (10, "KB")];
    let (shift, unit) = units.into_iter().find(|(shift, _)| bytes >> shift > 0)?;
    Some(format!("{}{unit}", bytes >> shift))
}

#[cfg(test)]
pub(super) mod tests;
