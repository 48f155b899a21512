//! The files that give a pod its names: hosts, hostname, resolv.conf. Text in, text out; the agent writes them.

use crate::pod::StaticPod;

mod resolv;

pub use resolv::{resolv_conf, resolv_conf_is_stub};

#[cfg(test)]
mod tests;

/// The kernel's HOST_NAME_MAX for a fully qualified name, and a label's length.
const MAX_HOSTNAME: usize = 64;
const MAX_LABEL: usize = 63;

/// P-191.
const POD_HOSTS: &str = "\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
";

/// P-186.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "setHostnameAsFQDN: the name {name} is too long for a host name ({MAX_HOSTNAME} characters at most, it has {})",
    name.len()
)]
pub struct TooLong {
    /// Host and domain.
    pub name: String,
}

/// P-184: the pod's host name (node's name for host-network pods). P-186: with its domain on request, if the kernel takes
/// so long a name.
pub fn hostname(pod: &StaticPod, node_name: &str) -> Result<String, TooLong> {
    let spec = pod.pod.spec.as_ref();
    if pod.is_host_network() {
        return Ok(node_name.to_owned());
    }
    let short = short_hostname(pod);
    let wants_fqdn = spec.and_then(|spec| spec.set_hostname_as_fqdn) == Some(true);
    match domain(pod).filter(|_| wants_fqdn) {
        None => Ok(short),
        Some(domain) => {
            let name = format!("{short}.{domain}");
            if name.len() > MAX_HOSTNAME {
                return Err(TooLong { name });
            }
            Ok(name)
        }
    }
}

fn short_hostname(pod: &StaticPod) -> String {
    let spec = pod.pod.spec.as_ref();
    let overridden = spec.and_then(|spec| spec.hostname_override.as_deref());
    let own = spec.and_then(|spec| spec.hostname.as_deref());
    let set = [overridden, own]
        .into_iter()
        .flatten()
        .find(|name| !name.is_empty());
    let name = set.unwrap_or_else(|| pod.name());
    let cut = name
        .char_indices()
        .nth(MAX_LABEL)
        .map_or(name.len(), |(at, _)| at);
    name[..cut].trim_end_matches(['-', '.']).to_owned()
}

/// P-185. There is no cluster domain without a cluster.
fn domain(pod: &StaticPod) -> Option<String> {
    let spec = pod.pod.spec.as_ref()?;
    let overridden = spec
        .hostname_override
        .as_deref()
        .is_some_and(|name| !name.is_empty());
    let subdomain = spec
        .subdomain
        .as_deref()
        .filter(|name| !name.is_empty() && !overridden)?;
    Some(format!("{subdomain}.{}.svc", pod.namespace()))
}

/// P-191…P-193. `node_hosts` is the node's /etc/hosts, used for host-network pods.
pub fn hosts_file(pod: &StaticPod, node_hosts: &str, pod_ips: &[String]) -> String {
    let mut text = if pod.is_host_network() {
        let newline = if node_hosts.is_empty() || node_hosts.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        format!("# Kubernetes-managed hosts file (host network).\n{node_hosts}{newline}")
    } else {
        let host = short_hostname(pod);
        let names = match domain(pod) {
            Some(domain) => format!("{host}.{domain}\t{host}"),
            None => host,
        };
        let own: String = pod_ips
            .iter()
            .map(|ip| format!("{ip}\t{names}\n"))
            .collect();
        format!("{POD_HOSTS}{own}")
    };
    text.push_str(&host_aliases(pod));
    text
}

/// P-193.
fn host_aliases(pod: &StaticPod) -> String {
    let spec = pod.pod.spec.as_ref();
    let aliases = spec
        .and_then(|spec| spec.host_aliases.as_ref())
        .into_iter()
        .flatten();
    let lines: String = aliases
        .map(|alias| {
            let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
            format!("{}\t{names}\n", alias.ip)
        })
        .collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\n# Entries added by HostAliases.\n{lines}")
    }
}
