//! Lines of a file that may still grow.

use std::io::{self, BufRead, BufReader, Read};

use memchr::memchr;

/// What is kept of a longer line; no entry is that long.
pub const MAX_LINE: usize = 64 * 1024;

/// Reads line by line. At the end of the file a line without its line feed is kept, and completed when more arrives.
pub struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    is_whole: bool,
}

impl<R: Read> Lines<R> {
    /// Reads from where `reader` stands.
    pub fn new(reader: R) -> Self {
        Self {
            reader: BufReader::with_capacity(64 * 1024, reader),
            line: Vec::new(),
            is_whole: false,
        }
    }

    /// The next whole line, without its line feed. None at the (present) end.
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        if self.is_whole {
            self.line.clear();
            self.is_whole = false;
        }
        loop {
            let buffer = match self.reader.fill_buf() {
                Ok([]) => return Ok(None),
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = memchr(b'\n', buffer);
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let room = MAX_LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                self.is_whole = true;
                return Ok(Some(&self.line));
            }
        }
    }

    /// What stands behind the last line feed.
    pub fn torn(&self) -> &[u8] {
        if self.is_whole { &[] } else { &self.line }
    }
}
