//! Volumes that are made once per holder, whichever container mounts them first. A lock on their directory makes workers
//! of several containers take turns. Each is complete as soon as it is to be seen: a worker can be killed at any point,
//! and the next one goes on.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount, mount_change,
    move_mount,
};

use super::spec::{FileSet, FsGroup, Payload, Source, Volume};
use super::{Problem, Site, VolumeError, atomic, fs_group};
use crate::config::HolderPaths;
use crate::sys::mounts;

/// Makes what is missing of volumes that lie in the holder's mount namespace. Gives the hash of the files that are in
/// place then, by name of the volume.
pub(super) fn made(
    site: Site<'_>,
    volumes: &[&Volume],
    group: Option<FsGroup>,
    payload: &Payload,
) -> Result<BTreeMap<String, String>, VolumeError> {
    let mut written = BTreeMap::new();
    let Some(first) = volumes.first() else {
        return Ok(written);
    };
    let _lock = lock(site.paths).map_err(|problem| problem.of(&first.name))?;
    for volume in volumes {
        let target = site.paths.volume(&volume.name);
        let hash = match &volume.source {
            Source::HostPath { .. } | Source::EmptyDir { .. } => Ok(None),
            Source::Memory { size_bytes } => memory(&target, *size_bytes, group).map(|()| None),
            Source::Image { layers } => image(&target, layers).map(|()| None),
            Source::Files => files(&target, &volume.name, payload),
        };
        let hash = hash.map_err(|problem| problem.of(&volume.name))?;
        written.extend(hash.map(|hash| (volume.name.clone(), hash)));
    }
    Ok(written)
}

/// V-10, V-16: makes what is missing of volumes in the pod's durable directory. In the host's mount namespace.
pub(super) fn empty_dirs(
    site: Site<'_>,
    volumes: &[&Volume],
    group: Option<FsGroup>,
) -> Result<(), VolumeError> {
    for volume in volumes {
        if let Source::EmptyDir { dir } = &volume.source {
            let mark = site.paths.volume(&volume.name);
            let outcome = lock(site.paths).and_then(|_lock| empty_dir(dir, &mark, group));
            outcome.map_err(|problem| problem.of(&volume.name))?;
        }
    }
    Ok(())
}

/// New content for those volumes of files that are made already.
pub(super) fn write(
    site: Site<'_>,
    payload: &Payload,
) -> Result<BTreeMap<String, String>, VolumeError> {
    let mut written = BTreeMap::new();
    let Some(first) = payload.volumes.keys().next() else {
        return Ok(written);
    };
    let _lock = lock(site.paths).map_err(|problem| problem.of(first))?;
    for (name, set) in &payload.volumes {
        let target = site.paths.volume(name);
        let failed = |problem: Problem| problem.of(name);
        if !is_made(&target).map_err(failed)? {
            continue;
        }
        let hash = fill(&target, payload.generation, set).map_err(failed)?;
        written.extend(hash.map(|hash| (name.clone(), hash)));
    }
    Ok(written)
}

fn is_made(target: &Path) -> Result<bool, Problem> {
    mounts::is_point(target).map_err(Problem::io("look at", target))
}

/// Opens the root of a volume.
pub(super) fn open_dir(path: &Path) -> Result<OwnedFd, Problem> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(Problem::io("open", path))
}

/// Waits until no other worker makes volumes. Theirs is a matter of moments, and their end lets go of it.
fn lock(paths: &HolderPaths) -> Result<OwnedFd, Problem> {
    let dir = paths.volumes();
    fs::create_dir_all(&dir).map_err(Problem::io("create", &dir))?;
    let lock = open_dir(&dir)?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(Problem::io("lock", &dir))?;
    Ok(lock)
}

/// The mark says that this holder has seen to its group already: since then the pod may have made files of its own.
fn empty_dir(dir: &Path, mark: &Path, group: Option<FsGroup>) -> Result<(), Problem> {
    if mark.exists() {
        return Ok(());
    }
    if !dir.exists() {
        make_empty_dir(dir).map_err(Problem::io("create", dir))?;
    }
    if let Some(group) = group {
        let root = open_dir(dir)?;
        fs_group::apply(root.as_fd(), group).map_err(Problem::io("set the group of", dir))?;
    }
    fs::create_dir(mark).map_err(Problem::io("create", mark))
}

/// With its mode from its first moment on: whoever comes after a crash finds it as it should be, or not at all.
fn make_empty_dir(dir: &Path) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o750).create(parent)?;
    }
    let before = rustix::process::umask(Mode::empty());
    let made = DirBuilder::new().mode(0o777).create(dir);
    rustix::process::umask(before);
    made
}

/// V-13, with the mode that a tmpfs has unless told otherwise, as kubelet's.
fn memory(target: &Path, size_bytes: Option<u64>, group: Option<FsGroup>) -> Result<(), Problem> {
    if is_made(target)? {
        return share(target);
    }
    let tree = tmpfs(size_bytes).map_err(Problem::system("make a tmpfs"))?;
    if let Some(group) = group {
        fs_group::own(tree.as_fd(), group.gid).map_err(Problem::system("set its group"))?;
    }
    attach(&tree, target)
}

fn files(target: &Path, name: &str, payload: &Payload) -> Result<Option<String>, Problem> {
    let set = payload.volumes.get(name);
    let set = set.ok_or(Problem::Order("its files did not come with the request"))?;
    memory(target, None, None)?;
    fill(target, payload.generation, set)
}

/// Gives the hash of the files, unless newer ones are in place.
fn fill(target: &Path, generation: u64, set: &FileSet) -> Result<Option<String>, Problem> {
    let is_current = atomic::write(open_dir(target)?.as_fd(), generation, set)?;
    Ok(is_current.then(|| set.hash.clone()))
}

/// A tmpfs that is not attached yet. Never swapped out where the kernel can do that (6.4): it may hold secrets.
fn tmpfs(size_bytes: Option<u64>) -> rustix::io::Result<OwnedFd> {
    let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(fs.as_fd(), "source", "tmpfs")?;
    fsconfig_set_string(fs.as_fd(), "mode", "1777")?;
    // 0 would be no limit at all.
    if let Some(size) = size_bytes.filter(|&size| size > 0) {
        fsconfig_set_string(fs.as_fd(), "size", size.to_string())?;
    }
    let _ = fsconfig_set_flag(fs.as_fd(), "noswap");
    fsconfig_create(fs.as_fd())?;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    fsmount(fs.as_fd(), flags, MountAttrFlags::empty())
}

fn attach(tree: &OwnedFd, target: &Path) -> Result<(), Problem> {
    fs::create_dir_all(target).map_err(Problem::io("create", target))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, "", CWD, target, flags).map_err(Problem::io("mount on", target))?;
    share(target)
}

/// V-52: containers of the pod may show each other what they mount in it; nobody else sees it.
fn share(target: &Path) -> Result<(), Problem> {
    mount_change(target, MountPropagationFlags::SHARED).map_err(Problem::io("share", target))
}

/// V-57. Layers are named by descriptor, as in a root file system. The mount point itself, which is empty, is the lowest:
/// the kernel wants two.
fn image(target: &Path, layers: &[PathBuf]) -> Result<(), Problem> {
    if is_made(target)? {
        return share(target);
    }
    fs::create_dir_all(target).map_err(Problem::io("create", target))?;
    let opened = layers.iter().map(|layer| open_dir(layer));
    let mut opened = opened.collect::<Result<Vec<_>, _>>()?;
    opened.push(open_dir(target)?);
    let names: Vec<String> = opened
        .iter()
        .map(|layer| format!("/proc/self/fd/{}", layer.as_raw_fd()))
        .collect();
    let options = std::ffi::CString::new(format!("lowerdir={}", names.join(":")))
        .map_err(|e| Problem::system("name its layers")(io::Error::from(e)))?;
    let flags = MountFlags::RDONLY | MountFlags::NOEXEC | MountFlags::NOSUID | MountFlags::NODEV;
    mount("overlay", target, "overlay", flags, options.as_c_str())
        .map_err(Problem::io("mount the image on", target))?;
    share(target)
}
