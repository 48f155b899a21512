//! QoS class and cgroup path of a pod.

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod::{StaticPod, quantity};

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
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Guaranteed, Self::Burstable, Self::BestEffort];

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
    let class = class_cgroup(cgroup_root, qos_class(&pod.pod));
    format!("{class}/pod{}", pod.uid)
}

/// Absolute cgroup path of a class.
pub fn class_cgroup(cgroup_root: &str, class: QosClass) -> String {
    let root = cgroup_root.trim_end_matches('/');
    format!("{root}/{}", class.cgroup())
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
fn non_zero(Quantity(text): &Quantity) -> Option<i128> {
    quantity::nanos(text.trim()).filter(|nanos| *nanos != 0)
}
