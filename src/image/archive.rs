//! What an import reads: an OCI layout directory, or a tar (OCI layout or docker-archive) that may be compressed.
//!
//! Files inside are read at random, so a compressed tar is first decompressed into an unlinked file in the store: it
//! costs the space of the archive for the time of the import, and nothing is left behind whatever happens.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::compression::{Compression, Decoder};
use super::tar_stream::{Input, Kind, TarError, TarReader};
use rustix::fs::{Mode, OFlags, ResolveFlags};

/// Largest JSON document (index, manifest, configuration) in bytes.
pub const MAX_JSON: u64 = 4 << 20;
/// An import may unpack this many times the size of its archive …
pub const MAX_RATIO: u64 = 256;
/// … and this many bytes in any case.
pub const RATIO_FLOOR: u64 = 1 << 30;
/// Most files in an archive: a layer each, and some.
const MAX_FILES: usize = 10_000;
/// Links followed from one name in a docker-archive (a repeated layer is a link to its first copy).
const MAX_LINKS: usize = 8;

/// Why an archive could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file of the file system.
    #[error("{operation} {path}")]
    Io {
        /// Verb.
        operation: &'static str,
        /// Which.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The tar around the image.
    #[error("read {path}")]
    Tar {
        /// Of the archive.
        path: PathBuf,
        /// Cause.
        #[source]
        source: TarError,
    },
    /// A file that the image names is not in the archive.
    #[error("{name} is missing in the archive")]
    Missing {
        /// Path inside.
        name: String,
    },
    /// A JSON document of an absurd size.
    #[error("{name} has more than {} bytes", MAX_JSON)]
    TooBig {
        /// Path inside.
        name: String,
    },
    /// See [`MAX_RATIO`].
    #[error("{path} unpacks to more than {MAX_RATIO} times its size")]
    Bomb {
        /// Of the archive.
        path: PathBuf,
    },
    /// Not a regular file or directory.
    #[error("{path} is neither a file nor a directory")]
    Kind {
        /// Which.
        path: PathBuf,
    },
}

/// An open archive.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    stored: u64,
    files: Files,
}

#[derive(Debug)]
enum Files {
    Directory(OwnedFd),
    Tar(File, BTreeMap<String, Place>),
}

/// Where a name of a tar is.
#[derive(Debug, Clone)]
enum Place {
    Data { offset: u64, length: u64 },
    Link(String),
}

impl Archive {
    /// Opens `path`. A compressed tar is decompressed into a file without name in the directory `scratch`.
    pub fn open(path: &Path, scratch: &Path) -> Result<Self, ArchiveError> {
        let at = |operation| move |source| io_error(operation, path, source);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| io_error("open", path, e.into()))?;
        let file = File::from(fd);
        let metadata = file.metadata().map_err(at("look at"))?;
        if metadata.is_dir() {
            return Ok(Self {
                path: path.to_owned(),
                stored: directory_size(&path.join("blobs/sha256")),
                files: Files::Directory(file.into()),
            });
        }
        if !metadata.is_file() {
            return Err(ArchiveError::Kind {
                path: path.to_owned(),
            });
        }
        let mut start = [0; 4];
        let length = file.read_at(&mut start, 0).map_err(at("read"))?;
        let tar = match Compression::of(&start[..length]) {
            Compression::Plain => file,
            Compression::Gzip | Compression::Zstd => {
                decompress(file, metadata.len(), path, scratch)?
            }
        };
        let index = index(&tar, path)?;
        Ok(Self {
            path: path.to_owned(),
            stored: metadata.len(),
            files: Files::Tar(tar, index),
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that may be unpacked from it.
    pub fn allowance(&self) -> u64 {
        allowance(self.stored)
    }

    /// Is there a file of this name?
    pub fn has(&self, name: &str) -> bool {
        self.open_file(name).is_ok()
    }

    /// A small document, read whole.
    pub fn read_json(&self, name: &str) -> Result<Vec<u8>, ArchiveError> {
        let file = self.open_file(name)?;
        if file.left > MAX_JSON {
            return Err(ArchiveError::TooBig {
                name: name.to_owned(),
            });
        }
        let mut data = Vec::new();
        file.take(MAX_JSON)
            .read_to_end(&mut data)
            .map_err(|source| io_error("read", &self.path.join(name), source))?;
        Ok(data)
    }

    /// Opens a file inside.
    pub fn open_file(&self, name: &str) -> Result<ArchiveFile, ArchiveError> {
        let missing = || ArchiveError::Missing {
            name: name.to_owned(),
        };
        let io = |source| io_error("open", &self.path.join(name), source);
        match &self.files {
            Files::Directory(root) => {
                let file = match open_beneath(root, name) {
                    Ok(file) => file,
                    Err(rustix::io::Errno::NOENT) => return Err(missing()),
                    Err(e) => return Err(io(e.into())),
                };
                let metadata = file.metadata().map_err(io)?;
                if !metadata.is_file() {
                    return Err(ArchiveError::Kind {
                        path: self.path.join(name),
                    });
                }
                Ok(ArchiveFile {
                    file,
                    offset: 0,
                    left: metadata.len(),
                })
            }
            Files::Tar(tar, index) => {
                let (offset, left) = find(index, name).ok_or_else(missing)?;
                Ok(ArchiveFile {
                    file: tar.try_clone().map_err(io)?,
                    offset,
                    left,
                })
            }
        }
    }
}

/// A file inside an archive.
#[derive(Debug)]
pub struct ArchiveFile {
    file: File,
    offset: u64,
    left: u64,
}

impl ArchiveFile {
    /// Bytes not yet read.
    pub fn left(&self) -> u64 {
        self.left
    }
}

impl Read for ArchiveFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let length = self.file.read_at(&mut buffer[..most], self.offset)?;
        if length == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.offset += length as u64;
        self.left -= length as u64;
        Ok(length)
    }
}

fn open_beneath(root: &OwnedFd, name: &str) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        match rustix::fs::openat2(root, name, flags, Mode::empty(), resolve) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return outcome.map(File::from),
        }
    }
}

fn allowance(stored: u64) -> u64 {
    stored.saturating_mul(MAX_RATIO).saturating_add(RATIO_FLOOR)
}

/// Zero when there is no such directory: then there is nothing to unpack either.
fn directory_size(dir: &Path) -> u64 {
    std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}

fn decompress(file: File, size: u64, path: &Path, scratch: &Path) -> Result<File, ArchiveError> {
    let (mut spool, spool_path) = unnamed_file(scratch)?;
    let input = Decoder::new(BufReader::with_capacity(64 * 1024, file))
        .map_err(|source| io_error("read", path, source))?;
    let mut input = input.take(allowance(size) + 1);
    let mut buffer = vec![0; 128 * 1024];
    let mut total = 0;
    loop {
        let length = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(io_error("decompress", path, source)),
        };
        spool
            .write_all(&buffer[..length])
            .map_err(|source| io_error("write", &spool_path, source))?;
        total += length as u64;
    }
    if total > allowance(size) {
        return Err(ArchiveError::Bomb {
            path: path.to_owned(),
        });
    }
    Ok(spool)
}

/// O_TMPFILE is not known to every file system; a removed file is.
fn unnamed_file(dir: &Path) -> Result<(File, PathBuf), ArchiveError> {
    let path = dir.join("archive");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(|source| io_error("create", &path, source))?;
    std::fs::remove_file(&path).map_err(|source| io_error("unlink", &path, source))?;
    Ok((file, path))
}

/// Seeks over the data of entries.
struct SeekingFile<'a> {
    file: &'a File,
    position: u64,
}

impl Read for SeekingFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read_at(buffer, self.position)?;
        self.position += length as u64;
        Ok(length)
    }
}

impl Input for SeekingFile<'_> {
    fn skip(&mut self, length: u64) -> io::Result<()> {
        self.position += length;
        Ok(())
    }
}

fn index(tar: &File, path: &Path) -> Result<BTreeMap<String, Place>, ArchiveError> {
    let failed = |source| ArchiveError::Tar {
        path: path.to_owned(),
        source,
    };
    let size = tar
        .metadata()
        .map_err(|e| io_error("look at", path, e))?
        .len();
    let mut reader = TarReader::new(SeekingFile {
        file: tar,
        position: 0,
    });
    let mut index = BTreeMap::new();
    while let Some(entry) = reader.next_entry().map_err(failed)? {
        let place = match entry.kind {
            Kind::File if entry.segments.is_none() => Place::Data {
                offset: reader.position(),
                length: entry.size,
            },
            Kind::Symlink => Place::Link(beside(&entry.path, &entry.link)),
            Kind::HardLink => Place::Link(normal(&String::from_utf8_lossy(&entry.link))),
            Kind::File
            | Kind::Directory
            | Kind::CharDevice
            | Kind::BlockDevice
            | Kind::Fifo
            | Kind::Label
            | Kind::Unknown => continue,
        };
        if reader.position().saturating_add(reader.left()) > size {
            return Err(failed(TarError::Read(io::ErrorKind::UnexpectedEof.into())));
        }
        index.insert(normal(&String::from_utf8_lossy(&entry.path)), place);
        if index.len() > MAX_FILES {
            return Err(failed(TarError::TooMuch(
                "more than 10000 files around the layers",
            )));
        }
    }
    Ok(index)
}

fn find(index: &BTreeMap<String, Place>, name: &str) -> Option<(u64, u64)> {
    let mut name = normal(name);
    for _ in 0..=MAX_LINKS {
        match index.get(&name)? {
            Place::Data { offset, length } => return Some((*offset, *length)),
            Place::Link(target) => name.clone_from(target),
        }
    }
    None
}

/// Where a symbolic link leads, as a name in the index.
fn beside(path: &[u8], link: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    normal(&format!("{parent}/{}", String::from_utf8_lossy(link)))
}

/// Names are only keys here: `..` cannot leave anything.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn io_error(operation: &'static str, path: &Path, source: io::Error) -> ArchiveError {
    ArchiveError::Io {
        operation,
        path: path.to_owned(),
        source,
    }
}
