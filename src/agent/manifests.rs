//! What the source of manifests says, and when it is asked again.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::conditions::About;
use super::host;
use super::sources::{FileSource, Snapshot};
use super::state::Agent;
use crate::holder::proto::Stamp;
use crate::plan::{Desired, PodHistory};
use crate::pod::objects::LocalObject;
use crate::pod::{Diagnostic, StaticPod};

/// The source and what it has said.
#[derive(Debug)]
pub struct Manifests {
    source: FileSource,
    /// What it said last, without its pods and objects.
    pub snapshot: Snapshot,
    /// D-2, D-7: it has been readable once, and nothing was missing for a moment only.
    pub has_delivered: bool,
    /// Next full look at everything, CLOCK_BOOTTIME ms.
    next_rescan_boot_ms: u64,
}

impl Manifests {
    /// A source that was not asked yet.
    pub fn new(source: FileSource) -> Self {
        Self {
            source,
            snapshot: Snapshot::default(),
            has_delivered: false,
            next_rescan_boot_ms: 0,
        }
    }

    /// D-1 over a restart: what an earlier agent knew.
    pub fn seed_objects(&mut self, objects: Vec<LocalObject>) {
        self.source.seed_objects(objects);
    }

    /// When to look again without a hint, CLOCK_BOOTTIME ms.
    pub fn wake_at_boot_ms(&self) -> u64 {
        let again = self.snapshot.again_at_boot_ms;
        again.map_or(self.next_rescan_boot_ms, |at| {
            at.min(self.next_rescan_boot_ms)
        })
    }
}

impl Agent {
    /// D-1 over a restart: what ran last counts as the last good content of its file. Not what was on its way out.
    pub fn seed_source(&mut self, mut known: Vec<(Timestamp, StaticPod)>) {
        known.sort_by_key(|(start, _)| std::cmp::Reverse(*start));
        let recorded = known.into_iter().map(|(_, pod)| pod);
        let adopted = self.sandboxes.values().map(|h| h.record.pod.clone());
        let is_ending = |pod: &StaticPod| {
            let memory = self.history.pods.get(&pod.uid);
            memory.is_some_and(PodHistory::is_removed)
        };
        let pods = recorded.chain(adopted).filter(|pod| !is_ending(pod));
        self.manifests.source.seed(pods.collect());
    }

    /// S-2: a hint asked for it, or it is time.
    pub fn rescan_if_due(&mut self, now: Stamp) {
        let is_hinted = std::mem::take(&mut self.wishes.rescan);
        let is_due = now.boot_ms >= self.manifests.next_rescan_boot_ms;
        if is_due {
            self.look_around(now);
        }
        if is_due || is_hinted {
            self.images.clear();
            self.imports.look();
        }
        if is_due || is_hinted || now.boot_ms >= self.manifests.wake_at_boot_ms() {
            self.rescan(now);
        }
    }

    /// Once in a while, what is cheap to look at and rarely changes.
    fn look_around(&mut self, now: Stamp) {
        let frequency = self.config.file_check_frequency.as_millis();
        let period = u64::try_from(frequency).unwrap_or(u64::MAX).max(1000);
        self.manifests.next_rescan_boot_ms = now.boot_ms.saturating_add(period);
        self.limits.try_again();
        self.node.host_ips = host::addresses();
        self.rules.host_ip = self.node.host_ips.first().cloned();
        self.look_for_pressure(now);
        for watch in &self.watches {
            // Full means that it has not looked since the last time, and will.
            let _ = watch.try_send(());
        }
    }

    /// Reads the manifests again.
    fn rescan(&mut self, now: Stamp) {
        let mut snapshot = self.manifests.source.scan(now);
        match &snapshot.directory_problem {
            None => {
                // What is missing at first may have been deleted meanwhile, and must not start once more.
                self.manifests.has_delivered |= snapshot.again_at_boot_ms.is_none();
                self.conditions.clear(&About::Source);
            }
            Some(problem) => {
                let text = format!("manifests cannot be read, pods are kept: {problem}");
                self.conditions.set(About::Source, text);
            }
        }
        // Moved, not copied: every copy of every pod counts on a small device.
        let pods = std::mem::take(&mut snapshot.pods).into_iter();
        let desired: Desired = pods.map(|pod| (pod.uid.clone(), pod)).collect();
        let objects = std::mem::take(&mut snapshot.objects);
        let has_new_objects = self.take_objects(objects);
        if !has_new_objects && snapshot == self.manifests.snapshot && desired == self.desired {
            return;
        }
        for (uid, pod) in &desired {
            if self.desired.get(uid) != Some(pod) {
                self.records.note_pod(uid.clone());
                self.problems.forget(uid);
            }
        }
        self.desired = desired;
        self.share_documents();
        self.log_new_problems(&snapshot);
        self.manifests.snapshot = snapshot;
        // Files and their problems are visible even when no pod changes.
        self.rise();
    }

    /// Sandboxes of an earlier agent came with copies of their own.
    fn share_documents(&mut self) {
        for (uid, holding) in &mut self.sandboxes {
            if let Some(pod) = self.desired.get(uid)
                && pod.pod == holding.record.pod.pod
            {
                holding.record.pod.pod = pod.pod.clone();
            }
        }
    }

    /// D-10: each problem of a file is said once, when it appears. A running pod's own warnings are events.
    fn log_new_problems(&self, snapshot: &Snapshot) {
        let of_pods = self.desired.values().flat_map(|pod| &pod.diagnostics);
        let before = diagnostics(&self.manifests.snapshot);
        let known: BTreeSet<&Diagnostic> = before.chain(of_pods).collect();
        for diagnostic in diagnostics(snapshot).filter(|d| !known.contains(d)) {
            self.log.warn(diagnostic);
        }
    }
}

fn diagnostics(snapshot: &Snapshot) -> impl Iterator<Item = &Diagnostic> {
    snapshot.files.iter().flat_map(|file| &file.diagnostics)
}
