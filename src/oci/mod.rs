//! From a pod's container and its image to an OCI runtime specification. Pure.
//!
//! One file per aspect: [`mod@env`] and [`process`] (what runs), [`user`] (as whom), [`mounts`] (what it sees), [`volumes`]
//! (what it keeps), [`security`], [`seccomp`], [`apparmor`] and [`devices`] (what it may do), [`resources`] and [`limits`] (how
//! much of it, and who is killed for want of memory), and [`cdi`] (what vendors add for their devices).
//!
//! Invariants: everything that libcontainer would fill in by its own defaults is set here or left out on purpose; the
//! network, IPC and UTS namespaces are never listed, since the worker that calls libcontainer is already in the pod's.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use oci_spec::image::ImageConfiguration;
use oci_spec::runtime::{
    Linux, LinuxNamespace, LinuxNamespaceBuilder, LinuxNamespaceType, Root, Spec,
};

use crate::holder::proto::Confinement;
use crate::pod::StaticPod;
use crate::pod::objects::{Missing, Objects};
use crate::volume::spec::{Payload, VolumeOrder};
use limits::{Controllers, LimitRules};

pub mod apparmor;
pub mod cdi;
pub mod devices;
pub mod env;
pub mod limits;
pub mod mounts;
pub mod process;
pub mod resources;
pub mod seccomp;
pub mod security;
pub mod user;
pub mod volumes;

pub use process::stop_signal;
use seccomp::{Instruction, Profile};
use security::Rights;
pub use security::localhost_profile;

#[cfg(test)]
pub(crate) mod tests;

/// Facts about the node that specifications need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFacts {
    /// Lower-case node name.
    pub name: String,
    /// Addresses, main one first (status.hostIPs).
    pub host_ips: Vec<String>,
    /// Cgroup v2 is mounted at /sys/fs/cgroup (not hybrid).
    pub unified_cgroups: bool,
    /// Names of the v1 hierarchies' directories in /sys/fs/cgroup (`memory`, `cpu,cpuacct`, …). Empty on unified nodes.
    pub v1_controllers: Vec<String>,
    /// The kernel enforces which devices a container may use; without it there is no CAP_MKNOD (C-40).
    pub device_rules_enforced: bool,
    /// C-46: the directories /sys/devices/system/cpu/cpu*/thermal_throttle that exist.
    pub thermal_throttle: Vec<String>,
    /// /proc/self/oom_score_adj can be lowered (CAP_SYS_RESOURCE).
    pub can_lower_oom_score: bool,
    /// Capabilities (`CAP_SYS_RESOURCE`) that the agent's own bounding set lacks, so that no container can have them.
    pub withheld_capabilities: Vec<String>,
    /// C-54: the kernel has AppArmor, and it is on.
    pub apparmor: bool,
    /// Version of the kernel: `(6, 1)`.
    pub kernel: (u32, u32),
    /// Bytes of memory; 0 if unknown.
    pub memory_bytes: u64,
    /// Swap is on.
    pub has_swap: bool,
    /// Online processors; 0 if unknown.
    pub cpus: u32,
    /// N-20: thousandths of a CPU that pods cannot have.
    pub reserved_cpu_milli: u64,
    /// N-20: bytes that pods cannot have.
    pub reserved_memory: u64,
    /// Bytes of the file system that pods write to; 0 if unknown.
    pub storage_bytes: u64,
    /// Which limits its kernel can keep.
    pub controllers: Controllers,
    /// What its configuration says of them.
    pub limit_rules: LimitRules,
}

/// N-20: what is left for pods; none if unknown.
impl NodeFacts {
    /// Thousandths of a CPU.
    pub fn cpu_milli_for_pods(&self) -> Option<u64> {
        left(u64::from(self.cpus) * 1000, self.reserved_cpu_milli)
    }

    /// Bytes.
    pub fn memory_for_pods(&self) -> Option<u64> {
        left(self.memory_bytes, self.reserved_memory)
    }

    /// Bytes; nothing is reserved of them.
    pub fn storage_for_pods(&self) -> Option<u64> {
        left(self.storage_bytes, 0)
    }
}

fn left(capacity: u64, reserved: u64) -> Option<u64> {
    (capacity > 0).then(|| capacity.saturating_sub(reserved))
}

/// Files of the host that are bind-mounted into the container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ManagedFiles {
    /// P-190.
    pub hosts: Option<PathBuf>,
    /// P-187.
    pub hostname: Option<PathBuf>,
    /// P-208.
    pub resolv_conf: Option<PathBuf>,
    /// P-170, with the container's terminationMessagePath.
    pub termination_message: Option<PathBuf>,
    /// C-66: the pod's shared /dev/shm in the holder's mount namespace.
    pub shm: PathBuf,
}

/// Everything a specification is made from.
#[derive(Debug, Clone, Copy)]
pub struct ContainerInput<'a> {
    /// The pod.
    pub pod: &'a StaticPod,
    /// One of its containers.
    pub container: &'a Container,
    /// The image's configuration.
    pub image: &'a ImageConfiguration,
    /// Text of the image's /etc/passwd; empty if it has none.
    pub passwd: &'a str,
    /// Text of the image's /etc/group; empty if it has none.
    pub group: &'a str,
    /// Absolute cgroup path of the container.
    pub cgroup_path: &'a Path,
    /// The node.
    pub node: &'a NodeFacts,
    /// Files to mount.
    pub files: &'a ManagedFiles,
    /// C-51: what its [`localhost_profile`] says.
    pub seccomp: Option<&'a Profile>,
    /// C-54: text of /sys/kernel/security/apparmor/profiles; none if it cannot be read.
    pub apparmor: Option<&'a str>,
    /// ConfigMaps and Secrets.
    pub objects: &'a Objects,
    /// Where its volumes are.
    pub places: &'a VolumePlaces,
}

impl<'a> ContainerInput<'a> {
    fn facts(&self) -> volumes::Facts<'a> {
        volumes::Facts {
            pod: self.pod,
            node: self.node,
            objects: self.objects,
        }
    }
}

/// Where the volumes of a container are, or will be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumePlaces {
    /// The directory of the binds of its volume mounts, see [`crate::volume::spec`].
    pub mounts: PathBuf,
    /// Of each emptyDir volume on disk, by its name.
    pub empty_dirs: BTreeMap<String, PathBuf>,
    /// Unpacked layers of each image volume, top-most first, by its name.
    pub images: BTreeMap<String, Vec<PathBuf>>,
}

/// A container, ready for a bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// For `config.json`.
    pub spec: Spec,
    /// For our own executor.
    pub confinement: Confinement,
    /// The filter that goes with [`crate::holder::proto::Seccomp::Localhost`].
    pub filter: Option<Vec<Instruction>>,
    /// What is not as the manifest's author may think, for people.
    pub notes: Vec<String>,
    /// The program as the manifest has it, if it has variables there: for messages.
    pub program: Option<String>,
    /// What the holder is to make before.
    pub volumes: VolumeOrder,
    /// Contents of volumes of files.
    pub payload: Payload,
}

/// Why no specification could be made: `CreateContainerConfigError` (P-153).
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// C-25.
    #[error(
        "no command specified: the image has no entrypoint or cmd and the container has no command"
    )]
    NoCommand,
    /// A volume that cannot be resolved.
    #[error("volume {volume:?}: {problem}")]
    Volume {
        /// `volumes[].name`.
        volume: String,
        /// What is wrong with it.
        problem: String,
    },
    /// `envFrom` refers to what is not there.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// C-17, or its source has no value for it.
    #[error("environment variable {name}: {problem}")]
    Env {
        /// The variable.
        name: String,
        /// What is wrong with its source.
        problem: String,
    },
    /// C-33: the image's USER is not in its /etc/passwd.
    #[error("unable to find user {0:?}: no matching entry in the image's /etc/passwd")]
    UnknownUser(String),
    /// C-33: the image's USER names a group that is not in its /etc/group.
    #[error("unable to find group {0:?}: no matching entry in the image's /etc/group")]
    UnknownGroup(String),
    /// C-30, C-31: not a number that the kernel takes as an id.
    #[error("{field} {value} is not a user or group id")]
    BadId {
        /// `runAsUser`, …
        field: &'static str,
        /// As written.
        value: i64,
    },
    /// C-32.
    #[error("container's runAsUser breaks non-root policy")]
    RunAsUserIsRoot,
    /// C-32.
    #[error("container has runAsNonRoot and image will run as root")]
    ImageRunsAsRoot,
    /// C-32.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({0}), cannot verify user is non-root"
    )]
    ImageUserNotNumeric(String),
    /// C-41.
    #[error("securityContext.capabilities: {0}")]
    Capability(String),
    /// P-186.
    #[error(transparent)]
    Hostname(#[from] crate::network::TooLong),
    /// C-51.
    #[error("seccompProfile type {0:?} is none of RuntimeDefault, Localhost and Unconfined")]
    SeccompType(String),
    /// C-55.
    #[error("apparmor profile not found: {0} is not loaded into the kernel")]
    NoAppArmorProfile(String),
    /// C-54: the pod was admitted when it was on.
    #[error("cannot enforce AppArmor: AppArmor is not enabled on the host")]
    NoAppArmor,
    /// C-51: it cannot be made into a filter.
    #[error("{0}")]
    Seccomp(String),
}

/// Makes the specification of one container.
pub fn launch(input: ContainerInput<'_>) -> Result<Launch, ConfigError> {
    let identity = user::resolve(&input)?;
    let rights = security::rights(&input)?;
    let env = env::pod_env(&input)?;
    let process = process::process(&input, &identity, &rights, &env)?;
    let program = process::program_as_written(&input, &process);
    let filter = security::filter(&input, &rights)?;
    let notes = security::notes(&input, &rights);
    let volumes = volumes::volumes(&input, &env)?;
    let mut resources = security::device_rules(&rights);
    resources::limit(&mut resources, &input);

    let mut linux = Linux::default();
    linux
        .set_namespaces(Some(namespaces(&input, &rights)))
        .set_cgroups_path(Some(input.cgroup_path.to_path_buf()))
        .set_resources(Some(resources))
        .set_masked_paths(Some(security::masked_paths(&rights, input.node)))
        .set_readonly_paths(Some(security::readonly_paths(&rights)))
        .set_rootfs_propagation(volumes.root_propagation());

    let mut root = Root::default();
    root.set_path("rootfs".into())
        .set_readonly(Some(rights.read_only_root));

    let mut spec = Spec::default();
    spec.set_root(Some(root))
        .set_process(Some(process))
        .set_mounts(Some(mounts::mounts(&input, &rights, &volumes.mounts)))
        .set_linux(Some(linux))
        .set_hostname(None)
        .set_annotations(Some(annotations(&input)));
    Ok(Launch {
        spec,
        confinement: rights.confinement,
        filter,
        notes,
        program,
        volumes: volumes.order,
        payload: volumes.payload,
    })
}

/// P-182: a pid namespace unless hostPID; the holder puts the pod's in, if its containers share one. A private cgroup
/// namespace only on unified nodes: on v1 the controllers are bind mounts. A privileged container has the host's (C-43).
fn namespaces(input: &ContainerInput<'_>, rights: &Rights) -> Vec<LinuxNamespace> {
    let spec = input.pod.pod.spec.as_ref();
    let mut types = vec![LinuxNamespaceType::Mount];
    if spec.and_then(|spec| spec.host_pid) != Some(true) {
        types.push(LinuxNamespaceType::Pid);
    }
    if input.node.unified_cgroups && !rights.privileged {
        types.push(LinuxNamespaceType::Cgroup);
    }
    types
        .into_iter()
        .map(|typ| {
            LinuxNamespaceBuilder::default()
                .typ(typ)
                .build()
                .expect("every field has a default")
        })
        .collect()
}

/// S-165: the names that tools know. Hash and restart count are in the holder's record.
fn annotations(input: &ContainerInput<'_>) -> HashMap<String, String> {
    let path = input.container.termination_message_path.as_deref();
    let policy = input.container.termination_message_policy.as_deref();
    [
        ("io.kubernetes.pod.name", input.pod.name().to_owned()),
        (
            "io.kubernetes.pod.namespace",
            input.pod.namespace().to_owned(),
        ),
        ("io.kubernetes.pod.uid", input.pod.uid.to_string()),
        (
            "io.kubernetes.pod.terminationGracePeriod",
            input.pod.grace_s().to_string(),
        ),
        ("io.kubernetes.container.name", input.container.name.clone()),
        (
            "io.kubernetes.container.terminationMessagePath",
            path.unwrap_or("/dev/termination-log").to_owned(),
        ),
        (
            "io.kubernetes.container.terminationMessagePolicy",
            policy.unwrap_or("File").to_owned(),
        ),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
