//! Where the last N lines begin, without reading everything.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use super::super::format::{Entry, Stream, Tag, parse};
use super::lines::{Lines, MAX_LINE};
use super::print::MAX_JOINED;
use super::segments::{Form, Segment};

const BLOCK: u64 = 64 * 1024;

/// Where to begin, and how many lines to leave out from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Index of the segment.
    pub segment: usize,
    /// Offset in its stored form.
    pub offset: u64,
    /// Lines that end after this point and are not asked for.
    pub skip: u64,
}

/// Finds the last `count` lines (of one stream, if given). The start may lie a little before them, since a line can
/// have begun before another one of the other stream ended.
pub fn find_start(segments: &[Segment], count: u64, stream: Option<Stream>) -> io::Result<Start> {
    let newest = segments.len().saturating_sub(1);
    if count == 0 {
        return Ok(Start {
            segment: newest,
            offset: segments.last().map_or(0, |segment| segment.size),
            skip: 0,
        });
    }
    let mut walk = Walk::new(count, stream);
    for (index, segment) in segments.iter().enumerate().rev() {
        let offset = match segment.plain() {
            Some(file) => walk.backwards(file, segment.size)?,
            None => {
                walk.count_all(segment)?;
                0
            }
        };
        if walk.is_done() || index == 0 {
            return Ok(Start {
                segment: index,
                offset,
                skip: walk.counted.saturating_sub(count),
            });
        }
    }
    Ok(Start {
        segment: 0,
        offset: 0,
        skip: 0,
    })
}

/// Goes through entries from the last to the first.
struct Walk {
    wanted: u64,
    only: Option<Stream>,
    /// Lines whose end was seen.
    counted: u64,
    stdout: Head,
    stderr: Head,
    /// Bytes gone back behind the first wanted line's end.
    looked_back: usize,
}

/// What the walk needs to know of an entry.
#[derive(Debug)]
struct Passed {
    stream: Stream,
    tag: Tag,
    /// Bytes of its text.
    length: usize,
}

impl From<&Entry<'_>> for Passed {
    fn from(entry: &Entry<'_>) -> Self {
        Self {
            stream: entry.stream,
            tag: entry.tag,
            length: entry.text.len(),
        }
    }
}

/// Whether the beginning of a stream's first wanted line was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    /// No entry of the stream is wanted so far.
    NotNeeded,
    /// The line may begin further back.
    Open,
    /// The end of the line before it was seen.
    Found,
}

impl Walk {
    fn new(wanted: u64, only: Option<Stream>) -> Self {
        Self {
            wanted,
            only,
            counted: 0,
            stdout: Head::NotNeeded,
            stderr: Head::NotNeeded,
            looked_back: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.counted >= self.wanted
            && (self.looked_back > MAX_JOINED
                || (self.stdout != Head::Open && self.stderr != Head::Open))
    }

    fn entry(&mut self, entry: &Passed) {
        if self.only.is_some_and(|only| only != entry.stream) {
            return;
        }
        let is_looking_back = self.counted >= self.wanted;
        let head = match entry.stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        if !is_looking_back {
            *head = Head::Open;
        } else if entry.tag == Tag::Full && *head == Head::Open {
            *head = Head::Found;
        }
        if is_looking_back {
            self.looked_back += entry.length;
        }
        if entry.tag == Tag::Full {
            self.counted += 1;
        }
    }

    /// Walks back through a file; gives the offset it got to.
    fn backwards(&mut self, file: &File, size: u64) -> io::Result<u64> {
        let mut reached = 0;
        lines_backwards(file, size, |offset, line| {
            if let Some(entry) = parse(line) {
                self.entry(&Passed::from(&entry));
            }
            if self.is_done() {
                reached = offset;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        Ok(reached)
    }

    /// A compressed segment cannot be read backwards: all of it counts, gone through from its end once it is read.
    fn count_all(&mut self, segment: &Segment) -> io::Result<()> {
        debug_assert_eq!(segment.form(), Form::Compressed);
        let mut lines = Lines::new(segment.source(0, u64::MAX)?);
        let mut passed = Vec::new();
        // A damaged file ends where the damage begins, here as in reading.
        while let Ok(Some(line)) = lines.next_line() {
            passed.extend(parse(line).as_ref().map(Passed::from));
        }
        for entry in passed.iter().rev() {
            self.entry(entry);
        }
        Ok(())
    }
}

/// Calls `visit` with offset and text of each whole line, the last one first.
fn lines_backwards(
    file: &File,
    size: u64,
    mut visit: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut start = size;
    // Begins where the last block read begins: the rest of a line whose beginning is not read yet.
    let mut rest = Vec::new();
    let mut has_seen_end = false;
    while start > 0 {
        let length = start.min(BLOCK);
        start -= length;
        let mut block = vec![0; usize::try_from(length).unwrap_or_default()];
        file.read_exact_at(&mut block, start)?;
        rest.truncate(MAX_LINE);
        block.append(&mut rest);
        let mut end = block.len();
        while let Some(feed) = memchr::memrchr(b'\n', &block[..end]) {
            // What stands behind the last line feed of the file is no whole line.
            if has_seen_end && visit(start + feed as u64 + 1, &block[feed + 1..end]).is_break() {
                return Ok(());
            }
            has_seen_end = true;
            end = feed;
        }
        block.truncate(end);
        rest = block;
    }
    if has_seen_end {
        let _ = visit(0, &rest);
    }
    Ok(())
}
