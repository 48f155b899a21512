//! Says that something on disk may have changed. Only a hint: the caller looks at everything again, and does so every
//! `file_check_frequency` in any case. It asks the watches to look then, too: one that could not be had is tried again,
//! and none needs a timer of its own (invariant 5).

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use async_channel::{Receiver, Sender};
use futures_lite::FutureExt;
use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};
use rustix::io::Errno;
use smol::Async;

use super::news::News;

/// Sends `hint()` for each burst of changes, and each change of the watch's own health, for ever.
pub async fn tell(
    mut watch: Watch,
    asked: Receiver<()>,
    (news, hint): (Sender<News>, fn() -> News),
) {
    let mut told = None;
    loop {
        if watch.problem != told {
            told.clone_from(&watch.problem);
            let (path, problem) = (watch.path.clone(), told.clone());
            let _ = news.send(News::Watched { path, problem }).await;
        }
        let changed = async {
            watch.changed().await;
            true
        };
        // So that a lost watch is made again, and a mount over the path is seen.
        let look = async {
            if asked.recv().await.is_err() {
                return std::future::pending().await;
            }
            false
        };
        if changed.or(look).await {
            let _ = news.send(hint()).await;
        }
    }
}

/// Watches a directory or file, and the directory above it, so that deletion, replacement and (with the next scan) a
/// mount over it are noticed (S-23, S-33, S-34).
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    armed: Option<Armed>,
    /// What the path was when arming was last tried.
    seen: Seen,
    /// Why changes are noticed by periodic scans only (no inotify instance left, …).
    problem: Option<String>,
}

/// An inotify instance, thrown away as a whole when the path is something else than before.
#[derive(Debug)]
struct Armed {
    inotify: Inotify,
    readable: Async<OwnedFd>,
    /// The path itself, if it is a directory.
    inside: Option<WatchDescriptor>,
    /// Name of the path's next component, as seen from the nearest directory above that exists.
    next: OsString,
}

/// Device and inode of the path and of the nearest directory above it that exists.
type Seen = (Option<(u64, u64)>, Option<(u64, u64)>);

/// Of a directory. Not MODIFY: content counts when it is complete (A4).
const INSIDE: WatchMask = WatchMask::CLOSE_WRITE
    .union(WatchMask::CREATE)
    .union(WatchMask::MOVED_FROM)
    .union(WatchMask::MOVED_TO)
    .union(WatchMask::DELETE)
    .union(WatchMask::ATTRIB)
    .union(WatchMask::DELETE_SELF)
    .union(WatchMask::MOVE_SELF)
    .union(WatchMask::ONLYDIR);

impl Watch {
    /// Starts to watch. `path` need not exist.
    pub fn new(path: &Path) -> Self {
        let mut watch = Self {
            path: path.components().collect(),
            armed: None,
            seen: (None, None),
            problem: None,
        };
        watch.arm();
        watch
    }

    /// Returns when something may have changed since the last return, at once if the path itself is another one than
    /// before. Call it again after each scan. Dropping the future loses nothing.
    pub async fn changed(&mut self) {
        if self.armed.is_none() || self.seen != see(&self.path) {
            let before = (self.seen, self.armed.is_some());
            self.arm();
            if (self.seen, self.armed.is_some()) != before {
                return;
            }
        }
        let path = self.path.clone();
        let Some(armed) = &mut self.armed else {
            return std::future::pending().await;
        };
        loop {
            let ready = armed.readable.readable().await;
            match ready.and_then(|()| armed.drain(&path)) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    self.lose(&error);
                    return std::future::pending().await;
                }
            }
        }
    }

    fn arm(&mut self) {
        self.seen = see(&self.path);
        match Armed::new(&self.path) {
            Ok(armed) => {
                self.armed = Some(armed);
                self.problem = None;
            }
            Err(error) => self.lose(&error),
        }
    }

    fn lose(&mut self, error: &io::Error) {
        self.armed = None;
        let remedy = match Errno::from_io_error(error) {
            Some(Errno::MFILE) => "; is fs.inotify.max_user_instances too low?",
            Some(Errno::NOSPC) => "; is fs.inotify.max_user_watches too low?",
            Some(_) | None => "",
        };
        self.problem = Some(format!("inotify: {error}{remedy}"));
    }
}

impl Armed {
    fn new(path: &Path) -> io::Result<Self> {
        let inotify = Inotify::init()?;
        let (above, next) = nearest_above(path);
        let mut mask = WatchMask::CREATE
            | WatchMask::MOVED_FROM
            | WatchMask::MOVED_TO
            | WatchMask::DELETE
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR;
        let is_dir = path.is_dir();
        if !is_dir {
            mask |= WatchMask::CLOSE_WRITE | WatchMask::ATTRIB;
        }
        let mut watches = inotify.watches();
        watches.add(above, mask)?;
        let inside = if is_dir {
            Some(watches.add(path, INSIDE)?)
        } else {
            None
        };
        let readable = Async::new(inotify.as_fd().try_clone_to_owned()?)?;
        Ok(Self {
            inotify,
            readable,
            inside,
            next: next.to_owned(),
        })
    }

    /// Reads all events that are there; was any of interest?
    fn drain(&mut self, path: &Path) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        let mut interesting = false;
        loop {
            let events = match self.inotify.read_events(&mut buffer) {
                Ok(events) => events,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(interesting),
                Err(error) => return Err(error),
            };
            for event in events {
                interesting |= match event.name {
                    None => true,
                    Some(name) if Some(&event.wd) == self.inside.as_ref() => {
                        is_complete(path, name, event.mask)
                    }
                    // Links beside a single file lead to it by way of `..data`.
                    Some(name) => name == self.next || name.as_encoded_bytes().starts_with(b".."),
                };
            }
        }
    }
}

/// Dot files do not count (S-23), but `..data` does: links lead through it. A new regular file counts when its writer
/// closes it; only a new link to a complete file gives no such event.
fn is_complete(path: &Path, name: &OsStr, mask: EventMask) -> bool {
    let bytes = name.as_encoded_bytes();
    if bytes.starts_with(b".") && !bytes.starts_with(b"..") {
        return false;
    }
    if !mask.contains(EventMask::CREATE) {
        return true;
    }
    std::fs::symlink_metadata(path.join(name)).is_ok_and(|m| !m.is_file() || m.nlink() > 1)
}

fn see(path: &Path) -> Seen {
    let identity = |path: &Path| {
        std::fs::metadata(path)
            .ok()
            .filter(std::fs::Metadata::is_dir)
            .map(|m| (m.dev(), m.ino()))
    };
    (identity(path), identity(nearest_above(path).0))
}

/// The nearest directory above `path` that exists, and the name below it that leads to `path`.
fn nearest_above(path: &Path) -> (&Path, &OsStr) {
    let mut below = path;
    loop {
        let name = below.file_name().unwrap_or_default();
        match below.parent() {
            None => return (Path::new("/"), name),
            Some(parent) if parent.as_os_str().is_empty() => return (Path::new("."), name),
            Some(parent) if parent.is_dir() => return (parent, name),
            Some(parent) => below = parent,
        }
    }
}

#[cfg(test)]
mod tests;
