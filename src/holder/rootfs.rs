//! The root file system of an instance: an overlay in the holder's own mount namespace.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use oci_spec::runtime::Mount;
use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::mount::{MountFlags, UnmountFlags};

use super::place::{self, Kind, Tree};
use super::proto::Rootfs;

/// Why there is no root file system.
#[derive(Debug, thiserror::Error)]
pub enum RootfsError {
    /// A directory is missing or cannot be used.
    #[error("open {path}")]
    Open {
        /// Which.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The kernel refused the overlay.
    #[error("mount an overlay of {layers} layers on {target}")]
    Mount {
        /// Lower layers.
        layers: usize,
        /// Mount point.
        target: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// C-26.
    #[error("create the working directory {path}")]
    Cwd {
        /// As the container sees it.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The image has something in the way of a mount.
    #[error("create the mount point {path}")]
    MountPoint {
        /// As the container sees it.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

/// Mounts the overlay on `target` and makes the working directory.
pub fn mount(rootfs: &Rootfs, target: &Path) -> Result<(), RootfsError> {
    let open = |path: &Path| open_dir(path).map_err(|source| failed_open(path, source));
    fs::create_dir_all(target).map_err(|source| failed_open(target, source))?;
    let lower = rootfs
        .lower
        .iter()
        .map(|layer| open(layer))
        .collect::<Result<Vec<_>, _>>()?;
    let (upper, work) = (
        open(&rootfs.writable.join("upper"))?,
        open(&rootfs.writable.join("work"))?,
    );
    overlay(&lower, [&upper, &work], target).map_err(|source| RootfsError::Mount {
        layers: lower.len(),
        target: target.to_owned(),
        source,
    })?;
    make_cwd(rootfs, open(target)?.as_fd()).map_err(|source| RootfsError::Cwd {
        path: rootfs.cwd.clone(),
        source,
    })
}

/// Makes the targets of the bind mounts in the mounted root.
pub fn make_mount_points(root: &Path, mounts: &[Mount]) -> Result<(), RootfsError> {
    let dir = open_dir(root).map_err(|source| failed_open(root, source))?;
    place::make_mount_points(dir.as_fd(), mounts)
        .map_err(|(path, source)| RootfsError::MountPoint { path, source })
}

/// Takes the overlay away again; not mounted is fine.
pub fn unmount(target: &Path) {
    let _ = rustix::mount::unmount(target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
}

fn failed_open(path: &Path, source: io::Error) -> RootfsError {
    RootfsError::Open {
        path: path.to_owned(),
        source,
    }
}

fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Directories are named by descriptor: short, so that more than a hundred layers fit into the one page of options, and
/// safe from colons and commas in paths. `volatile`: an instance's writable layer never outlives its boot, so neither
/// unmounting nor the container's fsync has to wait for flash.
fn overlay(lower: &[OwnedFd], upper_work: [&OwnedFd; 2], target: &Path) -> io::Result<()> {
    let by_fd = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let lower: Vec<String> = lower.iter().map(by_fd).collect();
    let options = format!(
        "lowerdir={},upperdir={},workdir={},volatile",
        lower.join(":"),
        by_fd(upper_work[0]),
        by_fd(upper_work[1]),
    );
    let options = std::ffi::CString::new(options).map_err(io::Error::other)?;
    rustix::mount::mount(
        "overlay",
        target,
        "overlay",
        MountFlags::empty(),
        options.as_c_str(),
    )?;
    Ok(())
}

/// C-26: makes what is missing of the working directory.
fn make_cwd(rootfs: &Rootfs, root: BorrowedFd<'_>) -> io::Result<()> {
    let tree = Tree {
        root,
        owner: (Uid::from_raw(rootfs.uid), Gid::from_raw(rootfs.gid)),
        covered: Vec::new(),
    };
    Ok(tree.make(&rootfs.cwd, Kind::Directory)?)
}

#[cfg(test)]
mod tests;
