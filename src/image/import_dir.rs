//! The directory `images-import`: what lies there is loaded and pinned; what is taken away is unpinned (E1).
//!
//! For each entry the store keeps what it looked like and what became of it, so that nothing is read twice. An archive
//! that is still being copied fails, and is tried again when it has changed. An entry whose images have been lost since
//! is imported again.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::import::{ImportError, ImportOptions, import_locked};
use super::record::{self, Pin, Record};
use super::writer::Writer;
use super::{Store, StoreError};

/// The hidden role that does this, for the agent.
pub const ROLE: &str = "import-dir";
/// Most entries looked at.
const MAX_ENTRIES: usize = 1000;
/// Longest message kept about a failure, in bytes.
const MAX_MESSAGE: usize = 1024;

/// What became of one entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Outcome {
    file: String,
    stamps: Vec<Stamp>,
    images: Vec<Digest>,
    error: Option<String>,
}

/// Tells one content of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl From<Metadata> for Stamp {
    fn from(metadata: Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            seconds: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
        }
    }
}

/// What [`run`] did.
#[derive(Debug, Default)]
pub struct DirReport {
    /// Names and ids of what was imported, by file name.
    pub imported: Vec<(String, super::ImportReport)>,
    /// Files that cannot be imported as they are, also those of earlier runs.
    pub failures: Vec<(String, String)>,
}

/// Entries of `dir` that are new or changed, or whose images have been lost.
pub fn pending(store: &Store, dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut pending = Vec::new();
    for name in entries(dir)? {
        let path = dir.join(&name);
        let known = outcome(store, &name);
        if known.is_none_or(|known| known.stamps != stamps(&path) || is_lost(store, &known)) {
            pending.push(path);
        }
    }
    Ok(pending)
}

/// Imports and pins what is pending and unpins what was taken away. A failing archive stops none of the others.
pub fn run(store: &Store, dir: &Path) -> Result<DirReport, StoreError> {
    let writer = store.lock()?;
    forget_removed(&writer, dir)?;
    let mut report = DirReport::default();
    for path in pending(store, dir)? {
        let name = file_name(&path);
        // Looked at before it is read: a change meanwhile makes it pending again.
        let stamps = stamps(&path);
        let options = ImportOptions {
            pin: Some(Pin::File(name.clone())),
            names: Vec::new(),
        };
        let imported = import_locked(&writer, &path, &options);
        note(&writer, &name, stamps, &imported)?;
        if let Ok(imported) = imported {
            report.imported.push((name, imported));
        }
    }
    writer.clean()?;
    writer.sweep()?;
    for name in entries(dir)? {
        let error = outcome(store, &name).and_then(|known| known.error);
        report.failures.extend(error.map(|error| (name, error)));
    }
    Ok(report)
}

/// Files that are gone pin nothing any more. A directory that is gone says nothing about its files.
fn forget_removed(writer: &Writer<'_>, dir: &Path) -> Result<(), StoreError> {
    if !dir.is_dir() {
        return Ok(());
    }
    let here = entries(dir)?;
    let store = writer.store;
    for known in record::read_all::<Outcome>(&store.imports_dir())? {
        if !here.contains(&known.file) {
            unpin(store, &known.file, &[])?;
            record::remove(&outcome_path(store, &known.file))?;
        }
    }
    Ok(())
}

/// Remembers an import. Images of an earlier content of the file lose its pin.
fn note(
    writer: &Writer<'_>,
    file: &str,
    stamps: Vec<Stamp>,
    imported: &Result<super::ImportReport, ImportError>,
) -> Result<(), StoreError> {
    let store = writer.store;
    let (images, error) = match imported {
        Ok(report) => {
            let images: Vec<Digest> = report.images.iter().map(|image| image.id.clone()).collect();
            unpin(store, file, &images)?;
            (images, None)
        }
        // The earlier content's images stay pinned: they are still the best there is.
        Err(e) => {
            let before = outcome(store, file).map(|known| known.images);
            (before.unwrap_or_default(), Some(message(e)))
        }
    };
    let outcome = Outcome {
        file: file.to_owned(),
        stamps,
        images,
        error,
    };
    record::write(&outcome_path(store, file), &outcome)
}

fn unpin(store: &Store, file: &str, except: &[Digest]) -> Result<(), StoreError> {
    let pin = Pin::File(file.to_owned());
    for mut record in record::read_all::<Record>(&store.records_dir())? {
        if !except.contains(&record.id) && record.pins.remove(&pin) {
            record::write(&store.record_path(&record.id), &record)?;
        }
    }
    Ok(())
}

/// A failed import has nothing to lose.
fn is_lost(store: &Store, outcome: &Outcome) -> bool {
    let is_here = |id: &Digest| {
        let record = record::read::<Record>(&store.record_path(id));
        matches!(record, Ok(Some(record)) if store.is_complete(&record))
    };
    outcome.error.is_none() && !outcome.images.iter().all(is_here)
}

/// Names of the entries that are meant: hidden and unfinished ones are left out, as is what is not text.
fn entries(dir: &Path) -> Result<Vec<String>, StoreError> {
    let mut names = match record::list(dir) {
        Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        names => names?,
    };
    names.retain(|name| ![".tmp", ".part", "~"].iter().any(|end| name.ends_with(end)));
    names.truncate(MAX_ENTRIES);
    Ok(names)
}

/// Of a layout directory, its index and its blobs tell: a slow copy changes them to the end.
fn stamps(path: &Path) -> Vec<Stamp> {
    [
        path.to_owned(),
        path.join("index.json"),
        path.join("blobs/sha256"),
    ]
    .iter()
    .filter_map(|path| Some(path.metadata().ok()?.into()))
    .collect()
}

fn outcome(store: &Store, file: &str) -> Option<Outcome> {
    record::read(&outcome_path(store, file)).ok()?
}

fn outcome_path(store: &Store, file: &str) -> PathBuf {
    store.imports_dir().join(record::file_name(file))
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn message(error: &ImportError) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    let mut end = text.len().min(MAX_MESSAGE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
