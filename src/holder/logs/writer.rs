//! The log writer of one container instance.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use crate::holder::proto::LogSpec;

use super::files::{Opened, Place, make_link};
use super::format::{Formatter, Stream, count_lines, first_entry, notice, whole_entries_within};
use super::names::Limits;
use super::read;
use super::rotation::Rotation;

/// While in trouble, opening and writing is tried again this often.
const RETRY_AFTER: SignedDuration = SignedDuration::from_secs(1);

/// A line feed and a notice are never longer.
const MAX_OWED: u64 = 128;

/// A log specification that can never work.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Its file has no directory or no name in UTF-8.
    #[error("{} is no path of a log file", .0.display())]
    NoLogPath(PathBuf),
}

/// Writes the output of one container instance: CRI entries, rotation, link. It never fails the container: while it
/// cannot write, it drops lines and counts them, says why in [`LogWriter::trouble`], and tries again.
///
/// Memory: two unfinished lines of 16 KiB and up to 80 KiB of entries.
#[derive(Debug)]
pub struct LogWriter {
    place: Place,
    link: PathBuf,
    /// Why there is no link.
    link_flaw: Option<String>,
    max_size: u64,
    format: Formatter,
    rotation: Rotation,
    state: State,
}

/// Moved to Trouble by any failed open, write or rotation; back to Writing by the first successful open after that.
#[derive(Debug)]
enum State {
    Writing(Live),
    Trouble(Trouble),
}

#[derive(Debug)]
struct Live {
    file: File,
    size: u64,
    /// The file ends in a torn entry; a line feed must come first.
    is_torn: bool,
    /// Lines lost before, to be reported before the next entry.
    lost: u64,
}

#[derive(Debug)]
struct Trouble {
    why: String,
    tried_at: Option<Timestamp>,
    lost: u64,
}

impl LogWriter {
    /// Makes directories, file and link. Errors only for a path that can never work; any other failure is a trouble.
    pub fn open(spec: &LogSpec) -> Result<Self, LogError> {
        Self::open_with(spec, Path::new("/proc/self/exe"))
    }

    /// As [`LogWriter::open`], with another program for the role `compress-log`.
    pub fn open_with(spec: &LogSpec, compressor: &Path) -> Result<Self, LogError> {
        let place = Place::new(&spec.file).ok_or_else(|| LogError::NoLogPath(spec.file.clone()))?;
        let limits = Limits {
            max_size: spec.max_size,
            max_files: spec.max_files,
        };
        let mut writer = Self {
            link: spec.link.clone(),
            link_flaw: None,
            max_size: spec.max_size,
            format: Formatter::default(),
            rotation: Rotation::new(place.clone(), limits, compressor.to_owned()),
            state: State::Trouble(Trouble {
                why: String::new(),
                tried_at: None,
                lost: 0,
            }),
            place,
        };
        writer.try_again(None);
        Ok(writer)
    }

    /// Takes what the container wrote. `now` stamps the lines.
    pub fn feed(&mut self, stream: Stream, bytes: &[u8], now: Timestamp) {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = self.format.push(stream, rest, now);
            self.write_out(now);
        }
    }

    /// The container's output has ended: unfinished lines and the report of lost ones are written.
    pub fn finish(&mut self, now: Timestamp) {
        self.format.finish(now);
        if matches!(self.state, State::Trouble(_)) {
            self.try_again(Some(now));
        }
        self.write_out(now);
        self.append(&[], now);
    }

    /// Why lines are being dropped, if they are.
    pub fn trouble(&self) -> Option<&str> {
        match &self.state {
            State::Writing(_) => None,
            State::Trouble(trouble) => Some(&trouble.why),
        }
    }

    /// What is not as it should be although lines are written: no link, no compression.
    pub fn flaw(&self) -> Option<&str> {
        self.link_flaw.as_deref().or(self.rotation.flaw())
    }

    /// P-172: the end of the log, both streams, at most this many lines and bytes.
    pub fn tail(&self, max_lines: u64, max_bytes: usize) -> String {
        read::tail_text(&self.place, max_lines, max_bytes)
    }

    /// Does this child compress for this writer?
    pub fn owns_child(&self, pid: i32) -> bool {
        u32::try_from(pid).is_ok_and(|pid| self.rotation.owns(pid))
    }

    /// To be called after a child that [`LogWriter::owns_child`] was reaped; harmless for any other.
    pub fn child_exited(&mut self, pid: i32) {
        if let Ok(pid) = u32::try_from(pid) {
            self.rotation.child_exited(pid);
        }
    }

    /// Writes the finished entries, rotating where the file is full.
    fn write_out(&mut self, now: Timestamp) {
        let entries = self.format.take();
        let mut rest = &entries[..];
        while !rest.is_empty() {
            self.try_again_if_due(now);
            let part = match &self.state {
                // Counts as lost, all at once.
                State::Trouble(_) => rest.len(),
                State::Writing(live) => {
                    match whole_entries_within(rest, live.room(self.max_size)) {
                        0 if live.size > 0 => {
                            self.rotate(now);
                            continue;
                        }
                        // An empty file takes one entry, however small the limit is.
                        0 => first_entry(rest),
                        part => part,
                    }
                }
            };
            self.append(&rest[..part], now);
            rest = &rest[part..];
        }
        self.format.reuse(entries);
    }

    /// Writes entries to the live file, all or none of them.
    fn append(&mut self, entries: &[u8], now: Timestamp) {
        match &mut self.state {
            State::Trouble(trouble) => {
                trouble.lost = trouble.lost.saturating_add(count_lines(entries));
            }
            State::Writing(live) => {
                if let Err(error) = live.append(entries, now) {
                    let lost = live.lost.saturating_add(count_lines(entries));
                    self.enter_trouble(&error, Some(now), lost);
                }
            }
        }
    }

    fn rotate(&mut self, now: Timestamp) {
        let lost = self.lost();
        match self.rotation.rotate(now) {
            Ok(opened) => self.state = State::Writing(Live::new(opened, lost)),
            Err(error) => self.enter_trouble(&error, Some(now), lost),
        }
    }

    fn try_again_if_due(&mut self, now: Timestamp) {
        let due = match &self.state {
            State::Writing(_) => false,
            // The clock may have gone back.
            State::Trouble(trouble) => trouble
                .tried_at
                .is_none_or(|tried_at| now.duration_since(tried_at).abs() >= RETRY_AFTER),
        };
        if due {
            self.try_again(Some(now));
        }
    }

    fn try_again(&mut self, now: Option<Timestamp>) {
        let lost = self.lost();
        match self.set_up() {
            Ok(opened) => self.state = State::Writing(Live::new(opened, lost)),
            Err(error) => self.enter_trouble(&error, now, lost),
        }
    }

    fn set_up(&mut self) -> io::Result<Opened> {
        self.place.create_dirs()?;
        let opened = self.place.open_live()?;
        self.rotation.resume()?;
        // The link is for collectors; the log goes on without it.
        let link = make_link(&self.link, &self.place.live).err();
        self.link_flaw = link.map(|e| format!("cannot link {}: {e}", self.link.display()));
        Ok(opened)
    }

    fn enter_trouble(&mut self, error: &io::Error, now: Option<Timestamp>, lost: u64) {
        self.state = State::Trouble(Trouble {
            why: format!("cannot write {}: {error}", self.place.live.display()),
            tried_at: now,
            lost,
        });
    }

    fn lost(&self) -> u64 {
        match &self.state {
            State::Writing(live) => live.lost,
            State::Trouble(trouble) => trouble.lost,
        }
    }
}

impl Live {
    fn new(opened: Opened, lost: u64) -> Self {
        Self {
            file: opened.file,
            size: opened.size,
            is_torn: opened.is_torn,
            lost,
        }
    }

    /// Writes what is owed and the entries, all or nothing, so that a full disk leaves no torn entry.
    fn append(&mut self, entries: &[u8], now: Timestamp) -> io::Result<()> {
        let owed = self.owed(now);
        if owed.is_empty() {
            self.write_or_undo(entries)?;
        } else {
            self.write_or_undo(&[&owed, entries].concat())?;
        }
        self.is_torn = false;
        self.lost = 0;
        Ok(())
    }

    /// Bytes of entries that still fit.
    fn room(&self, max_size: u64) -> u64 {
        let owed = if self.lost > 0 || self.is_torn {
            MAX_OWED
        } else {
            0
        };
        max_size.saturating_sub(self.size).saturating_sub(owed)
    }

    fn owed(&self, now: Timestamp) -> Vec<u8> {
        let mut owed = Vec::new();
        if self.is_torn {
            owed.push(b'\n');
        }
        if self.lost > 0 {
            owed.extend(notice(
                &format!("vetch: {} log lines were lost here", self.lost),
                now,
            ));
        }
        owed
    }

    fn write_or_undo(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(bytes);
        match &written {
            Ok(()) => self.size = self.size.saturating_add(bytes.len() as u64),
            Err(_) => self.undo(),
        }
        written
    }

    /// Cuts off what was written beyond `size`. If even this fails, the next open finds the torn end. Never makes the
    /// file longer: somebody may have emptied it.
    fn undo(&self) {
        if self.file.metadata().is_ok_and(|it| it.len() > self.size) {
            let _ = self.file.set_len(self.size);
        }
    }
}

#[cfg(test)]
mod tests;
