//! Removes trees of any depth: an image may nest directories deeper than there are descriptors or stack.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::StoreError;

/// Directories open at once; what lies deeper is moved to the top first.
const MAX_DEPTH: u32 = 64;

/// Removes everything in a directory, links not followed. The directory stays.
pub fn empty_dir(path: &Path) -> Result<(), StoreError> {
    let top = open_dir(rustix::fs::CWD, path.as_os_str().as_encoded_bytes())
        .map_err(|e| StoreError::io("open", path, e))?;
    let mut remover = Remover {
        top: top.as_fd(),
        moved: 0,
    };
    // Each round may leave what was moved up from below.
    while remover
        .clear(top.as_fd(), 0)
        .map_err(|e| StoreError::io("empty", path, e))?
    {}
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
