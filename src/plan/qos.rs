//! QoS class and cgroup path of a pod.

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod::StaticPod;

/// How much of its use a pod has reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QosClass {
    /// Each container limits cpu and memory, and requests as much.
    Guaranteed,
    /// In between.
    Burstable,
    /// No container requests or limits cpu or memory.
    BestEffort,
}

impl QosClass {
    /// As in `status.qosClass`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
    /// Name of the class's cgroup.
    fn cgroup(self) -> &'static str {
        match self {
            Self::Guaranteed => "guaranteed",
            Self::Burstable => "burstable",
            Self::BestEffort => "besteffort",
        }
    }
}

/// QoS class of a pod (section 4.8). Pod-level resources count alone where they are given; zero values count as absent; a
/// request that is not given equals the limit.
pub fn qos_class(pod: &Pod) -> QosClass {
    let Some(spec) = &pod.spec else {
        return QosClass::BestEffort;
    };
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let of_container = |c: &Container| class_of(c.resources.as_ref());
    let mut classes: Vec<QosClass> = spec
        .containers
        .iter()
        .chain(init)
        .map(of_container)
        .collect();
    if spec.resources.is_some() {
        classes = vec![class_of(spec.resources.as_ref())];
    }
    if classes.iter().all(|c| *c == QosClass::BestEffort) {
        QosClass::BestEffort
    } else if classes.iter().all(|c| *c == QosClass::Guaranteed) {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

/// Absolute cgroup path of a pod: `<cgroupRoot>/<qos>/pod<uid>`, for each of the three classes.
pub fn pod_cgroup(cgroup_root: &str, pod: &StaticPod) -> String {
    let class = qos_class(&pod.pod).cgroup();
    let root = cgroup_root.trim_end_matches('/');
    format!("{root}/{class}/pod{}", pod.uid)
}

fn class_of(resources: Option<&ResourceRequirements>) -> QosClass {
    let amount = |list: fn(&ResourceRequirements) -> Option<&Quantity>| {
        resources.and_then(list).and_then(non_zero)
    };
    let cpu = (
        amount(|r| r.requests.as_ref()?.get("cpu")),
        amount(|r| r.limits.as_ref()?.get("cpu")),
    );
    let memory = (
        amount(|r| r.requests.as_ref()?.get("memory")),
        amount(|r| r.limits.as_ref()?.get("memory")),
    );
    let is_fixed = |(request, limit): (Option<i128>, Option<i128>)| {
        limit.is_some() && (request.is_none() || request == limit)
    };
    if cpu == (None, None) && memory == (None, None) {
        QosClass::BestEffort
    } else if is_fixed(cpu) && is_fixed(memory) {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

/// A quantity in billionths, so that `0.5` and `500m` are equal; none for zero and for what is no quantity.
fn non_zero(quantity: &Quantity) -> Option<i128> {
    let text = quantity.0.trim();
    let digits = text
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let nanos: i128 = format!("{whole}{fraction:0<9.9}").parse().ok()?;
    let value = nanos.checked_mul(multiplier(suffix)?)? / 1_000_000_000;
    (value != 0).then_some(value)
}

/// What a suffix stands for, in billionths.
fn multiplier(suffix: &str) -> Option<i128> {
    const ONE: i128 = 1_000_000_000;
    let decimal = |power: u32| 10_i128.checked_pow(power)?.checked_mul(ONE);
    let binary = |power: u32| 1024_i128.checked_pow(power)?.checked_mul(ONE);
    match suffix {
        "n" => Some(1),
        "u" => Some(1000),
        "m" => Some(1_000_000),
        "" => Some(ONE),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        exponent => decimal(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    }
}
