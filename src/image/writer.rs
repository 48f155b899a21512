//! Changing the store: one process at a time, under its lock.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::digest::Digest;
use super::record::{self, NameEntry, Pin, Record};
use super::{Store, StoreError};
use crate::pod::image_ref::ImageRef;
use crate::sys::remove;
use crate::sys::state_file::TEMPORARY;

/// The right to change the store. Dropping it gives the right back.
#[derive(Debug)]
pub struct Writer<'a> {
    pub(super) store: &'a Store,
    _lock: File,
}

/// Why an image was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// Reading or writing the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No image has this name or id.
    #[error("there is no image {name}")]
    Unknown {
        /// As given.
        name: String,
    },
    /// A container uses it.
    #[error("image {name} is used by a container")]
    InUse {
        /// As given.
        name: String,
    },
    /// Removing it would not last: it would be imported again.
    #[error("image {name} belongs to {file} in images-import: remove that file first")]
    PinnedByFile {
        /// As given.
        name: String,
        /// Name of the file.
        file: String,
    },
}

/// What [`Writer::remove`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removed {
    /// The image has other names and stays.
    Name(String),
    /// The image is gone, with layers that no other image has.
    Image(Digest),
}

impl Store {
    /// Waits for the right to change the store, then removes what an interrupted change left.
    pub fn lock(&self) -> Result<Writer<'_>, StoreError> {
        let file = self.lock_file()?;
        retry(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))
            .map_err(|e| StoreError::io("lock", &self.dir, e))?;
        self.writer(file)
    }

    /// [`Store::lock`] without waiting; `None` while somebody else has the right.
    pub fn try_lock(&self) -> Result<Option<Writer<'_>>, StoreError> {
        let file = self.lock_file()?;
        match retry(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => self.writer(file).map(Some),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(StoreError::io("lock", &self.dir, e)),
        }
    }

    /// std opens with O_CLOEXEC: no child keeps the lock.
    fn lock_file(&self) -> Result<File, StoreError> {
        let path = self.dir.join("lock");
        File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|e| StoreError::io("open", &path, e))
    }

    fn writer(&self, lock: File) -> Result<Writer<'_>, StoreError> {
        let writer = Writer {
            store: self,
            _lock: lock,
        };
        writer.clean()?;
        Ok(writer)
    }
}

impl Writer<'_> {
    /// Empties `staging` and `trash`, and removes half-written files.
    pub(super) fn clean(&self) -> Result<(), StoreError> {
        empty(&self.store.staging_dir())?;
        empty(&self.store.trash_dir())?;
        for dir in [
            self.store.records_dir(),
            self.store.names_dir(),
            self.store.digests_dir(),
            self.store.imports_dir(),
        ] {
            let entries = std::fs::read_dir(&dir).map_err(|e| StoreError::io("list", &dir, e))?;
            for entry in entries.flatten() {
                if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                    record::remove(&entry.path())?;
                }
            }
        }
        Ok(())
    }

    /// Makes an image visible, last of all under its names. Names that other images had move.
    pub(super) fn commit(&self, record: &Record, names: &[String]) -> Result<(), StoreError> {
        let store = self.store;
        let path = store.record_path(&record.id);
        if record::read::<Record>(&path).ok().flatten().as_ref() != Some(record) {
            record::write(&path, record)?;
        }
        for digest in &record.digests {
            let entry = NameEntry {
                name: digest.to_string(),
                image: record.id.clone(),
            };
            record::write(&store.digest_path(digest), &entry)?;
        }
        for name in names {
            let entry = NameEntry {
                name: name.clone(),
                image: record.id.clone(),
            };
            record::write(&store.name_path(name), &entry)?;
        }
        Ok(())
    }

    /// Takes the name from its image, or the whole image when it has no other or is named by its id. `in_use`: ids of
    /// images that containers use; such an image stays, whatever it is called.
    pub fn remove(&self, name: &str, in_use: &BTreeSet<String>) -> Result<Removed, RemoveError> {
        let unknown = || RemoveError::Unknown {
            name: name.to_owned(),
        };
        let record = self.store.find(name)?.ok_or_else(unknown)?;
        let names = self.store.names()?.remove(&record.id).unwrap_or_default();
        let canonical = name.parse::<ImageRef>().map(|r| r.canonical()).ok();
        if let Some(canonical) = canonical.filter(|c| names.len() > 1 && names.contains(c)) {
            record::remove(&self.store.name_path(&canonical))?;
            record::sync_dir(&self.store.names_dir())?;
            return Ok(Removed::Name(canonical));
        }
        if let Some(Pin::File(file)) = record.pins.iter().find(|pin| matches!(pin, Pin::File(_))) {
            return Err(RemoveError::PinnedByFile {
                name: name.to_owned(),
                file: file.clone(),
            });
        }
        if in_use.contains(record.id.as_str()) {
            return Err(RemoveError::InUse {
                name: name.to_owned(),
            });
        }
        self.remove_image(&record, &names)?;
        Ok(Removed::Image(record.id))
    }

    /// Names first: what is visible is complete at any moment.
    pub(super) fn remove_image(&self, record: &Record, names: &[String]) -> Result<(), StoreError> {
        let store = self.store;
        for name in names {
            record::remove(&store.name_path(name))?;
        }
        record::sync_dir(&store.names_dir())?;
        for digest in &record.digests {
            let path = store.digest_path(digest);
            let entry: Option<NameEntry> = record::read(&path).ok().flatten();
            if entry.is_none_or(|entry| entry.image == record.id) {
                record::remove(&path)?;
            }
        }
        record::remove(&store.record_path(&record.id))?;
        record::sync_dir(&store.records_dir())?;
        self.sweep()
    }

    /// Removes layers that no record names. A record that cannot be read may name any: then nothing is removed.
    pub fn sweep(&self) -> Result<(), StoreError> {
        let store = self.store;
        let mut wanted = BTreeSet::new();
        for name in record::list(&store.records_dir())? {
            match record::read::<Record>(&store.records_dir().join(name)) {
                Ok(record) => wanted.extend(record.into_iter().flat_map(|record| record.layers)),
                Err(e) => {
                    tracing::warn!("image store: {e}: layers without image stay");
                    return Ok(());
                }
            }
        }
        for name in record::list(&store.layers_dir())? {
            let known =
                Digest::try_from(format!("sha256:{name}")).is_ok_and(|id| wanted.contains(&id));
            if !known {
                self.discard(&store.layers_dir().join(&name), &name)?;
            }
        }
        empty(&store.trash_dir())
    }

    /// Moves a tree aside at once; it is removed later.
    pub(super) fn discard(&self, path: &Path, name: &str) -> Result<(), StoreError> {
        let aside = self.store.trash_dir().join(name);
        std::fs::rename(path, aside).map_err(|e| StoreError::io("move aside", path, e))
    }

    /// A fresh directory in `staging`.
    pub(super) fn stage(&self, name: &str) -> Result<PathBuf, StoreError> {
        let dir = self.store.staging_dir().join(name);
        record::create_private_dir(&dir)?;
        Ok(dir)
    }
}

fn empty(dir: &Path) -> Result<(), StoreError> {
    remove::content(dir).map_err(|e| StoreError::io("empty", dir, e))
}

fn retry(mut call: impl FnMut() -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}
