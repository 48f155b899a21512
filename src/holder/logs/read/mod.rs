//! Reads the log of one container instance, for `vetch logs` and for termination messages.
//!
//! kubelet shows the live file only (G-12). Here the rotated files belong to the log, compressed or not: without them
//! `--tail` and `--since` would show less right after a rotation.

mod follow;
mod lines;
mod print;
mod segments;
mod tail;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::files::Place;
use super::format::Stream;

/// G-13: what to show.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Only so many of the last lines.
    pub tail: Option<u64>,
    /// Only lines from then on.
    pub since: Option<Timestamp>,
    /// Put each line's stamp before it.
    pub timestamps: bool,
    /// Only this stream.
    pub stream: Option<Stream>,
    /// End after so many bytes of output.
    pub limit_bytes: Option<u64>,
    /// G-14: go on until the container has ended.
    pub follow: bool,
}

/// Why a log cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The path is none of a log file, or there is nothing.
    #[error("no log file {}", .0.display())]
    NoLog(PathBuf),
    /// Reading failed.
    #[error("cannot read {}", path.display())]
    Read {
        /// The live file of the log.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The output does not take it (a closed pipe).
    #[error("cannot write the log out")]
    Output(#[source] io::Error),
}

/// Shows the log whose live file is `file`. Blocks; with `follow` until `is_running` says no (asked once a second) and
/// all was read. It must say yes until the writer has finished. `out` need not be buffered.
pub fn read_logs(
    file: &Path,
    query: &Query,
    is_running: &mut dyn FnMut() -> bool,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let place = Place::new(file).ok_or_else(|| ReadError::NoLog(file.to_owned()))?;
    follow::Reading::new(&place, query, out).run(is_running)
}

/// P-172: the end of the log, both streams, at most so many lines and bytes. What cannot be read is left out.
pub fn tail_text(place: &Place, max_lines: u64, max_bytes: usize) -> String {
    let query = Query {
        tail: Some(max_lines),
        ..Query::default()
    };
    let mut end = LastBytes {
        max: max_bytes,
        bytes: Vec::new(),
    };
    let _ = follow::Reading::new(place, &query, &mut end).run(&mut || false);
    end.into_text()
}

/// Keeps the last bytes that are written to it.
struct LastBytes {
    max: usize,
    bytes: Vec<u8>,
}

impl LastBytes {
    fn trim(&mut self) {
        let surplus = self.bytes.len().saturating_sub(self.max);
        self.bytes.drain(..surplus);
    }

    fn into_text(mut self) -> String {
        self.trim();
        let mut text = String::from_utf8_lossy(&self.bytes).into_owned();
        // Replacement characters are longer than what they replace.
        let mut start = text.len().saturating_sub(self.max);
        while !text.is_char_boundary(start) {
            start += 1;
        }
        text.split_off(start)
    }
}

impl Write for LastBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > self.max.saturating_mul(2) {
            self.trim();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
