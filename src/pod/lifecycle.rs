//! The parts that containers play in a pod, and what their exits mean (sections 2.4 and 2.5 of the specification).

use k8s_openapi::api::core::v1::{
    Container, ContainerRestartRuleOnExitCodes, Pod, Volume, VolumeMount,
};

/// The part that a container plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// P-50: runs to its end before the next one starts.
    Init,
    /// P-54: an init container with `restartPolicy: Always`; keeps running beside the others.
    Sidecar,
    /// `spec.containers`.
    Regular,
}

/// Init containers and sidecars, then regular ones, in spec order.
pub fn members(pod: &Pod) -> impl Iterator<Item = (Role, &Container)> {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_deref());
    let regular = spec.map(|spec| spec.containers.as_slice());
    let init = init.unwrap_or_default().iter().map(|c| (init_role(c), c));
    let regular = regular.unwrap_or_default().iter();
    init.chain(regular.map(|c| (Role::Regular, c)))
}

/// The container of this name and its part.
pub fn member<'a>(pod: &'a Pod, name: &str) -> Option<(Role, &'a Container)> {
    members(pod).find(|(_, container)| container.name == name)
}

/// Names of the images that volumes of the pod are made of (V-57).
pub fn volume_images(pod: &Pod) -> impl Iterator<Item = &str> {
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| volume.image.as_ref()?.reference.as_deref())
}

/// The pod's volumes that a container mounts, in the order of the pod.
pub fn mounted_volumes<'a>(
    pod: &'a Pod,
    container: &'a Container,
) -> impl Iterator<Item = &'a Volume> {
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter(|volume| {
        let mut mounts = container.volume_mounts.iter().flatten();
        mounts.any(|mount| mount.name == volume.name)
    })
}

/// V-51: also what is mounted below it is read-only. The oldest kernel that libcontainer runs on can do that, so that
/// `IfPossible` is the same as `Enabled`.
pub fn is_recursive_read_only(mount: &VolumeMount) -> bool {
    matches!(
        mount.recursive_read_only.as_deref(),
        Some("IfPossible" | "Enabled")
    )
}

/// Every image that it names: of its containers, and of its image volumes.
pub fn images(pod: &Pod) -> impl Iterator<Item = &str> {
    let of_containers = members(pod).filter_map(|(_, container)| container.image.as_deref());
    of_containers.chain(volume_images(pod))
}

/// Whether anything comes before the regular containers.
pub fn has_init(pod: &Pod) -> bool {
    members(pod).any(|(role, _)| role != Role::Regular)
}

/// An init container's part.
pub fn init_role(container: &Container) -> Role {
    match container.restart_policy.as_deref() {
        Some("Always") => Role::Sidecar,
        Some(_) | None => Role::Init,
    }
}

/// When a container is started again after its exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    /// After each exit.
    Always,
    /// After an exit other than 0.
    OnFailure,
    /// Not at all.
    Never,
}

/// P-60: the container's own policy, else the pod's; of a pod's `Always`, an init container takes `OnFailure` (P-53).
pub fn restart_policy(pod: &Pod, role: Role, container: &Container) -> RestartPolicy {
    let of_pod = pod.spec.as_ref().and_then(|s| s.restart_policy.as_deref());
    let own = container.restart_policy.as_deref();
    match (role, own.or(of_pod)) {
        (Role::Sidecar, _) => RestartPolicy::Always,
        (_, Some("Never")) => RestartPolicy::Never,
        (_, Some("OnFailure")) | (Role::Init, _) => RestartPolicy::OnFailure,
        // Validation lets only `Always` through beside these.
        (Role::Regular, Some(_) | None) => RestartPolicy::Always,
    }
}

/// What an exit by itself leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExit {
    /// The container is started again.
    Restart,
    /// P-63: every container of the pod is.
    RestartAll,
    /// Nothing is.
    Stay,
}

/// P-60…P-63: the first rule that matches, then the policy.
pub fn on_exit(pod: &Pod, (role, container): (Role, &Container), code: i32) -> OnExit {
    let rules = container.restart_policy_rules.iter().flatten();
    let mut matching = rules.filter(|r| r.exit_codes.as_ref().is_some_and(|c| matches(c, code)));
    if let Some(rule) = matching.next() {
        return match rule.action.as_str() {
            "RestartAllContainers" => OnExit::RestartAll,
            // Validation lets only `Restart` through beside it.
            _ => OnExit::Restart,
        };
    }
    match restart_policy(pod, role, container) {
        RestartPolicy::Always => OnExit::Restart,
        RestartPolicy::OnFailure if code != 0 => OnExit::Restart,
        RestartPolicy::OnFailure | RestartPolicy::Never => OnExit::Stay,
    }
}

fn matches(codes: &ContainerRestartRuleOnExitCodes, code: i32) -> bool {
    let is_listed = codes.values.iter().flatten().any(|listed| *listed == code);
    match codes.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
