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
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_fine_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let [kept, link, inner] = ["kept", "link", "tree/inner"].map(|name| dir.path().join(name));
        std::fs::create_dir_all(kept.join("inside")).unwrap();
        std::fs::create_dir_all(&inner).unwrap();
        std::os::unix::fs::symlink(&kept, &link).unwrap();
        std::os::unix::fs::symlink(&kept, inner.join("link")).unwrap();
        for path in [&link, &dir.path().join("tree"), &dir.path().join("missing")] {
            tree(path).unwrap();
            assert!(path.symlink_metadata().is_err(), "{path:?}");
        }
        assert!(kept.join("inside").exists());
        file(&link).unwrap();
        assert!(file(&kept).is_err());
    }

    /// V-8.
    #[test]
    fn v_8_what_is_mounted_in_a_tree_survives() {
        crate::sys::mounts::tests::apart(|| {
            let dir = tempfile::tempdir().unwrap();
            let [data, gone] = ["data", "gone/volume/v"].map(|name| dir.path().join(name));
            std::fs::create_dir_all(data.join("sub")).unwrap();
            std::fs::create_dir_all(&gone).unwrap();
            rustix::mount::mount_bind(&data, &gone).unwrap();
            for path in [&gone, &dir.path().join("gone")] {
                let error = tree(path).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
                assert!(data.join("sub").exists());
            }
            super::super::mounts::unmount_below(&dir.path().join("gone")).unwrap();
            tree(&dir.path().join("gone")).unwrap();
            assert!(data.join("sub").exists());
        });
    }

    #[test]
    fn trees_may_be_deeper_than_there_is_stack() {
        let dir = tempfile::tempdir().unwrap();
        let mut here = open_dir(CWD, dir.path().as_os_str().as_encoded_bytes()).unwrap();
        for _ in 0..2000 {
            rustix::fs::mkdirat(&here, "d", Mode::RWXU).unwrap();
            here = open_dir(here.as_fd(), b"d").unwrap();
        }
        drop(here);
        let deep = dir.path().join("d");
        let small = std::thread::Builder::new().stack_size(256 << 10);
        let removed = small.spawn(move || tree(&deep)).unwrap();
        removed.join().unwrap().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
