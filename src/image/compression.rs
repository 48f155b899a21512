//! Decompression by magic number: gzip, zstd or none, whatever a media type says.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Largest zstd window in bytes: what the decoder may hold in memory. `zstd -19` needs 8 MiB, the best level of BuildKit 32.
pub const MAX_ZSTD_WINDOW: u64 = 32 << 20;

/// Decompresses what is read through it.
pub enum Decoder<R: BufRead> {
    /// Not compressed.
    Plain(R),
    /// All members.
    Gzip(Box<MultiGzDecoder<R>>),
    /// All frames.
    Zstd(ZstdFrames<R>),
}

/// A kind of compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// None known.
    Plain,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Compression {
    /// By the first four bytes.
    pub fn of(start: &[u8]) -> Self {
        if start.starts_with(&[0x1f, 0x8b]) {
            Self::Gzip
        } else if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
            || (start.len() >= 4 && start[0] & 0xf0 == 0x50 && start[1..4] == [0x2a, 0x4d, 0x18])
        {
            Self::Zstd
        } else {
            Self::Plain
        }
    }
}

impl<R: BufRead> Decoder<R> {
    /// Looks at the first bytes, which must lie in the reader's buffer together.
    pub fn new(mut input: R) -> io::Result<Self> {
        Ok(match Compression::of(input.fill_buf()?) {
            Compression::Plain => Self::Plain(input),
            Compression::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(input))),
            Compression::Zstd => Self::Zstd(ZstdFrames::new(input)),
        })
    }
}

impl<R: BufRead> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(buffer),
            Self::Gzip(input) => input.read(buffer),
            Self::Zstd(input) => input.read(buffer),
        }
    }
}

/// One frame after the other, skippable ones left out (zstd:chunked layers end with such).
pub struct ZstdFrames<R> {
    input: R,
    decoder: Box<FrameDecoder>,
    inside: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(input: R) -> Self {
        let mut decoder = Box::new(FrameDecoder::new());
        decoder.set_max_window_size(MAX_ZSTD_WINDOW);
        Self {
            input,
            decoder,
            inside: false,
        }
    }

    /// False at the end of the input.
    fn next_frame(&mut self) -> io::Result<bool> {
        if self.input.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.decoder.init(&mut self.input) {
            Ok(()) => self.inside = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let mut skipped = (&mut self.input).take(u64::from(length));
                io::copy(&mut skipped, &mut io::sink())?;
            }
            Err(e) => return Err(io::Error::other(e)),
        }
        Ok(true)
    }

    fn end_frame(&mut self) -> io::Result<()> {
        self.inside = false;
        match self.decoder.get_checksum_from_data() {
            Some(sum) if self.decoder.get_calculated_checksum() != Some(sum) => {
                Err(io::Error::other("a zstd frame has a wrong checksum"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            if self.inside && self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            } else if self.inside && self.decoder.is_finished() {
                self.end_frame()?;
            } else if self.inside {
                self.decoder
                    .decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            } else if !self.next_frame()? {
                break;
            }
        }
        Ok(0)
    }
}
