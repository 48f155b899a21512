//! Rotation on disk: the live file gets its rotated name, surplus files go, one child compresses.
//!
//! The directory is read anew each time; the only memory is which file is being compressed. A child only ever makes
//! `.tmp` files. That the compressed form takes the place of the file is done here when the child is reaped, so no child
//! can bring back a file that has become surplus meanwhile, and leave a gap behind it.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustix::process::{Pid, Signal, kill_process};

use super::files::{Opened, Place, rename_if_there};
use super::names::{COMPRESSED, COMPRESSING, COMPRESSION_DONE, Kept, Limits, Turn, with_suffix};
use crate::sys::remove;

/// Rotates the files of one instance.
#[derive(Debug)]
pub struct Rotation {
    place: Place,
    limits: Limits,
    /// Program whose role `compress-log` is run.
    compressor: PathBuf,
    child: Option<Child>,
    /// Why the rotated files are not as they should be, since the last attempt to make them so.
    flaw: Option<String>,
}

/// A compression in progress.
#[derive(Debug)]
struct Child {
    pid: u32,
    source: PathBuf,
    /// The source became surplus and is gone; so goes the copy.
    doomed: bool,
}

impl Rotation {
    pub fn new(place: Place, limits: Limits, compressor: PathBuf) -> Self {
        Self {
            place,
            limits,
            compressor,
            child: None,
            flaw: None,
        }
    }

    pub fn flaw(&self) -> Option<&str> {
        self.flaw.as_deref()
    }

    /// Clears what a crash left behind and goes on where rotation stood.
    pub fn resume(&mut self) -> io::Result<()> {
        self.place.remove_unfinished()?;
        for file in self.place.rotated()? {
            let compressed = with_suffix(&file.path, COMPRESSED);
            if !file.kept.compressed && compressed.exists() {
                remove::file(&file.path)?;
            }
        }
        self.prune()?;
        let outcome = self.compress_next();
        self.note(outcome);
        Ok(())
    }

    /// Moves the live file away and opens a new one. If that fails, the live file keeps its name (G-10).
    pub fn rotate(&mut self, now: Timestamp) -> io::Result<Opened> {
        let newest = self.place.rotated()?.pop().map(|file| file.turn);
        let local = TimeZone::system().to_datetime(now);
        let rotated = self
            .place
            .rotated_path(&Turn::after(newest.as_ref(), local));
        rename_if_there(&self.place.live, &rotated)?;
        let opened = match self.place.open_live() {
            Ok(opened) => opened,
            Err(error) => {
                rename_if_there(&rotated, &self.place.live)?;
                return Err(error);
            }
        };
        self.prune()?;
        let outcome = self.compress_next();
        self.note(outcome);
        Ok(opened)
    }

    /// Is this the child that compresses for us?
    pub fn owns(&self, pid: u32) -> bool {
        self.child.as_ref().is_some_and(|child| child.pid == pid)
    }

    /// The child was reaped: puts its result in place and starts the next one. A child that made no result is not
    /// followed by another before the next rotation, or a full disk would keep us spawning.
    pub fn child_exited(&mut self, pid: u32) {
        if let Some(child) = self.child.take_if(|child| child.pid == pid) {
            let outcome = self.take_in(&child);
            self.note(outcome);
        }
    }

    /// Without compression the cap holds all the same, only less fits under it.
    fn note(&mut self, compressed: io::Result<()>) {
        let live = self.place.live.display();
        self.flaw = compressed
            .err()
            .map(|e| format!("cannot compress the rotated files of {live}: {e}"));
    }

    fn take_in(&mut self, child: &Child) -> io::Result<()> {
        remove::file(&with_suffix(&child.source, COMPRESSING))?;
        let done = with_suffix(&child.source, COMPRESSION_DONE);
        if child.doomed || !child.source.exists() {
            return remove::file(&done);
        }
        if !done.exists() {
            // Full disk, or a copy that is hardly smaller.
            return Ok(());
        }
        fs::rename(&done, with_suffix(&child.source, COMPRESSED))?;
        remove::file(&child.source)?;
        self.prune()?;
        self.compress_next()
    }

    /// Removes the oldest files until the rest fits.
    fn prune(&mut self) -> io::Result<()> {
        let rotated = self.place.rotated()?;
        let kept: Vec<Kept> = rotated.iter().map(|file| file.kept).collect();
        let compressing = self
            .child
            .as_ref()
            .filter(|child| !child.doomed)
            .and_then(|child| rotated.iter().position(|file| file.path == child.source));
        for file in &rotated[..self.limits.surplus(&kept, compressing)] {
            if let Some(child) = self.child.as_mut().filter(|it| it.source == file.path) {
                doom(child)?;
            }
            remove::file(&file.path)?;
        }
        Ok(())
    }

    /// The holder reaps the child and tells us by [`Rotation::child_exited`].
    fn compress_next(&mut self) -> io::Result<()> {
        if self.child.is_some() {
            return Ok(());
        }
        let rotated = self.place.rotated()?;
        let kept: Vec<Kept> = rotated.iter().map(|file| file.kept).collect();
        let Some(next) = self.limits.next_to_compress(&kept) else {
            return Ok(());
        };
        let source = rotated[next].path.clone();
        let child = Command::new(&self.compressor)
            .arg(super::compress::ROLE)
            .arg(&source)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        self.child = Some(Child {
            pid: child.id(),
            source,
            doomed: false,
        });
        // Its copy needs room.
        self.prune()
    }
}

impl Drop for Rotation {
    /// Nobody is left to put the result in place.
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Whatever stays behind is removed when the next instance opens its log, or with the directory.
            let _ = doom(child);
        }
    }
}

/// Ends a child whose work is no longer wanted. Its pid is still ours: it is reaped only before `child_exited`.
fn doom(child: &mut Child) -> io::Result<()> {
    child.doomed = true;
    if let Some(pid) = i32::try_from(child.pid).ok().and_then(Pid::from_raw) {
        // It may have ended by itself just now.
        let _ = kill_process(pid, Signal::KILL);
    }
    remove::file(&with_suffix(&child.source, COMPRESSING))?;
    remove::file(&with_suffix(&child.source, COMPRESSION_DONE))
}
