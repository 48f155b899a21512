//! What is in a volume that is made of files (V-30…V-42).

use std::collections::BTreeMap;
use std::fmt::Write;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, ResourceFieldSelector, Volume, VolumeProjection,
};
use sha2::{Digest, Sha256};

use super::super::resources;
use super::{Facts, downward};
use crate::pod::names::is_file_path;
use crate::pod::references::{Files, of_projection, of_volume};
use crate::volume::spec::{FileContent, FileSet};

/// V-32.
const DEFAULT_MODE: i32 = 0o644;
/// V-32: what a group may do with files that belong to it.
const GROUP_READS: u32 = 0o440;

/// All files of one volume, or what is wrong with a reference of it.
pub(super) fn file_set(facts: Facts<'_>, volume: &Volume) -> Result<FileSet, String> {
    let mut collected = Collected::new(facts, default_mode(volume));
    for wanted in of_volume(volume) {
        collected.object(&wanted)?;
    }
    if let Some(downward) = &volume.downward_api {
        collected.downward(downward.items.as_deref())?;
    }
    let projected = volume.projected.as_ref();
    for source in projected
        .and_then(|p| p.sources.as_ref())
        .into_iter()
        .flatten()
    {
        collected.projection(source)?;
    }
    collected.finish()
}

/// Of files that have none of their own.
fn default_mode(volume: &Volume) -> i32 {
    let modes = [
        volume.config_map.as_ref().and_then(|v| v.default_mode),
        volume.secret.as_ref().and_then(|v| v.default_mode),
        volume.downward_api.as_ref().and_then(|v| v.default_mode),
        volume.projected.as_ref().and_then(|v| v.default_mode),
    ];
    modes.into_iter().flatten().next().unwrap_or(DEFAULT_MODE)
}

/// Files so far. A later one takes the place of an earlier (V-41).
struct Collected<'a> {
    facts: Facts<'a>,
    /// Of files that have none of their own.
    mode: i32,
    gid: Option<u32>,
    files: BTreeMap<String, FileContent>,
}

impl<'a> Collected<'a> {
    fn new(facts: Facts<'a>, mode: i32) -> Self {
        let spec = facts.pod.pod.spec.as_ref();
        Self {
            facts,
            mode,
            gid: spec.and_then(super::fs_group).map(|group| group.gid),
            files: BTreeMap::new(),
        }
    }

    fn projection(&mut self, source: &VolumeProjection) -> Result<(), String> {
        for wanted in of_projection(source) {
            self.object(&wanted)?;
        }
        if let Some(downward) = &source.downward_api {
            self.downward(downward.items.as_deref())?;
        }
        Ok(())
    }

    fn object(&mut self, wanted: &Files<'_>) -> Result<(), String> {
        let Facts { pod, objects, .. } = self.facts;
        let found = wanted.object.find(objects, pod.namespace());
        let Some(object) = found.map_err(|missing| missing.to_string())? else {
            return Ok(());
        };
        if wanted.items.is_empty() {
            for (key, data) in &object.data {
                self.file(key, data.clone(), None)?;
            }
        }
        for item in wanted.items {
            match object.value(&item.key) {
                Ok(data) => self.file(&item.path, data.to_vec(), item.mode)?,
                Err(_) if wanted.object.optional => {}
                Err(missing) => return Err(missing.to_string()),
            }
        }
        Ok(())
    }

    fn downward(&mut self, items: Option<&[DownwardAPIVolumeFile]>) -> Result<(), String> {
        for item in items.unwrap_or_default() {
            let value = match (&item.field_ref, &item.resource_field_ref) {
                (Some(field), _) => downward::field(self.facts.pod, &field.field_path)?,
                (None, Some(selector)) => self.quantity(selector)?,
                (None, None) => return Err("a file of the downward API has no source".to_owned()),
            };
            self.file(&item.path, value.into_bytes(), item.mode)?;
        }
        Ok(())
    }

    /// C-18…C-20.
    fn quantity(&self, selector: &ResourceFieldSelector) -> Result<String, String> {
        let value = resources::field_value(self.facts, None, selector)?;
        Ok(value.unwrap_or_default())
    }

    fn file(&mut self, path: &str, data: Vec<u8>, mode: Option<i32>) -> Result<(), String> {
        if !is_file_path(path) {
            return Err(format!("{path:?} cannot be the name of a file"));
        }
        let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
        let path = parts.collect::<Vec<_>>().join("/");
        let mode = u32::try_from(mode.unwrap_or(self.mode)).unwrap_or(0) & 0o777;
        let mode = self.gid.map_or(mode, |_| mode | GROUP_READS);
        self.files.insert(path, FileContent { data, mode });
        Ok(())
    }

    fn finish(self) -> Result<FileSet, String> {
        let paths = self.files.keys();
        for path in paths {
            let mut parents = path.match_indices('/').map(|(end, _)| &path[..end]);
            if let Some(parent) = parents.find(|parent| self.files.contains_key(*parent)) {
                return Err(format!("{parent:?} is a file, and {path:?} is below it"));
            }
        }
        Ok(FileSet {
            hash: hash(self.gid, &self.files),
            files: self.files,
            gid: self.gid,
        })
    }
}

/// Not to be turned back: it is written down where values of Secrets must not be.
fn hash(gid: Option<u32>, files: &BTreeMap<String, FileContent>) -> String {
    let mut hash = Sha256::new_with_prefix(format!("{gid:?}\n"));
    for (path, file) in files {
        let (length, mode) = (file.data.len(), file.mode);
        hash.update(format!("{path:?} {mode:o} {length}\n"));
        hash.update(&file.data);
    }
    let mut text = String::with_capacity(64);
    for byte in hash.finalize() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
