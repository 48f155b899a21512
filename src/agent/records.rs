//! The durable record of each pod: what it is, and what the plan remembers of it (D-9). Written when either changes,
//! renamed at once, synced a moment later.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::store::{self, WriteError};
use crate::config::Paths;
use crate::plan::{History, PodHistory};
use crate::pod::{PodUid, StaticPod};
use crate::sys::state_file;

#[cfg(test)]
mod tests;

/// Content of `<root-dir>/pods/<uid>/record.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The pod as it was last wanted.
    pub pod: StaticPod,
    /// What the plan remembers of it.
    pub history: PodHistory,
}

/// What an earlier agent left.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Good records.
    pub records: Vec<Record>,
    /// Records that could not be read and were set aside; in words.
    pub warnings: Vec<String>,
    /// What is on disk, so that it is not written again.
    pub files: Records,
}

/// Reads all records. A bad one is never fatal: it is set aside, and its pod starts from its manifest.
pub fn load(paths: &Paths) -> Loaded {
    let mut loaded = Loaded::default();
    let entries = match std::fs::read_dir(paths.pods()) {
        Ok(entries) => entries,
        Err(error) => {
            let dir = paths.pods();
            loaded
                .warnings
                .push(format!("read {}: {error}", dir.display()));
            return loaded;
        }
    };
    for entry in entries.flatten() {
        let path = entry.path().join("record.json");
        match load_one(&path, &entry.file_name().to_string_lossy()) {
            Ok(Some((record, print))) => {
                loaded.files.written.insert(record.pod.uid.clone(), print);
                loaded.records.push(record);
            }
            Ok(None) => {}
            Err(why) => {
                // Best effort: if it cannot be renamed either, the next write replaces it.
                let _ = std::fs::rename(&path, path.with_extension("json.bad"));
                let path = path.display();
                loaded
                    .warnings
                    .push(format!("set aside the bad record {path}: {why}"));
            }
        }
    }
    loaded
}

/// What is wrong with a record.
#[derive(Debug, thiserror::Error)]
enum BadRecord {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error(transparent)]
    Content(#[from] serde_json::Error),
    #[error("it is of pod {0}")]
    OtherPod(PodUid),
}

fn load_one(path: &Path, uid: &str) -> Result<Option<(Record, u64)>, BadRecord> {
    let Some(bytes) = state_file::read_bytes(path)? else {
        return Ok(None);
    };
    let record: Record = serde_json::from_slice(&bytes)?;
    if record.pod.uid.as_str() == uid {
        Ok(Some((record, print(&bytes))))
    } else {
        Err(BadRecord::OtherPod(record.pod.uid))
    }
}

/// Tells one content from another.
fn print(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Knows which records may not be as they should be, what was written last, and what is not on the disk yet.
#[derive(Debug, Default)]
pub struct Records {
    stale: BTreeSet<PodUid>,
    written: BTreeMap<PodUid, u64>,
    unsynced: BTreeSet<PathBuf>,
}

impl Records {
    /// Marks the pods whose memory differs.
    pub fn note_changes(&mut self, old: &History, new: &History) {
        for (uid, memory) in &new.pods {
            if old.pods.get(uid) != Some(memory) {
                self.stale.insert(uid.clone());
            }
        }
    }

    /// Marks a pod whose document changed under the same UID.
    pub fn note_pod(&mut self, uid: PodUid) {
        self.stale.insert(uid);
    }

    /// Writes what is marked. `pod_of` gives the document. What fails stays marked for the next pass; the first failure
    /// is returned, and the pods go on meanwhile.
    pub fn save<'a>(
        &mut self,
        paths: &Paths,
        history: &BTreeMap<PodUid, PodHistory>,
        pod_of: impl Fn(&PodUid) -> Option<&'a StaticPod>,
    ) -> Result<(), WriteError> {
        let mut outcome = Ok(());
        for uid in std::mem::take(&mut self.stale) {
            let (Some(pod), Some(history)) = (pod_of(&uid), history.get(&uid)) else {
                continue;
            };
            if let Err(error) = self.write(paths, pod, history) {
                self.stale.insert(uid);
                outcome = outcome.and(Err(error));
            }
        }
        outcome
    }

    /// Another file was replaced that has to outlive a power cut.
    pub fn sync_later(&mut self, path: PathBuf) {
        self.unsynced.insert(path);
    }

    /// Something is to be synced: hands it over.
    pub fn take_unsynced(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.unsynced).into_iter().collect()
    }

    /// The pod is gone for good.
    pub fn forget(&mut self, uid: &PodUid) {
        self.stale.remove(uid);
        self.written.remove(uid);
    }

    fn write(
        &mut self,
        paths: &Paths,
        pod: &StaticPod,
        history: &PodHistory,
    ) -> Result<(), WriteError> {
        #[derive(Serialize)]
        struct Borrowed<'a> {
            pod: &'a StaticPod,
            history: &'a PodHistory,
        }
        let dir = paths.pod(&pod.uid);
        let path = dir.join("record.json");
        let bytes = serde_json::to_vec(&Borrowed { pod, history }).map_err(|error| WriteError {
            path: path.clone(),
            source: error.into(),
        })?;
        let print = print(&bytes);
        if self.written.get(&pod.uid) == Some(&print) {
            return Ok(());
        }
        store::make_dir(&dir)?;
        store::write_atomic(&path, &bytes)?;
        self.written.insert(pod.uid.clone(), print);
        self.unsynced.insert(path);
        Ok(())
    }
}
