//! What a person should know about the node (design: invariant 10). A condition is said once in the log when it begins
//! or changes, and shown as long as it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::log::Log;
use super::pressure::Kind;
use crate::oci::limits::Missing;
use crate::pod::PodUid;

/// What a condition is about; one text each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// N-29: the node goes down.
    Shutdown,
    /// N-5: the node is short of something.
    Pressure(Kind),
    /// Records of pods cannot be written.
    Records,
    /// Records cannot be synced.
    Sync,
    /// Bad records were set aside at start.
    BadRecords,
    /// C-49: nothing keeps containers from devices.
    DeviceRules,
    /// The copy of ConfigMaps and Secrets could not be read at start.
    ObjectCopy,
    /// The import directory.
    Import,
    /// The manifest source.
    Source,
    /// Changes of this directory or file are noticed late.
    Watch(PathBuf),
    /// What the holder of this pod says of its logs and its record.
    Holder(PodUid),
    /// Limits of all pods together.
    AllPods,
    /// Limits of the QoS class with this cgroup.
    Class(String),
    /// New limits of this pod.
    Limits(PodUid),
    /// What pods ask for and the kernel cannot limit.
    Missing(Missing),
    /// What a dead sandbox left of this pod does not go.
    Cleaning(PodUid),
}

/// All conditions that hold.
#[derive(Debug)]
pub struct Conditions {
    log: Log,
    texts: BTreeMap<About, String>,
}

impl Conditions {
    /// None hold.
    pub fn new(log: Log) -> Self {
        Self {
            log,
            texts: BTreeMap::new(),
        }
    }
    /// It holds from now on, with these words.
    pub fn set(&mut self, about: About, text: String) {
        if self.texts.get(&about) != Some(&text) {
            self.log.warn(&text);
            self.texts.insert(about, text);
        }
    }
    /// It holds no longer.
    pub fn clear(&mut self, about: &About) {
        self.texts.remove(about);
    }
    /// Sets or clears.
    pub fn report<T>(&mut self, about: About, outcome: Result<T, impl std::error::Error>) {
        match outcome {
            Ok(_) => self.clear(&about),
            Err(error) => self.set(about, crate::error::chain(&error)),
        }
    }
    /// The kernel cannot limit these, which pods ask for.
    pub fn keep_missing(&mut self, missing: &BTreeSet<Missing>) {
        self.texts.retain(|about, _| {
            let About::Missing(limit) = about else {
                return true;
            };
            missing.contains(limit)
        });
        for limit in missing {
            self.set(About::Missing(*limit), limit.text().to_owned());
        }
    }
    /// Their texts.
    pub fn texts(&self) -> Vec<String> {
        self.texts.values().cloned().collect()
    }
}
