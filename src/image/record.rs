//! The small files of the store: JSON, replaced by rename after an fsync.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::StoreError;
use super::digest::Digest;
use crate::sys::state_file;

/// What keeps an image from being collected.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pin {
    /// `vetch image import --pin`.
    Person,
    /// It came from this file of `images-import`.
    File(String),
}

/// One image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Digest of the configuration.
    pub id: Digest,
    /// Of its manifest and of the indexes that led to it.
    #[serde(default)]
    pub digests: BTreeSet<Digest>,
    /// Diff ids, top-most first, each once.
    pub layers: Vec<Digest>,
    /// Bytes of all its layers.
    pub size: u64,
    /// Empty: may be collected.
    #[serde(default)]
    pub pins: BTreeSet<Pin>,
    /// As it was written.
    pub config: serde_json::Value,
}

/// A name, or a digest, that leads to an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameEntry {
    /// Normalised.
    pub name: String,
    /// Config digest.
    pub image: Digest,
}

/// A name as a file name: `/` becomes `%`, which no image name contains; too long ones are hashed.
pub fn file_name(name: &str) -> String {
    let plain = name.replace('/', "%");
    if plain.len() <= 200 && !plain.starts_with('.') {
        plain
    } else {
        format!("%{}", Digest::of(name.as_bytes()).hex())
    }
}

/// `None` when there is no such file.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StoreError> {
    Ok(state_file::read(path)?)
}

/// All files of a directory. Damaged ones are left out with a warning: they hide one thing, not everything.
pub fn read_all<T: DeserializeOwned>(dir: &Path) -> Result<Vec<T>, StoreError> {
    let mut values = Vec::new();
    for name in list(dir)? {
        match read(&dir.join(name)) {
            Ok(value) => values.extend(value),
            Err(e) => tracing::warn!("image store: {e}"),
        }
    }
    Ok(values)
}

/// Names of the files in a directory, those being written left out.
pub fn list(dir: &Path) -> Result<Vec<String>, StoreError> {
    let entries = std::fs::read_dir(dir).map_err(|e| StoreError::io("list", dir, e))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| StoreError::io("list", dir, e))?;
        if let Ok(name) = entry.file_name().into_string()
            && !name.starts_with('.')
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Replaces a file durably. Only for the holder of the store's lock: there is one writer per path.
pub fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), StoreError> {
    let bytes = serde_json::to_vec(value).map_err(|e| StoreError::io("encode", path, e))?;
    state_file::replace_synced(path, &bytes).map_err(|e| StoreError::io("write", path, e))
}

/// Makes renames and removals in a directory durable.
pub fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    state_file::sync_dir(dir).map_err(|e| StoreError::io("sync", dir, e))
}

/// Removes a file that may be missing.
pub fn remove(path: &Path) -> Result<(), StoreError> {
    crate::sys::remove::file(path).map_err(|e| StoreError::io("remove", path, e))
}

/// With its parents; nobody but root may look inside, whoever made it before: images hold set-user-ID programs.
pub fn create_private_dir(path: &Path) -> Result<(), StoreError> {
    let create = || {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let mut permissions = std::fs::metadata(path)?.permissions();
        if permissions.mode() & 0o077 != 0 {
            permissions.set_mode(0o700);
            std::fs::set_permissions(path, permissions)?;
        }
        Ok(())
    };
    create().map_err(|e: io::Error| StoreError::io("create", path, e))
}
