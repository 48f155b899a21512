//! Operations on the directory of a layer that is being unpacked: the hands of [`super::unpack`], one system call or two
//! each, all relative to directory descriptors.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, Timespec};
use rustix::io::Errno;

use super::metadata;
use super::overlay::{file_type, is_whiteout, set_opaque};
use super::tar_stream::Entry;
use super::unpack::Trouble;

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

    /// Below the first directory that had to be made everything is new, so that nothing is to be looked up any more.
    fn make_parents(&self, path: &[u8]) -> Result<OwnedFd, Trouble> {
        let mut parent: Option<OwnedFd> = None;
        let mut end = 0;
        let mut is_new = false;
        for part in path.split(|b| *b == b'/') {
            end += part.len();
            let here = parent.as_ref().map_or(self.root, |fd| fd.as_fd());
            let name = Name::new(part)?;
            let known = if is_new {
                Err(Errno::NOENT)
            } else {
                self.resolve(&path[..end])
            };
            let fd = match known {
                Ok(fd) => fd,
                Err(Errno::NOENT) => {
                    is_new = true;
                    make_parent(here, &name)?
                }
                Err(Errno::NOTDIR) => {
                    is_new = true;
                    replace_parent(here, &name)?
                }
                Err(e) => return Err(Trouble::Io("open a parent of", e)),
            };
            parent = Some(fd);
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
        metadata::set(open_dir(self.here(), name)?.as_fd(), entry)
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
        metadata::set_node(self.here(), &name.0, entry)
    }

    /// Devices and FIFOs.
    pub fn make_node(&mut self, name: &Name, entry: &Entry, kind: FileType) -> Result<(), Trouble> {
        let (major, minor) = entry.device;
        let device = rustix::fs::makedev(major, minor);
        self.create(name, |here| {
            rustix::fs::mknodat(here, &name.0, kind, Mode::from_raw_mode(0o600), device)
        })?;
        metadata::set_node(self.here(), &name.0, entry)?;
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
                mark_opaque(open_dir(self.here(), name)?.as_fd())
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
        mark_opaque(dir.as_fd())
    }

    pub fn set_root(&self, entry: &Entry) -> Result<(), Trouble> {
        metadata::set(self.root, entry)
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
            let _ = rustix::fs::futimens(dir, &metadata::times(time));
        }
    }

    /// Bytes that are free on the file system.
    pub fn free_space(&self) -> Result<u64, Trouble> {
        let stat = rustix::fs::fstatvfs(self.root)
            .map_err(|e| Trouble::Io("look at the free space for", e))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

fn make_parent(here: BorrowedFd<'_>, name: &Name) -> Result<OwnedFd, Trouble> {
    match rustix::fs::mkdirat(here, &name.0, Mode::from_raw_mode(0o755)) {
        Ok(()) => open_dir(here, name),
        Err(Errno::EXIST) => Err(Trouble::Refused(
            "has a parent that is a link to nothing in its layer",
        )),
        Err(e) => Err(Trouble::Io("create a parent of", e)),
    }
}

/// A whiteout makes way for a directory.
fn replace_parent(here: BorrowedFd<'_>, name: &Name) -> Result<OwnedFd, Trouble> {
    if !stat(here, name)?.is_some_and(|known| is_whiteout(&known)) {
        return Err(Trouble::Refused("has a parent that is no directory"));
    }
    replace_whiteout(here, name)?;
    open_dir(here, name)
}

/// The lower layers' directory was removed and a new one made.
fn replace_whiteout(here: BorrowedFd<'_>, name: &Name) -> Result<(), Trouble> {
    rustix::fs::unlinkat(here, &name.0, AtFlags::empty()).map_err(|e| Trouble::Io("replace", e))?;
    rustix::fs::mkdirat(here, &name.0, Mode::from_raw_mode(0o755))
        .map_err(|e| Trouble::Io("create", e))?;
    mark_opaque(open_dir(here, name)?.as_fd())
}

fn mark_opaque(dir: BorrowedFd<'_>) -> Result<(), Trouble> {
    set_opaque(dir).map_err(|e| Trouble::Io("mark as opaque the directory of", e))
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
