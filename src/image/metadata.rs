//! Owner, mode, times and extended attributes of what a layer holds.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::tar_stream::Entry;
use super::unpack::Trouble;

/// Owner, xattrs, mode, in the order in which one does not undo the other. For files and directories.
pub fn set(fd: BorrowedFd<'_>, entry: &Entry) -> Result<(), Trouble> {
    let (uid, gid) = owner(entry)?;
    rustix::fs::fchown(fd, Some(uid), Some(gid)).map_err(|e| Trouble::Io("set the owner of", e))?;
    for (name, value) in &entry.xattrs {
        set_xattr(fd, name, value)?;
    }
    rustix::fs::fchmod(fd, Mode::from_raw_mode(entry.mode & 0o7777))
        .map_err(|e| Trouble::Io("set the mode of", e))
}

/// Owner and time of what cannot be opened: links, devices, FIFOs. The name is not followed.
pub fn set_node(here: BorrowedFd<'_>, name: &CStr, entry: &Entry) -> Result<(), Trouble> {
    let (uid, gid) = owner(entry)?;
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(here, name, Some(uid), Some(gid), flags)
        .map_err(|e| Trouble::Io("set the owner of", e))?;
    rustix::fs::utimensat(here, name, &times(entry.mtime), flags)
        .map_err(|e| Trouble::Io("set the time of", e))
}

/// The modification time.
pub fn set_time(fd: BorrowedFd<'_>, time: Timespec) -> Result<(), Trouble> {
    rustix::fs::futimens(fd, &times(time)).map_err(|e| Trouble::Io("set the time of", e))
}

/// `user.*` is a convenience that not every file system has; a lost capability would break the program.
fn set_xattr(fd: BorrowedFd<'_>, name: &str, value: &[u8]) -> Result<(), Trouble> {
    let user = name.starts_with("user.") && !name.starts_with("user.overlay.");
    if !user && name != "security.capability" {
        return Ok(());
    }
    match rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty()) {
        Err(Errno::NOTSUP) if user => Ok(()),
        outcome => outcome.map_err(|e| Trouble::Io("set an extended attribute of", e)),
    }
}

fn owner(entry: &Entry) -> Result<(Uid, Gid), Trouble> {
    let id = |id: u64| u32::try_from(id).ok().filter(|id| *id != u32::MAX);
    match (id(entry.uid), id(entry.gid)) {
        (Some(uid), Some(gid)) => Ok((Uid::from_raw(uid), Gid::from_raw(gid))),
        (None, _) | (_, None) => Err(Trouble::Refused("has an owner that is no user id")),
    }
}

/// The same time for access and modification.
pub fn times(time: Timespec) -> Timestamps {
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}
