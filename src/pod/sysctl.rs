//! Kernel parameters of a pod (C-60…C-62, S-130): their names, whose they are, which are allowed.
//!
//! A name has one spelling here: dots between its parts, and a slash for a dot inside one
//! (`net.ipv4.conf.eth0/1.rp_filter`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

/// S-130.
const MAX_NAME: usize = 253;

/// C-60. Some depend on the kernel's version elsewhere; every kernel that we run on has them all.
const SAFE: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// Which of a pod's namespaces has its own value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespace {
    /// Not with hostIPC.
    Ipc,
    /// Not with hostNetwork.
    Network,
}

/// C-61: none for what is the whole node's. Of a normalised name, or of the beginning of one.
pub fn namespace(name: &str) -> Option<Namespace> {
    const IPC: [&str; 3] = ["kernel.shm", "kernel.msg", "fs.mqueue."];
    if name == "kernel.sem" || IPC.iter().any(|prefix| name.starts_with(prefix)) {
        Some(Namespace::Ipc)
    } else if name.starts_with("net.") {
        Some(Namespace::Network)
    } else {
        None
    }
}

/// S-130: parts of lower-case letters, digits, `-` and `_`, with `.` or `/` between.
pub fn is_valid_name(name: &str) -> bool {
    let part = |part: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
        let outer = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        outer(part.bytes().next()) && outer(part.bytes().last()) && part.bytes().all(inner)
    };
    name.len() <= MAX_NAME && name.split(['.', '/']).all(part)
}

/// C-62: the first separator says which spelling it is.
pub fn normalise(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name[at..].starts_with('/') => swap(name),
        Some(_) | None => name.to_owned(),
    }
}

/// C-62: of a normalised name, below /proc/sys.
pub fn path(name: &str) -> String {
    swap(name)
}

fn swap(name: &str) -> String {
    let swapped = name.chars().map(|c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    });
    swapped.collect()
}

/// What a pod asks for, by normalised name.
pub fn of_pod(pod: &Pod) -> BTreeMap<String, String> {
    let spec = pod.spec.as_ref();
    let context = spec.and_then(|spec| spec.security_context.as_ref());
    let sysctls = context.and_then(|context| context.sysctls.as_deref());
    let sysctls = sysctls.unwrap_or_default().iter();
    sysctls
        .map(|sysctl| (normalise(&sysctl.name), sysctl.value.clone()))
        .collect()
}

/// C-60, C-61: `unsafe_patterns` are normalised names, or beginnings followed by `*`.
pub fn is_allowed(name: &str, unsafe_patterns: &[String]) -> bool {
    let matches = |pattern: &String| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    };
    SAFE.contains(&name) || (namespace(name).is_some() && unsafe_patterns.iter().any(matches))
}

/// C-61: a pattern of `allowedUnsafeSysctls`, normalised; none if it is not one.
pub fn pattern(text: &str) -> Option<String> {
    let (name, star) = match text.strip_suffix('*') {
        Some(prefix) => (prefix, "*"),
        None => (text, ""),
    };
    // `net.*` and `kernel.shm_*` end where a name would go on.
    let is_name = if star.is_empty() {
        is_valid_name(name)
    } else {
        is_valid_name(name.trim_end_matches(['.', '/', '-', '_']))
    };
    let name = normalise(name);
    (is_name && namespace(&name).is_some()).then(|| format!("{name}{star}"))
}

#[cfg(test)]
mod tests;
