//! V-31: files of a volume, exchanged all at once. They are in a directory `..<generation>`; `..data` is a link to it, and
//! each visible name is a link through `..data`. A reader that goes through one of them sees one generation.
//!
//! Every step can be the last one: what is half made is taken away, or taken further, by the next write. The caller sees
//! to it that there is one writer.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Uid, openat2};
use rustix::io::Errno;

use super::spec::{FileContent, FileSet};
use super::{Problem, fs_group};
use crate::sys::remove;

/// The link that is exchanged.
const DATA: &str = "..data";
/// Its successor.
const NEXT: &str = "..data_tmp";
/// Most directories above a file: `a/b/c` has two.
const MAX_DEPTH: usize = 32;

/// Puts the files in place below `root`, unless they are there already. False if newer ones are.
pub(super) fn write(root: BorrowedFd<'_>, generation: u64, set: &FileSet) -> Result<bool, Problem> {
    for path in set.files.keys() {
        if !is_inside(path) {
            return Err(Problem::FilePath(path.clone()));
        }
    }
    let current = current(root).map_err(Problem::system("read the link ..data"))?;
    let current_generation = current.as_deref().and_then(generation_of);
    if current_generation > Some(generation) {
        return Ok(false);
    }
    sweep(root, current.as_deref())?;
    if !current
        .as_deref()
        .is_some_and(|name| is_same(root, name, set).unwrap_or(false))
    {
        replace(root, &fresh_name(generation, current.as_deref()), set)?;
    }
    link(root, set).map_err(Problem::system("link its files"))?;
    Ok(true)
}

/// Writes the new files, and lets `..data` lead to them.
fn replace(root: BorrowedFd<'_>, name: &str, set: &FileSet) -> Result<(), Problem> {
    let filled = fill(root, name, set).map_err(Problem::system("write its files"));
    let swapped = filled.and_then(|()| {
        rustix::fs::symlinkat(name, root, NEXT)
            .and_then(|()| rustix::fs::renameat(root, NEXT, root, DATA))
            .map_err(Problem::system("exchange its files"))
    });
    // The old ones, or what came of the new ones.
    let current = current(root).map_err(Problem::system("read the link ..data"));
    let swept = current.and_then(|current| sweep(root, current.as_deref()));
    swapped.and(swept)
}

/// V-33.
fn is_inside(path: &str) -> bool {
    let mut components = Path::new(path).components();
    let is_name = |component: Component<'_>| matches!(component, Component::Normal(_));
    !path.is_empty()
        && !path.starts_with("..")
        && components.clone().count() <= MAX_DEPTH
        && components.all(is_name)
}

/// Name of the directory that `..data` leads to.
fn current(root: BorrowedFd<'_>) -> Result<Option<String>, Errno> {
    match rustix::fs::readlinkat(root, DATA, Vec::new()) {
        Ok(target) => Ok(target.into_string().ok().filter(|name| is_ours(name))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Names that a volume's files cannot have.
fn is_ours(name: &str) -> bool {
    name.starts_with("..") && name != ".." && !name.contains('/')
}

/// Of `..<generation>` and `..<generation>.<again>`.
fn generation_of(name: &str) -> Option<u64> {
    let name = name.strip_prefix("..")?;
    name.split('.').next()?.parse().ok()
}

/// Two contents may have been decided on in the same millisecond.
fn fresh_name(generation: u64, current: Option<&str>) -> String {
    let plain = format!("..{generation}");
    let again = format!("{plain}.1");
    match current {
        Some(name) if name == plain => again,
        Some(_) | None => plain,
    }
}

/// Removes all that is neither `..data`, nor what it leads to, nor a visible name.
fn sweep(root: BorrowedFd<'_>, current: Option<&str>) -> Result<(), Problem> {
    let names = names(root).map_err(Problem::system("list its files"))?;
    for name in names {
        if is_ours(&name) && name != DATA && Some(name.as_str()) != current {
            let path = format!("/proc/self/fd/{}/{name}", root.as_raw_fd());
            remove::tree(Path::new(&path)).map_err(Problem::system("remove its old files"))?;
        }
    }
    Ok(())
}

fn names(dir: BorrowedFd<'_>) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Whether that directory has exactly these files.
fn is_same(root: BorrowedFd<'_>, name: &str, set: &FileSet) -> std::io::Result<bool> {
    let dir = open(root, name, OFlags::DIRECTORY)?;
    if count(dir.as_fd(), MAX_DEPTH)? != set.files.len() {
        return Ok(false);
    }
    for (path, content) in &set.files {
        let mut file = File::from(open(dir.as_fd(), path, OFlags::NONBLOCK)?);
        let stat = rustix::fs::fstat(&file)?;
        if stat.st_mode & 0o7777 != content.mode & 0o777
            || stat.st_gid != set.gid.unwrap_or(0)
            || usize::try_from(stat.st_size).ok() != Some(content.data.len())
        {
            return Ok(false);
        }
        let mut data = Vec::with_capacity(content.data.len());
        file.read_to_end(&mut data)?;
        if data != content.data {
            return Ok(false);
        }
    }
    Ok(true)
}

/// How many files there are in a directory and those below.
fn count(dir: BorrowedFd<'_>, depth: usize) -> Result<usize, Errno> {
    let mut files = 0;
    for name in names(dir)? {
        let stat = rustix::fs::statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            files += 1;
        } else if depth > 0 {
            files += count(open(dir, &name, OFlags::DIRECTORY)?.as_fd(), depth - 1)?;
        }
    }
    Ok(files)
}

fn fill(root: BorrowedFd<'_>, name: &str, set: &FileSet) -> std::io::Result<()> {
    if let Some(gid) = set.gid {
        fs_group::own(root, gid)?;
    }
    let dir = make_dir(root, name, set.gid)?;
    for (path, content) in &set.files {
        let mut names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let Some(last) = names.pop() else { continue };
        let mut here = dir.as_fd().try_clone_to_owned()?;
        for name in names {
            here = make_dir(here.as_fd(), name, set.gid)?;
        }
        make_file(here.as_fd(), last, content, set.gid)?;
    }
    Ok(())
}

fn make_dir(parent: BorrowedFd<'_>, name: &str, gid: Option<u32>) -> Result<OwnedFd, Errno> {
    let is_new = match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(other) => return Err(other),
    };
    let dir = open(parent, name, OFlags::DIRECTORY)?;
    if is_new {
        rustix::fs::fchmod(&dir, Mode::from_raw_mode(0o755))?;
        if let Some(gid) = gid {
            fs_group::own(dir.as_fd(), gid)?;
        }
    }
    Ok(dir)
}

/// V-32.
fn make_file(
    parent: BorrowedFd<'_>,
    name: &str,
    content: &FileContent,
    gid: Option<u32>,
) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let mut file = File::from(rustix::fs::openat(parent, name, flags, mode)?);
    file.write_all(&content.data)?;
    let gid = Gid::from_raw(gid.unwrap_or(0));
    rustix::fs::fchown(&file, Some(Uid::ROOT), Some(gid))?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(content.mode & 0o777))?;
    Ok(())
}

/// Links for the first part of each path; those of files that are gone are removed.
fn link(root: BorrowedFd<'_>, set: &FileSet) -> Result<(), Errno> {
    let first = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
    let wanted: BTreeSet<String> = set.files.keys().map(|path| first(path)).collect();
    for name in &wanted {
        let target = format!("{DATA}/{name}");
        match rustix::fs::symlinkat(&target, root, name) {
            Err(Errno::EXIST) if leads_to(root, name)? == Some(target) => {}
            other => other?,
        }
    }
    for name in names(root)? {
        let is_link = leads_to(root, &name)?.is_some_and(|target| target.starts_with("..data/"));
        if is_link && !wanted.contains(&name) {
            rustix::fs::unlinkat(root, &name, AtFlags::empty())?;
        }
    }
    Ok(())
}

fn leads_to(root: BorrowedFd<'_>, name: &str) -> Result<Option<String>, Errno> {
    match rustix::fs::readlinkat(root, name, Vec::new()) {
        Ok(target) => Ok(target.into_string().ok()),
        Err(Errno::INVAL) => Ok(None),
        Err(other) => Err(other),
    }
}

/// To read; never by a link.
fn open(at: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    openat2(at, path, flags, Mode::empty(), resolve)
}

#[cfg(test)]
mod tests;
