//! Which of the waiting pods the node takes (section 1.9 of the specification). Unlike kubelet's, a refusal is not for
//! ever: it is judged anew in each pass, and the pod starts when its cause has gone (D-3). Taints do not count for
//! static pods (S-174).
//!
//! Who was admitted stays so until the next boot, whatever happens to its sandbox, and so does the edited version of a
//! pod that runs. The others come by priority, then by name: after a boot the manifests alone decide.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::pass::World;
use super::{Allocatable, EndingCause, Halt, History, deadline, eviction};
use crate::pod::lifecycle;
use crate::pod::ports::{HostPort, host_ports};
use crate::pod::requests::{Requests, effective_requests};
use crate::pod::{PodUid, StaticPod, sysctl};

mod affinity;

/// The only operating system that there is.
const OS: &str = "linux";
const OS_LABEL: &str = "kubernetes.io/os";

/// Why the node does not take a pod for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// `NodePorts`, `NodeAffinity`, `OutOfcpu`, …: `status.reason`, and the reason of the event.
    pub reason: String,
    /// Of the event, in kubelet's words.
    pub message: String,
}

impl Refusal {
    fn new(reason: &str, message: impl Into<String>) -> Self {
        Self {
            reason: reason.to_owned(),
            message: message.into(),
        }
    }

    /// `status.message`.
    pub fn status_message(&self) -> String {
        format!("Pod was rejected: {}", self.message)
    }
}

/// Every waiting pod that is refused.
pub(super) type Refusals = BTreeMap<PodUid, Refusal>;

/// What a pod has, or will have when it starts.
struct Claim {
    full_name: String,
    requests: Requests,
    ports: Vec<HostPort>,
}

impl Claim {
    fn of(pod: &StaticPod) -> Self {
        Self {
            full_name: pod.full_name(),
            requests: effective_requests(&pod.pod),
            ports: host_ports(&pod.pod),
        }
    }
}

/// Judges all waiting pods. Nobody is refused while nothing starts anyway: before all manifests are known, and when the
/// pods are being ended.
pub(super) fn refusals(world: World<'_>, history: &History) -> Refusals {
    let observed = world.observed;
    let waiting = waiting(world, history);
    if waiting.is_empty() || !observed.sources_ready || observed.halt == Halt::AgentStop {
        return Refusals::new();
    }
    if observed.halt != Halt::No {
        return refuse_newcomers(&waiting, history);
    }
    let mut claims = claims_of_active(world);
    let mut refused = Vec::new();
    for pod in waiting {
        let claim = Claim::of(pod);
        match refuse(world, pod, (&claim, &claims)) {
            Some(_) => refused.push((pod, claim)),
            None => claims.push(claim),
        }
    }
    // Told by what all others have, so that the next pass, in which those are admitted, tells the same.
    refused
        .into_iter()
        .filter_map(|(pod, claim)| {
            let refusal = refuse(world, pod, (&claim, &claims))?;
            Some((pod.uid.clone(), refusal))
        })
        .collect()
}

/// S-179, N-29. A pod that has ended with the node is no newcomer.
fn refuse_newcomers(waiting: &[&StaticPod], history: &History) -> Refusals {
    let has_ended = |pod: &&&StaticPod| {
        let ending = history.pods.get(&pod.uid).and_then(|memory| memory.ending);
        ending.is_some_and(|ending| ending.cause == EndingCause::NodeShutdown)
    };
    let newcomers = waiting.iter().filter(|pod| !has_ended(pod));
    newcomers
        .map(|pod| {
            let refusal = Refusal::new("NodeShutdown", "Node is shutting down");
            (pod.uid.clone(), refusal)
        })
        .collect()
}

/// Pods that should run and have no sandbox, in the order of their right to one.
fn waiting<'a>(world: World<'a>, history: &History) -> Vec<&'a StaticPod> {
    let is_over = |pod: &StaticPod| {
        let memory = history.pods.get(&pod.uid);
        memory.is_some_and(|m| {
            let is_over = m.finished.is_some() || deadline::is_over(world, pod, m);
            !m.is_removed() && (is_over || eviction::is_out(world, &pod.uid, m))
        })
    };
    let mut waiting: Vec<&StaticPod> = world
        .desired
        .iter()
        .filter(|(uid, pod)| !world.observed.sandboxes.contains_key(*uid) && !is_over(pod))
        .map(|(_, pod)| pod)
        .collect();
    waiting.sort_by_cached_key(|pod| {
        let was_admitted = was_admitted(world, history, &pod.uid);
        (
            Reverse(was_admitted),
            Reverse(pod.priority()),
            pod.full_name(),
        )
    });
    waiting
}

fn was_admitted(world: World<'_>, history: &History, uid: &PodUid) -> bool {
    history.pods.get(uid).is_some_and(|memory| {
        memory.admitted_in.as_ref() == Some(&world.rules.boot_id) && !memory.is_removed()
    })
}

/// Everything with a sandbox, also what is on its way out. One that was edited in place has what it was started with and
/// what it will have.
fn claims_of_active(world: World<'_>) -> Vec<Claim> {
    let sandboxes = world.observed.sandboxes.iter();
    let claims = sandboxes.map(|(uid, sandbox)| {
        let started = &sandbox.record.pod;
        let wanted = world.desired.get(uid).unwrap_or(started);
        let mut claim = Claim::of(wanted);
        if wanted.document_hash != started.document_hash {
            claim.ports.extend(host_ports(&started.pod));
        }
        claim
    });
    claims.collect()
}

/// The first thing that speaks against a pod, in kubelet's order.
fn refuse(
    world: World<'_>,
    pod: &StaticPod,
    (claim, claims): (&Claim, &[Claim]),
) -> Option<Refusal> {
    // An older pod of the same name is gone before this one starts (S-157).
    let others = || claims.iter().filter(|c| c.full_name != claim.full_name);
    let node_name = &world.rules.node_name;
    wrong_os(pod)
        .or_else(|| no_apparmor(world, pod))
        .or_else(|| too_large(&claim.requests, &world.rules.allocatable, others()))
        .or_else(|| affinity::mismatch(&pod.pod, &world.rules.labels, node_name))
        .or_else(|| clash(&claim.ports, others()))
        .or_else(|| forbidden_sysctl(pod, &world.rules.unsafe_sysctls))
}

/// S-175.
fn wrong_os(pod: &StaticPod) -> Option<Refusal> {
    let labels = pod.pod.metadata.labels.as_ref();
    if labels
        .and_then(|labels| labels.get(OS_LABEL))
        .is_some_and(|os| os != OS)
    {
        return Some(Refusal::new(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        ));
    }
    let os = pod.pod.spec.as_ref()?.os.as_ref()?;
    (os.name != OS).then(|| {
        Refusal::new(
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        )
    })
}

/// C-54, in kubelet's words. The default is nothing to ask for.
fn no_apparmor(world: World<'_>, pod: &StaticPod) -> Option<Refusal> {
    let spec = pod.pod.spec.as_ref()?;
    let of_pod = spec.security_context.as_ref();
    let of_pod = of_pod.and_then(|context| context.app_armor_profile.as_ref());
    let members = lifecycle::members(&pod.pod);
    let contexts = members.filter_map(|(_, c)| c.security_context.as_ref());
    let mut profiles = contexts
        .filter_map(|context| context.app_armor_profile.as_ref())
        .chain(of_pod);
    let asks = profiles.any(|profile| profile.type_ != "Unconfined");
    (asks && !world.rules.apparmor).then(|| {
        let message = "Cannot enforce AppArmor: AppArmor is not enabled on the host";
        Refusal::new("AppArmor", message)
    })
}

/// S-170.
fn too_large<'a>(
    wanted: &Requests,
    allocatable: &Allocatable,
    others: impl Iterator<Item = &'a Claim>,
) -> Option<Refusal> {
    let (mut pods, mut cpu_milli, mut memory, mut storage) = (0_u64, 0_u64, 0_u64, 0_u64);
    for claim in others {
        pods += 1;
        cpu_milli = cpu_milli.saturating_add(claim.requests.cpu_milli);
        memory = memory.saturating_add(claim.requests.memory);
        storage = storage.saturating_add(claim.requests.ephemeral_storage);
    }
    let kinds = [
        ("pods", 1, pods, u64::from(allocatable.pods)),
        ("cpu", wanted.cpu_milli, cpu_milli, allocatable.cpu_milli),
        ("memory", wanted.memory, memory, allocatable.memory),
        (
            "ephemeral-storage",
            wanted.ephemeral_storage,
            storage,
            allocatable.ephemeral_storage,
        ),
    ];
    kinds
        .into_iter()
        .find(|(_, requested, used, capacity)| {
            *requested > 0 && used.saturating_add(*requested) > *capacity
        })
        .map(|(name, requested, used, capacity)| {
            Refusal::new(
                &format!("OutOf{name}"),
                format!(
                    "Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
                ),
            )
        })
}

/// S-177, C-61.
fn forbidden_sysctl(pod: &StaticPod, allowed: &[String]) -> Option<Refusal> {
    let mut names = sysctl::of_pod(&pod.pod).into_keys();
    let name = names.find(|name| !sysctl::is_allowed(name, allowed))?;
    let hint = match sysctl::namespace(&name) {
        Some(_) => "; allowedUnsafeSysctls in the node's configuration can allow it",
        None => ", because it is the whole node's",
    };
    Some(Refusal::new(
        "SysctlForbidden",
        format!("forbidden sysctl: {name:?} not allowlisted{hint}"),
    ))
}

/// S-171. The pod's first port that is taken, and of its owners the first by name.
fn clash<'a>(
    ports: &[HostPort],
    others: impl Iterator<Item = &'a Claim> + Clone,
) -> Option<Refusal> {
    let owner = |port: &HostPort| {
        let owners = others
            .clone()
            .filter(|other| other.ports.iter().any(|theirs| theirs.clashes(port)));
        owners.map(|owner| &owner.full_name).min()
    };
    let (port, owner) = ports.iter().find_map(|port| Some((port, owner(port)?)))?;
    Some(Refusal::new(
        "NodePorts",
        format!(
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports ({port} belongs to pod {owner})"
        ),
    ))
}
