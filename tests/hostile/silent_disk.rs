//! A file system whose server takes requests and never answers: whoever looks into it sleeps in the kernel, and not even
//! SIGKILL wakes it up.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// FUSE_INIT.
const INIT: u32 = 26;

/// Mounted until its value is gone; then everybody wakes up, with an error.
pub struct SilentDisk {
    at: PathBuf,
    server: Option<JoinHandle<()>>,
}

impl SilentDisk {
    /// None where the kernel has no FUSE.
    pub fn mount(at: &Path) -> Option<Self> {
        let mut device = File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .ok()?;
        std::fs::create_dir_all(at).unwrap();
        let fd = device.as_raw_fd();
        let options = format!("fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other");
        let options = std::ffi::CString::new(options).unwrap();
        let flags = MountFlags::empty();
        mount("silent", at, "fuse", flags, Some(options.as_c_str())).ok()?;
        let server = std::thread::spawn(move || {
            let mut request = vec![0; 1 << 20];
            // The end of the mount is an error.
            while device.read(&mut request).is_ok() {
                if request[4..8] == INIT.to_ne_bytes() {
                    device.write_all(&greeting(&request)).unwrap();
                }
            }
        });
        Some(Self {
            at: at.to_owned(),
            server: Some(server),
        })
    }
}

/// The answer to INIT: version 7.31, and zeros for everything that it may ask for.
fn greeting(request: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    answer.extend(80_u32.to_ne_bytes());
    answer.extend(0_i32.to_ne_bytes());
    answer.extend(&request[8..16]);
    answer.extend(7_u32.to_ne_bytes());
    answer.extend(31_u32.to_ne_bytes());
    answer.resize(80, 0);
    answer
}

impl Drop for SilentDisk {
    fn drop(&mut self) {
        // Forced: whoever sleeps in it is woken up. It is busy, so it goes lazily afterwards.
        let _ = unmount(&self.at, UnmountFlags::FORCE);
        let _ = unmount(&self.at, UnmountFlags::DETACH);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}
