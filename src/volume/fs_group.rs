//! V-60: a pod's own volumes belong to its fsGroup. Done when a holder makes a volume, before anything mounts it. Links
//! are owned, never followed; what is mounted in a volume is left alone.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, openat2};
use rustix::io::Errno;

use super::spec::FsGroup;

/// Reading and writing, of kubelet: for the owner, too.
const FILE: u32 = 0o660;
const DIRECTORY: u32 = 0o2770;

/// Gives everything below `root`, and itself, to the group.
pub(super) fn apply(root: BorrowedFd<'_>, group: FsGroup) -> Result<(), Errno> {
    if group.only_on_root_mismatch && is_owned(&rustix::fs::fstat(root)?, group.gid) {
        return Ok(());
    }
    let mut dirs = vec![PathBuf::from(".")];
    while let Some(path) = dirs.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let Some(dir) = open(root, &path, flags)? else {
            continue;
        };
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let name = Path::new(OsStr::from_bytes(name.to_bytes()));
            let Some(file) = open(dir.as_fd(), name, OFlags::PATH | OFlags::NOFOLLOW)? else {
                continue;
            };
            if own(file.as_fd(), group.gid)? == FileType::Directory {
                dirs.push(path.join(name));
            }
        }
    }
    // Last: it tells whether all of it was done.
    own(root, group.gid).map(|_| ())
}

/// Owner's group and least mode of one file, which may be O_PATH. Gives its type.
pub(super) fn own(file: BorrowedFd<'_>, gid: u32) -> Result<FileType, Errno> {
    let stat = rustix::fs::fstat(file)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if is_owned(&stat, gid) {
        return Ok(kind);
    }
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(file, "", None, Some(Gid::from_raw(gid)), flags)?;
    if kind != FileType::Symlink {
        // The kernel took set-user-ID away.
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777 | least(kind));
        rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode)?;
    }
    Ok(kind)
}

fn is_owned(stat: &Stat, gid: u32) -> bool {
    let least = least(FileType::from_raw_mode(stat.st_mode));
    stat.st_gid == gid && stat.st_mode & least == least
}

fn least(kind: FileType) -> u32 {
    if kind == FileType::Directory {
        DIRECTORY
    } else if kind == FileType::Symlink {
        0
    } else {
        FILE
    }
}

/// None for what lies in another mount, or is gone.
fn open(at: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<Option<OwnedFd>, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match openat2(at, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::XDEV | Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
