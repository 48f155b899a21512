//! The CRI line format (G-4), both ways. Pure: bytes in, bytes out, the time is an argument.
//!
//! `2026-01-02T03:04:05.678901234Z stdout F text\n`; the tag is `P` while the line goes on in the next entry of its
//! stream, `F` when it ends there.

use std::ops::Range;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use memchr::memchr;

/// G-5: a longer line is split into entries of this many bytes of text.
pub const MAX_TEXT: usize = 16 * 1024;

/// An entry is never longer than this: text plus stamp, stream, tag and separators.
pub const MAX_ENTRY: usize = MAX_TEXT + 64;

/// [`Formatter::push`] stops here, so that a flood of empty lines cannot blow up its buffer.
const MAX_OUT: usize = 64 * 1024;

/// Which output of the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// File descriptor 1.
    Stdout,
    /// File descriptor 2.
    Stderr,
}

impl Stream {
    /// As it is written in an entry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Whether a line ends with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// `P`: the line goes on.
    Partial,
    /// `F`: the line ends here.
    Full,
}

impl Tag {
    fn as_str(self) -> &'static str {
        match self {
            Self::Partial => "P",
            Self::Full => "F",
        }
    }
}

/// One entry of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// When, as text.
    pub stamp: &'a str,
    /// From where.
    pub stream: Stream,
    /// Does the line end here?
    pub tag: Tag,
    /// Bytes of the container, as they were.
    pub text: &'a [u8],
}

/// Reads one entry, without its line feed. None for what is no entry, such as what a torn write left behind.
pub fn parse(line: &[u8]) -> Option<Entry<'_>> {
    let (stamp, rest) = split_at_space(line)?;
    let (stream, rest) = split_at_space(rest)?;
    // containerd writes "F " and an empty text; a lone "F" is fine too.
    let (tags, text) = split_at_space(rest).unwrap_or((rest, &[]));
    let stamp = std::str::from_utf8(stamp).ok()?;
    if !stamp.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let stream = match stream {
        b"stdout" => Stream::Stdout,
        b"stderr" => Stream::Stderr,
        _ => return None,
    };
    let tag = match tags {
        [b'P'] | [b'P', b':', ..] => Tag::Partial,
        [b'F'] | [b'F', b':', ..] => Tag::Full,
        _ => return None,
    };
    Some(Entry {
        stamp,
        stream,
        tag,
        text,
    })
}

fn split_at_space(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr(b' ', bytes)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

/// Turns the bytes of both streams into entries. Holds at most [`MAX_TEXT`] bytes of an unfinished line per stream and
/// about 80 KiB of finished entries.
#[derive(Debug)]
pub struct Formatter {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    stamp: StampText,
    out: Vec<u8>,
}

impl Default for Formatter {
    fn default() -> Self {
        Self {
            stdout: Vec::new(),
            stderr: Vec::new(),
            stamp: StampText::new(Timestamp::UNIX_EPOCH),
            out: Vec::new(),
        }
    }
}

impl Formatter {
    /// Takes bytes until they end or enough entries have piled up; gives back what it did not take.
    #[must_use = "what is not taken must be pushed again after the entries were taken"]
    pub fn push<'a>(&mut self, stream: Stream, bytes: &'a [u8], now: Timestamp) -> &'a [u8] {
        self.stamp.set(now);
        // Exact, since growing by doubling would take twice as much.
        if self.out.capacity() == 0 {
            self.out.reserve_exact(MAX_OUT + MAX_ENTRY);
        }
        let mut rest = bytes;
        while !rest.is_empty() && self.out.len() < MAX_OUT {
            rest = self.push_line(stream, rest);
        }
        rest
    }

    /// The streams have ended: what lacks its line feed becomes a full entry (G-5).
    pub fn finish(&mut self, now: Timestamp) {
        self.stamp.set(now);
        for stream in [Stream::Stdout, Stream::Stderr] {
            if !self.pending(stream).is_empty() {
                self.emit(stream, Tag::Full, &[]);
            }
        }
    }

    /// Takes the finished entries. Give the buffer back with [`Formatter::reuse`].
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Takes back the buffer of [`Formatter::take`], to spare an allocation per feed.
    pub fn reuse(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.out = buffer;
    }

    fn push_line<'a>(&mut self, stream: Stream, bytes: &'a [u8]) -> &'a [u8] {
        let room = MAX_TEXT - self.pending(stream).len();
        let window = &bytes[..bytes.len().min(room + 1)];
        if let Some(end) = memchr(b'\n', window) {
            self.emit(stream, Tag::Full, &bytes[..end]);
            &bytes[end + 1..]
        } else if window.len() > room {
            // A split only once a further byte is there: a line of exactly MAX_TEXT bytes stays one entry.
            self.emit(stream, Tag::Partial, &bytes[..room]);
            &bytes[room..]
        } else {
            let pending = self.pending(stream);
            if pending.capacity() == 0 {
                pending.reserve_exact(MAX_TEXT);
            }
            pending.extend_from_slice(bytes);
            &[]
        }
    }

    fn emit(&mut self, stream: Stream, tag: Tag, text: &[u8]) {
        let pending = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        append(&mut self.out, &self.stamp, (stream, tag), &[pending, text]);
        pending.clear();
    }

    fn pending(&mut self, stream: Stream) -> &mut Vec<u8> {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

/// One full entry of our own in the stream stderr.
pub fn notice(text: &str, now: Timestamp) -> Vec<u8> {
    let mut out = Vec::new();
    let stamp = StampText::new(now);
    append(
        &mut out,
        &stamp,
        (Stream::Stderr, Tag::Full),
        &[text.as_bytes()],
    );
    out
}

fn append(out: &mut Vec<u8>, stamp: &StampText, kind: (Stream, Tag), texts: &[&[u8]]) {
    out.extend_from_slice(&stamp.text);
    out.push(b' ');
    out.extend_from_slice(kind.0.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(kind.1.as_str().as_bytes());
    out.push(b' ');
    for text in texts {
        out.extend_from_slice(text);
    }
    out.push(b'\n');
}

/// The longest run of whole entries that fits into `room` bytes, as a length; 0 when not even one fits.
pub fn whole_entries_within(entries: &[u8], room: u64) -> usize {
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    if entries.len() <= room {
        return entries.len();
    }
    memchr::memrchr(b'\n', &entries[..room]).map_or(0, |end| end + 1)
}

/// Length of the first entry with its line feed.
pub fn first_entry(entries: &[u8]) -> usize {
    memchr(b'\n', entries).map_or(entries.len(), |end| end + 1)
}

/// How many lines of the container end in these entries.
pub fn count_lines(entries: &[u8]) -> u64 {
    let full = entries
        .split(|byte| *byte == b'\n')
        .filter_map(parse)
        .filter(|entry| entry.tag == Tag::Full);
    u64::try_from(full.count()).unwrap_or(u64::MAX)
}

/// RFC 3339 in UTC with nine digits. The seconds are formatted once, since most lines come in the same one.
#[derive(Debug, Clone)]
struct StampText {
    second: i64,
    text: [u8; 30],
}

impl StampText {
    const NANOS: Range<usize> = 20..29;

    fn new(now: Timestamp) -> Self {
        let mut stamp = Self {
            second: i64::MIN,
            text: *b"0000-00-00T00:00:00.000000000Z",
        };
        stamp.set(now);
        stamp
    }

    fn set(&mut self, now: Timestamp) {
        // A clock before 1970 is as good as none.
        let now = now.max(Timestamp::UNIX_EPOCH);
        if now.as_second() != self.second {
            self.second = now.as_second();
            self.set_seconds(Offset::UTC.to_datetime(now));
        }
        put_decimal(
            &mut self.text[Self::NANOS],
            now.subsec_nanosecond().unsigned_abs(),
        );
    }

    fn set_seconds(&mut self, at: DateTime) {
        let fields = [
            (0..4, at.year().unsigned_abs().into()),
            (5..7, at.month().unsigned_abs().into()),
            (8..10, at.day().unsigned_abs().into()),
            (11..13, at.hour().unsigned_abs().into()),
            (14..16, at.minute().unsigned_abs().into()),
            (17..19, at.second().unsigned_abs().into()),
        ];
        for (place, value) in fields {
            put_decimal(&mut self.text[place], value);
        }
    }
}

fn put_decimal(place: &mut [u8], mut value: u32) {
    const DIGITS: &[u8; 10] = b"0123456789";
    for digit in place.iter_mut().rev() {
        *digit = DIGITS[(value % 10) as usize];
        value /= 10;
    }
}

#[cfg(test)]
mod tests;
