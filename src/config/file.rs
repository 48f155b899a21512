//! The configuration file's fields (N-51, N-55…N-59, N-62…N-64, N-68), each optional.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// A subset of KubeletConfiguration.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct File {
    pub(super) api_version: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) static_pod_path: Option<PathBuf>,
    pub(super) file_check_frequency: Option<String>,
    pub(super) container_log_max_size: Option<String>,
    pub(super) container_log_max_files: Option<u32>,
    pub(super) resolv_conf: Option<PathBuf>,
    pub(super) crash_loop_back_off: CrashLoopBackOff,
    pub(super) max_pods: Option<u32>,
    pub(super) system_reserved: BTreeMap<String, String>,
    pub(super) kube_reserved: BTreeMap<String, String>,
    pub(super) enforce_node_allocatable: Option<Vec<String>>,
    #[serde(rename = "cpuCFSQuota")]
    pub(super) cpu_cfs_quota: Option<bool>,
    #[serde(rename = "cpuCFSQuotaPeriod")]
    pub(super) cpu_cfs_quota_period: Option<String>,
    pub(super) pod_pids_limit: Option<i64>,
    #[serde(rename = "singleProcessOOMKill")]
    pub(super) single_process_oom_kill: Option<bool>,
    pub(super) memory_swap: MemorySwap,
    pub(super) shutdown_grace_period: Option<String>,
    pub(super) shutdown_grace_period_critical_pods: Option<String>,
    pub(super) shutdown_grace_period_by_pod_priority: Vec<TurnByPriority>,
    pub(super) allowed_unsafe_sysctls: Vec<String>,
    pub(super) eviction_hard: Option<BTreeMap<String, String>>,
    pub(super) merge_default_eviction_settings: bool,
    pub(super) eviction_pressure_transition_period: Option<String>,
    pub(super) vetch: Own,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CrashLoopBackOff {
    pub(super) max_container_restart_period: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MemorySwap {
    pub(super) swap_behavior: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnByPriority {
    pub(super) priority: i32,
    pub(super) shutdown_grace_period_seconds: u32,
}

/// What kubelet has no field for, or only a flag.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Own {
    pub(super) root_dir: Option<PathBuf>,
    pub(super) run_dir: Option<PathBuf>,
    pub(super) log_dir: Option<PathBuf>,
    pub(super) cgroup_root: Option<String>,
    pub(super) node_name: Option<String>,
    pub(super) node_labels: BTreeMap<String, String>,
    pub(super) initial_container_restart_period: Option<String>,
    pub(super) cdi_spec_dirs: Option<Vec<PathBuf>>,
    pub(super) evict_static_pods: bool,
}
