//! What a volume is.

use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, HostPathVolumeSource, Pod, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::super::ContainerInput;
use crate::pod::lifecycle;
use crate::pod::quantity;
use crate::volume::spec::{HostPathKind, Source};

/// Quantities are counted in billionths.
const NANOS: i128 = 1_000_000_000;

/// What the holder needs to know.
pub(super) fn source(input: &ContainerInput<'_>, volume: &Volume) -> Result<Source, String> {
    if let Some(host) = &volume.host_path {
        return host_path(host);
    }
    if is_files(volume) {
        return Ok(Source::Files);
    }
    if volume.image.is_some() {
        let layers = input.places.images.get(&volume.name);
        let layers = layers.ok_or("its image is not in the local store")?.clone();
        return Ok(Source::Image { layers });
    }
    match &volume.empty_dir {
        Some(dir) if dir.medium.as_deref() == Some("Memory") => Ok(Source::Memory {
            size_bytes: memory_size(input, dir),
        }),
        Some(_) => {
            let dir = input.places.empty_dirs.get(&volume.name);
            let dir = dir.ok_or("no directory was made for it")?.clone();
            Ok(Source::EmptyDir { dir })
        }
        None => Err("its source is not supported".to_owned()),
    }
}

/// V-30.
pub(super) fn is_files(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}

/// V-20…V-24.
fn host_path(host: &HostPathVolumeSource) -> Result<Source, String> {
    let kind = match host.type_.as_deref().unwrap_or_default() {
        "" => HostPathKind::Unset,
        "DirectoryOrCreate" => HostPathKind::DirectoryOrCreate,
        "Directory" => HostPathKind::Directory,
        "FileOrCreate" => HostPathKind::FileOrCreate,
        "File" => HostPathKind::File,
        "Socket" => HostPathKind::Socket,
        "CharDevice" => HostPathKind::CharDevice,
        "BlockDevice" => HostPathKind::BlockDevice,
        other => return Err(format!("hostPath type {other:?} is not known")),
    };
    Ok(Source::HostPath {
        path: (&host.path).into(),
        kind,
    })
}

/// V-13: the least of what the volume may have, what the pod may have, and what the node has.
fn memory_size(input: &ContainerInput<'_>, dir: &EmptyDirVolumeSource) -> Option<u64> {
    let own = dir.size_limit.as_ref().and_then(bytes);
    let node = input.node.memory_bytes;
    [own, memory_limit(&input.pod.pod), Some(node)]
        .into_iter()
        .flatten()
        .filter(|size| *size > 0)
        .min()
}

/// Of the whole pod, if every container has one.
fn memory_limit(pod: &Pod) -> Option<u64> {
    let spec = pod.spec.as_ref()?;
    let of_pod = spec.resources.as_ref().and_then(|r| r.limits.as_ref());
    if let Some(limit) = of_pod.and_then(|limits| limits.get("memory")) {
        return bytes(limit);
    }
    let limit = |container: &Container| {
        let limits = container.resources.as_ref()?.limits.as_ref()?;
        bytes(limits.get("memory")?)
    };
    let (mut lasting, mut most) = (0_u64, 0_u64);
    for (role, container) in lifecycle::members(pod) {
        let all = lasting.saturating_add(limit(container)?);
        most = most.max(all);
        if role != lifecycle::Role::Init {
            lasting = all;
        }
    }
    Some(most)
}

/// Rounded up.
fn bytes(quantity: &Quantity) -> Option<u64> {
    let nanos = quantity::nanos(&quantity.0)?;
    u64::try_from((nanos + NANOS - 1).div_euclid(NANOS)).ok()
}
