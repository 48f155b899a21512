//! The root file system of an instance: an overlay in the holder's own mount namespace.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

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

/// Makes what is missing of the working directory. Every step resolves inside the root, whatever symbolic links an
/// image has.
fn make_cwd(rootfs: &Rootfs, root: BorrowedFd<'_>) -> io::Result<()> {
    let mut path = PathBuf::new();
    let mut parent = root.try_clone_to_owned()?;
    for component in rootfs.cwd.components() {
        let Component::Normal(name) = component else {
            continue;
        };
        path.push(name);
        parent = match open_in_root(root, &path) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => {
                rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
                let (uid, gid) = (Uid::from_raw(rootfs.uid), Gid::from_raw(rootfs.gid));
                rustix::fs::chownat(
                    &parent,
                    name,
                    Some(uid),
                    Some(gid),
                    AtFlags::SYMLINK_NOFOLLOW,
                )?;
                open_in_root(root, &path)?
            }
            Err(other) => return Err(other.into()),
        };
    }
    Ok(())
}

fn open_in_root(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
}

#[cfg(test)]
mod tests;
