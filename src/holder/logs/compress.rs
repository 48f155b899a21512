//! The hidden role `vetch compress-log FILE`: gzip of one rotated log file, in a child that never disturbs anybody.
//!
//! It leaves `FILE.gz.tmp` when it has finished, or nothing. The writer puts that in place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::ExitCode;

use flate2::{Compression, GzBuilder};

use super::files::LOG_MODE;
use super::names::{COMPRESSING, COMPRESSION_DONE, largest_copy, with_suffix};
use crate::sys::{ioprio, remove};

/// `argv[1]` of this role.
pub const ROLE: &str = "compress-log";

const LOWEST_NICE: i32 = 19;

/// Runs the role.
pub fn run(path: &Path) -> ExitCode {
    // Priorities are a courtesy; and without a holder nobody would put the result in place.
    let _ = rustix::process::nice(LOWEST_NICE);
    let _ = ioprio::lower();
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    // The holder misses the result.
    compress(path).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

/// Makes `<path>.gz.tmp`, or leaves nothing.
pub fn compress(path: &Path) -> io::Result<()> {
    let unfinished = with_suffix(path, COMPRESSING);
    let result = write_compressed(path, &unfinished)
        .and_then(|()| fs::rename(&unfinished, with_suffix(path, COMPRESSION_DONE)));
    if result.is_err() {
        remove::file(&unfinished)?;
    }
    result
}

fn write_compressed(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let metadata = source.metadata()?;
    let target = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(LOG_MODE)
        .open(to)?;
    let mut gzip = GzBuilder::new().extra(inode_note(metadata.ino())).write(
        Shrinking {
            target: io::BufWriter::with_capacity(64 * 1024, target),
            left: largest_copy(metadata.len()),
        },
        Compression::default(),
    );
    io::copy(&mut source, &mut gzip)?;
    let mut target = gzip.finish()?.target;
    target.flush()?;
    // `vetch logs --since` skips files by their time.
    target.get_ref().set_modified(metadata.modified()?)
}

/// Refuses to take more bytes than [`largest_copy`]: the cap counts on it.
struct Shrinking<W> {
    target: W,
    left: u64,
}

impl<W: Write> Write for Shrinking<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.target.write(bytes)?;
        self.left = self
            .left
            .checked_sub(written as u64)
            .ok_or_else(|| io::Error::other("it hardly shrinks"))?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

/// A gzip extra field (RFC 1952) `vt` with the inode of the file that was compressed, by which a follower knows it
/// again.
fn inode_note(inode: u64) -> Vec<u8> {
    let mut note = b"vt\x08\x00".to_vec();
    note.extend_from_slice(&inode.to_le_bytes());
    note
}

/// Reads the note back.
pub fn noted_inode(extra: &[u8]) -> Option<u64> {
    let inode = extra.strip_prefix(b"vt\x08\x00")?;
    Some(u64::from_le_bytes(inode.try_into().ok()?))
}
