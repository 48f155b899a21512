//! Entries in, text out: filters, joins the fragments of a line (G-13), counts bytes.

use std::io::{BufWriter, Write};

use jiff::Timestamp;

use super::super::format::{Entry, Stream, Tag, parse};
use super::{Query, ReadError};

/// A line is joined up to this size; of a longer one the parts come out as they are read.
pub const MAX_JOINED: usize = 1024 * 1024;

/// Shows entries as a query wants them.
pub struct Printer<'a> {
    query: &'a Query,
    out: BufWriter<&'a mut dyn Write>,
    stdout: OpenLine,
    stderr: OpenLine,
    /// This many lines are left out first (a tail starts a little early).
    pub skip: u64,
    left: u64,
}

/// A line of a stream whose full entry has not come yet.
enum OpenLine {
    /// The next entry begins a line.
    None,
    /// Too old to be shown.
    Unwanted,
    /// To be shown: what is not shown yet.
    Wanted(Vec<u8>),
}

impl<'a> Printer<'a> {
    pub fn new(query: &'a Query, out: &'a mut dyn Write) -> Self {
        Self {
            query,
            out: BufWriter::new(out),
            stdout: OpenLine::None,
            stderr: OpenLine::None,
            skip: 0,
            left: query.limit_bytes.unwrap_or(u64::MAX),
        }
    }

    /// The byte limit is reached.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Takes a whole line of a log file. What is no entry is left out.
    pub fn line(&mut self, line: &[u8]) -> Result<(), ReadError> {
        match parse(line) {
            Some(entry) if self.query.stream.is_none_or(|it| it == entry.stream) => {
                self.entry(&entry)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Takes a line that lacks its end.
    pub fn torn_line(&mut self, line: &[u8]) -> Result<(), ReadError> {
        match parse(line) {
            Some(entry) if self.query.stream.is_none_or(|it| it == entry.stream) => {
                self.entry(&Entry {
                    tag: Tag::Partial,
                    ..entry
                })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Nothing follows: shows lines that were begun and never ended.
    pub fn finish(&mut self) -> Result<(), ReadError> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let OpenLine::Wanted(text) = std::mem::replace(self.open(stream), OpenLine::None) {
                self.write(&text)?;
            }
        }
        self.flush()
    }

    /// Hands everything on.
    pub fn flush(&mut self) -> Result<(), ReadError> {
        self.out.flush().map_err(ReadError::Output)
    }

    fn entry(&mut self, entry: &Entry<'_>) -> Result<(), ReadError> {
        let line = match std::mem::replace(self.open(entry.stream), OpenLine::None) {
            OpenLine::None => self.begin(entry),
            OpenLine::Unwanted => OpenLine::Unwanted,
            OpenLine::Wanted(mut text) => {
                text.extend_from_slice(entry.text);
                OpenLine::Wanted(text)
            }
        };
        match (line, entry.tag) {
            (OpenLine::Wanted(mut text), Tag::Full) => {
                text.push(b'\n');
                self.end(&text)
            }
            (OpenLine::Unwanted | OpenLine::None, Tag::Full) => self.end(&[]),
            (OpenLine::Wanted(text), Tag::Partial) if text.len() >= MAX_JOINED => {
                *self.open(entry.stream) = OpenLine::Wanted(Vec::new());
                if self.skip == 0 {
                    self.write(&text)
                } else {
                    Ok(())
                }
            }
            (line, Tag::Partial) => {
                *self.open(entry.stream) = line;
                Ok(())
            }
        }
    }

    fn begin(&self, entry: &Entry<'_>) -> OpenLine {
        let is_old = |since| {
            entry
                .stamp
                .parse::<Timestamp>()
                .is_ok_and(|stamp| stamp < since)
        };
        if self.query.since.is_some_and(is_old) {
            return OpenLine::Unwanted;
        }
        let mut text = Vec::with_capacity(entry.stamp.len() + entry.text.len() + 2);
        if self.query.timestamps {
            text.extend_from_slice(entry.stamp.as_bytes());
            text.push(b' ');
        }
        text.extend_from_slice(entry.text);
        OpenLine::Wanted(text)
    }

    fn end(&mut self, text: &[u8]) -> Result<(), ReadError> {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(());
        }
        self.write(text)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        let allowed = usize::try_from(self.left).unwrap_or(usize::MAX);
        let part = &bytes[..bytes.len().min(allowed)];
        self.out.write_all(part).map_err(ReadError::Output)?;
        self.left -= part.len() as u64;
        Ok(())
    }

    fn open(&mut self, stream: Stream) -> &mut OpenLine {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}
