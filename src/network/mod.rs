//! The files that give a pod its names: hosts, hostname, resolv.conf. Text in, text out; the agent writes them.

use crate::pod::StaticPod;

/// P-184: the pod's host name (node's name for host-network pods).
pub fn hostname(pod: &StaticPod, node_name: &str) -> String {
    let _ = (pod, node_name);
    unimplemented!("room network")
}

/// P-191…P-193. `node_hosts` is the node's /etc/hosts, used for host-network pods.
pub fn hosts_file(
    pod: &StaticPod,
    node_name: &str,
    node_hosts: &str,
    pod_ips: &[String],
) -> String {
    let _ = (pod, node_name, node_hosts, pod_ips);
    unimplemented!("room network")
}

/// P-200…P-208. `node_resolv_conf` is the text of the node's resolv.conf (the agent has replaced a stub, P-207).
pub fn resolv_conf(pod: &StaticPod, node_resolv_conf: &str) -> String {
    let _ = (pod, node_resolv_conf);
    unimplemented!("room network")
}
