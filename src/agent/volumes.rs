//! The files in volumes of running pods follow their ConfigMaps, Secrets and labels (V-31, V-34).
//!
//! Level, not edge: after each pass, what a holder says its volumes have is compared with what they should have. A pod is
//! looked at again only when one of both has changed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags};

use super::events::{Logged, warning};
use super::sandboxes::{Asked, Errand};
use super::state::Agent;
use crate::holder::proto::{Request, Stamp};
use crate::oci::volumes::{Facts, contents};
use crate::plan::Note;
use crate::pod::PodUid;
use crate::volume::spec::Payload;

#[cfg(test)]
mod tests;

/// What failed with the same content is not tried again before.
const RETRY_MS: u64 = 20_000;

/// What was found out about each pod.
#[derive(Debug, Default)]
pub struct Upkeep {
    /// Rises with each change of a ConfigMap or Secret.
    objects: u64,
    pods: BTreeMap<PodUid, Kept>,
}

/// One pod.
#[derive(Debug, Default, PartialEq, Eq)]
struct Kept {
    /// What was looked at last, and when it is worth another look.
    seen: Option<(Inputs, NextLook)>,
    /// By volume: why its files stay as they are.
    problems: BTreeMap<String, String>,
}

/// Everything that the comparison depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Inputs {
    objects: u64,
    document: String,
    /// From the holder: hashes by volume.
    volumes: BTreeMap<String, String>,
}

/// When the same is worth another look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextLook {
    /// Never: all is as it should be, as far as it can.
    WithNews,
    /// The holder was asked to write.
    At {
        /// CLOCK_BOOTTIME ms. Nobody wakes up for that; the source's periodic scan does.
        boot_ms: u64,
    },
}

/// What is to be done about one pod.
#[derive(Debug, PartialEq)]
struct Work {
    payload: Payload,
    problems: BTreeMap<String, String>,
}

impl Upkeep {
    /// A ConfigMap or Secret is not what it was.
    pub fn objects_changed(&mut self) {
        self.objects += 1;
    }

    /// Only these pods are known.
    pub fn retain(&mut self, is_known: impl Fn(&PodUid) -> bool) {
        self.pods.retain(|uid, _| is_known(uid));
    }

    /// For people: which files are old, and why.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        for (uid, kept) in &self.pods {
            for (volume, problem) in &kept.problems {
                notes.push(Note {
                    uid: uid.clone(),
                    container: None,
                    text: format!("volume {volume} keeps its old files: {problem}"),
                });
            }
        }
        notes
    }

    /// Nothing has changed since it was looked at.
    fn is_settled(&self, uid: &PodUid, inputs: &Inputs, now: Stamp) -> bool {
        let seen = self.pods.get(uid).and_then(|kept| kept.seen.as_ref());
        seen.is_some_and(|(seen, next)| {
            let is_due = match next {
                NextLook::WithNews => false,
                NextLook::At { boot_ms } => *boot_ms <= now.boot_ms,
            };
            seen == inputs && !is_due
        })
    }
}

impl Agent {
    /// Has the files rewritten that are not what they should be.
    pub fn renew_volumes(&mut self, now: Stamp) {
        let due: Vec<(PodUid, Inputs)> = self
            .sandboxes
            .iter()
            .filter(|(_, holding)| !holding.is_open(&Asked::WriteVolumes))
            .filter_map(|(uid, holding)| {
                let volumes = holding.file_volumes().filter(|all| !all.is_empty())?;
                let inputs = Inputs {
                    objects: self.volumes.objects,
                    document: self.desired.get(uid)?.document_hash.clone(),
                    volumes: volumes.clone(),
                };
                (!self.volumes.is_settled(uid, &inputs, now)).then(|| (uid.clone(), inputs))
            })
            .collect();
        for (uid, inputs) in due {
            self.renew_volumes_of(&uid, inputs, now);
        }
    }

    fn renew_volumes_of(&mut self, uid: &PodUid, inputs: Inputs, now: Stamp) {
        let Some(pod) = self.desired.get(uid) else {
            return;
        };
        let facts = Facts {
            pod,
            node: &self.node,
            objects: &self.objects,
        };
        let Work { payload, problems } = work(facts, &inputs);
        let next = if payload.volumes.is_empty() {
            NextLook::WithNews
        } else {
            let boot_ms = now.boot_ms.saturating_add(RETRY_MS);
            NextLook::At { boot_ms }
        };
        let sent = self.write_volumes(uid, payload, now);
        let kept = self.volumes.pods.entry(uid.clone()).or_default();
        kept.seen = Some((inputs, next));
        let before = std::mem::replace(&mut kept.problems, problems.clone());
        for (volume, problem) in problems {
            if before.get(&volume) != Some(&problem) {
                let message = format!(
                    "MountVolume.SetUp failed for volume {volume:?}: {problem}; its files stay as they are"
                );
                self.record_mount_failure(uid, message, now);
            }
        }
        if let Err(error) = sent {
            self.volumes_not_written(uid, &error.to_string(), now);
        }
    }

    fn write_volumes(&mut self, uid: &PodUid, payload: Payload, now: Stamp) -> io::Result<()> {
        let Some(holding) = self.sandboxes.get_mut(uid) else {
            return Ok(());
        };
        if let Some(payload) = sealed(payload, now)? {
            let errand = Errand {
                request: Request::WriteVolumes,
                payload: Some(payload),
            };
            let asked = holding.ask(Asked::WriteVolumes, errand, now.boot_ms);
            asked.map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// A holder could not write; it is tried again.
    pub fn volumes_not_written(&mut self, uid: &PodUid, why: &str, now: Stamp) {
        let message =
            format!("MountVolume.SetUp failed: {why}; the files in volumes stay as they are");
        self.record_mount_failure(uid, message, now);
    }

    fn record_mount_failure(&mut self, uid: &PodUid, message: String, now: Stamp) {
        let Some(pod) = self.pod(uid) else {
            return;
        };
        let event = warning(pod, None, "FailedMount", message);
        self.record(event, now, Logged::Once);
        self.rise();
    }
}

/// Which volumes that the holder has made have other content than they should, and which cannot be told.
fn work(facts: Facts<'_>, inputs: &Inputs) -> Work {
    let mut work = Work {
        payload: Payload::default(),
        problems: BTreeMap::new(),
    };
    for (volume, wanted) in contents(facts) {
        let Some(hash) = inputs.volumes.get(&volume) else {
            continue;
        };
        match wanted {
            Ok(set) if set.hash == *hash => {}
            Ok(set) => {
                work.payload.volumes.insert(volume, set);
            }
            Err(problem) => {
                work.problems.insert(volume, problem);
            }
        }
    }
    work
}

/// A memory file that nobody can change any more; none for nothing. `now` becomes the payload's generation.
pub fn sealed(mut payload: Payload, now: Stamp) -> io::Result<Option<OwnedFd>> {
    if payload.volumes.is_empty() {
        return Ok(None);
    }
    payload.generation = now.boot_ms;
    let mut file = File::from(memory_file()?);
    let mut writer = BufWriter::new(&file);
    serde_json::to_writer(&mut writer, &payload)?;
    writer.flush()?;
    drop(writer);
    file.rewind()?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(Some(file.into()))
}

/// Kernels since 6.3 want to be told that nothing in it will be executed; older ones do not know the flag.
fn memory_file() -> rustix::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let name = "vetch-volumes";
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(rustix::io::Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        outcome => outcome,
    }
}
