//! What a container may do: capabilities, privileges, masked paths, device rules, which seccomp filter.
//!
//! CAP_MKNOD is in the default list only where the kernel enforces device rules ([`NodeFacts::device_rules_enforced`]).
//! Elsewhere, what keeps a container from the host's disks is that it cannot make their device nodes, so only privileged
//! containers have it. The nodes a container needs are made for it.

use k8s_openapi::api::core::v1::{Capabilities as Wanted, Container, Pod, SeccompProfile};
use oci_spec::runtime::{
    Capabilities, Capability, LinuxCapabilities, LinuxCapabilitiesBuilder, LinuxDeviceCgroup,
    LinuxDeviceCgroupBuilder, LinuxDeviceType, LinuxResources, LinuxResourcesBuilder,
};

use super::seccomp::{Circumstances, Instruction, Profile};
use super::{ConfigError, ContainerInput, NodeFacts, apparmor, mounts};
use crate::holder::proto::{Confinement, Devices, Seccomp};
use crate::pod::capability;

/// C-40.
const DEFAULT: [Capability; 14] = [
    Capability::Chown,
    Capability::DacOverride,
    Capability::Fsetid,
    Capability::Fowner,
    Capability::Mknod,
    Capability::NetRaw,
    Capability::Setgid,
    Capability::Setuid,
    Capability::Setfcap,
    Capability::Setpcap,
    Capability::NetBindService,
    Capability::SysChroot,
    Capability::Kill,
    Capability::AuditWrite,
];

/// C-46, with [`NodeFacts::thermal_throttle`]. libcontainer skips what does not exist.
const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];

/// C-47.
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// The outcome of everything in securityContext that is not about users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// C-43.
    pub privileged: bool,
    /// C-45.
    pub read_only_root: bool,
    /// What the executor applies last.
    pub confinement: Confinement,
    /// [`Confinement::capabilities`], and what the executor needs before it confines itself.
    spec_capabilities: Vec<Capability>,
}

/// Resolves C-40…C-45 and C-50.
pub fn rights(input: &ContainerInput<'_>) -> Result<Rights, ConfigError> {
    let own = input.container.security_context.as_ref();
    let privileged = own.and_then(|own| own.privileged) == Some(true);
    let no_new_privileges = own.and_then(|own| own.allow_privilege_escalation) == Some(false);
    let seccomp = if privileged {
        Seccomp::Unconfined
    } else {
        seccomp(input)?
    };
    let withheld = |cap: &Capability| input.node.withheld_capabilities.contains(&name(*cap));

    let mut capabilities = if privileged {
        all_capabilities()
    } else {
        let mut set = capabilities(own.and_then(|own| own.capabilities.as_ref()))?;
        set.retain(|cap| *cap != Capability::Mknod || input.node.device_rules_enforced);
        set
    };
    capabilities.retain(|cap| !withheld(cap));

    let mut spec_capabilities = capabilities.clone();
    let filters_with_privilege = seccomp != Seccomp::Unconfined && !no_new_privileges;
    if filters_with_privilege || mounts::covers_dev(input.container) {
        // Without no_new_privs a filter can only be installed with SYS_ADMIN, and a mount can only be moved with it; the
        // executor then drops both of these.
        spec_capabilities.extend([Capability::SysAdmin, Capability::Setpcap]);
    }
    Ok(Rights {
        privileged,
        read_only_root: own.and_then(|own| own.read_only_root_filesystem) == Some(true),
        confinement: Confinement {
            seccomp,
            capabilities: capabilities.into_iter().map(name).collect(),
            no_new_privileges,
            apparmor: apparmor::profile(input)?,
            devices: if privileged {
                Devices::AllOfNode
            } else {
                Devices::Usual
            },
        },
        spec_capabilities,
    })
}

/// C-41, in alphabetical order.
fn capabilities(wanted: Option<&Wanted>) -> Result<Vec<Capability>, ConfigError> {
    let list = |names: Option<&Option<Vec<String>>>| -> Result<Vec<Change>, ConfigError> {
        names
            .cloned()
            .flatten()
            .iter()
            .flatten()
            .map(|name| change(name))
            .collect()
    };
    let add = list(wanted.map(|wanted| &wanted.add))?;
    let drop = list(wanted.map(|wanted| &wanted.drop))?;

    let mut set: Vec<Capability> = match (add.contains(&Change::All), drop.contains(&Change::All)) {
        (_, true) => Vec::new(),
        (true, false) => all_capabilities(),
        (false, false) => DEFAULT.to_vec(),
    };
    set.extend(add.iter().filter_map(Change::one));
    set.retain(|cap| !drop.contains(&Change::One(*cap)));
    set.sort_by_key(|cap| name(*cap));
    set.dedup();
    Ok(set)
}

/// An entry of `add` or `drop`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    All,
    One(Capability),
}

impl Change {
    fn one(&self) -> Option<Capability> {
        match self {
            Self::All => None,
            Self::One(cap) => Some(*cap),
        }
    }
}

fn change(written: &str) -> Result<Change, ConfigError> {
    let upper = written.to_ascii_uppercase();
    if upper == "ALL" {
        return Ok(Change::All);
    }
    let known = upper.strip_prefix("CAP_").unwrap_or(&upper).parse();
    known
        .map(Change::One)
        .map_err(|_| ConfigError::Capability(capability::unknown(written)))
}

fn all_capabilities() -> Vec<Capability> {
    let names = capability::NAMES.iter();
    names.filter_map(|name| name.parse().ok()).collect()
}

/// `CAP_CHOWN`.
fn name(cap: Capability) -> String {
    format!("CAP_{cap}")
}

/// C-50 of a container that is not privileged, with RuntimeDefault where kubelet has Unconfined.
fn seccomp(input: &ContainerInput<'_>) -> Result<Seccomp, ConfigError> {
    let profile = seccomp_profile(&input.pod.pod, input.container);
    match profile.map(|profile| profile.type_.as_str()) {
        None | Some("RuntimeDefault") => Ok(Seccomp::RuntimeDefault),
        Some("Unconfined") => Ok(Seccomp::Unconfined),
        Some("Localhost") => Ok(Seccomp::Localhost),
        Some(other) => Err(ConfigError::SeccompType(other.to_owned())),
    }
}

/// The container's before the pod's.
fn seccomp_profile<'a>(pod: &'a Pod, container: &'a Container) -> Option<&'a SeccompProfile> {
    let own = container.security_context.as_ref();
    let pod = pod.spec.as_ref()?.security_context.as_ref();
    own.and_then(|own| own.seccomp_profile.as_ref())
        .or_else(|| pod.and_then(|pod| pod.seccomp_profile.as_ref()))
}

/// C-51: the `localhostProfile` that has to be read for a container.
pub fn localhost_profile<'a>(pod: &'a Pod, container: &'a Container) -> Option<&'a str> {
    let own = container.security_context.as_ref();
    if own.and_then(|own| own.privileged) == Some(true) {
        return None;
    }
    let profile = seccomp_profile(pod, container).filter(|profile| profile.type_ == "Localhost")?;
    Some(profile.localhost_profile.as_deref().unwrap_or_default())
}

/// The filter of C-51.
pub fn filter(
    input: &ContainerInput<'_>,
    rights: &Rights,
) -> Result<Option<Vec<Instruction>>, ConfigError> {
    let Some(profile) = input
        .seccomp
        .filter(|_| rights.confinement.seccomp == Seccomp::Localhost)
    else {
        return Ok(None);
    };
    let around = Circumstances {
        capabilities: &rights.confinement.capabilities,
        kernel: input.node.kernel,
    };
    let program = profile.program(around);
    program
        .map(Some)
        .map_err(|error| ConfigError::Seccomp(error.to_string()))
}

/// See [`super::Launch::notes`].
pub fn notes(input: &ContainerInput<'_>, rights: &Rights) -> Vec<String> {
    let used = &rights.confinement;
    let profile = input.seccomp.filter(|_| used.seccomp == Seccomp::Localhost);
    let unknown = profile.map(Profile::unknown_names).unwrap_or_default();
    let calls = (!unknown.is_empty()).then(|| {
        let names = unknown.join(", ");
        format!("the seccomp profile names calls that are not known here and do not count: {names}")
    });
    let apparmor = apparmor::note(input, used.apparmor.as_deref());
    calls.into_iter().chain(apparmor).collect()
}

/// C-40, C-42: inheritable and ambient are empty, so that a process that is not root has none after its execve.
pub fn spec_capabilities(rights: &Rights) -> LinuxCapabilities {
    let set: Capabilities = rights.spec_capabilities.iter().copied().collect();
    LinuxCapabilitiesBuilder::default()
        .bounding(set.clone())
        .effective(set.clone())
        .permitted(set)
        .inheritable(Capabilities::new())
        .ambient(Capabilities::new())
        .build()
        .expect("every field has a default")
}

/// C-43, C-46.
pub fn masked_paths(rights: &Rights, node: &NodeFacts) -> Vec<String> {
    let mut paths = unless_privileged(rights, &MASKED);
    if !rights.privileged {
        paths.extend_from_slice(&node.thermal_throttle);
    }
    paths
}

/// C-43, C-47.
pub fn readonly_paths(rights: &Rights) -> Vec<String> {
    unless_privileged(rights, &READ_ONLY)
}

fn unless_privileged(rights: &Rights, paths: &[&str]) -> Vec<String> {
    let paths = if rights.privileged { &[] } else { paths };
    paths.iter().map(|&path| path.to_owned()).collect()
}

/// Deny all (allow all if privileged); libcontainer then allows the default devices. Has an effect on cgroup v1 only.
pub fn device_rules(rights: &Rights) -> LinuxResources {
    let rule: LinuxDeviceCgroup = LinuxDeviceCgroupBuilder::default()
        .allow(rights.privileged)
        .typ(LinuxDeviceType::A)
        .access("rwm")
        .build()
        .expect("every field has a default");
    LinuxResourcesBuilder::default()
        .devices(vec![rule])
        .build()
        .expect("every field has a default")
}

#[cfg(test)]
mod tests;

/// For tests of what capabilities unlock.
#[cfg(test)]
pub fn all_capability_names() -> Vec<String> {
    all_capabilities().into_iter().map(name).collect()
}
