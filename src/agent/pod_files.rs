//! The files of a pod that we write and its containers mount: their names, their resolver, their last words.

use std::path::{Path, PathBuf};

use super::host;
use super::launch::{Ground, Instance, LaunchError, Order};
use super::store;
use crate::holder::proto::ContainerRecord;
use crate::network;
use crate::oci::{self, ManagedFiles};

/// P-187, P-190, P-208: rewritten at each start, in place, since other containers have them mounted.
pub fn write(
    ground: Ground<'_>,
    order: Order<'_>,
    instance: &Instance<'_>,
) -> Result<ManagedFiles, LaunchError> {
    let pod = order.pod;
    let node = &ground.config.node_name;
    let dir = ground.config.paths.pod(&pod.uid);
    store::make_dir(&dir)?;

    let is_host_network = order.record.sandbox.host_network;
    let node_hosts = if is_host_network {
        host::hosts()
    } else {
        String::new()
    };
    let pod_ips: &[String] = if is_host_network {
        &ground.node.host_ips
    } else {
        &[]
    };
    let hosts = dir.join("etc-hosts");
    let text = network::hosts_file(pod, &node_hosts, pod_ips);
    store::rewrite(&hosts, text.as_bytes(), 0o644)?;

    let hostname = dir.join("hostname");
    let text = format!(
        "{}\n",
        network::hostname(pod, node).map_err(oci::ConfigError::from)?
    );
    store::rewrite(&hostname, text.as_bytes(), 0o644)?;

    let resolv_conf = dir.join("resolv.conf");
    let text = network::resolv_conf(pod, &host::resolv_conf(&ground.config.resolv_conf));
    store::rewrite(&resolv_conf, text.as_bytes(), 0o644)?;

    Ok(ManagedFiles {
        hosts: Some(hosts),
        hostname: Some(hostname),
        resolv_conf: Some(resolv_conf),
        termination_message: termination_file(&dir, order, instance)?,
        shm: ground.config.paths.holder(&pod.uid).shm(),
    })
}

/// P-170: a fresh file per instance, writable for whatever user the container runs as. Those of instances that are
/// forgotten go.
fn termination_file(
    pod_dir: &Path,
    order: Order<'_>,
    instance: &Instance<'_>,
) -> Result<Option<PathBuf>, LaunchError> {
    let path = instance.container.termination_message_path.as_deref();
    if path.is_none_or(str::is_empty) {
        return Ok(None);
    }
    let dir = pod_dir.join("containers").join(order.container);
    store::make_dir(&dir)?;
    for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_kept = |old: &ContainerRecord| old.id.starts_with(&*name.to_string_lossy());
        if !order.existing.iter().any(is_kept) {
            // Still there next time if it fails now.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    let file = dir.join(instance.id.get(..8).unwrap_or(instance.id));
    store::rewrite(&file, b"", 0o666)?;
    Ok(Some(file))
}
