//! Operations on the directory of a layer that is being unpacked: the hands of [`super::unpack`], one system call or two
//! each, all relative to directory descriptors.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::tar_stream::Entry;
use super::unpack::Trouble;

/// What overlayfs reads.
pub const OPAQUE_XATTR: &str = "trusted.overlay.opaque";
/// openat2 gives EAGAIN when something on the system is renamed meanwhile.
const RESOLVE_TRIES: u32 = 1000;

/// A single path component.
pub struct Name(CString);

impl Name {
    pub fn new(name: &[u8]) -> Result<Self, Trouble> {
        if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
            return Err(Trouble::Refused("has no usable name"));
        }
        CString::new(name)
            .map(Self)
            .map_err(|_| Trouble::Refused("has a NUL in its path"))
    }
}

/// The layer's root and the directory that entries are being made in.
pub struct LayerDir<'a> {
    root: BorrowedFd<'a>,
    replaced: BorrowedFd<'a>,
    replaced_count: u64,
    /// Path and descriptor of the current directory; `None`: the root.
    current: Option<(Vec<u8>, OwnedFd)>,
}

impl<'a> LayerDir<'a> {
    pub fn new(root: BorrowedFd<'a>, replaced: BorrowedFd<'a>) -> Self {
        Self {
            root,
            replaced,
            replaced_count: 0,
            current: None,
        }
    }

    fn here(&self) -> BorrowedFd<'_> {
        match &self.current {
            Some((_, fd)) => fd.as_fd(),
            None => self.root,
        }
    }

    /// Makes the directory of this (clean) path the current one; missing directories are created.
    pub fn enter(&mut self, path: &[u8]) -> Result<(), Trouble> {
        match &self.current {
            Some((current, _)) if current == path => return Ok(()),
            None if path.is_empty() => return Ok(()),
            Some(_) | None => {}
        }
        self.current = None;
        if path.is_empty() {
            return Ok(());
        }
        let fd = match self.resolve(path) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR) => self.make_parents(path)?,
            Err(e) => return Err(Trouble::Io("open the parent of", e)),
        };
        self.current = Some((path.to_vec(), fd));
        Ok(())
    }

    /// A directory, links followed inside the layer only.
    fn resolve(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        for _ in 0..RESOLVE_TRIES {
            match rustix::fs::openat2(
                self.root,
                path,
                OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
                ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV,
            ) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                outcome => return outcome,
            }
        }
        Err(Errno::AGAIN)
    }

    fn make_parents(&self, path: &[u8]) -> Result<OwnedFd, Trouble> {
        let mut parent: Option<OwnedFd> = None;
        let mut end = 0;
        for part in path.split(|b| *b == b'/') {
            end += part.len();
            let here = parent.as_ref().map_or(self.root, |fd| fd.as_fd());
            let name = Name::new(part)?;
            let fd = match self.resolve(&path[..end]) {
                Err(Errno::NOENT) => {
                    match rustix::fs::mkdirat(here, &name.0, Mode::from_raw_mode(0o755)) {
                        Err(Errno::EXIST) => {
                            return Err(Trouble::Refused(
                                "has a parent that is a link to nothing in its layer",
                            ));
                        }
                        outcome => outcome.map_err(|e| Trouble::Io("create a parent of", e))?,
                    }
                    self.resolve(&path[..end])
                }
                Err(Errno::NOTDIR) => {
                    let known = stat(here, &name)?;
                    if !known.is_some_and(|stat| is_whiteout(&stat)) {
                        return Err(Trouble::Refused("has a parent that is no directory"));
                    }
                    replace_whiteout(here, &name)?;
                    self.resolve(&path[..end])
                }
                outcome => outcome,
            };
            parent = Some(fd.map_err(|e| Trouble::Io("open a parent of", e))?);
            end += 1;
        }
        parent.ok_or(Trouble::Refused("has no parent"))
    }

    /// Removes what has this name: the later entry wins. A whole directory is moved away.
    fn make_room(&mut self, name: &Name) -> Result<(), Trouble> {
        match rustix::fs::unlinkat(self.here(), &name.0, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR) => {
                let aside = self.replaced_count.to_string();
                self.replaced_count += 1;
                rustix::fs::renameat(self.here(), &name.0, self.replaced, aside.as_str())
                    .map_err(|e| Trouble::Io("replace", e))?;
                // The directory that is current may have been below it.
                let path = self.current.take().map(|(path, _)| path);
                self.enter(&path.unwrap_or_default())
            }
            Err(e) => Err(Trouble::Io("replace", e)),
        }
    }

    /// Runs `create` again after making room when the name is taken.
    fn create<T>(
        &mut self,
        name: &Name,
        create: impl Fn(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, Trouble> {
        let outcome = match create(self.here()) {
            Err(Errno::EXIST) => {
                self.make_room(name)?;
                create(self.here())
            }
            outcome => outcome,
        };
        outcome.map_err(|e| Trouble::Io("create", e))
    }

    pub fn create_file(&mut self, name: &Name) -> Result<OwnedFd, Trouble> {
        self.create(name, |here| {
            rustix::fs::openat(
                here,
                &name.0,
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::from_raw_mode(0o600),
            )
        })
    }

    /// A directory that is there already keeps its content; a whiteout becomes an opaque directory.
    pub fn make_dir(&mut self, name: &Name, entry: &Entry) -> Result<(), Trouble> {
        let mode = Mode::from_raw_mode(0o700);
        match rustix::fs::mkdirat(self.here(), &name.0, mode) {
            Ok(()) => {}
            Err(Errno::EXIST) => match stat(self.here(), name)? {
                Some(known) if is_whiteout(&known) => replace_whiteout(self.here(), name)?,
                Some(known) if file_type(&known) == FileType::Directory => {}
                Some(_) | None => {
                    self.make_room(name)?;
                    rustix::fs::mkdirat(self.here(), &name.0, mode)
                        .map_err(|e| Trouble::Io("create", e))?;
                }
            },
            Err(e) => return Err(Trouble::Io("create", e)),
        }
        Self::set_metadata(open_dir(self.here(), name)?.as_fd(), entry)
    }

    pub fn make_symlink(&mut self, name: &Name, entry: &Entry) -> Result<(), Trouble> {
        if entry.link.is_empty() || entry.link.contains(&0) {
            return Err(Trouble::Refused(
                "is a symbolic link without a usable target",
            ));
        }
        self.create(name, |here| {
            rustix::fs::symlinkat(entry.link.as_slice(), here, &name.0)
        })?;
        self.set_node_metadata(name, entry)
    }

    /// Devices and FIFOs.
    pub fn make_node(&mut self, name: &Name, entry: &Entry, kind: FileType) -> Result<(), Trouble> {
        let (major, minor) = entry.device;
        let device = rustix::fs::makedev(major, minor);
        self.create(name, |here| {
            rustix::fs::mknodat(here, &name.0, kind, Mode::from_raw_mode(0o600), device)
        })?;
        self.set_node_metadata(name, entry)?;
        rustix::fs::chmodat(
            self.here(),
            &name.0,
            Mode::from_raw_mode(entry.mode & 0o7777),
            AtFlags::empty(),
        )
        .map_err(|e| Trouble::Io("set the mode of", e))
    }

    /// The target must be in the same layer.
    pub fn make_hard_link(
        &mut self,
        name: &Name,
        target_parent: &[u8],
        target: &Name,
    ) -> Result<(), Trouble> {
        let missing = Trouble::Refused("is a hard link to something that its layer does not have");
        let parent = if target_parent.is_empty() {
            None
        } else {
            match self.resolve(target_parent) {
                Ok(fd) => Some(fd),
                Err(Errno::NOENT | Errno::NOTDIR) => return Err(missing),
                Err(e) => return Err(Trouble::Io("open the target of", e)),
            }
        };
        let root = self.root;
        let from = parent.as_ref().map_or(root, |fd| fd.as_fd());
        let known = match stat(from, target)? {
            None => return Err(missing),
            Some(known) if is_whiteout(&known) => return Err(missing),
            Some(known) if file_type(&known) == FileType::Directory => {
                return Err(Trouble::Refused("is a hard link to a directory"));
            }
            Some(known) => known,
        };
        if stat(self.here(), name)?.is_some_and(|there| there.st_ino == known.st_ino) {
            return Ok(());
        }
        self.create(name, |here| {
            rustix::fs::linkat(from, &target.0, here, &name.0, AtFlags::empty())
        })
    }

    /// Hides a name of the lower layers; what this layer has under that name stays.
    pub fn whiteout(&mut self, name: &Name) -> Result<(), Trouble> {
        match stat(self.here(), name)? {
            Some(known) if file_type(&known) == FileType::Directory => {
                set_opaque(open_dir(self.here(), name)?.as_fd())
            }
            Some(_) => Ok(()),
            None => rustix::fs::mknodat(
                self.here(),
                &name.0,
                FileType::CharacterDevice,
                Mode::empty(),
                0,
            )
            .map_err(|e| Trouble::Io("create the whiteout", e)),
        }
    }

    /// Hides what the lower layers have in the current directory.
    pub fn make_opaque(&self) -> Result<(), Trouble> {
        let dir = rustix::fs::openat(
            self.here(),
            c".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|e| Trouble::Io("open the directory of", e))?;
        set_opaque(dir.as_fd())
    }

    pub fn set_root(&self, entry: &Entry) -> Result<(), Trouble> {
        Self::set_metadata(self.root, entry)
    }

    /// Owner, xattrs, mode, in the order in which one does not undo the other. For files and directories.
    pub fn set_metadata(fd: BorrowedFd<'_>, entry: &Entry) -> Result<(), Trouble> {
        let (uid, gid) = owner(entry)?;
        rustix::fs::fchown(fd, Some(uid), Some(gid))
            .map_err(|e| Trouble::Io("set the owner of", e))?;
        for (name, value) in &entry.xattrs {
            set_xattr(fd, name, value)?;
        }
        rustix::fs::fchmod(fd, Mode::from_raw_mode(entry.mode & 0o7777))
            .map_err(|e| Trouble::Io("set the mode of", e))
    }

    fn set_node_metadata(&self, name: &Name, entry: &Entry) -> Result<(), Trouble> {
        let (uid, gid) = owner(entry)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(self.here(), &name.0, Some(uid), Some(gid), flags)
            .map_err(|e| Trouble::Io("set the owner of", e))?;
        rustix::fs::utimensat(self.here(), &name.0, &times(entry.mtime), flags)
            .map_err(|e| Trouble::Io("set the time of", e))
    }

    pub fn set_times(fd: BorrowedFd<'_>, time: Timespec) -> Result<(), Trouble> {
        rustix::fs::futimens(fd, &times(time)).map_err(|e| Trouble::Io("set the time of", e))
    }

    /// Best effort: the directory may have been replaced since.
    pub fn set_dir_times(&self, path: &[u8], time: Timespec) {
        let path = if path.is_empty() {
            b".".as_slice()
        } else {
            path
        };
        let dir = rustix::fs::openat2(
            self.root,
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV,
        );
        if let Ok(dir) = dir {
            let _ = rustix::fs::futimens(dir, &times(time));
        }
    }

    /// Bytes that are free on the file system.
    pub fn free_space(&self) -> Result<u64, Trouble> {
        let stat = rustix::fs::fstatvfs(self.root)
            .map_err(|e| Trouble::Io("look at the free space for", e))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// Is it how overlayfs marks a removed name?
pub fn is_whiteout(stat: &Stat) -> bool {
    file_type(stat) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// Kind of a file.
pub fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn stat(here: BorrowedFd<'_>, name: &Name) -> Result<Option<Stat>, Trouble> {
    match rustix::fs::statat(here, &name.0, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(Trouble::Io("look at", e)),
    }
}

fn open_dir(here: BorrowedFd<'_>, name: &Name) -> Result<OwnedFd, Trouble> {
    rustix::fs::openat(
        here,
        &name.0,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|e| Trouble::Io("open", e))
}

/// The lower layers' directory was removed and a new one made.
fn replace_whiteout(here: BorrowedFd<'_>, name: &Name) -> Result<(), Trouble> {
    rustix::fs::unlinkat(here, &name.0, AtFlags::empty()).map_err(|e| Trouble::Io("replace", e))?;
    rustix::fs::mkdirat(here, &name.0, Mode::from_raw_mode(0o755))
        .map_err(|e| Trouble::Io("create", e))?;
    set_opaque(open_dir(here, name)?.as_fd())
}

fn set_opaque(dir: BorrowedFd<'_>) -> Result<(), Trouble> {
    rustix::fs::fsetxattr(dir, OPAQUE_XATTR, b"y", XattrFlags::empty())
        .map_err(|e| Trouble::Io("mark as opaque the directory of", e))
}

/// `user.*` is a convenience that not every file system has; a lost capability would break the program.
fn set_xattr(fd: BorrowedFd<'_>, name: &str, value: &[u8]) -> Result<(), Trouble> {
    let user = name.starts_with("user.") && !name.starts_with("user.overlay.");
    if !user && name != "security.capability" {
        return Ok(());
    }
    match rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty()) {
        Err(Errno::NOTSUP) if user => Ok(()),
        outcome => outcome.map_err(|e| Trouble::Io("set an extended attribute of", e)),
    }
}

fn owner(entry: &Entry) -> Result<(Uid, Gid), Trouble> {
    let id = |id: u64| u32::try_from(id).ok().filter(|id| *id != u32::MAX);
    match (id(entry.uid), id(entry.gid)) {
        (Some(uid), Some(gid)) => Ok((Uid::from_raw(uid), Gid::from_raw(gid))),
        (None, _) | (_, None) => Err(Trouble::Refused("has an owner that is no user id")),
    }
}

fn times(time: Timespec) -> Timestamps {
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}
