//! The holders of a run directory, found by their records on disk: works with and without an agent.

use std::path::Path;

use super::proto::{HolderState, PodRecord};
use crate::config::{HolderPaths, Paths};
use crate::sys::{process, state_file};

/// A holder's directory and what it says.
#[derive(Debug)]
pub struct Found {
    /// Its files.
    pub paths: HolderPaths,
    /// The pod as it was started.
    pub record: PodRecord,
    /// Missing until the holder has started.
    pub state: Option<HolderState>,
}

/// Every holder that has a readable record, in the order of their names; no directory, no holders.
pub fn scan(paths: &Paths) -> Vec<Found> {
    let Ok(entries) = std::fs::read_dir(paths.holders()) else {
        return Vec::new();
    };
    let mut found: Vec<Found> = entries
        .filter_map(|entry| read(HolderPaths::new(entry.ok()?.path())))
        .collect();
    found.sort_by_key(|holder| holder.record.pod.full_name());
    found
}

/// Is the instance that writes this log still there? Asked by followers of a log.
pub fn writes_log(holder: &HolderPaths, log: &Path) -> bool {
    read_json::<HolderState>(&holder.state()).is_some_and(|state| {
        process::is_alive(state.process)
            && state
                .containers
                .iter()
                .any(|container| container.log == log && container.state.is_live())
    })
}

fn read(paths: HolderPaths) -> Option<Found> {
    let record = read_json(&paths.pod_record())?;
    let state = read_json(&paths.state());
    Some(Found {
        paths,
        record,
        state,
    })
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    state_file::read(path).ok()?
}
