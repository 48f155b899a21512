//! The local image store: import, unpack, look up.
//!
//! ```text
//! <root-dir>/images/                mode 0700: layers hold setuid programs
//!   lock                            flock(2) of whoever changes the store; reading takes none
//!   layers/sha256/<diff id>/fs/     one layer, usable as overlay lower directory (whiteouts 0:0, opaque xattrs)
//!   layers/sha256/<diff id>/size    its file data in bytes, decimal
//!   records/<config digest>.json    one image: layers, configuration, pins
//!   names/<name>                    normalised name → config digest; the agent watches this directory
//!   digests/<digest>                digest of a manifest or index → config digest
//!   imports/<file>                  what became of that file of images-import, see [`import_dir`]
//!   staging/                        work of the import that holds the lock
//!   trash/                          trees on their way out
//! ```
//!
//! A layer is complete when its directory has its final name: it is unpacked in `staging`, checked against its digests,
//! synced and renamed. Records and names are small files, replaced by rename after an fsync. The order is layers, record,
//! digests, names, so whatever interrupts an import, a visible image is whole. An image that lacks a layer counts as absent, and
//! importing it again heals it. Whoever takes the lock first removes what an interrupted import left.
//!
//! Watch `names` for IN_MOVED_TO and IN_DELETE: it changes last.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use oci_spec::image::ImageConfiguration;

use crate::plan::ImagePresence;
use crate::pod::image_ref::ImageRef;
use crate::sys::state_file::ReadError;

pub mod archive;
pub mod builtin;
mod compression;
pub mod digest;
pub mod find;
mod import;
pub mod import_dir;
mod layer_dir;
mod lookup;
mod metadata;
mod oci_layout;
mod overlay;
mod pax;
pub mod platform;
pub mod reclaim;
mod record;
mod sparse;
mod tar_stream;
pub mod unpack;
mod writer;

pub use digest::Digest;
pub use import::{ImportError, ImportOptions, ImportReport, ImportedImage, import};
pub use record::{Pin, Record};
pub use writer::{RemoveError, Removed, Writer};

/// An image that is complete in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// Config digest, `sha256:…`.
    pub id: String,
    /// Normalised names, `docker.io/library/busybox:latest`.
    pub names: Vec<String>,
    /// Its configuration.
    pub config: ImageConfiguration,
    /// Unpacked layers, top-most first: overlay lower directories.
    pub layers: Vec<PathBuf>,
    /// From `images-import` or pinned by a person: never collected.
    pub pinned: bool,
    /// Bytes of all unpacked layers.
    pub size: u64,
}

/// A handle on a store directory. Reading is cheap and lock-free; an import takes the store's lock.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
}

/// What the store can fail with.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Reading or writing a file.
    #[error("{operation} {path}")]
    Io {
        /// Verb.
        operation: &'static str,
        /// Which file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// A file of the store has been damaged.
    #[error("{path} is damaged")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: serde_json::Error,
    },
}

impl From<ReadError> for StoreError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io { path, source } => Self::io("read", &path, source),
            ReadError::Content { path, source } => Self::Damaged { path, source },
        }
    }
}

impl StoreError {
    fn io(operation: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io {
            operation,
            path: path.to_owned(),
            source: source.into(),
        }
    }
}

impl Store {
    /// Opens `<root-dir>/images`, creating its directories if missing. Takes no lock and waits for nothing; what an
    /// interrupted import left is removed by whoever takes the lock next.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let store = Self {
            dir: dir.to_path_buf(),
        };
        record::create_private_dir(dir)?;
        for sub in [
            store.layers_dir(),
            store.records_dir(),
            store.names_dir(),
            store.digests_dir(),
            store.imports_dir(),
            store.staging_dir(),
            store.trash_dir(),
        ] {
            std::fs::create_dir_all(&sub).map_err(|e| StoreError::io("create", &sub, e))?;
        }
        Ok(store)
    }

    /// The directory whose changes mean that other images are here: watch it.
    pub fn names_dir(&self) -> PathBuf {
        self.dir.join("names")
    }

    /// Is the image of this name (as written in a manifest) here? Reads at most a few small files.
    pub fn presence(&self, name: &str) -> ImagePresence {
        let reference: ImageRef = match name.parse() {
            Ok(reference) => reference,
            Err(e) => return ImagePresence::InvalidName(e.to_string()),
        };
        let record = self
            .resolve(&reference)
            .and_then(|id| record::read(&self.record_path(&id)).ok().flatten());
        match record {
            Some(record) if self.is_complete(&record) => ImagePresence::Present(record.id.into()),
            Some(_) | None => ImagePresence::Absent,
        }
    }

    /// The image with this id; `None` when it is not (or no longer) here and complete.
    pub fn image(&self, id: &str) -> Result<Option<Image>, StoreError> {
        let Ok(id) = Digest::try_from(id.to_owned()) else {
            return Ok(None);
        };
        let Some(record) = record::read::<Record>(&self.record_path(&id))? else {
            return Ok(None);
        };
        let names = self.names()?.remove(&id).unwrap_or_default();
        self.complete(record, names)
    }

    /// All images that are complete, by their first name, then id.
    pub fn list(&self) -> Result<Vec<Image>, StoreError> {
        let mut names = self.names()?;
        let mut images = Vec::new();
        for record in self.records()? {
            let names = names.remove(&record.id).unwrap_or_default();
            images.extend(self.complete(record, names)?);
        }
        images.sort_by(|a, b| (&a.names, &a.id).cmp(&(&b.names, &b.id)));
        Ok(images)
    }

    /// Text of a file in the image's merged tree, such as `etc/passwd` (≤ 1 MiB, links resolved below the root); empty
    /// when missing.
    pub fn read_file(&self, image: &Image, path: &str) -> Result<String, StoreError> {
        lookup::read_file(&image.layers, path)
    }

    /// The record of the image with this name, id or unambiguous beginning of an id (at least 6 digits).
    pub fn find(&self, name: &str) -> Result<Option<Record>, StoreError> {
        if let Some(id) = name.parse().ok().and_then(|r| self.resolve(&r)) {
            return record::read(&self.record_path(&id));
        }
        let hex = name.strip_prefix("sha256:").unwrap_or(name);
        if hex.len() < 6 {
            return Ok(None);
        }
        let mut matching = self.records()?;
        matching.retain(|record| record.id.hex().starts_with(hex));
        Ok(if matching.len() == 1 {
            matching.pop()
        } else {
            None
        })
    }

    /// A digest is looked up alone: the same content has the same digest under every name.
    fn resolve(&self, reference: &ImageRef) -> Option<Digest> {
        let path = match &reference.digest {
            Some(digest) => self.digest_path(&Digest::try_from(digest.clone()).ok()?),
            None => self.name_path(&reference.canonical()),
        };
        let entry: record::NameEntry = record::read(&path).ok()??;
        Some(entry.image)
    }

    fn is_complete(&self, record: &Record) -> bool {
        record
            .layers
            .iter()
            .all(|layer| self.layer_fs(layer).is_dir())
    }

    fn complete(&self, record: Record, names: Vec<String>) -> Result<Option<Image>, StoreError> {
        if !self.is_complete(&record) {
            return Ok(None);
        }
        let config =
            serde_json::from_value(record.config).map_err(|source| StoreError::Damaged {
                path: self.record_path(&record.id),
                source,
            })?;
        Ok(Some(Image {
            names,
            config,
            layers: record
                .layers
                .iter()
                .map(|layer| self.layer_fs(layer))
                .collect(),
            pinned: !record.pins.is_empty(),
            size: record.size,
            id: record.id.into(),
        }))
    }

    /// All names by image. A damaged entry is left out: it hides one name, not the store.
    fn names(&self) -> Result<BTreeMap<Digest, Vec<String>>, StoreError> {
        let mut names: BTreeMap<Digest, Vec<String>> = BTreeMap::new();
        for entry in record::read_all::<record::NameEntry>(&self.names_dir())? {
            names.entry(entry.image).or_default().push(entry.name);
        }
        names.values_mut().for_each(|names| names.sort());
        Ok(names)
    }

    /// All records, complete or not.
    fn records(&self) -> Result<Vec<Record>, StoreError> {
        record::read_all(&self.records_dir())
    }

    fn layers_dir(&self) -> PathBuf {
        self.dir.join("layers/sha256")
    }
    fn layer_dir(&self, diff_id: &Digest) -> PathBuf {
        self.layers_dir().join(diff_id.hex())
    }
    fn layer_fs(&self, diff_id: &Digest) -> PathBuf {
        self.layer_dir(diff_id).join("fs")
    }
    fn records_dir(&self) -> PathBuf {
        self.dir.join("records")
    }
    fn record_path(&self, id: &Digest) -> PathBuf {
        self.records_dir().join(format!("{}.json", id.hex()))
    }
    fn name_path(&self, name: &str) -> PathBuf {
        self.names_dir().join(record::file_name(name))
    }
    fn digests_dir(&self) -> PathBuf {
        self.dir.join("digests")
    }
    fn digest_path(&self, digest: &Digest) -> PathBuf {
        self.digests_dir().join(digest.hex())
    }
    fn imports_dir(&self) -> PathBuf {
        self.dir.join("imports")
    }
    fn staging_dir(&self) -> PathBuf {
        self.dir.join("staging")
    }
    fn trash_dir(&self) -> PathBuf {
        self.dir.join("trash")
    }
}

#[cfg(test)]
mod tests;
