//! V-53: a place in a volume. Links are followed as long as they stay inside; the kernel sees to that in each step
//! (`RESOLVE_BENEATH`), whatever another container does to the volume meanwhile. What comes out is a descriptor, and that
//! is mounted, not its path.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use super::Problem;

/// Somebody renames directories in the volume all the time: the kernel cannot be sure, and asks to try again.
const MAX_TRIES: u32 = 100;

/// Opens (O_PATH) `path` below `root`. Missing directories are made with the mode of the root, and `gid` if given.
pub(super) fn open(
    root: BorrowedFd<'_>,
    path: &Path,
    gid: Option<u32>,
) -> Result<OwnedFd, Problem> {
    walk(root, path, gid).map_err(|error| match error {
        Errno::XDEV => Problem::Escape(path.to_owned()),
        other => Problem::SubPath {
            path: path.to_owned(),
            source: other.into(),
        },
    })
}

fn walk(root: BorrowedFd<'_>, path: &Path, gid: Option<u32>) -> Result<OwnedFd, Errno> {
    match look_up(root, path) {
        Err(Errno::NOENT) => {}
        other => return other,
    }
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Errno::XDEV);
            }
        }
    }
    let mut here = look_up(root, Path::new("."))?;
    for (index, name) in names.iter().enumerate() {
        let ahead: PathBuf = names[..=index].iter().collect();
        here = match look_up(root, &ahead) {
            Err(Errno::NOENT) => make(root, here.as_fd(), name, gid)?,
            other => other?,
        };
    }
    Ok(here)
}

/// Follows links that stay inside.
fn look_up(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 1..MAX_TRIES {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            other => return other,
        }
    }
    openat2(root, path, flags, Mode::empty(), resolve)
}

/// Makes a directory. A link of that name, which leads nowhere then, is an error; whoever else made a directory there in
/// this moment is welcome.
fn make(
    root: BorrowedFd<'_>,
    parent: BorrowedFd<'_>,
    name: &OsStr,
    gid: Option<u32>,
) -> Result<OwnedFd, Errno> {
    let model = rustix::fs::fstat(root)?;
    let is_new = match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(other) => return Err(other),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = openat2(parent, name, flags, Mode::empty(), ResolveFlags::BENEATH)?;
    if is_new {
        if let Some(gid) = gid {
            rustix::fs::chownat(
                &dir,
                "",
                None,
                Some(Gid::from_raw(gid)),
                AtFlags::EMPTY_PATH,
            )?;
        }
        // The sticky bit is that of a tmpfs' own root.
        let mode = Mode::from_raw_mode(model.st_mode & 0o2777);
        rustix::fs::fchmod(&dir, mode)?;
    }
    Ok(dir)
}

#[cfg(test)]
mod tests;
