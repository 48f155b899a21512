//! The volumes of a pod: what is mounted into its containers beside their root file systems.
//!
//! The agent orders them as data ([`spec`]); the pod's holder makes them ([`mount`]), in its own mount namespace, so that
//! the kernel takes them all away with the holder.
//!
//! - `stage`: what is made once per holder: tmpfs, images, the directories of emptyDirs, with `fs_group`; `atomic`
//!   writes files into them.
//! - `host_path` and `sub_path` open what is mounted; `bind` mounts it.
//!
//! A path of the host is looked up in the host's mount namespace: the holder's is a copy from its start, with mounts of
//! its own. Whatever is checked is an open descriptor, and that descriptor is mounted: nothing can be exchanged between.

mod atomic;
mod bind;
mod fs_group;
mod host_path;
pub mod spec;
mod stage;
mod sub_path;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use oci_spec::runtime::LinuxDeviceType;

use crate::config::HolderPaths;
use crate::sys::{mounts, remove};
use spec::{Payload, Source, Volume, VolumeMount, VolumeOrder};

/// V-25: why a container's volumes are not there.
#[derive(Debug, thiserror::Error)]
#[error("MountVolume.SetUp failed for volume {volume:?}")]
pub struct VolumeError {
    /// `volumes[].name`.
    pub volume: String,
    /// Why.
    #[source]
    pub problem: Problem,
}

/// What can be wrong with one volume.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The system refused.
    #[error("{operation} {path}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The system refused something that has no path.
    #[error("{0}")]
    System(&'static str, #[source] io::Error),
    /// V-22, V-24.
    #[error("hostPath type check failed: {path} is not {expected}")]
    WrongType {
        /// `hostPath.path`.
        path: PathBuf,
        /// With its article.
        expected: &'static str,
    },
    /// V-22, V-24: there is nothing.
    #[error("hostPath type check failed: {path} is not {expected}: it does not exist")]
    Missing {
        /// `hostPath.path`.
        path: PathBuf,
        /// With its article.
        expected: &'static str,
    },
    /// V-52.
    #[error(
        "path {path:?} is mounted on {mounted_on:?} but it is not {expected}; `mount --make-rshared {}` on the node makes it one",
        mounted_on.display()
    )]
    Propagation {
        /// What should be mounted.
        path: PathBuf,
        /// Mount point that it belongs to.
        mounted_on: PathBuf,
        /// With its article.
        expected: &'static str,
    },
    /// V-53.
    #[error("subPath {0:?} leads out of the volume")]
    Escape(PathBuf),
    /// V-53.
    #[error("subPath {path:?}")]
    SubPath {
        /// Below the volume's root.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// V-33.
    #[error("path {0:?} of a file leads out of the volume")]
    FilePath(String),
    /// A mistake of whoever ordered it.
    #[error("{0}")]
    Order(&'static str),
}

impl Problem {
    fn io<E: Into<io::Error>>(operation: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            operation,
            path,
            source: source.into(),
        }
    }

    fn system<E: Into<io::Error>>(operation: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System(operation, source.into())
    }

    /// Named as the manifest has it.
    fn at_sub_path(self, written: &Path) -> Self {
        let path = written.to_owned();
        match self {
            Self::Escape(_) => Self::Escape(path),
            Self::SubPath { source, .. } => Self::SubPath { path, source },
            other @ (Self::Io { .. }
            | Self::System(..)
            | Self::WrongType { .. }
            | Self::Missing { .. }
            | Self::Propagation { .. }
            | Self::FilePath(_)
            | Self::Order(_)) => other,
        }
    }

    fn of(self, volume: &str) -> VolumeError {
        VolumeError {
            volume: volume.to_owned(),
            problem: self,
        }
    }
}

/// Where volumes are made.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    /// The holder's.
    pub paths: &'a HolderPaths,
    /// The mount namespace that the holder came from.
    pub host: BorrowedFd<'a>,
}

/// What the rest of a container has to know of its volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Made {
    /// D-16: devices that it may use.
    pub devices: Vec<Device>,
    /// Content of volumes of files that is in place now: hash by name.
    pub written: BTreeMap<String, String>,
}

/// A device node of the host that is mounted as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// Character or block device.
    pub typ: LinuxDeviceType,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// Makes what is missing of the volumes in `order`, and the binds of a container's mounts. To be called in a process of
/// one thread in the holder's mount namespace. What a failure leaves is taken away by [`unmount`].
pub fn mount(
    site: Site<'_>,
    container_id: &str,
    order: &VolumeOrder,
    payload: &Payload,
) -> Result<Made, VolumeError> {
    if order.mounts.is_empty() {
        return Ok(Made::default());
    }
    let dir = site.paths.volume_mounts(container_id);
    std::fs::create_dir_all(&dir)
        .map_err(|e| Problem::io("create", &dir)(e).of(&order.mounts[0].volume))?;
    let is_on_host = |volume: &Volume| match volume.source {
        Source::HostPath { .. } | Source::EmptyDir { .. } => true,
        Source::Memory { .. } | Source::Files | Source::Image { .. } => false,
    };
    let (on_host, own): (Vec<_>, Vec<_>) = order.volumes.iter().partition(|v| is_on_host(v));
    let mut made = Made {
        devices: Vec::new(),
        written: stage::made(site, &own, order.fs_group, payload)?,
    };
    let mut trees = clone_trees(&own, order, |volume| open_own(site, volume))?;
    if let Some(first) = on_host.first() {
        let there = mounts::visit(site.host, || {
            stage::empty_dirs(site, &on_host, order.fs_group)?;
            clone_trees(&on_host, order, |volume| {
                open_on_host(volume, &mut made.devices)
            })
        });
        let there = there
            .map_err(|e| Problem::system("visit the host's mount namespace")(e).of(&first.name))?;
        trees.extend(there?);
    }
    for (index, tree) in trees {
        let mount = &order.mounts[index];
        let target = site.paths.volume_mount(container_id, index);
        bind::attach(&tree, &target, mount.propagation)
            .map_err(|e| Problem::io("mount on", &target)(e).of(&mount.volume))?;
    }
    Ok(made)
}

/// V-31: gives volumes of files that were made already new content. Gives what is in place then: hash by name.
pub fn write(site: Site<'_>, payload: &Payload) -> Result<BTreeMap<String, String>, VolumeError> {
    stage::write(site, payload)
}

/// V-54: takes away the binds of a container's mounts; what is not there is fine. Fails while something of it cannot be
/// unmounted.
pub fn unmount(paths: &HolderPaths, container_id: &str) -> io::Result<()> {
    let dir = paths.volume_mounts(container_id);
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) => return remove::missing_is_fine(Err(error)),
    };
    for entry in entries {
        mounts::detach(&entry?.path());
    }
    remove::tree(&dir)
}

/// Of each mount of these volumes, what it mounts, not attached yet.
fn clone_trees(
    volumes: &[&Volume],
    order: &VolumeOrder,
    mut open: impl FnMut(&Volume) -> Result<(PathBuf, OwnedFd), Problem>,
) -> Result<Vec<(usize, OwnedFd)>, VolumeError> {
    let mut trees = Vec::new();
    for volume in volumes {
        let (path, root) = open(volume).map_err(|problem| problem.of(&volume.name))?;
        let gid = match volume.source {
            Source::HostPath { .. } | Source::Image { .. } => None,
            Source::EmptyDir { .. } | Source::Memory { .. } | Source::Files => {
                order.fs_group.map(|group| group.gid)
            }
        };
        let mounts = order.mounts.iter().enumerate();
        for (index, mount) in mounts.filter(|(_, mount)| mount.volume == volume.name) {
            let tree = clone_tree(mount, (&path, root.as_fd()), gid);
            trees.push((index, tree.map_err(|problem| problem.of(&volume.name))?));
        }
    }
    Ok(trees)
}

/// What one mount of a volume mounts. `gid` is for directories that are missing.
fn clone_tree(
    mount: &VolumeMount,
    (path, root): (&Path, BorrowedFd<'_>),
    gid: Option<u32>,
) -> Result<OwnedFd, Problem> {
    let Some(sub_path) = &mount.sub_path else {
        return bind::clone_tree(root, path, mount.propagation);
    };
    let written = mount.sub_path_expr.as_ref().map_or(&**sub_path, Path::new);
    let place = sub_path::open(root, sub_path, gid).map_err(|e| e.at_sub_path(written))?;
    bind::clone_tree(place.as_fd(), &path.join(written), mount.propagation)
}

/// The root of a volume in the holder's mount namespace.
fn open_own(site: Site<'_>, volume: &Volume) -> Result<(PathBuf, OwnedFd), Problem> {
    let path = site.paths.volume(&volume.name);
    let root = stage::open_dir(&path)?;
    Ok((path, root))
}

/// The root of a volume in the host's mount namespace.
fn open_on_host(volume: &Volume, devices: &mut Vec<Device>) -> Result<(PathBuf, OwnedFd), Problem> {
    match &volume.source {
        Source::HostPath { path, kind } => {
            let file = host_path::open(path, *kind)?;
            devices.extend(host_path::device(&file, *kind)?);
            Ok((path.clone(), file))
        }
        Source::EmptyDir { dir } => Ok((dir.clone(), stage::open_dir(dir)?)),
        Source::Memory { .. } | Source::Files | Source::Image { .. } => {
            Err(Problem::Order("it is not on the host"))
        }
    }
}
