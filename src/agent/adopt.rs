//! Taking over what an earlier agent left: holders that live go on as if nothing had happened.

use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::link::{self, Seed};
use super::sandboxes::{Dead, Holding, Phase};
use super::state::Agent;
use super::trash;
use crate::holder::proto::{HolderState, PodRecord};
use crate::pod::PodUid;
use crate::sys::remove;
use crate::sys::state_file::{self, ReadError};

/// Something of an earlier agent cannot be looked at. The agent must not start then: what it does not see it would kill
/// or start twice.
#[derive(Debug, thiserror::Error)]
#[error("take over {path}")]
pub struct AdoptError {
    /// The holder's directory or file.
    pub path: PathBuf,
    /// Cause.
    #[source]
    pub source: io::Error,
}

impl AdoptError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self { path, source }
    }
}

impl Agent {
    /// Looks at every holder directory. One without a record is half-made: nothing of it ran. One without a living
    /// process is dead, and what is left of it is cleaned by the ordinary way.
    pub fn adopt_all(&mut self) -> Result<(), AdoptError> {
        let holders = self.config.paths.holders();
        for entry in std::fs::read_dir(&holders).map_err(AdoptError::at(&holders))? {
            let entry = entry.map_err(AdoptError::at(&holders))?;
            let uid = PodUid::try_from(entry.file_name().to_string_lossy().into_owned());
            let record: Option<PodRecord> = match &uid {
                Ok(uid) => read(&self.config.paths.holder(uid).pod_record())?,
                Err(_) => None,
            };
            match record {
                Some(record) if uid.as_ref() == Ok(&record.pod.uid) => self.adopt(record)?,
                Some(_) | None => {
                    self.log.warn(format_args!(
                        "removed {}: no holder came of it",
                        entry.path().display()
                    ));
                    let _ = remove::tree(&entry.path());
                }
            }
        }
        Ok(())
    }

    fn adopt(&mut self, record: PodRecord) -> Result<(), AdoptError> {
        let uid = record.pod.uid.clone();
        let id = self.new_sandbox_id(uid.clone());
        let path = self.config.paths.holder(&uid).state();
        let state: Option<HolderState> = read(&path)?;
        // Without a state it never became ready: whatever runs of it is found in its cgroup and killed.
        if let Some(state) = &state
            && let Some(pidfd) = link::adopt(state.process).map_err(AdoptError::at(&path))?
        {
            self.hold(id, record, Seed::Adopt(pidfd));
            if let Some(holding) = self.sandboxes.get_mut(&uid) {
                // Written before it is told, so that this is the truth already; no flap in the pod's status.
                holding.phase = Phase::Connected(Box::new(state.clone()));
            }
            return Ok(());
        }
        let cgroup_empty = !self.cgroups.is_populated(&record.sandbox.pod_cgroup);
        let (requests, _) = async_channel::bounded(1);
        let mut holding = Holding::new(id, record, requests);
        holding.bury(Dead {
            containers: state.map(|state| state.containers).unwrap_or_default(),
            cgroup_empty,
            cleaning: false,
        });
        self.sandboxes.insert(uid, holding);
        Ok(())
    }

    /// Writable layers of instances that no sandbox has (a power cut, an earlier boot) go.
    pub fn throw_orphaned_layers(&mut self) {
        let pods = std::fs::read_dir(self.config.paths.pods());
        for pod in pods.into_iter().flatten().flatten() {
            let is_held = PodUid::try_from(pod.file_name().to_string_lossy().into_owned())
                .is_ok_and(|uid| self.sandboxes.contains_key(&uid));
            if is_held {
                continue;
            }
            let layers = std::fs::read_dir(pod.path().join("layers"));
            for layer in layers.into_iter().flatten().flatten() {
                let _ = trash::throw(&self.config.paths.trash(), &layer.path());
            }
        }
    }

    /// N-43: durable directories of pods that nothing knows (a record that was bad, a power cut in between) go, once
    /// the source has delivered.
    pub fn throw_orphaned_pods(&mut self) {
        let pods = std::fs::read_dir(self.config.paths.pods());
        for pod in pods.into_iter().flatten().flatten() {
            let is_known = PodUid::try_from(pod.file_name().to_string_lossy().into_owned())
                .is_ok_and(|uid| {
                    self.history.pods.contains_key(&uid) || self.sandboxes.contains_key(&uid)
                });
            if !is_known {
                let _ = trash::throw(&self.config.paths.trash(), &pod.path());
                self.jobs.trash_is_dirty = true;
            }
        }
    }
}

/// A record in the run directory; none when it is missing or not (or no longer) understood.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, AdoptError> {
    match state_file::read(path) {
        Ok(record) => Ok(record),
        Err(ReadError::Content { .. }) => Ok(None),
        Err(ReadError::Io { path, source }) => Err(AdoptError { path, source }),
    }
}
