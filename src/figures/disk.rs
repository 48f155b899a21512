//! File systems, and what trees use of them.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

use super::summary::FsStats;

/// Directories open at once: what a container nests deeper is not counted.
const MAX_DEPTH: u32 = 256;

/// What a tree uses, as `du` has it: blocks, and each file once, however many names it has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Bytes.
    pub bytes: u64,
    /// Files, directories, links …
    pub inodes: u64,
}

impl Used {
    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }
}

/// How much may still be looked at (invariant 8).
#[derive(Debug)]
pub struct Budget {
    entries: u64,
}

impl Budget {
    /// So many files and directories.
    pub fn new(entries: u64) -> Self {
        Self { entries }
    }

    /// Walks a tree, in its file system only; links are counted, not followed. None when there is none, or when it has
    /// more than the budget.
    pub fn used(&mut self, path: &Path) -> Option<Used> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        let own = rustix::fs::fstat(&dir).ok()?;
        let mut walk = Walk {
            device: own.st_dev,
            linked: BTreeSet::new(),
            used: Used::default(),
            budget: self,
        };
        walk.count(&own)?;
        walk.below(dir.as_fd(), 0)?;
        Some(walk.used)
    }
}

struct Walk<'a> {
    device: u64,
    /// Files with several names that were counted.
    linked: BTreeSet<u64>,
    used: Used,
    budget: &'a mut Budget,
}

impl Walk<'_> {
    fn count(&mut self, stat: &Stat) -> Option<()> {
        self.budget.entries = self.budget.entries.checked_sub(1)?;
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if stat.st_nlink > 1 && !is_dir && !self.linked.insert(stat.st_ino) {
            return Some(());
        }
        let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
        self.used = self.used.plus(Used {
            bytes: blocks.saturating_mul(512),
            inodes: 1,
        });
        Some(())
    }

    /// What goes while we look is not counted.
    fn below(&mut self, dir: BorrowedFd<'_>, depth: u32) -> Option<()> {
        let Ok(entries) = Dir::read_from(dir) else {
            return Some(());
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(stat) = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if stat.st_dev != self.device {
                continue;
            }
            self.count(&stat)?;
            let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            if is_dir && depth < MAX_DEPTH {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                if let Ok(inner) = rustix::fs::openat(dir, name, flags, Mode::empty()) {
                    self.below(inner.as_fd(), depth + 1)?;
                }
            }
        }
        Some(())
    }
}

/// The file system that a path is in, without what is used by whom.
pub fn file_system(path: &Path, time: Timestamp) -> Option<FsStats> {
    let stat = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| Some(blocks.saturating_mul(stat.f_frsize));
    // A file system that makes inodes as it likes (btrfs) has 0 of them.
    let has_inodes = stat.f_files > 0;
    Some(FsStats {
        time,
        available_bytes: bytes(stat.f_bavail),
        capacity_bytes: bytes(stat.f_blocks),
        used_bytes: bytes(stat.f_blocks.saturating_sub(stat.f_bfree)),
        inodes_free: has_inodes.then_some(stat.f_ffree),
        inodes: has_inodes.then_some(stat.f_files),
        inodes_used: has_inodes.then(|| stat.f_files.saturating_sub(stat.f_ffree)),
    })
}
