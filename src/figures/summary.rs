//! What `/stats/summary` answers (H-24): the names and units of kubelet's `stats/v1alpha1`. What is not known is left out.

use jiff::Timestamp;
use serde::Serialize;

/// Everything.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The machine.
    pub node: NodeStats,
    /// Each pod with a holder, by name.
    pub pods: Vec<PodStats>,
}

/// The machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStats {
    /// Its name.
    pub node_name: String,
    /// All holders together, as `runtime`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system_containers: Vec<ContainerStats>,
    /// When it was started.
    pub start_time: Timestamp,
    /// Of all its processors together.
    #[serde(flatten)]
    pub usage: Usage,
    /// Of the host's network namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStats>,
    /// The file system of the root directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fs: Option<FsStats>,
    /// File systems of images and writable layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeStats>,
    /// Processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rlimit: Option<RlimitStats>,
}

/// One pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStats {
    /// Which.
    pub pod_ref: PodReference,
    /// When its first container of those that are there was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// Those that run.
    pub containers: Vec<ContainerStats>,
    /// Of the pod's cgroup.
    #[serde(flatten)]
    pub usage: Usage,
    /// Of its own network namespace, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStats>,
    /// V-61.
    #[serde(rename = "volume", skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeStats>,
    /// Writable layers, logs and emptyDir volumes on disk together.
    #[serde(rename = "ephemeral-storage", skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage: Option<FsStats>,
    /// Processes.
    #[serde(rename = "process_stats")]
    pub processes: ProcessStats,
}

/// A pod's names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodReference {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.uid`.
    pub uid: String,
}

/// One container.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStats {
    /// `containers[].name`.
    pub name: String,
    /// When it was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// Of its cgroup.
    #[serde(flatten)]
    pub usage: Usage,
    /// Its writable layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rootfs: Option<FsStats>,
    /// Its logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<FsStats>,
}

/// What a cgroup, or the machine, uses.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStats>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStats>,
    /// Disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<IoStats>,
    /// Swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapStats>,
}

/// Processors.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuStats {
    /// When.
    pub time: Timestamp,
    /// Billionths of a processor, over the interval that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_nano_cores: Option<u64>,
    /// Nanoseconds so far.
    pub usage_core_nano_seconds: u64,
    /// Where the kernel has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<Psi>,
}

/// Memory, in bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryStats {
    /// When.
    pub time: Timestamp,
    /// Limit less working set; only if there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// With all of the page cache.
    pub usage_bytes: u64,
    /// Without the part of the page cache that was not used lately.
    pub working_set_bytes: u64,
    /// Anonymous memory.
    pub rss_bytes: u64,
    /// So far.
    pub page_faults: u64,
    /// Those that had to wait for a disk.
    pub major_page_faults: u64,
    /// Where the kernel has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<Psi>,
}

/// Disks. The bytes are ours: kubelet only has the pressure.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IoStats {
    /// When.
    pub time: Timestamp,
    /// So far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// So far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bytes: Option<u64>,
    /// Where the kernel has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<Psi>,
}

/// Swap, in bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SwapStats {
    /// When.
    pub time: Timestamp,
    /// Left; only if there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_available_bytes: Option<u64>,
    /// Used.
    pub swap_usage_bytes: u64,
}

/// Pressure stall information.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Psi {
    /// All tasks waited.
    pub full: PsiLine,
    /// Some task waited.
    pub some: PsiLine,
}

/// Shares of time, in percent.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PsiLine {
    /// Microseconds so far.
    pub total: u64,
    /// Of the last ten seconds.
    pub avg10: f64,
    /// Of the last minute.
    pub avg60: f64,
    /// Of the last five minutes.
    pub avg300: f64,
}

/// A network namespace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkStats {
    /// When.
    pub time: Timestamp,
    /// `eth0`, as kubelet has it.
    #[serde(flatten)]
    pub main: Option<InterfaceStats>,
    /// All but loopback and the host's ends of other namespaces.
    pub interfaces: Vec<InterfaceStats>,
}

/// One interface: bytes and errors so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceStats {
    /// Its name.
    pub name: String,
    /// Received.
    pub rx_bytes: u64,
    /// Received.
    pub rx_errors: u64,
    /// Sent.
    pub tx_bytes: u64,
    /// Sent.
    pub tx_errors: u64,
}

/// A file system, or what something uses of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FsStats {
    /// When.
    pub time: Timestamp,
    /// Of the file system, for everybody but root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// Of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// By what this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes_free: Option<u64>,
    /// Of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes: Option<u64>,
    /// By what this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes_used: Option<u64>,
}

/// One volume.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VolumeStats {
    /// Its file system, and what it uses of it.
    #[serde(flatten)]
    pub fs: FsStats,
    /// `volumes[].name`.
    pub name: String,
}

/// Where the runtime keeps things.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeStats {
    /// Of the image store; what is used are the images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_fs: Option<FsStats>,
    /// Of writable layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_fs: Option<FsStats>,
}

/// Processes of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RlimitStats {
    /// When.
    pub time: Timestamp,
    /// As many may there be.
    pub maxpid: u64,
    /// As many are there, threads included.
    pub curproc: u64,
}

/// Processes of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessStats {
    /// Of all its containers.
    pub process_count: u64,
}
