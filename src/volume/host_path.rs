//! V-20…V-28: what has to be at a path of the host. Links in it are followed: whoever wrote the manifest knows this host.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use oci_spec::runtime::LinuxDeviceType;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::spec::HostPathKind;
use super::{Device, Problem};

/// Opens it (O_PATH), and makes it before if its type says so.
pub(super) fn open(path: &Path, kind: HostPathKind) -> Result<OwnedFd, Problem> {
    let file = match (find(path), kind) {
        (Ok(file), _) => file,
        (Err(Errno::NOENT), HostPathKind::Unset | HostPathKind::DirectoryOrCreate) => {
            make_dir(path).map_err(Problem::io("create", path))?;
            find(path).map_err(Problem::io("open", path))?
        }
        (Err(Errno::NOENT), HostPathKind::FileOrCreate) => {
            make_file(path).map_err(Problem::io("create", path))?;
            find(path).map_err(Problem::io("open", path))?
        }
        (Err(Errno::NOENT | Errno::NOTDIR), kind) if !name(kind).is_empty() => {
            return Err(Problem::Missing {
                path: path.to_owned(),
                expected: name(kind),
            });
        }
        (Err(error), _) => return Err(Problem::io("open", path)(error)),
    };
    let found = FileType::from_raw_mode(stat(&file)?.st_mode);
    if fits(kind, found) {
        return Ok(file);
    }
    Err(Problem::WrongType {
        path: path.to_owned(),
        expected: name(kind),
    })
}

/// D-16: the device that is granted with it.
pub(super) fn device(file: &OwnedFd, kind: HostPathKind) -> Result<Option<Device>, Problem> {
    let typ = match kind {
        HostPathKind::CharDevice => LinuxDeviceType::C,
        HostPathKind::BlockDevice => LinuxDeviceType::B,
        HostPathKind::Unset
        | HostPathKind::DirectoryOrCreate
        | HostPathKind::Directory
        | HostPathKind::FileOrCreate
        | HostPathKind::File
        | HostPathKind::Socket => return Ok(None),
    };
    let number = stat(file)?.st_rdev;
    Ok(Some(Device {
        typ,
        major: rustix::fs::major(number),
        minor: rustix::fs::minor(number),
    }))
}

/// What a path of this type is, with its article; empty if it may be anything.
fn name(kind: HostPathKind) -> &'static str {
    match kind {
        HostPathKind::Unset => "",
        HostPathKind::DirectoryOrCreate | HostPathKind::Directory => "a directory",
        HostPathKind::FileOrCreate | HostPathKind::File => "a file",
        HostPathKind::Socket => "a socket file",
        HostPathKind::CharDevice => "a character device",
        HostPathKind::BlockDevice => "a block device",
    }
}

/// Like kubelet, a file is whatever is no directory.
fn fits(kind: HostPathKind, found: FileType) -> bool {
    match kind {
        HostPathKind::Unset => true,
        HostPathKind::DirectoryOrCreate | HostPathKind::Directory => found == FileType::Directory,
        HostPathKind::FileOrCreate | HostPathKind::File => found != FileType::Directory,
        HostPathKind::Socket => found == FileType::Socket,
        HostPathKind::CharDevice => found == FileType::CharacterDevice,
        HostPathKind::BlockDevice => found == FileType::BlockDevice,
    }
}

/// Asked for as a directory first: that makes an automount happen.
fn find(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags | OFlags::DIRECTORY, Mode::empty()) {
        Err(Errno::NOTDIR) => rustix::fs::open(path, flags, Mode::empty()),
        other => other,
    }
}

fn stat(file: &OwnedFd) -> Result<Stat, Problem> {
    rustix::fs::fstat(file).map_err(Problem::system("look at it"))
}

fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

/// V-23: its directory has to be there. Not truncated, should somebody else make it meanwhile.
fn make_file(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o644);
    options.open(path).map(|_| ())
}

#[cfg(test)]
mod tests;
