//! One pass: gather what is wanted and what is seen, plan, remember, act, show. The same for every wake-up.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::Duration;

use smol::Timer;

use super::conditions::About;
use super::host;
use super::news::News;
use super::ring::Recorded;
use super::sources::Snapshot;
use super::state::{Agent, Job, Shown};
use super::{child, store, trash};
use crate::holder::proto::Stamp;
use crate::image::import_dir;
use crate::plan::{self, Action, Desired, Event, Halt, ImagePresence, Observed, Plan};
use crate::pod::{Diagnostic, lifecycle};

/// Records that change within this time are synced together.
const SYNC_DELAY: Duration = Duration::from_millis(200);

/// What the loop does after a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Wait for news, not longer than until this CLOCK_BOOTTIME ms.
    WaitUntil(u64),
    /// The agent's work is done.
    Quit,
}

/// When an event is also a line in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logged {
    /// Each time.
    Always,
    /// Not when it is a repeat.
    Once,
    /// It says nothing new to a reader of the log.
    Never,
}

impl Agent {
    /// Runs one pass.
    pub fn pass(&mut self, now: Stamp) -> Next {
        if self.wishes.leave {
            return Next::Quit;
        }
        self.rescan_if_due(now);
        self.expire(now);
        self.drop_old_problems();
        let observed = self.observe();
        let plan = plan::plan(&self.desired, &observed, &self.history, &self.rules, now);
        let Plan {
            actions,
            history,
            wake_at_boot_ms,
            notes,
            events,
            probes,
            restarts,
            pods,
        } = plan;
        // S-160: the old things of a pod that came back go before the record of the new one is written.
        let is_forgetting = |action: &Action| matches!(action, Action::ForgetPod { .. });
        let (forgetting, actions): (Vec<_>, Vec<_>) = actions.into_iter().partition(is_forgetting);
        for action in forgetting {
            self.apply(action, now);
        }
        self.records.note_changes(&self.history, &history);
        self.history = history;
        self.save_records();
        if self.has_delivered && !std::mem::replace(&mut self.is_tidy, true) {
            self.throw_orphaned_pods();
        }
        let has_events = !events.is_empty();
        for event in events {
            self.record_of_plan(event, now);
        }
        let is_over = self.wishes.stop && self.sandboxes.is_empty() && actions.is_empty();
        for action in actions {
            self.apply(action, now);
        }
        self.reconcile_probes(probes, now);
        self.start_import();
        self.start_sync();
        self.start_sweep();
        let shown = Shown {
            pods,
            notes,
            restarts,
            conditions: self.conditions.texts(),
        };
        if has_events || shown != self.shown {
            self.shown = shown;
            self.rise();
        }
        self.wake_at_boot_ms = wake_at_boot_ms;
        if is_over {
            return Next::Quit;
        }
        Next::WaitUntil(self.next_wake())
    }

    /// A client can see something new.
    pub fn rise(&mut self) {
        self.generation += 1;
        self.gate = async_channel::bounded(1);
    }

    fn next_wake(&self) -> u64 {
        let deadlines = self.sandboxes.values().filter_map(|h| h.next_deadline());
        deadlines
            .chain(self.wake_at_boot_ms)
            .chain(self.snapshot.again_at_boot_ms)
            .chain([self.next_rescan_boot_ms])
            .min()
            .unwrap_or(self.next_rescan_boot_ms)
    }

    /// S-2: a hint asked for it, or it is time. Also what is cheap to look at and rarely changes.
    fn rescan_if_due(&mut self, now: Stamp) {
        let is_due = now.boot_ms >= self.next_rescan_boot_ms;
        if is_due {
            let frequency = self.config.file_check_frequency.as_millis();
            let period = u64::try_from(frequency).unwrap_or(u64::MAX).max(1000);
            self.next_rescan_boot_ms = now.boot_ms.saturating_add(period);
            self.node.host_ips = host::addresses();
            self.rules.host_ip = self.node.host_ips.first().cloned();
            self.images.clear();
            self.imports.look();
        }
        if std::mem::take(&mut self.wishes.rescan) {
            self.images.clear();
            self.imports.look();
        } else if !is_due
            && self
                .snapshot
                .again_at_boot_ms
                .is_none_or(|at| now.boot_ms < at)
        {
            return;
        }
        self.rescan(now);
    }

    /// Reads the manifests again.
    fn rescan(&mut self, now: Stamp) {
        let mut snapshot = self.source.scan(now);
        match &snapshot.directory_problem {
            None => {
                self.has_delivered = true;
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
        if snapshot == self.snapshot && desired == self.desired {
            return;
        }
        for (uid, pod) in &desired {
            if self.desired.get(uid) != Some(pod) {
                self.records.note_pod(uid.clone());
                // Said of another document. What is still wrong is said again.
                self.start_problems.retain(|(pod, _), _| pod != uid);
                self.sandbox_problems.remove(uid);
            }
        }
        self.desired = desired;
        self.log_new_problems(&snapshot);
        self.snapshot = snapshot;
        // Files and their problems are visible even when no pod changes.
        self.rise();
    }

    /// D-10: each problem of a file is said once, when it appears. A running pod's own warnings are events.
    fn log_new_problems(&self, snapshot: &Snapshot) {
        let of_pods = self.desired.values().flat_map(|pod| &pod.diagnostics);
        let known: BTreeSet<&Diagnostic> = diagnostics(&self.snapshot).chain(of_pods).collect();
        for diagnostic in diagnostics(snapshot).filter(|d| !known.contains(d)) {
            self.log.warn(diagnostic);
        }
    }

    fn expire(&mut self, now: Stamp) {
        let mut failures = Vec::new();
        for (uid, holding) in &mut self.sandboxes {
            let expired = holding.expire(now.boot_ms);
            failures.extend(expired.into_iter().map(|failure| (uid.clone(), failure)));
        }
        for (uid, failure) in failures {
            self.container_failed(&uid, failure, now);
        }
    }

    /// What is seen right now.
    pub fn observe(&mut self) -> Observed {
        Observed {
            sandboxes: self
                .sandboxes
                .iter()
                .map(|(uid, holding)| (uid.clone(), holding.observe()))
                .collect(),
            images: self.image_presence(),
            start_problems: self.start_problems.clone(),
            sandbox_problems: self.sandbox_problems.clone(),
            probes: self.probes.findings(),
            halt: match self.wishes.drain {
                _ if self.wishes.stop => Halt::AgentStop,
                Some(since_boot_ms) => Halt::NodeShutdown { since_boot_ms },
                None => Halt::No,
            },
            sources_ready: self.has_delivered,
        }
    }

    fn image_presence(&mut self) -> BTreeMap<String, ImagePresence> {
        let specs = self
            .desired
            .values()
            .flat_map(|pod| lifecycle::members(&pod.pod));
        let names = specs.flat_map(|(_, container)| container.image.as_deref());
        let mut seen = BTreeMap::new();
        for name in names {
            if !self.images.contains_key(name) {
                self.images
                    .insert(name.to_owned(), self.store.presence(name));
            }
            if let Some(presence) = self.images.get(name) {
                seen.insert(name.to_owned(), presence.clone());
            }
        }
        seen
    }

    fn save_records(&mut self) {
        let pod_of = |uid: &crate::pod::PodUid| {
            let started = || self.sandboxes.get(uid).map(|h| &h.record.pod);
            self.desired.get(uid).or_else(started)
        };
        let outcome = self
            .records
            .save(&self.config.paths, &self.history.pods, pod_of);
        self.conditions.report(About::Records, outcome);
    }

    /// Records an event of the plan; each is a line in the log, repeats of a waiting reason are not.
    fn record_of_plan(&mut self, event: Event, now: Stamp) {
        let logged = if event.reason == "BackOff" {
            Logged::Once
        } else {
            Logged::Always
        };
        self.record(event, now, logged);
    }

    /// Records one event.
    pub fn record(&mut self, event: Event, now: Stamp, logged: Logged) {
        let line = line_of(&event);
        let is_warning = event.warning;
        match (logged, self.ring.record(event, now.wall)) {
            (Logged::Never, _) | (Logged::Once, Recorded::Repeat) => {}
            (Logged::Once, Recorded::New) | (Logged::Always, _) if is_warning => {
                self.log.warn(line);
            }
            (Logged::Once, Recorded::New) | (Logged::Always, _) => self.log.info(line),
        }
    }

    /// Invariant 6: off the loop, together, and one at a time.
    fn start_sync(&mut self) {
        if self.sync == Job::Running {
            return;
        }
        let paths = self.records.take_unsynced();
        if paths.is_empty() {
            return;
        }
        self.sync = Job::Running;
        let news = self.news.clone();
        self.executor
            .spawn(async move {
                Timer::after(SYNC_DELAY).await;
                let outcome = store::sync_aside(paths).await;
                let _ = news.send(News::Synced(outcome)).await;
            })
            .detach();
    }

    fn start_import(&mut self) {
        if !self.imports.start() {
            return;
        }
        let news = self.news.clone();
        let args: [OsString; 2] = [
            import_dir::ROLE.into(),
            self.config.paths.root_dir.clone().into(),
        ];
        self.executor
            .spawn(async move {
                let outcome = child::run(&args).await;
                let _ = news.send(News::Imported(outcome)).await;
            })
            .detach();
    }

    fn start_sweep(&mut self) {
        if self.sweep == Job::Running || !self.trash_is_dirty {
            return;
        }
        self.trash_is_dirty = false;
        let dirs = trash::full(&self.config.paths);
        if dirs.is_empty() {
            return;
        }
        self.sweep = Job::Running;
        let news = self.news.clone();
        self.executor
            .spawn(async move {
                let mut args = vec![OsString::from(trash::ROLE)];
                args.extend(dirs.into_iter().map(OsString::from));
                // What it could not remove stays for the next start; it has said why.
                let _ = child::run(&args).await;
                let _ = news.send(News::Swept).await;
            })
            .detach();
    }
}

fn diagnostics(snapshot: &Snapshot) -> impl Iterator<Item = &Diagnostic> {
    snapshot.files.iter().flat_map(|file| &file.diagnostics)
}

/// `default/web-box main: Started: Started container main`.
fn line_of(event: &Event) -> String {
    let container = event
        .container
        .as_deref()
        .map(|name| format!(" {name}"))
        .unwrap_or_default();
    let Event {
        namespace,
        name,
        reason,
        message,
        ..
    } = event;
    format!("{namespace}/{name}{container}: {reason}: {message}")
}
