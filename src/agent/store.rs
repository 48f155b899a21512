//! What the agent writes, with errors that name the file; how a file is replaced is in [`state_file`].
//!
//! Invariant 6: what must outlive a power cut is synced, but nothing on the path to a pod's start waits for that. So the
//! records of pods are renamed into place at once and synced a moment later, off the loop ([`sync`]).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::sys::state_file;

#[cfg(test)]
mod tests;

/// Plenty for opening a file.
const SYNC_STACK: usize = 64 << 10;

/// A file or directory could not be written.
#[derive(Debug, thiserror::Error)]
#[error("write {path}")]
pub struct WriteError {
    /// Which one.
    pub path: PathBuf,
    /// Cause.
    #[source]
    pub source: io::Error,
}

impl WriteError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self { path, source }
    }
}

/// [`state_file::replace`]; what must outlive a power cut needs [`sync`] later.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    state_file::replace(path, bytes).map_err(WriteError::at(path))
}

/// The same with a value as JSON.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), WriteError> {
    let bytes = serde_json::to_vec(value).map_err(|error| WriteError::at(path)(error.into()))?;
    write_atomic(path, &bytes)
}

/// Rewrites a file in place with this mode: for files that are bind-mounted into running containers, whose mounts a
/// rename would cut off. One that is right already is left alone, so that a full disk cannot empty it.
pub fn rewrite(path: &Path, bytes: &[u8], mode: u32) -> Result<(), WriteError> {
    if is_right(path, bytes, mode).unwrap_or(false) {
        return Ok(());
    }
    let written = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(path)?;
        // The umask has no say here.
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        file.write_all(bytes)
    };
    written().map_err(WriteError::at(path))
}

/// Reads no more than it must: the container may have made the file as large as the disk.
fn is_right(path: &Path, bytes: &[u8], mode: u32) -> io::Result<bool> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if metadata.mode() & 0o7777 != mode || metadata.len() != length {
        return Ok(false);
    }
    let mut old = Vec::new();
    file.take(length.saturating_add(1)).read_to_end(&mut old)?;
    Ok(old == bytes)
}

/// Makes a directory and its parents, as the umask has it; an existing one keeps the modes its owner gave it.
pub fn make_dir(path: &Path) -> Result<(), WriteError> {
    std::fs::create_dir_all(path).map_err(WriteError::at(path))
}

/// Makes a directory that is root's alone (0700), whatever it was before.
pub fn make_private_dir(path: &Path) -> Result<(), WriteError> {
    make_dir(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
        .map_err(WriteError::at(path))
}

/// Makes files that were renamed into place durable, see [`state_file::sync`]. Blocks on the disk: call it off the loop.
pub fn sync(paths: &[PathBuf]) -> Result<(), WriteError> {
    for path in paths {
        state_file::sync(path).map_err(WriteError::at(path))?;
    }
    Ok(())
}

/// [`sync`], off the loop.
pub async fn sync_aside(paths: Vec<PathBuf>) -> Result<(), WriteError> {
    let path = paths.first().cloned().unwrap_or_default();
    let synced = aside("sync", move || sync(&paths)).await;
    synced.unwrap_or_else(|source| Err(WriteError { path, source }))
}

/// Does what may block, off the loop. In a thread that ends with its work: the pool of `smol::unblock` (blocking 1.7) never
/// lets its last thread go, and that one wakes up twice a second for ever (invariant 5).
pub async fn aside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, outcome) = async_channel::bounded(1);
    std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(SYNC_STACK)
        .spawn(move || {
            // Nobody waits any more only when the agent ends.
            let _ = done.try_send(work());
        })?;
    let gone = |_| io::ErrorKind::BrokenPipe.into();
    outcome.recv().await.map_err(gone)
}
