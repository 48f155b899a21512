//! Reads a file of an image without mounting it: merges the layers as overlayfs would.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::StoreError;
use super::overlay::{file_type, is_opaque, is_whiteout};

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// As the kernel has it.
const MAX_LINKS: u32 = 40;

/// One directory of the merged tree: the directories that make it up, top-most first.
type Merged = Vec<OwnedFd>;

enum Found {
    Dir(Merged),
    File(File),
    Link(Vec<u8>),
    Nothing,
}

/// See [`super::Store::read_file`].
pub fn read_file(layers: &[PathBuf], path: &str) -> Result<String, StoreError> {
    let failed = |e: std::io::Error| StoreError::io("read from the image", Path::new(path), e);
    let Some(file) = resolve(layers, path).map_err(|e| failed(e.into()))? else {
        return Ok(String::new());
    };
    let mut text = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > MAX_FILE {
        return Err(failed(std::io::ErrorKind::FileTooLarge.into()));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn resolve(layers: &[PathBuf], path: &str) -> rustix::io::Result<Option<File>> {
    let root = || {
        layers
            .iter()
            .map(|layer| open_dir(CWD, layer.as_os_str().as_encoded_bytes()))
            .collect::<rustix::io::Result<Merged>>()
    };
    // What is still to be walked, next component last.
    let mut rest: Vec<Vec<u8>> = components(path.as_bytes());
    let mut above = vec![root()?];
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == b".." {
            if above.len() > 1 {
                above.pop();
            }
            continue;
        }
        let here = above.last().map(Vec::as_slice).unwrap_or_default();
        match look_up(here, &part)? {
            Found::Dir(dir) => above.push(dir),
            Found::File(file) if rest.is_empty() => return Ok(Some(file)),
            Found::Link(target) if links < MAX_LINKS => {
                links += 1;
                if target.starts_with(b"/") {
                    above.truncate(1);
                }
                rest.extend(components(&target));
            }
            Found::File(_) | Found::Link(_) | Found::Nothing => return Ok(None),
        }
    }
    Ok(None)
}

fn look_up(here: &[OwnedFd], name: &[u8]) -> rustix::io::Result<Found> {
    let mut dirs = Merged::new();
    for layer in here {
        let stat = match rustix::fs::statat(layer, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => continue,
            Err(e) => return Err(e),
        };
        let kind = file_type(&stat);
        if kind == FileType::Directory {
            let dir = open_dir(layer.as_fd(), name)?;
            let opaque = is_opaque(dir.as_fd());
            dirs.push(dir);
            if opaque {
                break;
            }
            continue;
        }
        // Anything else ends the search: it hides what lies below, or it is what was looked for.
        if dirs.is_empty() && !is_whiteout(&stat) {
            return found_at(layer, name, kind);
        }
        break;
    }
    Ok(if dirs.is_empty() {
        Found::Nothing
    } else {
        Found::Dir(dirs)
    })
}

fn found_at(layer: &OwnedFd, name: &[u8], kind: FileType) -> rustix::io::Result<Found> {
    if kind == FileType::Symlink {
        let target = rustix::fs::readlinkat(layer, name, Vec::new())?;
        return Ok(Found::Link(target.into_bytes()));
    }
    if kind != FileType::RegularFile {
        return Ok(Found::Nothing);
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(layer, name, flags, Mode::empty())?;
    Ok(Found::File(file.into()))
}

fn open_dir(at: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// Last first.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|b| *b == b'/')
        .rev()
        .filter(|part| !matches!(*part, b"" | b"."))
        .map(<[u8]>::to_vec)
        .collect()
}
