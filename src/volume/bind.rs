//! Mounting what was opened, with the propagation that is asked for (V-52).

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType};
use rustix::mount::{
    MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_change, move_mount, open_tree,
};

use super::Problem;
use super::spec::Propagation;
use crate::sys::mounts;

/// V-28: a copy of the mount that `place` is on, from there on, with everything mounted below; not attached yet. To be
/// called in the mount namespace that `place` was opened in; `path` is for messages.
pub(super) fn clone_tree(
    place: BorrowedFd<'_>,
    path: &Path,
    propagation: Propagation,
) -> Result<OwnedFd, Problem> {
    check(place, path, propagation)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(place, "", flags).map_err(Problem::io("clone the mount of", path))
}

/// Mounts it. In the peer group of its origin until its propagation is set: only what the host mounts meanwhile can be
/// seen.
pub(super) fn attach(tree: &OwnedFd, target: &Path, propagation: Propagation) -> io::Result<()> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode);
    if kind == FileType::Directory {
        fs::create_dir(target)?;
    } else {
        fs::File::create_new(target)?;
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, "", CWD, target, flags)?;
    let change = match propagation {
        Propagation::Private => MountPropagationFlags::PRIVATE,
        Propagation::FromHost => MountPropagationFlags::DOWNSTREAM,
        Propagation::Both => return Ok(()),
    };
    Ok(mount_change(target, change | MountPropagationFlags::REC)?)
}

fn check(place: BorrowedFd<'_>, path: &Path, propagation: Propagation) -> Result<(), Problem> {
    let expected = match propagation {
        Propagation::Private => return Ok(()),
        Propagation::FromHost => "a shared or slave mount",
        Propagation::Both => "a shared mount",
    };
    let mount = mounts::of(place).map_err(Problem::io("find the mount of", path))?;
    if mount.is_shared || mount.is_slave && propagation == Propagation::FromHost {
        return Ok(());
    }
    Err(Problem::Propagation {
        path: path.to_owned(),
        mounted_on: mount.point,
        expected,
    })
}
