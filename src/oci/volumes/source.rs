//! What a volume is.

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, HostPathVolumeSource, Volume};

use super::super::ContainerInput;
use crate::pod::quantity::Unit;
use crate::pod::requests::{effective_limit, units};
use crate::volume::spec::{HostPathKind, Source};

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

/// V-13: the least of what the volume may have, what the pod may have, and what all pods may have.
fn memory_size(input: &ContainerInput<'_>, dir: &EmptyDirVolumeSource) -> Option<u64> {
    let own = dir.size_limit.as_ref();
    let own = own.and_then(|limit| units(limit, Unit::One));
    let of_pod = effective_limit(&input.pod.pod, "memory", Unit::One);
    [own, of_pod, input.node.memory_for_pods()]
        .into_iter()
        .flatten()
        .filter(|size| *size > 0)
        .min()
}
