//! The marks by which overlayfs knows that something of the lower layers is gone.

use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Stat, XattrFlags};

const OPAQUE_XATTR: &str = "trusted.overlay.opaque";

/// Is it how overlayfs marks a removed name?
pub fn is_whiteout(stat: &Stat) -> bool {
    file_type(stat) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// Kind of a file.
pub fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Does this directory hide what the lower layers have in it?
pub fn is_opaque(dir: BorrowedFd<'_>) -> bool {
    let mut value = [0u8; 1];
    let length = rustix::fs::fgetxattr(dir, OPAQUE_XATTR, &mut value);
    length == Ok(1) && value == *b"y"
}

/// Makes a directory do so.
pub fn set_opaque(dir: BorrowedFd<'_>) -> rustix::io::Result<()> {
    rustix::fs::fsetxattr(dir, OPAQUE_XATTR, b"y", XattrFlags::empty())
}
