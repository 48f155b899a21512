//! Looks at one directory entry, reading it only if it changed, and never waiting for a FIFO's writer.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::pod::manifest::MAX_BYTES;

/// D-11: names that editors and package managers give to old content.
const BACKUP_SUFFIXES: &[&str] = &[
    "~", ".bak", "-bak", "_bak", ".old", ".orig", ".rej", ".save", ".swp", ".swo", ".tmp",
    ".rpmsave", ".rpmnew", ".rpmorig",
];

/// Young changes may be followed by another one in the same tick of the file system's clock (10 ms at worst, 2 s on FAT).
const TICK_NS: i128 = 2_500_000_000;

/// What tells one content of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    dev: u64,
    ino: u64,
    size: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        let ns = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
        Self {
            dev: metadata.dev(),
            ino: metadata.ino(),
            size: metadata.size(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The same but for what a rename changes.
    pub(super) fn same_content(&self, other: &Self) -> bool {
        Self {
            changed_ns: other.changed_ns,
            ..*self
        } == *other
    }
}

/// What there is at a path.
#[derive(Debug)]
pub(super) enum Sight {
    /// As when it was last read.
    Unchanged,
    /// No longer there.
    Vanished,
    /// Not a manifest by its name or kind; says why.
    Skipped(&'static str),
    /// There, but it cannot be read; says why.
    Unreadable(String),
    /// Read, up to one byte more than is allowed.
    Content {
        /// The text.
        bytes: Vec<u8>,
        /// None when it changed so lately that the same identity proves nothing.
        identity: Option<Identity>,
        /// Permission bits.
        mode: u32,
    },
}

/// Looks at `path`; `known` is what was read last, `now` the wall clock from before.
pub(super) fn look(path: &Path, known: Option<Identity>, now: jiff::Timestamp) -> Sight {
    match open(path) {
        Ok(Opened::Regular(file, identity)) if known == Some(identity) => {
            drop(file);
            Sight::Unchanged
        }
        Ok(Opened::Regular(file, identity)) => match read(&file, identity, now) {
            Ok(content) => content,
            Err(error) => Sight::Unreadable(error.to_string()),
        },
        Ok(Opened::Directory) => Sight::Skipped("a directory; not read"),
        Ok(Opened::Special) => {
            Sight::Skipped("not a regular file (a socket, FIFO or device); not read")
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_there(path) => Sight::Vanished,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Sight::Unreadable("a link to nothing".to_owned())
        }
        Err(error) => Sight::Unreadable(error.to_string()),
    }
}

enum Opened {
    Regular(File, Identity),
    Directory,
    Special,
}

/// Opens regular files only: opening a device can act (a watchdog starts), opening a FIFO can wait.
fn open(path: &Path) -> io::Result<Opened> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Ok(Opened::Directory);
    }
    if !kind.is_file() {
        return Ok(Opened::Special);
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(Opened::Special);
    }
    Ok(Opened::Regular(file, Identity::of(&metadata)))
}

fn read(file: &File, before: Identity, now: jiff::Timestamp) -> io::Result<Sight> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let metadata = file.metadata()?;
    let after = Identity::of(&metadata);
    let settled = after == before && before.changed_ns + TICK_NS < now.as_nanosecond();
    Ok(Sight::Content {
        bytes,
        identity: settled.then_some(after),
        mode: metadata.mode() & 0o7777,
    })
}

fn is_there(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// By its name alone.
pub(super) fn is_backup(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    BACKUP_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
        || (name.starts_with('#') && name.ends_with('#'))
        || name.contains(".dpkg-")
}
