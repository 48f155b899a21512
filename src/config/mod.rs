//! Every setting with its default, and every path the program uses, in one place.

mod eviction;
mod file;
mod load;
mod node;
mod place;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pod::PodUid;

pub use eviction::{Eviction, Signal, Threshold};
pub use load::{Loaded, Overrides, load};
pub use place::ConfigError;

/// Where things live. Every path is derived here, so that many agents can run side by side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paths {
    /// Durable state: images, pods' writable layers and records. Default `/var/lib/vetch`.
    pub root_dir: PathBuf,
    /// State of one boot: sockets and holders. Default `/run/vetch`.
    pub run_dir: PathBuf,
    /// Parent of `pods/` and `containers/`. Default `/var/log`.
    pub log_dir: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            root_dir: "/var/lib/vetch".into(),
            run_dir: "/run/vetch".into(),
            log_dir: "/var/log".into(),
        }
    }
}

impl Paths {
    /// The agent's API socket.
    pub fn api_socket(&self) -> PathBuf {
        self.run_dir.join("agent.sock")
    }
    /// Boot id of the boot that this run directory belongs to.
    pub fn boot_id(&self) -> PathBuf {
        self.run_dir.join("boot_id")
    }
    /// The lock that allows one agent per root directory; holds the owner's pid as text.
    pub fn lock(&self) -> PathBuf {
        self.root_dir.join("agent.lock")
    }
    /// Directory of all holders, one sub-directory per pod UID.
    pub fn holders(&self) -> PathBuf {
        self.run_dir.join("holders")
    }
    /// A pod's holder.
    pub fn holder(&self, uid: &PodUid) -> HolderPaths {
        HolderPaths::new(self.holders().join(uid.as_str()))
    }
    /// The image store.
    pub fn images(&self) -> PathBuf {
        self.root_dir.join("images")
    }
    /// Archives dropped here are loaded and pinned.
    pub fn images_import(&self) -> PathBuf {
        self.root_dir.join("images-import")
    }
    /// Durable directories of pods.
    pub fn pods(&self) -> PathBuf {
        self.root_dir.join("pods")
    }
    /// Durable directory of one pod: record, managed files, termination messages, writable layers.
    pub fn pod(&self, uid: &PodUid) -> PathBuf {
        self.pods().join(uid.as_str())
    }
    /// Writable layer of one container instance (overlay `upper` and `work` inside).
    pub fn writable_layer(&self, uid: &PodUid, container_id: &str) -> PathBuf {
        self.pod(uid).join("layers").join(container_id)
    }
    /// V-2: what volumes of one pod have on the disk.
    pub fn pod_volumes(&self, uid: &PodUid) -> PathBuf {
        self.pod(uid).join("volumes")
    }
    /// V-2: the durable directory of an emptyDir volume.
    pub fn empty_dir(&self, uid: &PodUid, volume: &str) -> PathBuf {
        let volumes = self.pod_volumes(uid);
        volumes.join("kubernetes.io~empty-dir").join(volume)
    }
    /// C-51: profiles that manifests name as `localhostProfile`.
    pub fn seccomp_profiles(&self) -> PathBuf {
        self.root_dir.join("seccomp")
    }
    /// Copy of the ConfigMaps and Secrets, mode 0600: a bad file and a reboot together stop no pod.
    pub fn objects(&self) -> PathBuf {
        self.root_dir.join("objects.json")
    }
    /// Trees waiting to be removed by a slow-work child; emptied at start.
    pub fn trash(&self) -> PathBuf {
        self.root_dir.join("trash")
    }
    /// G-1: `<log-dir>/pods/<namespace>_<name>_<uid>`.
    pub fn pod_logs(&self, namespace: &str, name: &str, uid: &PodUid) -> PathBuf {
        self.log_dir
            .join("pods")
            .join(format!("{namespace}_{name}_{uid}"))
    }
    /// G-3: directory of the `<pod>_<ns>_<container>-<id>.log` links.
    pub fn container_log_links(&self) -> PathBuf {
        self.log_dir.join("containers")
    }
}

/// Files of one holder, in `<run-dir>/holders/<uid>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderPaths {
    dir: PathBuf,
}

impl HolderPaths {
    /// Names the files below a holder's directory.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }
    /// The directory itself, mode 0700.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    /// Written by the agent before the holder starts: [`crate::holder::proto::PodRecord`].
    pub fn pod_record(&self) -> PathBuf {
        self.dir.join("pod.json")
    }
    /// Written by the holder on each change, before it is reported: [`crate::holder::proto::HolderState`].
    pub fn state(&self) -> PathBuf {
        self.dir.join("state.json")
    }
    /// The holder's SOCK_SEQPACKET socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("holder.sock")
    }
    /// libcontainer's state root.
    pub fn runtime(&self) -> PathBuf {
        self.dir.join("runtime")
    }
    /// Mount point of the pod's shared /dev/shm, inside the holder's mount namespace only.
    pub fn shm(&self) -> PathBuf {
        self.dir.join("shm")
    }
    /// Directory of the volumes of the pod that were made.
    pub fn volumes(&self) -> PathBuf {
        self.dir.join("volumes")
    }
    /// Where a volume of the pod that has to be made is mounted, inside the holder's mount namespace only. Of an emptyDir on
    /// disk, the mark that it was made.
    pub fn volume(&self, name: &str) -> PathBuf {
        self.volumes().join(name)
    }
    /// The binds of a container's volume mounts, inside the holder's mount namespace only.
    pub fn volume_mounts(&self, container_id: &str) -> PathBuf {
        self.dir.join("mounts").join(container_id)
    }
    /// One of them, by its position in [`crate::volume::spec::VolumeOrder::mounts`]: the source of the mount in the
    /// runtime specification.
    pub fn volume_mount(&self, container_id: &str, index: usize) -> PathBuf {
        self.volume_mounts(container_id).join(index.to_string())
    }
    /// OCI bundle of a container instance: `config.json` (by the agent), `rootfs/` (mount point, in the holder's namespace).
    pub fn bundle(&self, container_id: &str) -> PathBuf {
        self.dir.join("containers").join(container_id)
    }
    /// C-51: the bundle's seccomp filter, see `holder::proto::Seccomp::Localhost`.
    pub fn seccomp_filter(&self, container_id: &str) -> PathBuf {
        self.bundle(container_id).join("seccomp.bpf")
    }
}

/// Settings of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where things live.
    pub paths: Paths,
    /// S-1: a directory or one file. Default `/etc/kubernetes/manifests`.
    pub pod_manifest_path: PathBuf,
    /// S-2: period of the full rescan beside inotify.
    pub file_check_frequency: Duration,
    /// Absolute cgroup path below which all cgroups of this agent live. Default `/vetch`.
    pub cgroup_root: String,
    /// S-74: lower-case node name, a DNS-1123 subdomain.
    pub node_name: String,
    /// G-9: bytes of a live log file before it is rotated.
    pub container_log_max_size: u64,
    /// G-9: log files kept per container instance, the live one included (≥ 2).
    pub container_log_max_files: u32,
    /// P-200: the node's resolv.conf.
    pub resolv_conf: PathBuf,
    /// P-64, P-67: curve of the restart back-off.
    pub backoff: BackoffCurve,
    /// J-11: labels of the node beside those that every node has.
    pub node_labels: BTreeMap<String, String>,
    /// N-58: how many pods the node takes.
    pub max_pods: u32,
    /// N-20: what is kept from pods.
    pub reserved: Reserved,
    /// N-20, C-85: `enforceNodeAllocatable`: all pods together cannot have what is kept from them.
    pub enforces_allocatable: bool,
    /// C-72: microseconds; none if processors are not limited (`cpuCFSQuota: false`).
    pub cpu_period_us: Option<u64>,
    /// C-77: processes and threads of one pod.
    pub pod_pids: Option<u64>,
    /// C-74: for want of memory, single processes are killed rather than whole containers.
    pub single_process_oom_kill: bool,
    /// N-26: which pods end when at a node shutdown, from the lowest priority.
    pub shutdown: Vec<ShutdownTurn>,
    /// C-61: kernel parameters that pods may set beside the safe ones, normalised as [`crate::pod::sysctl`] says.
    pub allowed_unsafe_sysctls: Vec<String>,
    /// Directories of CDI specifications; what a later one says wins.
    pub cdi_spec_dirs: Vec<PathBuf>,
    /// N-1: when the node is short of something, and what then.
    pub eviction: Eviction,
}

impl Config {
    /// All defaults, for a node of this name (already checked).
    pub fn new(node_name: String) -> Self {
        Self {
            paths: Paths::default(),
            pod_manifest_path: "/etc/kubernetes/manifests".into(),
            file_check_frequency: Duration::from_secs(20),
            cgroup_root: "/vetch".to_owned(),
            node_name,
            container_log_max_size: 10 << 20,
            container_log_max_files: 5,
            resolv_conf: "/etc/resolv.conf".into(),
            backoff: BackoffCurve::default(),
            node_labels: BTreeMap::new(),
            max_pods: 110,
            reserved: Reserved::default(),
            enforces_allocatable: true,
            cpu_period_us: Some(100_000),
            pod_pids: None,
            single_process_oom_kill: false,
            shutdown: node::default_turns(),
            allowed_unsafe_sysctls: Vec::new(),
            cdi_spec_dirs: vec!["/etc/cdi".into(), "/run/cdi".into()],
            eviction: Eviction::default(),
        }
    }
}

/// Resources that pods cannot have: for the system and for ourselves together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reserved {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Bytes.
    pub memory: u64,
}

/// Pods that end together when the node goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShutdownTurn {
    /// `spec.priority` from which on; a pod belongs to the turn with the highest one that is not above its own, or else
    /// to the first.
    pub priority: i32,
    /// Longest grace of its pods, ms; the next turn begins soon after it at the latest. [`u64::MAX`]: each pod has its own.
    pub grace_ms: u64,
}

/// P-64: first restart immediate, then `start`, doubling up to `max`; reset after a run of `reset_after`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffCurve {
    /// First non-zero delay.
    pub start: Duration,
    /// Cap.
    pub max: Duration,
    /// P-66.
    pub reset_after: Duration,
}

impl Default for BackoffCurve {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(10),
            max: Duration::from_secs(300),
            reset_after: Duration::from_secs(600),
        }
    }
}
