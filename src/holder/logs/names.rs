//! Names of log files and links, and which rotated files are kept. Pure.
//!
//! The live file is `<n>.log`; a rotated one `<n>.log.<YYYYMMDD-HHMMSS>` (G-10, local time), or with `_<counter>` behind
//! it when that name was used: at 50 MB/s there are several rotations a second. `.gz` follows when it is compressed.
//! Names never go back, even when the clock does, so their order is the order of the lines. (`_` sorts behind `.`,
//! so `ls` shows that order too.)

use std::fmt;
use std::path::{Path, PathBuf};

use jiff::civil::DateTime;

/// Longest file name (NAME_MAX).
const MAX_NAME: usize = 255;

/// Ends the name of a compressed file.
pub const COMPRESSED: &str = ".gz";
/// Ends the name of every unfinished file.
pub const UNFINISHED: &str = ".tmp";
/// Follows the name of a file being compressed.
pub const COMPRESSING: &str = ".tmp";
/// Follows the name of a file whose compressed form is complete; the writer puts it in place.
pub const COMPRESSION_DONE: &str = ".gz.tmp";

/// G-3: `<pod>_<ns>_<container>-<id>.log`, its front part cut so that the whole is ≤ 255 bytes.
pub fn link_name(pod: &str, namespace: &str, container: &str, id: &str) -> String {
    let tail = format!("-{id}.log");
    let mut front = format!("{pod}_{namespace}_{container}");
    let mut end = front.len().min(MAX_NAME.saturating_sub(tail.len()));
    while !front.is_char_boundary(end) {
        end -= 1;
    }
    front.truncate(end);
    front + &tail
}

/// A path with something appended to its last name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Place of a rotated file in the order of rotation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// `YYYYMMDD-HHMMSS`.
    stamp: String,
    counter: u32,
}

impl Turn {
    /// The turn that follows `newest` at local time `now`. A clock that went back (NTP, summer time) goes on with the
    /// newest stamp and a counter.
    pub fn after(newest: Option<&Self>, now: DateTime) -> Self {
        let stamp = now.strftime("%Y%m%d-%H%M%S").to_string();
        match newest {
            Some(newest) if newest.stamp >= stamp => Self {
                stamp: newest.stamp.clone(),
                counter: newest.counter.saturating_add(1),
            },
            Some(_) | None => Self { stamp, counter: 0 },
        }
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stamp)?;
        if self.counter > 0 {
            write!(f, "_{:04}", self.counter)?;
        }
        Ok(())
    }
}

/// A rotated file's name, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RotatedName {
    /// Its place.
    pub turn: Turn,
    /// Ends with `.gz`.
    pub compressed: bool,
}

/// Takes a file name apart. None for what is no rotated file of the live file `live`.
pub fn parse_rotated(live: &str, name: &str) -> Option<RotatedName> {
    let rest = name.strip_prefix(live)?.strip_prefix('.')?;
    let (turn, compressed) = match rest.strip_suffix(COMPRESSED) {
        Some(turn) => (turn, true),
        None => (rest, false),
    };
    let (stamp, counter) = match turn.split_once('_') {
        Some((stamp, counter)) => (stamp, counter.parse().ok()?),
        None => (turn, 0),
    };
    let plausible = stamp.len() == 15
        && stamp.bytes().enumerate().all(|(at, byte)| {
            if at == 8 {
                byte == b'-'
            } else {
                byte.is_ascii_digit()
            }
        });
    plausible.then(|| RotatedName {
        turn: Turn {
            stamp: stamp.to_owned(),
            counter,
        },
        compressed,
    })
}

/// G-9, G-10: how much one container instance may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the live file.
    pub max_size: u64,
    /// Files, the live one included.
    pub max_files: u32,
}

/// A rotated file, as far as keeping it is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Bytes.
    pub size: u64,
    /// It is `.gz` already.
    pub compressed: bool,
}

impl Limits {
    fn max_rotated(self) -> usize {
        usize::try_from(self.max_files.max(2) - 1).unwrap_or(usize::MAX)
    }

    /// Do these rotated files, a full live file and `unfinished` bytes of a compression fit?
    fn allows(self, rotated: &[Kept], unfinished: u64) -> bool {
        let total = self.max_size.saturating_mul(self.max_files.max(2).into());
        let used = rotated.iter().map(|file| file.size).fold(
            self.max_size.saturating_add(unfinished),
            u64::saturating_add,
        );
        rotated.len() <= self.max_rotated() && used <= total
    }

    /// How many of the oldest files (they come first) have to go. `compressing` is the place of the file that is being
    /// compressed: room for its copy is kept free, until the file itself goes.
    pub fn surplus(self, rotated: &[Kept], compressing: Option<usize>) -> usize {
        let unfinished = |gone: usize| match compressing {
            Some(at) if at >= gone => largest_copy(rotated[at].size),
            Some(_) | None => 0,
        };
        (0..rotated.len())
            .find(|&gone| self.allows(&rotated[gone..], unfinished(gone)))
            .unwrap_or(rotated.len())
    }

    /// Which file to compress next: never the newest (G-10); of the others the newest, because it stays longest. After
    /// a flood older files have to go for its copy, or there would never be room again; but if that were the file
    /// itself (always so with three files), nothing is compressed.
    pub fn next_to_compress(self, rotated: &[Kept]) -> Option<usize> {
        let (_newest, older) = rotated.split_last()?;
        let next = older.iter().rposition(|file| !file.compressed)?;
        (self.surplus(rotated, Some(next)) <= next).then_some(next)
    }
}

/// A compressed copy that is larger than this is not worth its trouble. Text becomes a fifth or less.
pub fn largest_copy(size: u64) -> u64 {
    size / 2
}

#[cfg(test)]
mod tests;
