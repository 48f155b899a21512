//! Removing; what is missing already is fine. Links are removed, never followed. Trees may be of any depth: an image or a
//! container may nest directories deeper than there are descriptors or stack. No unsafe code; here because every room
//! needs it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
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
    missing_is_fine(content(path).and_then(|()| std::fs::remove_dir(path)))
}

/// Removes everything in a directory, which stays.
pub fn content(path: &Path) -> io::Result<()> {
    let top = open_dir(CWD, path.as_os_str().as_encoded_bytes())?;
    let mut remover = Remover {
        top: top.as_fd(),
        moved: 0,
    };
    // Each round may leave what was moved up from below.
    while remover.clear(top.as_fd(), 0)? {}
    Ok(())
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
                    let child = open_dir(dir, name.to_bytes())?;
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
