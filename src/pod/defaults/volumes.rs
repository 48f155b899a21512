//! S-86, S-95…S-98, for volumes.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, Volume};

use super::{pull_policy, text};

/// V-32.
const FILE_MODE: i32 = 0o644;

/// Fills in what a volume leaves out.
pub(super) fn volume(volume: &mut Volume) {
    if *volume == named(&volume.name) {
        volume.empty_dir = Some(Default::default());
    }
    if let Some(host) = &mut volume.host_path {
        host.type_.get_or_insert_default();
    }
    if let Some(map) = &mut volume.config_map {
        map.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(secret) = &mut volume.secret {
        secret.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(downward) = &mut volume.downward_api {
        downward.default_mode.get_or_insert(FILE_MODE);
        downward.items.iter_mut().flatten().for_each(downward_file);
    }
    if let Some(projected) = &mut volume.projected {
        projected.default_mode.get_or_insert(FILE_MODE);
        for source in projected.sources.iter_mut().flatten() {
            let downward = source.downward_api.iter_mut();
            let files = downward.flat_map(|downward| downward.items.iter_mut().flatten());
            files.for_each(downward_file);
        }
    }
    if let Some(image) = &mut volume.image {
        let name = image.reference.as_deref().unwrap_or_default();
        text(&mut image.pull_policy, pull_policy(name));
    }
}

/// A volume that says nothing but its name.
fn named(name: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        ..Volume::default()
    }
}

fn downward_file(file: &mut DownwardAPIVolumeFile) {
    if let Some(field) = &mut file.field_ref {
        text(&mut field.api_version, "v1");
    }
}
