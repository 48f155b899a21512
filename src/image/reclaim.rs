//! Removing images that nobody needs, when the disk is full (N-6). What is pinned stays, and what is in use; and so does,
//! for a moment, what has just come: somebody may be about to write its manifest.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use super::record::Record;
use super::{Digest, Store, StoreError};
use crate::pod::image_ref::ImageRef;

/// As kubelet's `imageMinimumGCAge`.
const MIN_AGE: Duration = Duration::from_secs(120);

/// Who needs images.
#[derive(Debug, Clone, Default)]
pub struct Needs {
    /// Names in manifests.
    pub names: Vec<String>,
    /// Ids of those that containers use, ended ones included (I-32).
    pub ids: BTreeSet<String>,
}

/// Removes every image that nobody needs, and gives their ids.
pub fn reclaim(store: &Store, needs: &Needs, now: SystemTime) -> Result<Vec<Digest>, StoreError> {
    let writer = store.lock()?;
    let wanted: BTreeSet<Digest> = needs
        .names
        .iter()
        .filter_map(|name| name.parse::<ImageRef>().ok())
        .filter_map(|reference| store.resolve(&reference))
        .collect();
    let mut names = store.names()?;
    let mut removed = Vec::new();
    for record in store.records()? {
        let is_needed = wanted.contains(&record.id) || needs.ids.contains(record.id.as_str());
        if is_needed || !record.pins.is_empty() || !is_old(store, &record, now) {
            continue;
        }
        let names = names.remove(&record.id).unwrap_or_default();
        writer.remove_image(&record, &names)?;
        removed.push(record.id);
    }
    Ok(removed)
}

/// An age that cannot be told is none.
fn is_old(store: &Store, record: &Record, now: SystemTime) -> bool {
    let written = store.record_path(&record.id).metadata();
    let written = written.and_then(|meta| meta.modified()).ok();
    let age = written.and_then(|then| now.duration_since(then).ok());
    age.is_some_and(|age| age >= MIN_AGE)
}
