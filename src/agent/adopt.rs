//! Taking over what an earlier agent left: holders that live go on as if nothing had happened.

use std::path::Path;

use super::link::{self, Seed};
use super::sandboxes::{Dead, Holding, Phase};
use super::state::{Agent, recorded_state};
use super::trash;
use crate::holder::proto::PodRecord;
use crate::pod::PodUid;

impl Agent {
    /// Looks at every holder directory. One without a record is half-made: nothing of it ran. One without a living
    /// process is dead, and what is left of it is cleaned by the ordinary way.
    pub fn adopt_all(&mut self) {
        let entries = std::fs::read_dir(self.config.paths.holders());
        for entry in entries.into_iter().flatten().flatten() {
            let uid = PodUid::try_from(entry.file_name().to_string_lossy().into_owned());
            let record = uid
                .ok()
                .and_then(|uid| read_record(&self.config.paths.holder(&uid).pod_record(), &uid));
            match record {
                Some(record) => self.adopt(record),
                None => {
                    self.log.warn(format_args!(
                        "removed {}: no holder came of it",
                        entry.path().display()
                    ));
                    let _ = std::fs::remove_dir_all(entry.path());
                }
            }
        }
    }

    fn adopt(&mut self, record: PodRecord) {
        let uid = record.pod.uid.clone();
        let id = self.new_sandbox_id(uid.clone());
        let state = recorded_state(&self.config, &uid);
        let pidfd = state.as_ref().map(|state| link::adopt(state.process));
        // Without a state it never became ready: whatever runs of it is found in its cgroup and killed.
        if let (Some(state), Some(Ok(pidfd))) = (&state, pidfd) {
            self.hold(id, record, Seed::Adopt(pidfd));
            if let Some(holding) = self.sandboxes.get_mut(&uid) {
                // Written before it is told, so that this is the truth already; no flap in the pod's status.
                holding.phase = Phase::Connected(Box::new(state.clone()));
            }
            return;
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
}

impl Agent {
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
                self.trash_is_dirty = true;
            }
        }
    }
}

fn read_record(path: &Path, uid: &PodUid) -> Option<PodRecord> {
    let record: PodRecord = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    (record.pod.uid == *uid).then_some(record)
}
