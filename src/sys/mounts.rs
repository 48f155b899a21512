//! Mounts of the caller's mount namespace, as the kernel lists them, and visits to another namespace. No unsafe code;
//! here because agent and holders need it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, StatxAttributes, StatxFlags, statx};
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Of the kernel.
    pub id: u64,
    /// Where.
    pub point: PathBuf,
    /// What is mounted below it appears in its peers, and the other way round.
    pub is_shared: bool,
    /// What is mounted below its master appears in it.
    pub is_slave: bool,
}

/// The caller's mount namespace.
pub fn namespace() -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(
        "/proc/thread-self/ns/mnt",
        flags,
        Mode::empty(),
    )?)
}

/// Runs `work` in another mount namespace, and comes back. Only in a process of one thread. The working directory is `/`
/// afterwards.
pub fn visit<T>(there: BorrowedFd<'_>, work: impl FnOnce() -> T) -> io::Result<T> {
    let home = namespace()?;
    let kind = Some(LinkNameSpaceType::Mount);
    move_into_link_name_space(there, kind)?;
    let result = work();
    move_into_link_name_space(home.as_fd(), kind)?;
    Ok(result)
}

/// The mount that an open file is on.
pub fn of(file: impl AsFd) -> io::Result<Mount> {
    let stat = statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    let mut mounts = list()?.into_iter();
    mounts
        .find(|mount| mount.id == stat.stx_mnt_id)
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Whether something is mounted exactly there. A link is not followed; a missing path is not one.
pub fn is_point(path: &Path) -> io::Result<bool> {
    match statx(
        rustix::fs::CWD,
        path,
        AtFlags::SYMLINK_NOFOLLOW,
        StatxFlags::TYPE,
    ) {
        Ok(stat) => Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
        Err(rustix::io::Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Unmounts whatever is mounted at `dir` and below, in this namespace only: what these mounts share with others stays
/// there. What cannot be unmounted is left.
pub fn unmount_below(dir: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // The kernel's list has no links in it.
    let dir = match std::fs::canonicalize(parent) {
        Ok(parent) => parent.join(name),
        Err(error) => return super::remove::missing_is_fine(Err(error)),
    };
    let below = |mount: &Mount| mount.point.starts_with(&dir);
    // The newest lie on top.
    for mount in list()?.iter().rev().filter(|mount| below(mount)) {
        detach(&mount.point);
    }
    Ok(())
}

/// Unmounts what is mounted exactly there, with all below it, in this namespace only; nothing there is fine.
pub fn detach(point: &Path) {
    // A shared mount would take along what its peers have below themselves.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    let _ = mount_change(point, private);
    let _ = unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
}

fn list() -> io::Result<Vec<Mount>> {
    let text = std::fs::read("/proc/thread-self/mountinfo")?;
    Ok(text.split(|&b| b == b'\n').filter_map(parse).collect())
}

/// `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw`, where any number of tags stands before the dash.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&b| b == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let point = unescape(fields.nth(3)?);
    let tags: Vec<&[u8]> = fields.skip(1).take_while(|&tag| tag != b"-").collect();
    let has = |name: &[u8]| tags.iter().any(|tag| tag.starts_with(name));
    Some(Mount {
        id,
        point,
        is_shared: has(b"shared:"),
        is_slave: has(b"master:"),
    })
}

/// The kernel writes blanks, tabs, line feeds and backslashes as `\040`.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| first == b'\\');
        let byte = code
            .and_then(|code| std::str::from_utf8(code).ok())
            .and_then(|code| u8::from_str_radix(code, 8).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &tail[3..] } else { tail };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
pub(crate) mod tests;
