//! ConfigMaps and Secrets: whom a change of them wakes, and the copy on disk that keeps a bad file and a reboot together
//! from stopping pods (D-1).
//!
//! The copy has the values of Secrets, as their files have. It is root's alone, and goes with the last of them.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::Path;

use super::state::Agent;
use super::store::{self, WriteError};
use crate::api::types::{KeyView, ObjectView};
use crate::pod::objects::{LocalObject, ObjectKey, ObjectKind, Objects};
use crate::pod::references::references;
use crate::pod::{PodUid, StaticPod};
use crate::sys::state_file;

#[cfg(test)]
mod tests;

/// What is known of `<root-dir>/objects.json`.
#[derive(Debug, Default)]
pub struct ObjectCopy {
    /// It may not be as it should be.
    is_stale: bool,
    /// Of its content.
    print: Option<u64>,
}

/// Reads the copy. A bad one is never fatal: the manifests are the truth.
pub fn load(path: &Path) -> Result<(Vec<LocalObject>, ObjectCopy), String> {
    let path_text = path.display();
    let bytes = state_file::read_bytes(path);
    let Some(bytes) = bytes.map_err(|error| format!("read {path_text}: {error}"))? else {
        return Ok(Default::default());
    };
    let objects = serde_json::from_slice(&bytes);
    let objects = objects.map_err(|error| format!("understand {path_text}: {error}"))?;
    let copy = ObjectCopy {
        // Of what it has, perhaps nothing is wanted any more.
        is_stale: true,
        print: Some(print(&bytes)),
    };
    Ok((objects, copy))
}

/// Tells one content from another.
fn print(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

impl ObjectCopy {
    /// Nobody knows what is on disk.
    pub fn unknown() -> Self {
        Self {
            is_stale: true,
            print: None,
        }
    }

    /// Writes what changed; true if something was written.
    fn save(&mut self, path: &Path, objects: &Objects) -> Result<bool, WriteError> {
        if !self.is_stale {
            return Ok(false);
        }
        let is_written = if objects.by_key.is_empty() {
            remove(path)?;
            self.print = None;
            false
        } else {
            let objects: Vec<&LocalObject> = objects.by_key.values().collect();
            let bytes = serde_json::to_vec(&objects).map_err(|error| WriteError {
                path: path.to_owned(),
                source: error.into(),
            })?;
            let print = print(&bytes);
            let is_new = self.print != Some(print);
            if is_new {
                store::write_atomic(path, &bytes)?;
                self.print = Some(print);
            }
            is_new
        };
        self.is_stale = false;
        Ok(is_written)
    }
}

fn remove(path: &Path) -> Result<(), WriteError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(WriteError {
            path: path.to_owned(),
            source,
        }),
        Ok(()) | Err(_) => Ok(()),
    }
}

impl Agent {
    /// Takes what the source says now; true if it is news. A pod that waits for what changed is tried again at once.
    pub fn take_objects(&mut self, objects: Objects) -> bool {
        if objects == self.objects {
            return false;
        }
        let changed = changes(&self.objects, &objects);
        self.objects = objects;
        if !changed.is_empty() {
            self.object_copy.is_stale = true;
            self.volumes.objects_changed();
        }
        let waiting = self.desired.values().filter(|pod| refers(pod, &changed));
        let waiting: Vec<PodUid> = waiting.map(|pod| pod.uid.clone()).collect();
        for uid in &waiting {
            self.problems.forget(uid);
        }
        true
    }

    /// Invariants 5 and 6: on change only, renamed at once and synced a moment later.
    pub fn save_objects(&mut self) -> Result<(), WriteError> {
        let path = self.config.paths.objects();
        if self.object_copy.save(&path, &self.objects)? {
            self.records.sync_later(path);
        }
        Ok(())
    }
}

/// What may be told of it.
pub fn view(object: &LocalObject) -> ObjectView {
    let keys = object.data.iter().map(|(name, value)| KeyView {
        name: name.clone(),
        bytes: value.len(),
        binary: object.binary.contains(name),
        text: match object.key.kind {
            ObjectKind::ConfigMap => String::from_utf8(value.clone()).ok(),
            ObjectKind::Secret => None,
        },
    });
    ObjectView {
        key: object.key.clone(),
        type_: object.type_.clone(),
        origin: object.origin.clone(),
        keys: keys.collect(),
    }
}

/// Those that came, went or are different.
fn changes(old: &Objects, new: &Objects) -> BTreeSet<ObjectKey> {
    let keys = old.by_key.keys().chain(new.by_key.keys());
    let is_changed = |key: &&ObjectKey| old.by_key.get(*key) != new.by_key.get(*key);
    keys.filter(is_changed).cloned().collect()
}

fn refers(pod: &StaticPod, changed: &BTreeSet<ObjectKey>) -> bool {
    references(&pod.pod).iter().any(|reference| {
        changed.contains(&ObjectKey {
            kind: reference.kind,
            namespace: pod.namespace().to_owned(),
            name: reference.name.to_owned(),
        })
    })
}
