//! The import directory: what is dropped there is loaded by a child, one at a time. Here is only the decision when one
//! is worth starting; the child itself knows which files are done.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[cfg(test)]
mod tests;

/// Entries looked at; a directory with more is no import directory.
const MAX_ENTRIES: usize = 1000;

/// What tells one content of an entry from another without reading it.
type Print = (u64, u64, Option<SystemTime>);

/// When to start a child.
#[derive(Debug)]
pub struct Imports {
    dir: PathBuf,
    done: BTreeMap<OsString, Print>,
    phase: Phase,
}

/// Where the work stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing changed since the last child. → `Wanted` by [`Imports::look`].
    Idle,
    /// A child is to be started. → `Running` by [`Imports::start`].
    Wanted,
    /// A child runs. → `Overtaken` by [`Imports::look`]; → `Idle` or, when there was a change meanwhile, `Wanted`, by
    /// [`Imports::finished`].
    Running,
    /// A child runs, and something was heard since it started. → as `Running`.
    Overtaken,
}

impl Imports {
    /// One child is wanted at the start: things may have come or gone, or an import have been cut off, meanwhile.
    pub fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            done: BTreeMap::new(),
            phase: Phase::Wanted,
        }
    }

    /// Compares the directory with what the last child found.
    pub fn look(&mut self) {
        match self.phase {
            Phase::Idle if prints(&self.dir) != self.done => self.phase = Phase::Wanted,
            Phase::Running => self.phase = Phase::Overtaken,
            Phase::Idle | Phase::Wanted | Phase::Overtaken => {}
        }
    }

    /// True when a child is to be started now; it counts as running from here on.
    pub fn start(&mut self) -> bool {
        if self.phase != Phase::Wanted {
            return false;
        }
        self.done = prints(&self.dir);
        self.phase = Phase::Running;
        true
    }

    /// The child ended. False when its failure says nothing, since a file was still being written; the end of that, or
    /// the next rescan, starts another child. Starting it at once would mean one after the other for all of a slow copy.
    pub fn finished<T, E>(&mut self, outcome: &Result<T, E>) -> bool {
        let is_settled = outcome.is_ok() || prints(&self.dir) == self.done;
        let is_overtaken = std::mem::replace(&mut self.phase, Phase::Idle) == Phase::Overtaken;
        if is_settled || is_overtaken {
            self.look();
        }
        is_settled
    }
}

fn prints(dir: &Path) -> BTreeMap<OsString, Print> {
    std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .take(MAX_ENTRIES)
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
        .filter_map(|entry| Some((entry.file_name(), print(&entry.path())?)))
        .collect()
}

/// Of a layout directory, its index and its blobs tell: a slow copy changes them to the end.
fn print(path: &Path) -> Option<Print> {
    let of = |path: &Path| {
        let meta = std::fs::metadata(path).ok()?;
        Some((meta.ino(), meta.size(), meta.modified().ok()))
    };
    let own = of(path)?;
    let inner = ["index.json", "blobs/sha256"].map(|name| of(&path.join(name)));
    Some(inner.into_iter().flatten().fold(own, |sum, one| {
        (sum.0 ^ one.0, sum.1.wrapping_add(one.1), sum.2.max(one.2))
    }))
}
