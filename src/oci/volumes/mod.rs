//! Volumes of a container: what the holder is to make, and what the runtime specification mounts of it.
//!
//! [`source`] says what a volume is, [`files`] and [`downward`] what is in those that are made of files, [`mount`] how a
//! container sees it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, Volume as Wanted};
use oci_spec::runtime::Mount;

use super::env::Variables;
use super::{ConfigError, ContainerInput, NodeFacts};
use crate::pod::StaticPod;
use crate::pod::objects::Objects;
use crate::volume::spec::{FileSet, FsGroup, Payload, Propagation, Source, Volume, VolumeOrder};

mod downward;
mod files;
mod mount;
mod source;

#[cfg(test)]
mod tests;

/// What the files of a pod's volumes are made from.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The pod.
    pub pod: &'a StaticPod,
    /// The node.
    pub node: &'a NodeFacts,
    /// ConfigMaps and Secrets.
    pub objects: &'a Objects,
}

/// The volumes of one container.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Volumes {
    /// For the holder.
    pub order: VolumeOrder,
    /// For the holder.
    pub payload: Payload,
    /// For the specification, in the order of the manifest.
    pub mounts: Vec<Mount>,
}

impl Volumes {
    /// V-52: what libcontainer calls the propagation of the root. Only then others see what a container mounts.
    pub fn root_propagation(&self) -> Option<String> {
        let mut mounts = self.order.mounts.iter();
        let is_both = mounts.any(|mount| mount.propagation == Propagation::Both);
        is_both.then(|| "shared".to_owned())
    }
}

/// Resolves everything that the container mounts; `env` is its own environment (C-5).
pub(super) fn volumes(input: &ContainerInput<'_>, env: &Variables) -> Result<Volumes, ConfigError> {
    let spec = input.pod.pod.spec.as_ref();
    let mut order = VolumeOrder {
        fs_group: spec.and_then(fs_group),
        ..VolumeOrder::default()
    };
    let mut payload = Payload::default();
    let mut mounts = Vec::new();
    for (index, wanted) in input.container.volume_mounts.iter().flatten().enumerate() {
        let about = |problem: String| ConfigError::Volume {
            volume: wanted.name.clone(),
            problem,
        };
        let volume = find(spec, &wanted.name)
            .ok_or_else(|| about("spec.volumes has no volume of this name".to_owned()))?;
        let source = source::source(input, volume).map_err(about)?;
        mounts.push(mount::in_spec(
            wanted,
            &source,
            &input.places.mounts.join(index.to_string()),
        ));
        order
            .mounts
            .push(mount::in_order(wanted, env).map_err(about)?);
        if order.volumes.iter().any(|known| known.name == wanted.name) {
            continue;
        }
        if source == Source::Files {
            let files = files::file_set(input.facts(), volume).map_err(about)?;
            payload.volumes.insert(wanted.name.clone(), files);
        }
        order.volumes.push(Volume {
            name: wanted.name.clone(),
            source,
        });
    }
    Ok(Volumes {
        order,
        payload,
        mounts,
    })
}

/// The content that each of the pod's volumes of files should have now, or why that is unknown.
pub fn contents(facts: Facts<'_>) -> BTreeMap<String, Result<FileSet, String>> {
    let spec = facts.pod.pod.spec.as_ref();
    let volumes = spec.and_then(|spec| spec.volumes.as_deref());
    let volumes = volumes.unwrap_or_default().iter();
    volumes
        .filter(|volume| source::is_files(volume))
        .map(|volume| (volume.name.clone(), files::file_set(facts, volume)))
        .collect()
}

fn find<'a>(spec: Option<&'a PodSpec>, name: &str) -> Option<&'a Wanted> {
    let mut volumes = spec?.volumes.iter().flatten();
    volumes.find(|volume| volume.name == name)
}

/// C-35.
fn fs_group(spec: &PodSpec) -> Option<FsGroup> {
    let context = spec.security_context.as_ref()?;
    Some(FsGroup {
        gid: u32::try_from(context.fs_group?).ok()?,
        only_on_root_mismatch: context.fs_group_change_policy.as_deref() == Some("OnRootMismatch"),
    })
}
