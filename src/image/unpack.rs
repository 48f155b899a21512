//! Applies a layer's tar to an empty directory, which becomes an overlay lower directory.
//!
//! Everything happens relative to the layer's root: paths are cleaned, `..` is refused, and parents are opened with
//! `openat2(RESOLVE_IN_ROOT)`, so that the kernel itself keeps links inside (an absolute link is followed below the
//! layer's root, as in the container). The last component is never followed. Nothing outside can be created, changed or
//! linked to, whatever the tar says.
//!
//! Whiteouts become what overlayfs reads: `.wh.x` a character device 0:0 named `x`, `.wh..wh..opq` the xattr
//! `trusted.overlay.opaque` of its directory. As the image specification has it they hide lower layers only, never what
//! the same layer holds. Xattrs other than `security.capability` and `user.*` are dropped: `trusted.overlay.*` from an
//! image could redirect overlayfs.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, Timespec};

use super::layer_dir::{LayerDir, Name};
use super::metadata;
use super::tar_stream::{Entry, Input, Kind, TarError, TarReader};

/// Bytes copied at once.
const BUFFER: usize = 128 * 1024;
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Aufs bookkeeping (`.wh..wh.plnk`, `.wh..wh.aufs`): not part of the image.
const AUFS: &[u8] = b".wh..wh.";

/// Why a layer could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The tar.
    #[error(transparent)]
    Tar(#[from] TarError),
    /// An entry that no honest layer has.
    #[error("entry {path:?} {problem}")]
    Refused {
        /// As written in the tar.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The file system.
    #[error("{operation} {path:?}")]
    Io {
        /// Verb.
        operation: &'static str,
        /// Of the entry.
        path: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// Almost no space is left on the store's file system.
    #[error("less than {} MiB would be left on the store's file system", reserve >> 20)]
    DiskFull {
        /// Bytes kept free.
        reserve: u64,
    },
}

/// What went wrong with the entry at hand; its path is added by [`unpack`].
#[derive(Debug)]
pub(super) enum Trouble {
    Refused(&'static str),
    Io(&'static str, rustix::io::Errno),
    Read(io::Error),
    DiskFull,
}

/// Bytes left free on the store's file system for everybody else.
pub const DISK_RESERVE: u64 = 32 << 20;
/// How many bytes are written between two looks at the free space.
const SPACE_CHECK: u64 = 16 << 20;

/// What was unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpacked {
    /// File data in bytes.
    pub bytes: u64,
}

/// Unpacks `input` below `root`, an empty directory. Directories that a later entry replaces are moved to `replaced`, a
/// directory on the same file system that the caller removes.
pub fn unpack(
    input: impl Input,
    root: BorrowedFd<'_>,
    replaced: BorrowedFd<'_>,
) -> Result<Unpacked, UnpackError> {
    let mut tar = TarReader::new(input);
    let mut unpacker = Unpacker {
        dir: LayerDir::new(root, replaced),
        dir_times: Vec::new(),
        buffer: vec![0; BUFFER],
        bytes: 0,
        unchecked: SPACE_CHECK,
    };
    while let Some(entry) = tar.next_entry()? {
        unpacker
            .apply(&mut tar, &entry)
            .map_err(|trouble| trouble.at(&entry.path))?;
    }
    unpacker.finish();
    Ok(Unpacked {
        bytes: unpacker.bytes,
    })
}

impl Trouble {
    fn at(self, path: &[u8]) -> UnpackError {
        let path = String::from_utf8_lossy(path).into_owned();
        match self {
            Self::Refused(problem) => UnpackError::Refused { path, problem },
            Self::Io(operation, errno) => UnpackError::Io {
                operation,
                path,
                source: errno.into(),
            },
            Self::Read(source) => UnpackError::Tar(TarError::Read(source)),
            Self::DiskFull => UnpackError::DiskFull {
                reserve: DISK_RESERVE,
            },
        }
    }
}

struct Unpacker<'a> {
    dir: LayerDir<'a>,
    /// Times of directories, set at the end: creating an entry changes its parent's.
    dir_times: Vec<(Vec<u8>, Timespec)>,
    buffer: Vec<u8>,
    bytes: u64,
    /// Bytes that may be written before the free space is looked at.
    unchecked: u64,
}

impl Unpacker<'_> {
    fn apply<R: Input>(&mut self, tar: &mut TarReader<R>, entry: &Entry) -> Result<(), Trouble> {
        if entry.kind == Kind::Label {
            return Ok(());
        }
        let path = clean(&entry.path)?;
        let Some((parent, name)) = split(&path) else {
            return self.root(entry);
        };
        match whiteout(parent, name)? {
            Whiteout::None => {}
            Whiteout::Aufs => return Ok(()),
            Whiteout::Opaque => {
                self.dir.enter(parent)?;
                return self.dir.make_opaque();
            }
            Whiteout::Of(name) => {
                self.dir.enter(parent)?;
                return self.dir.whiteout(&Name::new(name)?);
            }
        }
        self.dir.enter(parent)?;
        let name = Name::new(name)?;
        match entry.kind {
            Kind::File => self.file(tar, entry, &name),
            Kind::Directory => {
                self.dir.make_dir(&name, entry)?;
                self.dir_times.push((path, entry.mtime));
                Ok(())
            }
            Kind::Symlink => self.dir.make_symlink(&name, entry),
            Kind::HardLink => self.hard_link(entry, &path, &name),
            Kind::CharDevice => self.dir.make_node(&name, entry, FileType::CharacterDevice),
            Kind::BlockDevice => self.dir.make_node(&name, entry, FileType::BlockDevice),
            Kind::Fifo => self.dir.make_node(&name, entry, FileType::Fifo),
            Kind::Label | Kind::Unknown => {
                Err(Trouble::Refused("is of a kind that layers do not have"))
            }
        }
    }

    /// `./`: the layer's own root.
    fn root(&mut self, entry: &Entry) -> Result<(), Trouble> {
        if entry.kind != Kind::Directory {
            return Err(Trouble::Refused("is the layer's root, but no directory"));
        }
        self.dir.set_root(entry)?;
        self.dir_times.push((Vec::new(), entry.mtime));
        Ok(())
    }

    fn hard_link(&mut self, entry: &Entry, path: &[u8], name: &Name) -> Result<(), Trouble> {
        let target = clean(&entry.link)?;
        let Some((parent, last)) = split(&target) else {
            return Err(Trouble::Refused("is a hard link to the layer's root"));
        };
        if target == path {
            return Err(Trouble::Refused("is a hard link to itself"));
        }
        match whiteout(parent, last)? {
            Whiteout::None => self.dir.make_hard_link(name, parent, &Name::new(last)?),
            Whiteout::Aufs | Whiteout::Opaque | Whiteout::Of(_) => {
                Err(Trouble::Refused("is a hard link to a whiteout"))
            }
        }
    }

    fn file<R: Input>(
        &mut self,
        tar: &mut TarReader<R>,
        entry: &Entry,
        name: &Name,
    ) -> Result<(), Trouble> {
        let file = self.dir.create_file(name)?;
        match &entry.segments {
            None => self.copy(tar, file.as_fd(), 0..entry.size)?,
            Some(segments) => {
                for segment in segments {
                    let range = segment.offset..segment.offset.saturating_add(segment.length);
                    self.copy(tar, file.as_fd(), range)?;
                }
                rustix::fs::ftruncate(&file, entry.size).map_err(|e| Trouble::Io("extend", e))?;
            }
        }
        metadata::set(file.as_fd(), entry)?;
        metadata::set_time(file.as_fd(), entry.mtime)
    }

    fn copy<R: Input>(
        &mut self,
        tar: &mut TarReader<R>,
        file: BorrowedFd<'_>,
        range: std::ops::Range<u64>,
    ) -> Result<(), Trouble> {
        let mut at = range.start;
        while at < range.end {
            let most = usize::try_from(range.end - at)
                .unwrap_or(BUFFER)
                .min(BUFFER);
            let length = tar.read(&mut self.buffer[..most]).map_err(Trouble::Read)?;
            let mut data = &self.buffer[..length];
            while !data.is_empty() {
                let written =
                    rustix::io::pwrite(file, data, at).map_err(|e| Trouble::Io("write", e))?;
                data = &data[written..];
                at += written as u64;
            }
            self.count(length as u64)?;
        }
        Ok(())
    }

    fn count(&mut self, bytes: u64) -> Result<(), Trouble> {
        self.bytes += bytes;
        self.unchecked = self.unchecked.saturating_sub(bytes);
        if self.unchecked > 0 {
            return Ok(());
        }
        self.unchecked = SPACE_CHECK;
        if self.dir.free_space()? < DISK_RESERVE {
            return Err(Trouble::DiskFull);
        }
        Ok(())
    }

    /// Deepest first does not matter: setting a time changes no other.
    fn finish(&mut self) {
        for (path, time) in &self.dir_times {
            self.dir.set_dir_times(path, *time);
        }
    }
}

enum Whiteout<'a> {
    None,
    Aufs,
    Opaque,
    Of(&'a [u8]),
}

/// What the name says; an entry below a name with the prefix is nonsense unless aufs made it.
fn whiteout<'a>(parent: &[u8], name: &'a [u8]) -> Result<Whiteout<'a>, Trouble> {
    if parent
        .split(|b| *b == b'/')
        .any(|part| part.starts_with(AUFS))
    {
        return Ok(Whiteout::Aufs);
    }
    if parent
        .split(|b| *b == b'/')
        .any(|part| part.starts_with(WHITEOUT))
    {
        return Err(Trouble::Refused("lies below a whiteout"));
    }
    if name == OPAQUE {
        return Ok(Whiteout::Opaque);
    }
    if name.starts_with(AUFS) {
        return Ok(Whiteout::Aufs);
    }
    match name.strip_prefix(WHITEOUT) {
        None => Ok(Whiteout::None),
        Some(b"" | b"." | b"..") => Err(Trouble::Refused("is a whiteout of no name")),
        Some(name) => Ok(Whiteout::Of(name)),
    }
}

/// Without leading, double and trailing slashes and `.`; empty for the root.
fn clean(path: &[u8]) -> Result<Vec<u8>, Trouble> {
    let mut cleaned = Vec::with_capacity(path.len());
    for part in path.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(Trouble::Refused("has '..' in its path")),
            _ if part.contains(&0) => return Err(Trouble::Refused("has a NUL in its path")),
            _ => {
                if !cleaned.is_empty() {
                    cleaned.push(b'/');
                }
                cleaned.extend_from_slice(part);
            }
        }
    }
    Ok(cleaned)
}

/// Parent and last component; `None` for the root.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    match path.iter().rposition(|b| *b == b'/') {
        Some(slash) => Some((&path[..slash], &path[slash + 1..])),
        None if path.is_empty() => None,
        None => Some((b"", path)),
    }
}
