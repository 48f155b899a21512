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
    /// `options` as mount(8) has them: `size=256k`, `size=16m,nr_inodes=500`. A missing directory is made.
    pub fn mount(at: &Path, options: &str) -> Self {
        std::fs::create_dir_all(at).unwrap();
        let options = CString::new(options).unwrap();
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

    /// Makes a directory of files until there is room for no more of them.
    pub fn fill_with_files(&self) -> PathBuf {
        let dir = self.0.join("filler");
        std::fs::create_dir(&dir).unwrap();
        let mut names = 0_u32..;
        while names
            .next()
            .is_some_and(|n| File::create(dir.join(n.to_string())).is_ok())
        {}
        dir
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a holder that is just being killed may still look at it.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}
