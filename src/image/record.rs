//! The small files of the store: JSON, replaced by rename after an fsync.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::StoreError;
use super::digest::Digest;

/// Largest file that is read: a configuration of the size that an import takes, and the rest.
const MAX_FILE: u64 = 16 << 20;
/// Beginning of the names of files being written.
pub const TEMPORARY: &str = ".tmp-";

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
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(StoreError::io("open", path, e)),
    };
    let mut text = Vec::new();
    file.take(MAX_FILE)
        .read_to_end(&mut text)
        .map_err(|e| StoreError::io("read", path, e))?;
    let value = serde_json::from_slice(&text).map_err(|source| StoreError::Damaged {
        path: path.to_owned(),
        source,
    })?;
    Ok(Some(value))
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

/// Replaces a file durably. Only for the holder of the store's lock: the temporary name is fixed.
pub fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), StoreError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = dir.join(format!("{TEMPORARY}{name}"));
    let text = serde_json::to_vec(value).map_err(|source| StoreError::Damaged {
        path: path.to_owned(),
        source,
    })?;
    write_synced(&temporary, &text)?;
    std::fs::rename(&temporary, path).map_err(|e| StoreError::io("rename into", path, e))?;
    sync_dir(dir)
}

fn write_synced(path: &Path, text: &[u8]) -> Result<(), StoreError> {
    let write = || {
        let mut file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(text)?;
        file.sync_all()
    };
    write().map_err(|e| StoreError::io("write", path, e))
}

/// Makes renames and removals in a directory durable.
pub fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|e| StoreError::io("sync", dir, e))
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
