//! What images give when the disk is full (N-6). Those go that nobody needs and that have lost their name to a newer
//! import. One that has a name was brought by a person and cannot be fetched again (D-5): it is only told. What is pinned
//! or in use stays, and so does, for a moment, what has just come: somebody may be about to write its manifest.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use super::record::{self, Record};
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

/// What became of the images that nobody needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Those that are gone.
    pub removed: Vec<Digest>,
    /// Those that have a name, the largest first.
    pub kept: Vec<Kept>,
    /// Bytes that come free without all of `kept`.
    pub kept_bytes: u64,
}

/// An image that nobody needs, and only a person may remove.
#[derive(Debug, PartialEq, Eq)]
pub struct Kept {
    /// What removes the whole image: its name, or a part of its id if it has several.
    pub name: String,
    /// Bytes that come free without it alone.
    pub bytes: u64,
}

/// Removes every image without a name that nobody needs, and tells of those with one.
pub fn reclaim(store: &Store, needs: &Needs, now: SystemTime) -> Result<Reclaimed, StoreError> {
    let writer = store.lock()?;
    let wanted: BTreeSet<Digest> = needs
        .names
        .iter()
        .filter_map(|name| name.parse::<ImageRef>().ok())
        .filter_map(|reference| store.resolve(&reference))
        .collect();
    let names = store.names()?;
    let is_needed = |record: &Record| {
        wanted.contains(&record.id)
            || needs.ids.contains(record.id.as_str())
            || !record.pins.is_empty()
            || !is_old(store, record, now)
    };
    let (mut stay, unused): (Vec<_>, Vec<_>) = store.records()?.into_iter().partition(is_needed);
    let has_name = |record: &Record| names.contains_key(&record.id);
    let (named, nameless): (Vec<_>, Vec<_>) = unused.into_iter().partition(has_name);
    let mut outcome = Reclaimed::default();
    for record in nameless {
        writer.remove_image(&record, &[])?;
        outcome.removed.push(record.id);
    }
    outcome.kept_bytes = freed(store, &named, &stay);
    stay.extend(named.iter().cloned());
    for record in &named {
        let others: Vec<Record> = stay.iter().filter(|r| r.id != record.id).cloned().collect();
        outcome.kept.push(Kept {
            name: match names.get(&record.id).map(Vec::as_slice) {
                Some([name]) => name.clone(),
                Some(_) | None => record.id.hex().chars().take(12).collect(),
            },
            bytes: freed(store, std::slice::from_ref(record), &others),
        });
    }
    outcome.kept.sort_by_key(|kept| Reverse(kept.bytes));
    Ok(outcome)
}

/// Bytes of the layers that are in `going` and not in `staying`.
fn freed(store: &Store, going: &[Record], staying: &[Record]) -> u64 {
    let layers = |records: &[Record]| -> BTreeSet<Digest> {
        let all = records.iter().flat_map(|record| &record.layers);
        all.cloned().collect()
    };
    let (going, staying) = (layers(going), layers(staying));
    let size = |layer| record::read::<u64>(&store.layer_dir(layer).join("size"));
    let sizes = going.difference(&staying).map(size);
    sizes.filter_map(|size| size.ok().flatten()).sum()
}

/// An age that cannot be told is none.
fn is_old(store: &Store, record: &Record, now: SystemTime) -> bool {
    let written = store.record_path(&record.id).metadata();
    let written = written.and_then(|meta| meta.modified()).ok();
    let age = written.and_then(|then| now.duration_since(then).ok());
    age.is_some_and(|age| age >= MIN_AGE)
}
