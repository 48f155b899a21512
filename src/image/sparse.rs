//! Sparse files in tars: the old GNU header, and GNU's pax formats 0.0, 0.1 and 1.0.

use std::io::{self, Read};

use tar::{GnuExtSparseHeader, GnuSparseHeader, Header};

use super::pax::number;
use super::tar_stream::{BLOCK, TarError};

/// Most data segments of one file.
const MAX_SEGMENTS: usize = 65_536;

/// A run of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Where it goes in the file.
    pub offset: u64,
    /// In bytes.
    pub length: u64,
}

/// Where the data of a file goes.
#[derive(Debug, PartialEq, Eq)]
pub struct Map {
    /// Of the file, holes included.
    pub size: u64,
    /// In ascending order once checked.
    pub segments: Vec<Segment>,
}

impl Map {
    /// Ascending, inside the file, and exactly the data that is there.
    pub fn check(&self, data: u64) -> Result<(), &'static str> {
        let (mut end, mut sum) = (0, 0u64);
        for segment in &self.segments {
            let next = segment.offset.checked_add(segment.length);
            match next {
                Some(next) if segment.offset >= end && next <= self.size => end = next,
                Some(_) | None => return Err("the map of a sparse file is out of order"),
            }
            sum += segment.length;
        }
        if sum == data && self.size <= i64::MAX as u64 {
            Ok(())
        } else {
            Err("the map of a sparse file does not fit its data")
        }
    }
}

/// From an old GNU header (`S`) and the blocks that extend it.
pub fn from_gnu(
    header: &Header,
    mut next_block: impl FnMut() -> Result<[u8; 512], TarError>,
) -> Result<Map, TarError> {
    let bad = || io::Error::other("bad sparse header");
    let gnu = header.as_gnu().ok_or_else(bad)?;
    let mut segments = Vec::new();
    push_gnu(&mut segments, &gnu.sparse)?;
    let mut extended = gnu.is_extended();
    while extended {
        let mut extension = GnuExtSparseHeader::new();
        extension.as_mut_bytes().copy_from_slice(&next_block()?);
        push_gnu(&mut segments, &extension.sparse)?;
        extended = extension.is_extended();
    }
    Ok(Map {
        size: gnu.real_size()?,
        segments,
    })
}

fn push_gnu(segments: &mut Vec<Segment>, entries: &[GnuSparseHeader]) -> Result<(), TarError> {
    for entry in entries.iter().filter(|entry| !entry.is_empty()) {
        segments.push(Segment {
            offset: entry.offset()?,
            length: entry.length()?,
        });
    }
    check_count(segments.len())
}

fn check_count(count: usize) -> Result<(), TarError> {
    if count <= MAX_SEGMENTS {
        Ok(())
    } else {
        Err(TarError::TooMuch("a sparse file of more than 65536 pieces"))
    }
}

/// The `GNU.sparse.*` records.
#[derive(Debug, Default)]
pub struct PaxSparse {
    /// Real name of the file.
    pub name: Option<Vec<u8>>,
    major: Option<u64>,
    size: Option<u64>,
    numbers: Vec<u64>,
}

impl PaxSparse {
    /// One record, its key without `GNU.sparse.`.
    pub fn apply(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"name" => self.name = Some(value.to_vec()),
            b"major" => self.major = Some(number(value)?),
            b"size" | b"realsize" => self.size = Some(number(value)?),
            b"offset" | b"numbytes" => self.numbers.push(number(value)?),
            b"map" => {
                for text in value.split(|b| *b == b',').filter(|text| !text.is_empty()) {
                    self.numbers.push(number(text)?);
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Format 1.0: the map lies in front of the data.
    pub fn is_version_1(&self) -> bool {
        self.major == Some(1) && self.size.is_some()
    }

    /// Formats 0.0 and 0.1: the map lies in the records.
    pub fn map(&self) -> Option<Map> {
        let size = self.size?;
        let segments = self
            .numbers
            .chunks_exact(2)
            .map(|pair| Segment {
                offset: pair[0],
                length: pair[1],
            })
            .collect();
        Some(Map { size, segments })
    }
}

/// Reads the map of format 1.0: decimal lines (count, then offset and length of each), padded to a block.
pub fn from_data(pax: &PaxSparse, data: &mut impl Read) -> Result<Map, TarError> {
    let mut lines = Lines {
        data,
        block: [0; 512],
        at: 512,
    };
    let count = usize::try_from(lines.number()?).unwrap_or(usize::MAX);
    check_count(count)?;
    let mut segments = Vec::new();
    for _ in 0..count {
        segments.push(Segment {
            offset: lines.number()?,
            length: lines.number()?,
        });
    }
    Ok(Map {
        size: pax.size.unwrap_or_default(),
        segments,
    })
}

struct Lines<'a, R> {
    data: &'a mut R,
    block: [u8; 512],
    at: usize,
}

impl<R: Read> Lines<'_, R> {
    fn number(&mut self) -> Result<u64, TarError> {
        let mut value = 0u64;
        loop {
            if self.at as u64 == BLOCK {
                self.data.read_exact(&mut self.block)?;
                self.at = 0;
            }
            let byte = self.block[self.at];
            self.at += 1;
            match byte {
                b'\n' => return Ok(value),
                b'0'..=b'9' => {
                    value = value
                        .checked_mul(10)
                        .and_then(|v| v.checked_add(u64::from(byte - b'0')))
                        .ok_or_else(|| io::Error::other("bad sparse map"))?;
                }
                _ => return Err(io::Error::other("bad sparse map").into()),
            }
        }
    }
}
