//! Reads a tar stream entry by entry in bounded memory.
//!
//! Header fields are decoded by the `tar` crate. The walk over the entries is our own, because the crate's reads pax and
//! long-name extensions of any size into memory, splits pax records at newlines (which binary xattr values contain) and
//! does not know pax sparse files. Not here: what an entry means to a layer, see [`super::unpack`].

use std::io::{self, Read};

use rustix::fs::Timespec;
use tar::Header;

use super::pax::Pax;
use super::sparse::{self, Segment};

/// Extension headers (pax, GNU long names) above this size are refused; real ones have some hundred bytes.
pub const MAX_EXTENSION: u64 = 1 << 20;
/// Longest path or link target, as the kernel has it.
pub const MAX_PATH: usize = 4095;
/// Most entries of one archive.
pub const MAX_ENTRIES: u64 = 1_000_000;
/// Size of a tar block in bytes.
pub const BLOCK: u64 = 512;

/// What a tar is read from.
pub trait Input: Read {
    /// Moves `length` bytes on. A seekable input may move beyond its end.
    fn skip(&mut self, length: u64) -> io::Result<()>;
}

/// Why an archive could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    /// The input failed or ended early.
    #[error("read the archive")]
    Read(#[from] io::Error),
    /// Not a tar, or a damaged one.
    #[error("the archive is damaged at byte {position}: {problem}")]
    Damaged {
        /// Offset in the (decompressed) stream.
        position: u64,
        /// What is wrong.
        problem: &'static str,
    },
    /// A limit that protects memory.
    #[error("the archive has {0}")]
    TooMuch(&'static str),
}

/// What an entry makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file, sparse or not.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Another name for a file.
    HardLink,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// A volume label: says something about the archive.
    Label,
    /// Nothing that we know.
    Unknown,
}

/// One entry, all extensions applied. Names are as written: nothing is cleaned or checked beyond their length.
#[derive(Debug)]
pub struct Entry {
    /// Path.
    pub path: Vec<u8>,
    /// Target of a symbolic or hard link; else empty.
    pub link: Vec<u8>,
    /// Kind.
    pub kind: Kind,
    /// Permissions and setuid, setgid, sticky.
    pub mode: u32,
    /// Owner.
    pub uid: u64,
    /// Group.
    pub gid: u64,
    /// Modification time.
    pub mtime: Timespec,
    /// Size of the file in bytes once unpacked, holes included.
    pub size: u64,
    /// Major and minor number.
    pub device: (u32, u32),
    /// Extended attributes.
    pub xattrs: Vec<(String, Vec<u8>)>,
    /// Where the data goes in a sparse file; `None`: it is the whole file.
    pub segments: Option<Vec<Segment>>,
}

/// The walk. Between two calls of [`TarReader::next_entry`], reading gives the data of the current entry.
pub struct TarReader<R> {
    input: R,
    position: u64,
    left: u64,
    padding: u64,
    entries: u64,
}

/// Extensions collected for the entry that follows them.
#[derive(Default)]
struct Extensions {
    pax: Pax,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

impl<R: Input> TarReader<R> {
    /// At the start of a tar.
    pub fn new(input: R) -> Self {
        Self {
            input,
            position: 0,
            left: 0,
            padding: 0,
            entries: 0,
        }
    }

    /// Offset of the next byte in the stream.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of the current entry's data not yet read.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Goes to the next entry; `None` at the end of the archive.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, TarError> {
        let mut extensions = Extensions::default();
        loop {
            let Some(header) = self.next_header()? else {
                return Ok(None);
            };
            let size = header
                .entry_size()
                .map_err(|_| self.damaged("the size is no number"))?;
            self.expect_data(size)?;
            let kind = header.entry_type();
            if kind.is_pax_local_extensions() {
                let data = self.read_extension()?;
                extensions.pax = Pax::parse(&data).ok_or_else(|| self.damaged("bad pax record"))?;
            } else if kind.is_gnu_longname() {
                extensions.long_name = Some(self.read_long_name()?);
            } else if kind.is_gnu_longlink() {
                extensions.long_link = Some(self.read_long_name()?);
            } else if !kind.is_pax_global_extensions() {
                return self.entry(&header, extensions).map(Some);
            }
        }
    }

    fn entry(&mut self, header: &Header, extensions: Extensions) -> Result<Entry, TarError> {
        let Extensions {
            pax,
            long_name,
            long_link,
        } = extensions;
        if let Some(size) = pax.size {
            self.expect_data(size)?;
        }
        let path = (pax.path.clone())
            .or(long_name)
            .unwrap_or_else(|| header.path_bytes().into_owned());
        let link = (pax.link.clone())
            .or(long_link)
            .or_else(|| header.link_name_bytes().map(|name| name.into_owned()))
            .unwrap_or_default();
        if path.len() > MAX_PATH || link.len() > MAX_PATH {
            return Err(TarError::TooMuch("a path longer than 4095 bytes"));
        }
        let (size, segments) = self.sparse_map(header, &pax)?;
        let number = |value: io::Result<u64>, field: &[u8]| {
            if is_blank(field) { Ok(0) } else { value }
        };
        let old = header.as_old();
        let bad = |_| self.damaged("a field is no number");
        Ok(Entry {
            kind: kind_of(header, &path),
            mode: u32::try_from(number(header.mode().map(u64::from), &old.mode).map_err(bad)?)
                .unwrap_or_default(),
            uid: pax
                .uid
                .map_or_else(|| number(header.uid(), &old.uid), Ok)
                .map_err(bad)?,
            gid: pax
                .gid
                .map_or_else(|| number(header.gid(), &old.gid), Ok)
                .map_err(bad)?,
            mtime: pax.mtime.unwrap_or_else(|| header_mtime(header)),
            device: device(header),
            path,
            link,
            size,
            xattrs: pax.xattrs,
            segments,
        })
    }

    /// The file's real size and where its data goes.
    fn sparse_map(
        &mut self,
        header: &Header,
        pax: &Pax,
    ) -> Result<(u64, Option<Vec<Segment>>), TarError> {
        let map = if header.entry_type().is_gnu_sparse() {
            Some(sparse::from_gnu(header, || self.read_block())?)
        } else if pax.sparse.is_version_1() {
            Some(sparse::from_data(&pax.sparse, self)?)
        } else {
            pax.sparse.map()
        };
        match map {
            None => Ok((self.left, None)),
            Some(map) => {
                map.check(self.left)
                    .map_err(|problem| self.damaged(problem))?;
                Ok((map.size, Some(map.segments)))
            }
        }
    }

    fn next_header(&mut self) -> Result<Option<Header>, TarError> {
        let rest = self.left + self.padding;
        self.input.skip(rest)?;
        self.position += rest;
        (self.left, self.padding) = (0, 0);
        let mut header = Header::new_old();
        if !self.fill(header.as_mut_bytes())? || header.as_bytes().iter().all(|b| *b == 0) {
            return Ok(None);
        }
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(TarError::TooMuch("more than a million entries"));
        }
        let bytes = header.as_bytes();
        let sum: u32 = bytes[..148]
            .iter()
            .chain(&bytes[156..])
            .map(|b| u32::from(*b))
            .sum();
        if header.cksum().ok() != Some(sum + 8 * u32::from(b' ')) {
            return Err(self.damaged("this is no tar header"));
        }
        Ok(Some(header))
    }

    /// Whole blocks only: false at a clean end.
    fn fill(&mut self, block: &mut [u8]) -> Result<bool, TarError> {
        let mut filled = 0;
        while filled < block.len() {
            match self.input.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(TarError::Read(io::ErrorKind::UnexpectedEof.into())),
                Ok(length) => filled += length,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(TarError::Read(e)),
            }
        }
        self.position += block.len() as u64;
        Ok(true)
    }

    /// A block that is not part of the entry's counted data.
    fn read_block(&mut self) -> Result<[u8; 512], TarError> {
        let mut block = [0; 512];
        if self.fill(&mut block)? {
            Ok(block)
        } else {
            Err(TarError::Read(io::ErrorKind::UnexpectedEof.into()))
        }
    }

    fn expect_data(&mut self, size: u64) -> Result<(), TarError> {
        let padding = size.wrapping_neg() % BLOCK;
        if size
            .checked_add(padding)
            .is_none_or(|sum| sum > i64::MAX as u64)
        {
            return Err(self.damaged("the size is too big"));
        }
        (self.left, self.padding) = (size, padding);
        Ok(())
    }

    fn read_extension(&mut self) -> Result<Vec<u8>, TarError> {
        if self.left > MAX_EXTENSION {
            return Err(TarError::TooMuch("an extension header above 1 MiB"));
        }
        let mut data = Vec::new();
        let expected = self.left;
        self.read_to_end(&mut data)?;
        if data.len() as u64 == expected {
            Ok(data)
        } else {
            Err(TarError::Read(io::ErrorKind::UnexpectedEof.into()))
        }
    }

    fn read_long_name(&mut self) -> Result<Vec<u8>, TarError> {
        let mut name = self.read_extension()?;
        if let Some(end) = name.iter().position(|b| *b == 0) {
            name.truncate(end);
        }
        Ok(name)
    }

    fn damaged(&self, problem: &'static str) -> TarError {
        TarError::Damaged {
            position: self.position,
            problem,
        }
    }
}

impl<R: Input> Read for TarReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let length = self.input.read(&mut buffer[..most])?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.position += length as u64;
        self.left -= length as u64;
        Ok(length)
    }
}

/// Old tars write directories as files whose name ends in a slash.
fn kind_of(header: &Header, path: &[u8]) -> Kind {
    let kind = header.entry_type();
    let file = kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse();
    let table = [
        (
            kind.is_dir() || (kind.is_file() && path.ends_with(b"/")),
            Kind::Directory,
        ),
        (file, Kind::File),
        (kind.is_symlink(), Kind::Symlink),
        (kind.is_hard_link(), Kind::HardLink),
        (kind.is_character_special(), Kind::CharDevice),
        (kind.is_block_special(), Kind::BlockDevice),
        (kind.is_fifo(), Kind::Fifo),
        (kind.as_byte() == b'V', Kind::Label),
    ];
    let known = table.iter().find(|(is_it, _)| *is_it);
    known.map_or(Kind::Unknown, |(_, kind)| *kind)
}

fn is_blank(field: &[u8]) -> bool {
    field.iter().all(|b| matches!(b, 0 | b' '))
}

fn header_mtime(header: &Header) -> Timespec {
    Timespec {
        tv_sec: header
            .mtime()
            .ok()
            .and_then(|t| i64::try_from(t).ok())
            .unwrap_or_default(),
        tv_nsec: 0,
    }
}

fn device(header: &Header) -> (u32, u32) {
    let number = |value: io::Result<Option<u32>>| value.ok().flatten().unwrap_or_default();
    (number(header.device_major()), number(header.device_minor()))
}
