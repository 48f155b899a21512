//! Small files of state. A reader sees the old content or the new one, never a mixture. No unsafe code; here because
//! every room needs it.
//!
//! Invariant 6 knows two durabilities. [`replace`] is enough for records of one boot, and for those that are synced a
//! moment later ([`sync`]); [`replace_synced`] returns when the content is on the disk.
//!
//! One writer per path: the temporary name is fixed, so that a crash leaves at most one stray file, which the next write
//! takes over.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// Largest file that is read. The largest ones hold the configuration of an image; more is no file of ours.
const MAX_SIZE: u64 = 16 << 20;
/// Beginning of the names of files being written.
pub const TEMPORARY: &str = ".tmp-";

/// A file of state that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error("read {path}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// It was damaged, or written by a version that this one does not understand.
    #[error("understand {path}")]
    Content {
        /// Which file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: serde_json::Error,
    },
}

/// The JSON of a file; `None` when there is no such file.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ReadError> {
    let bytes = read_bytes(path).map_err(|source| ReadError::Io {
        path: path.to_owned(),
        source,
    })?;
    let Some(bytes) = bytes else { return Ok(None) };
    let value = serde_json::from_slice(&bytes).map_err(|source| ReadError::Content {
        path: path.to_owned(),
        source,
    })?;
    Ok(Some(value))
}

/// The content of a file; `None` when there is no such file.
pub fn read_bytes(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if file.metadata()?.len() > MAX_SIZE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    file.take(MAX_SIZE).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Replaces `path` (mode 0600); a power cut may bring back the old content, or leave none.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (_, temporary) = write_beside(path, bytes)?;
    std::fs::rename(temporary, path)
}

/// Replaces `path` (mode 0600); it is on the disk, with its directory entry, when this returns.
pub fn replace_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (file, temporary) = write_beside(path, bytes)?;
    file.sync_all()?;
    std::fs::rename(temporary, path)?;
    sync_dir(parent(path))
}

/// Makes a file that was replaced durable, with its directory entry. A missing one is fine: it was removed meanwhile.
pub fn sync(path: &Path) -> io::Result<()> {
    match File::open(path) {
        Ok(file) => file.sync_all()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    sync_dir(parent(path))
}

/// Makes renames and removals in a directory durable.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn write_beside(path: &Path, bytes: &[u8]) -> io::Result<(File, PathBuf)> {
    let Some(name) = path.file_name() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut hidden = std::ffi::OsString::from(TEMPORARY);
    hidden.push(name);
    let temporary = path.with_file_name(hidden);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(bytes)?;
    Ok((file, temporary))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

#[cfg(test)]
mod tests;
