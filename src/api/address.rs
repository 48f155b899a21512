//! Unix sockets at paths of any length: sun_path holds 107 bytes, so a longer one is reached through its open directory.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Longest path that fits.
const MAX_PATH: usize = 107;

/// Where a socket is; valid as long as it lives.
pub(super) struct Address {
    path: PathBuf,
    _dir: Option<OwnedFd>,
}

impl Address {
    /// Opens the socket's directory if its path is too long.
    pub(super) fn of(socket: &Path) -> io::Result<Self> {
        if socket.as_os_str().len() <= MAX_PATH {
            return Ok(Self {
                path: socket.to_path_buf(),
                _dir: None,
            });
        }
        let (Some(dir), Some(name)) = (socket.parent(), socket.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(dir, flags, Mode::empty())?;
        Ok(Self {
            path: Path::new("/proc/self/fd")
                .join(dir.as_raw_fd().to_string())
                .join(name),
            _dir: Some(dir),
        })
    }
    /// For bind(2) and connect(2).
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
