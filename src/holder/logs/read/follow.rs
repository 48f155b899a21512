//! Reads segment after segment, and waits for more while a container runs (G-14).

use std::collections::VecDeque;
use std::io;
use std::io::Write;
use std::time::Duration;

use inotify::{Inotify, WatchMask};
use jiff::SignedDuration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::files::Place;
use super::lines::Lines;
use super::print::Printer;
use super::segments::{Segment, Source, newer_than, snapshot};
use super::tail::{Start, find_start};
use super::{Query, ReadError};
use crate::sys::clock;

/// How often is asked whether the container still runs.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The coarse clock of file times lags behind the one of the stamps.
const FILE_TIME_LAG: SignedDuration = SignedDuration::from_secs(1);

/// One reading of a log.
pub struct Reading<'a> {
    place: &'a Place,
    query: &'a Query,
    printer: Printer<'a>,
}

/// What came of waiting at the end of the newest file.
enum Waited {
    /// Read on in the same file.
    MoreMayBeThere,
    /// It was rotated, and read to its end; these follow.
    Rotated(Vec<Segment>),
    /// The container has ended, and the file was read to its end.
    Ended,
}

/// The segment that is being read.
struct Current {
    lines: Lines<Source>,
    /// Kept open, so that its inode stays its own.
    segment: Segment,
}

impl<'a> Reading<'a> {
    pub fn new(place: &'a Place, query: &'a Query, out: &'a mut dyn Write) -> Self {
        Self {
            place,
            query,
            printer: Printer::new(query, out),
        }
    }

    /// Reads to the end, and with `follow` on until the container has ended.
    pub fn run(mut self, is_running: &mut dyn FnMut() -> bool) -> Result<(), ReadError> {
        // Before the first look, or a change between look and wait would be missed.
        let mut changes = self.query.follow.then(|| Changes::of(self.place));
        let segments = snapshot(self.place).map_err(|error| self.cannot_read(error))?;
        let start = self.start(&segments)?;
        self.printer.skip = start.skip;
        let mut segments: VecDeque<_> = segments.into_iter().skip(start.segment).collect();
        let Some(first) = segments.pop_front() else {
            return Err(ReadError::NoLog(self.place.live.clone()));
        };
        let mut current = self.open(first, start.offset)?;
        loop {
            self.read_to_end(&mut current)?;
            if self.printer.is_done() {
                return self.printer.flush();
            }
            if let Some(next) = segments.pop_front() {
                self.printer.torn_line(current.lines.torn())?;
                current = self.open(next, 0)?;
                continue;
            }
            let Some(changes) = &mut changes else { break };
            match self.wait(&mut current, changes, is_running)? {
                Waited::MoreMayBeThere => {}
                Waited::Rotated(newer) => segments = newer.into(),
                Waited::Ended => break,
            }
        }
        // While the container runs, the rest of a torn line is yet to come.
        let torn = current.lines.torn();
        if !torn.is_empty() && (self.query.follow || !is_running()) {
            self.printer.torn_line(torn)?;
        }
        self.printer.finish()
    }

    fn start(&self, segments: &[Segment]) -> Result<Start, ReadError> {
        if let Some(count) = self.query.tail {
            return find_start(segments, count, self.query.stream)
                .map_err(|error| self.cannot_read(error));
        }
        let is_old = |segment: &Segment| {
            let newest = segment.modified.saturating_add(FILE_TIME_LAG);
            newest.is_ok_and(|newest| self.query.since.is_some_and(|since| newest < since))
        };
        let old = segments.iter().take_while(|segment| is_old(segment));
        Ok(Start {
            segment: old.count().min(segments.len().saturating_sub(1)),
            offset: 0,
            skip: 0,
        })
    }

    fn open(&self, segment: Segment, offset: u64) -> Result<Current, ReadError> {
        // Without follow, what is written from now on is not asked for; it could go on for ever.
        let limit = if self.query.follow {
            u64::MAX
        } else {
            segment.size.saturating_sub(offset)
        };
        let source = segment
            .source(offset, limit)
            .map_err(|error| self.cannot_read(error))?;
        Ok(Current {
            lines: Lines::new(source),
            segment,
        })
    }

    fn read_to_end(&mut self, current: &mut Current) -> Result<(), ReadError> {
        while !self.printer.is_done() {
            match current.lines.next_line() {
                Ok(Some(line)) => self.printer.line(line)?,
                Ok(None) => return Ok(()),
                Err(error) => {
                    // A damaged compressed file must not hide what follows it.
                    tracing::warn!("{}: {error}", self.place.live.display());
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// At the end of the newest file known: finds out what comes next.
    fn wait(
        &mut self,
        current: &mut Current,
        changes: &mut Changes,
        is_running: &mut dyn FnMut() -> bool,
    ) -> Result<Waited, ReadError> {
        self.printer.flush()?;
        // Asked first: what was written before the end is then seen by the reading that follows.
        let is_running = changes.is_still_running(is_running);
        let newer =
            newer_than(self.place, &current.segment).map_err(|error| self.cannot_read(error))?;
        // What was written before the rotation, or the end, after we last read.
        self.read_to_end(current)?;
        if !newer.is_empty() {
            return Ok(Waited::Rotated(newer));
        }
        if !is_running {
            return Ok(Waited::Ended);
        }
        changes.wait().map_err(|error| self.cannot_read(error))?;
        Ok(Waited::MoreMayBeThere)
    }

    fn cannot_read(&self, source: io::Error) -> ReadError {
        if source.kind() == io::ErrorKind::NotFound {
            return ReadError::NoLog(self.place.live.clone());
        }
        ReadError::Read {
            path: self.place.live.clone(),
            source,
        }
    }
}

/// News of the log's directory, and of the container.
struct Changes {
    /// Without it (no more inotify instances) we look once per [`CHECK_EVERY`].
    inotify: Option<Inotify>,
    asked_at_boot_ms: Option<u64>,
}

impl Changes {
    fn of(place: &Place) -> Self {
        let mask = WatchMask::MODIFY | WatchMask::CREATE | WatchMask::MOVED_TO;
        let inotify = Inotify::init().and_then(|inotify| {
            inotify.watches().add(&place.dir, mask)?;
            Ok(inotify)
        });
        Self {
            inotify: inotify.ok(),
            asked_at_boot_ms: None,
        }
    }

    /// Asks at most once per [`CHECK_EVERY`]; the answer may cost a call to the agent.
    fn is_still_running(&mut self, is_running: &mut dyn FnMut() -> bool) -> bool {
        let now = clock::now().boot_ms;
        let is_fresh = self
            .asked_at_boot_ms
            .is_some_and(|at| u128::from(now.saturating_sub(at)) < CHECK_EVERY.as_millis());
        if is_fresh {
            return true;
        }
        self.asked_at_boot_ms = Some(now);
        is_running()
    }

    /// Returns at the next change, or when it is time to ask again.
    fn wait(&mut self) -> io::Result<()> {
        let timeout = Timespec::try_from(CHECK_EVERY).map_err(io::Error::other)?;
        let Some(inotify) = &mut self.inotify else {
            poll(&mut [], Some(&timeout))?;
            return Ok(());
        };
        match poll(&mut [PollFd::new(inotify, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut buffer = [0; 4096];
        match inotify.read_events(&mut buffer) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            // What happened does not matter: we look at the files themselves.
            Ok(_) | Err(_) => Ok(()),
        }
    }
}
