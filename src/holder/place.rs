//! Making places in an image's tree: the working directory and mount points. Every step is looked up below the root
//! without following links; links are followed here, as the container would. So nothing outside is ever touched, and a
//! link that leads nowhere (`/etc/resolv.conf -> ../tmp/resolv.conf`) leads somewhere afterwards. Where a volume will be
//! mounted, the way leads on in that volume: a mount point below is made there.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use oci_spec::runtime::Mount;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;

use crate::pod::names::PROC_FILES;

/// As many as the kernel follows.
const MAX_LINKS: u32 = 40;

/// What a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
}

/// The tree of one container, before anything of it runs.
pub(super) struct Tree<'a> {
    pub(super) root: BorrowedFd<'a>,
    /// Of what is made.
    pub(super) owner: (Uid, Gid),
    /// What will be mounted, in this order.
    pub(super) covered: Vec<Covered>,
}

/// What will be mounted somewhere in the tree: nothing can be seen below but what is in there.
pub(super) struct Covered {
    /// Below the root, relative.
    path: PathBuf,
    /// The directory that will be seen; none where there is nothing yet.
    inside: Option<OwnedFd>,
    access: Access,
    is_proc: bool,
}

/// What may be made in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// It is the container's own root.
    Root,
    /// It is a volume: others may use it right now.
    Volume,
    /// It is a volume that this container only reads.
    ReadOnly,
}

impl Tree<'_> {
    /// Makes what is missing of `path`.
    pub(super) fn make(&self, path: &Path, kind: Kind) -> Result<(), Errno> {
        self.walk(path, kind).map(|_| ())
    }

    /// The same for a bind mount's target. A link of the image there that cannot be made to lead to a place (a loop, the
    /// root, something below another mount or in /proc) gives way.
    fn make_mount_point(&self, path: &Path, kind: Kind) -> Result<(), Errno> {
        let failed = match self.walk(path, kind) {
            // Nobody can want to have it over the root.
            Ok(place) if place.as_os_str().is_empty() => Errno::LOOP,
            Err(error @ (Errno::LOOP | Errno::XDEV | Errno::ACCESS)) => error,
            other => return other.map(|_| ()),
        };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(());
        };
        let parent = match self.walk(parent, Kind::Directory) {
            // It lies in another mount, which is empty yet.
            Err(Errno::XDEV) if failed == Errno::XDEV => return Ok(()),
            other => other.map_err(|_| failed)?,
        };
        let place = parent.join(name);
        // Links of a volume are not ours, and must not lead a mount over /dev, /proc or /sys.
        let Ok((root, below, Access::Root)) = self.seen(&place) else {
            return Err(failed);
        };
        rustix::fs::unlinkat(root, below, AtFlags::empty())?;
        self.create(&place, kind)
    }

    /// The same for a file system of the kernel. No link may be there: libcontainer makes links and devices in /dev by a
    /// path that it looks up without regard to the root, so a link there would lead it out of the container.
    fn make_kernel_mount_point(&self, path: &Path) -> Result<(), Errno> {
        let path = path.strip_prefix("/").unwrap_or(path);
        match self.open(path) {
            Ok(place) if is_link(&place)? => {
                rustix::fs::unlinkat(self.root, path, AtFlags::empty())?;
                self.create(path, Kind::Directory)
            }
            // It lies in another mount, which is empty yet.
            Ok(_) | Err(Errno::XDEV) => Ok(()),
            Err(Errno::NOENT) => self.create(path, Kind::Directory),
            Err(other) => Err(other),
        }
    }

    /// Where `path` leads to, which exists then.
    fn walk(&self, path: &Path, kind: Kind) -> Result<PathBuf, Errno> {
        let mut here = PathBuf::new();
        let mut links = 0;
        let mut steps = steps(path);
        while let Some(step) = steps.pop_front() {
            if step == ".." {
                here.pop();
                continue;
            }
            here.push(step);
            self.check_proc(&here, &steps)?;
            match self.open(&here) {
                Err(Errno::XDEV) if self.leads_deeper(&here, &steps) => {}
                Err(Errno::NOENT) if steps.is_empty() => self.create(&here, kind)?,
                Err(Errno::NOENT) => self.create(&here, Kind::Directory)?,
                Err(other) => return Err(other),
                Ok(place) if is_link(&place)? => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::LOOP);
                    }
                    let target = rustix::fs::readlinkat(&place, "", Vec::new())?;
                    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                    here.pop();
                    if target.is_absolute() {
                        here.clear();
                    }
                    let mut ahead = self::steps(&target);
                    ahead.append(&mut steps);
                    steps = ahead;
                }
                Ok(_) => {}
            }
        }
        Ok(here)
    }

    /// What has no content yet is only on the way to something that will be mounted in it.
    fn leads_deeper(&self, here: &Path, steps: &VecDeque<OsString>) -> bool {
        let mut whole = here.to_owned();
        whole.extend(steps);
        let over = self.over(&whole);
        over.is_some_and(|over| over.path != here && over.path.starts_with(here))
    }

    fn over(&self, path: &Path) -> Option<&Covered> {
        let mut newest = self.covered.iter().rev();
        newest.find(|covered| path.starts_with(&covered.path))
    }

    /// ACCES where the way leads into /proc and nothing may be mounted.
    fn check_proc(&self, here: &Path, steps: &VecDeque<OsString>) -> Result<(), Errno> {
        let Some(over) = self.over(here).filter(|over| over.is_proc) else {
            return Ok(());
        };
        let mut below = here.strip_prefix(&over.path).unwrap_or(here).to_owned();
        below.extend(steps);
        let is_allowed =
            below.as_os_str().is_empty() || PROC_FILES.iter().any(|f| below == Path::new(f));
        if is_allowed {
            Ok(())
        } else {
            Err(Errno::ACCESS)
        }
    }

    /// What the container will see at `path`: a directory, and the way from there. XDEV: something that has no content yet.
    fn seen<'a>(&'a self, path: &'a Path) -> Result<(BorrowedFd<'a>, &'a Path, Access), Errno> {
        let Some(over) = self.over(path) else {
            return Ok((self.root, path, Access::Root));
        };
        let inside = over.inside.as_ref().ok_or(Errno::XDEV)?;
        let below = path.strip_prefix(&over.path).unwrap_or(path);
        Ok((inside.as_fd(), below, over.access))
    }

    fn open(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let (root, below, _) = self.seen(path)?;
        let below = if below.as_os_str().is_empty() {
            Path::new(".")
        } else {
            below
        };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        rustix::fs::openat2(root, below, flags, Mode::empty(), resolve)
    }

    fn create(&self, path: &Path, kind: Kind) -> Result<(), Errno> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(());
        };
        let (_, _, access) = self.seen(path)?;
        if access == Access::ReadOnly {
            return Err(Errno::ROFS);
        }
        let parent = self.open(parent)?;
        match kind {
            Kind::Directory => rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))?,
            Kind::File => {
                let mode = Mode::from_raw_mode(0o644);
                rustix::fs::mknodat(&parent, name, FileType::RegularFile, mode, 0)?;
            }
        }
        if access == Access::Volume {
            // Ours already; and who else uses it may have put something else there.
            return Ok(());
        }
        let (uid, gid) = self.owner;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(&parent, name, Some(uid), Some(gid), flags)
    }
}

/// Makes the targets of the bind mounts, which libcontainer makes only where no link is in the way. Gives the one that
/// cannot be made with its error.
pub(super) fn make_mount_points(
    root: BorrowedFd<'_>,
    mounts: &[Mount],
) -> Result<(), (PathBuf, io::Error)> {
    let mut tree = Tree {
        root,
        owner: (Uid::ROOT, Gid::ROOT),
        covered: Vec::new(),
    };
    for mount in mounts {
        let path = mount.destination();
        let mut inside = None;
        let failed = |error: Errno| (path.clone(), error.into());
        if mount.typ().as_deref() != Some("bind") {
            tree.make_kernel_mount_point(path).map_err(failed)?;
        } else {
            inside = mount
                .source()
                .as_deref()
                .and_then(|path| open_dir(path).ok());
            let kind = match &inside {
                Some(_) => Kind::Directory,
                None => Kind::File,
            };
            tree.make_mount_point(path, kind).map_err(failed)?;
        }
        tree.covered.push(Covered {
            path: path.strip_prefix("/").unwrap_or(path).to_owned(),
            inside,
            access: access(mount),
            is_proc: mount.typ().as_deref() == Some("proc"),
        });
    }
    Ok(())
}

fn access(mount: &Mount) -> Access {
    let options = mount.options().as_deref().unwrap_or_default();
    let is_read_only = |option: &String| matches!(option.as_str(), "ro" | "rro");
    if options.iter().any(is_read_only) {
        Access::ReadOnly
    } else {
        Access::Volume
    }
}

fn open_dir(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

fn is_link(place: &OwnedFd) -> Result<bool, Errno> {
    let stat = rustix::fs::fstat(place)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// Names and `..`; everything else means nothing in a path that starts at the root or at a link's directory.
fn steps(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
        })
        .collect()
}

#[cfg(test)]
mod tests;
