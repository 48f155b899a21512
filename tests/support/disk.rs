//! A disk that is soon full.

#![expect(clippy::unwrap_used, reason = "test code outside #[test] functions")]

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// A tmpfs upon a directory; gone with the value.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `size` as mount(8) has it: `256k`, `16m`.
    pub fn mount(at: &Path, size: &str) -> Self {
        let options = CString::new(format!("size={size}")).unwrap();
        let flags = MountFlags::empty();
        mount("tmpfs", at, "tmpfs", flags, Some(options.as_c_str())).unwrap();
        Self(at.to_owned())
    }

    /// Makes a file that grows until nothing more fits.
    pub fn fill(&self) -> PathBuf {
        let path = self.0.join("fill");
        let mut file = File::create(&path).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a holder that is just being killed may still look at it.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}
