//! Facts about this machine: addresses, cgroups, rights, and the files that containers get a copy of.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

use rustix::thread::{CapabilitySet, capability_is_in_bounding_set};

use crate::config::Config;
use crate::figures::parse;
use crate::holder::device_rules;
use crate::image::platform::Platform;
use crate::network;
use crate::oci::NodeFacts;
use crate::oci::limits::{Controllers, LimitRules};
use crate::plan::{Allocatable, Rules};

#[cfg(test)]
mod tests;

/// P-207: where systemd-resolved keeps the servers behind its stub.
const RESOLVED: &str = "/run/systemd/resolve/resolv.conf";

/// Bytes of the largest file that containers get a copy of.
const MAX_TEXT: u64 = 1 << 20;

/// Looks once; addresses may change later, see [`addresses`].
pub fn facts(config: &Config, controllers: Controllers) -> NodeFacts {
    let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let unified_cgroups = is_unified(&mountinfo);
    let v1_controllers = v1_controllers(&mountinfo);
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let meminfo = |name: &str| parse::meminfo(&meminfo, name).unwrap_or(0);
    NodeFacts {
        name: config.node_name.clone(),
        host_ips: addresses(),
        device_rules_enforced: if unified_cgroups {
            device_rules::are_enforceable().is_ok()
        } else {
            has_controller(&v1_controllers, "devices")
        },
        unified_cgroups,
        thermal_throttle: thermal_throttle(Path::new("/sys/devices/system/cpu")),
        v1_controllers,
        can_lower_oom_score: has(CapabilitySet::SYS_RESOURCE),
        withheld_capabilities: CapabilitySet::all()
            .iter_names()
            .filter(|(_, cap)| !has(*cap))
            .map(|(name, _)| format!("CAP_{name}"))
            .collect(),
        apparmor: has_apparmor(),
        kernel: kernel(
            rustix::system::uname()
                .release()
                .to_str()
                .unwrap_or_default(),
        ),
        memory_bytes: meminfo("MemTotal"),
        has_swap: meminfo("SwapTotal") > 0,
        cpus: std::thread::available_parallelism()
            .map_or(0, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        controllers,
        limit_rules: LimitRules {
            cpu_period: config.cpu_period_us,
            pod_pids: config.pod_pids,
            single_process_oom_kill: config.single_process_oom_kill,
        },
        reserved_cpu_milli: config.reserved.cpu_milli,
        reserved_memory: config.reserved.memory,
        storage_bytes: storage_bytes(&config.paths.root_dir),
    }
}

/// What the plan has to know of node and configuration.
pub fn rules(config: &Config, node: &NodeFacts, boot_id: String) -> Rules {
    Rules {
        boot_id,
        backoff: config.backoff,
        node_name: config.node_name.clone(),
        host_ip: node.host_ips.first().cloned(),
        labels: labels(config, &Platform::host().architecture),
        allocatable: allocatable(config.max_pods, node),
        shutdown: config.shutdown.clone(),
        unsafe_sysctls: config.allowed_unsafe_sysctls.clone(),
        apparmor: node.apparmor,
    }
}

/// J-11.
fn labels(config: &Config, architecture: &str) -> BTreeMap<String, String> {
    let usual = [
        ("beta.kubernetes.io/arch", architecture),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture),
        ("kubernetes.io/hostname", &config.node_name),
        ("kubernetes.io/os", "linux"),
    ];
    let usual = usual.map(|(key, value)| (key.to_owned(), value.to_owned()));
    usual
        .into_iter()
        .chain(config.node_labels.clone())
        .collect()
}

/// N-20. What is unknown is no limit.
fn allocatable(pods: u32, node: &NodeFacts) -> Allocatable {
    Allocatable {
        cpu_milli: node.cpu_milli_for_pods().unwrap_or(u64::MAX),
        memory: node.memory_for_pods().unwrap_or(u64::MAX),
        ephemeral_storage: node.storage_for_pods().unwrap_or(u64::MAX),
        pods,
    }
}

/// C-49: why device rules are not enforced on this node, if they are not, and what follows.
pub fn device_rules_condition(node: &NodeFacts) -> Option<String> {
    let cause = match (node.device_rules_enforced, node.unified_cgroups) {
        (true, _) => return None,
        (false, true) => "build the kernel with CONFIG_CGROUP_BPF",
        (false, false) => "mount the devices controller of cgroup v1, or use cgroup v2",
    };
    Some(format!(
        "device rules are not enforced, so that no container gets CAP_MKNOD unless it is privileged: {cause}"
    ))
}

fn has(capability: CapabilitySet) -> bool {
    capability_is_in_bounding_set(capability).unwrap_or(false)
}

/// (mount point, file system type) of each mount.
fn mounts(mountinfo: &str) -> impl Iterator<Item = (&str, &str)> {
    mountinfo.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        Some((before.split(' ').nth(4)?, after.split(' ').next()?))
    })
}

fn is_unified(mountinfo: &str) -> bool {
    mounts(mountinfo).any(|mount| mount == ("/sys/fs/cgroup", "cgroup2"))
}

fn v1_controllers(mountinfo: &str) -> Vec<String> {
    mounts(mountinfo)
        .filter(|(_, kind)| *kind == "cgroup")
        .filter_map(|(point, _)| point.strip_prefix("/sys/fs/cgroup/"))
        .map(ToOwned::to_owned)
        .collect()
}

/// C-54.
fn has_apparmor() -> bool {
    let enabled = std::fs::read_to_string("/sys/module/apparmor/parameters/enabled");
    enabled.is_ok_and(|text| text.starts_with('Y'))
}

/// Major and minor of a release such as `6.1.0-18-amd64`.
fn kernel(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    (next(), next())
}

/// C-46.
fn thermal_throttle(cpus: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(cpus).into_iter().flatten().flatten();
    let dirs = entries
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"cpu"))
        .map(|entry| entry.path().join("thermal_throttle"))
        .filter(|dir| dir.is_dir());
    let mut dirs: Vec<String> = dirs.map(|dir| dir.display().to_string()).collect();
    dirs.sort_unstable();
    dirs
}

/// A hierarchy may have several: `cpu,cpuacct`.
fn has_controller(mounts: &[String], wanted: &str) -> bool {
    mounts
        .iter()
        .any(|mount| mount.split(',').any(|name| name == wanted))
}

/// Of the file system that pods write to; 0 if unknown.
fn storage_bytes(root_dir: &Path) -> u64 {
    let stat = rustix::fs::statvfs(root_dir);
    stat.map_or(0, |stat| stat.f_blocks.saturating_mul(stat.f_frsize))
}

/// Addresses of the node, the main one of each family: the source address of a route to the outside, else any that is
/// not loopback. Nothing is sent, and a node without route or address is fine (invariant 4).
pub fn addresses() -> Vec<String> {
    // Addresses for documentation: never reached, but routed like any other.
    let v4 = source_towards("0.0.0.0:0", "192.0.2.1:9").or_else(|| {
        let trie = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
        first_local(&trie)
    });
    let v6 = source_towards("[::]:0", "[2001:db8::1]:9");
    [v4, v6]
        .into_iter()
        .flatten()
        .map(|ip| ip.to_string())
        .collect()
}

fn source_towards(from: &str, to: &str) -> Option<IpAddr> {
    let socket = UdpSocket::bind(from).ok()?;
    socket.connect(to.parse::<SocketAddr>().ok()?).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
}

/// The first local address of the kernel's routing trie that is not loopback.
fn first_local(trie: &str) -> Option<IpAddr> {
    let mut last = None;
    for line in trie.lines() {
        if let Some(address) = line.trim().strip_prefix("|-- ") {
            last = address.parse::<IpAddr>().ok();
        } else if line.contains("/32 host LOCAL")
            && let Some(ip) = last.filter(|ip| !ip.is_loopback())
        {
            return Some(ip);
        }
    }
    None
}

/// P-200, P-207: text of the node's resolv.conf; a stub that answers on a loopback address only is replaced by the
/// servers behind it, where systemd-resolved tells them.
pub fn resolv_conf(path: &Path) -> String {
    let own = text(path).unwrap_or_default();
    if network::resolv_conf_is_stub(&own) {
        text(Path::new(RESOLVED)).unwrap_or(own)
    } else {
        own
    }
}

/// P-187: text of the node's hosts file.
pub fn hosts() -> String {
    text(Path::new("/etc/hosts")).unwrap_or_default()
}

/// A file that containers get a copy of. One that is far too large for that is as good as none (invariant 8).
fn text(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    if file.metadata()?.len() > MAX_TEXT {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut text = String::new();
    file.take(MAX_TEXT).read_to_string(&mut text)?;
    Ok(text)
}
