//! Removing; what is missing already is fine. Links are removed, never followed, and nothing that is mounted in a tree is
//! entered (V-8): that is an error. Trees may be of any depth: an image or a
//! container may nest directories deeper than there are descriptors or stack. No unsafe code; here because every room
//! needs it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// Directories open at once; what lies deeper is moved to the top first.
const MAX_DEPTH: u32 = 64;

/// Removes a file, a link or a socket.
pub fn file(path: &Path) -> io::Result<()> {
    missing_is_fine(std::fs::remove_file(path))
}

/// Takes the outcome of something that needs a file which may be gone.
pub fn missing_is_fine(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes a directory with everything in it, or whatever else has that name.
pub fn tree(path: &Path) -> io::Result<()> {
    match rustix::fs::unlink(path) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(error.into()),
    }
    let outcome = open_top(path).map_err(mounted).and_then(|top| empty(&top));
    missing_is_fine(outcome.and_then(|()| std::fs::remove_dir(path)))
}

/// Removes everything in a directory, which stays.
pub fn content(path: &Path) -> io::Result<()> {
    empty(&open_dir(CWD, path.as_os_str().as_encoded_bytes())?)
}

/// A directory that is no mount point itself.
fn open_top(path: &Path) -> rustix::io::Result<OwnedFd> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    let (Some(parent), Some(name)) = (parent, path.file_name()) else {
        return open_dir(CWD, path.as_os_str().as_encoded_bytes());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::open(parent, flags, Mode::empty())?;
    open_below(parent.as_fd(), name.as_encoded_bytes())
}

fn empty(top: &OwnedFd) -> io::Result<()> {
    let mut remover = Remover {
        top: top.as_fd(),
        moved: 0,
    };
    // Each round may leave what was moved up from below.
    while remover.clear(top.as_fd(), 0).map_err(mounted)? {}
    Ok(())
}

/// In words that say more than "cross-device link".
fn mounted(error: Errno) -> io::Error {
    match error {
        Errno::XDEV => Errno::BUSY.into(),
        other => other.into(),
    }
}

struct Remover<'a> {
    top: BorrowedFd<'a>,
    moved: u64,
}

impl Remover<'_> {
    /// True when something was moved to the top.
    fn clear(&mut self, dir: BorrowedFd<'_>, depth: u32) -> rustix::io::Result<bool> {
        let mut moved = false;
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) if depth >= MAX_DEPTH => {
                    self.move_up(dir, name)?;
                    moved = true;
                }
                Err(Errno::ISDIR) => {
                    let child = open_below(dir, name.to_bytes())?;
                    moved |= self.clear(child.as_fd(), depth + 1)?;
                    rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(moved)
    }

    fn move_up(&mut self, dir: BorrowedFd<'_>, name: &std::ffi::CStr) -> rustix::io::Result<()> {
        loop {
            let up = format!("deep-{}", self.moved);
            self.moved += 1;
            match rustix::fs::renameat(dir, name, self.top, up.as_str()) {
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                outcome => return outcome,
            }
        }
    }
}

fn open_dir(at: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// The same; XDEV where something is mounted.
fn open_below(at: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(at, name, flags, Mode::empty(), ResolveFlags::NO_XDEV)
}

#[cfg(test)]
mod tests;
