//! From a pod's container and its image to an OCI runtime specification. Pure.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use oci_spec::image::ImageConfiguration;
use oci_spec::runtime::Spec;

use crate::holder::proto::Confinement;
use crate::pod::StaticPod;

/// Facts about the node that specifications need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFacts {
    /// Lower-case node name.
    pub name: String,
    /// Addresses, main one first (status.hostIPs).
    pub host_ips: Vec<String>,
    /// Cgroup v2 is mounted at /sys/fs/cgroup (not hybrid).
    pub unified_cgroups: bool,
    /// /proc/self/oom_score_adj can be lowered (CAP_SYS_RESOURCE).
    pub can_lower_oom_score: bool,
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
}

/// A container, ready for a bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// For `config.json`.
    pub spec: Spec,
    /// For our own executor.
    pub confinement: Confinement,
}

/// Why no specification could be made: `CreateContainerConfigError` (P-153).
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// C-25.
    #[error(
        "no command specified: the image has no entrypoint or cmd and the container has no command"
    )]
    NoCommand,
}

/// Makes the specification of one container.
pub fn launch(input: ContainerInput<'_>) -> Result<Launch, ConfigError> {
    let _ = input;
    unimplemented!("room oci")
}
