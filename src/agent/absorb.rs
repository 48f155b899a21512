//! What news change: each one updates facts, and says whether a plan would look at them.

use std::path::PathBuf;
use std::rc::Rc;

use super::child::ChildError;
use super::conditions::About;
use super::jobs::Job;
use super::link;
use super::news::{Fact, News, SandboxId};
use super::sandboxes::{Dead, Failure, Holding};
use super::state::{Agent, Need};
use crate::config::Config;
use crate::error::chain;
use crate::holder::proto::HolderState;
use crate::pod::PodUid;
use crate::sys::{clock, state_file};

impl Agent {
    /// Takes in one piece of news.
    pub fn absorb(&mut self, news: News) -> Need {
        match news {
            News::Probe(report) => return self.probe_reported(report),
            News::Look => return Need::Nothing,
            News::Watched { path, problem } => self.watched(path, problem),
            News::Manifests => self.wishes.rescan = true,
            News::Images => self.images.clear(),
            News::Imports => self.imports.look(),
            News::Imported(outcome) => self.imported(outcome),
            News::Holder(id, fact) => self.absorb_fact(&id, fact),
            News::Cleaned(id) => self.cleaned(&id),
            News::CleaningStuck(id) => {
                let text = format!("pod {}: its processes do not die", self.pod_label(&id.uid));
                self.conditions.set(About::Cleaning(id.uid), text);
            }
            News::Synced(outcome) => {
                self.jobs.sync = Job::Idle;
                self.conditions.report(About::Sync, outcome);
            }
            News::Limited(outcomes) => self.limited(outcomes),
            News::Stalled => self.look_for_pressure(clock::now()),
            News::Reclaimed(outcome) => self.reclaimed(outcome, clock::now()),
            News::Weighed(outcome) => self.weighed(outcome, clock::now()),
            News::Swept => self.jobs.sweep = Job::Idle,
        }
        Need::Pass
    }

    fn watched(&mut self, path: PathBuf, problem: Option<String>) {
        match problem {
            None => self.conditions.clear(&About::Watch(path)),
            Some(problem) => {
                let late = format!(
                    "changes of {} are noticed by the periodic scan only: {problem}",
                    path.display()
                );
                self.conditions.set(About::Watch(path), late);
            }
        }
    }

    fn imported(&mut self, outcome: Result<String, ChildError>) {
        let is_settled = self.imports.finished(&outcome);
        let words = match outcome {
            Ok(warnings) => Some(warnings),
            Err(error) => is_settled.then(|| chain(&error)),
        };
        match words {
            Some(words) if words.is_empty() => self.conditions.clear(&About::Import),
            Some(words) => {
                let dir = self.config.paths.images_import();
                let text = format!("import from {}: {words}", dir.display());
                self.conditions.set(About::Import, text);
            }
            None => {}
        }
        self.images.clear();
    }

    fn absorb_fact(&mut self, id: &SandboxId, fact: Fact) {
        match fact {
            Fact::State(state) => self.holder_state(id, state),
            Fact::Reply { id: request, reply } => {
                match self.holding(id).and_then(|h| h.hear(request, reply)) {
                    Some(Failure::Create(failure)) => {
                        self.container_failed(&id.uid, failure, clock::now());
                    }
                    Some(Failure::WriteVolumes(why)) => {
                        self.volumes_not_written(&id.uid, &why, clock::now());
                    }
                    None => {}
                }
            }
            Fact::NeverCame(why) if self.holding(id).is_some() => {
                self.sandbox_failed(&id.uid, why, clock::now());
                // It stays `Starting` until it is gone: there was no sandbox that could have changed.
                self.start_remains(&id.uid);
            }
            Fact::NeverCame(_) => {}
            Fact::Died => self.holder_died(id),
        }
    }

    fn holder_state(&mut self, id: &SandboxId, state: Box<HolderState>) {
        let lost_lines = state
            .log_trouble
            .iter()
            .map(|t| format!("log lines are lost: {t}"));
        let flawed = state
            .log_flaw
            .iter()
            .map(|t| format!("its logs are not as they should be: {t}"));
        let no_record = state
            .record_trouble
            .iter()
            .map(|t| format!("its holder's record is old: {t}"));
        let troubles: Vec<_> = lost_lines.chain(flawed).chain(no_record).collect();
        let Some(holding) = self.holding(id) else {
            return;
        };
        let created = holding.see(state);
        // The writable layer of a container that is gone lies there now, put by the holder.
        self.jobs.trash_is_dirty = true;
        self.problems.sandboxes.remove(&id.uid);
        for container in created {
            self.problems
                .containers
                .remove(&(id.uid.clone(), container));
        }
        let about = About::Holder(id.uid.clone());
        if troubles.is_empty() {
            self.conditions.clear(&about);
        } else {
            let pod = self.pod_label(&id.uid);
            let text = format!("pod {pod}: {}", troubles.join("; "));
            self.conditions.set(about, text);
        }
    }

    fn holder_died(&mut self, id: &SandboxId) {
        let Some(holding) = self.holding(id) else {
            return;
        };
        if holding.is_leaving() {
            self.bury(id);
            self.clean(&id.uid);
            return;
        }
        self.bury(id);
        let words = link::last_words(&self.config.paths.holder(&id.uid));
        let is_empty = |holding: &Holding| holding.containers().is_empty();
        if words.is_none() && self.sandboxes.get(&id.uid).is_some_and(is_empty) {
            // It left because an earlier agent asked it to.
            return;
        }
        let words = words.map(|words| format!(": {words}"));
        self.log.error(format_args!(
            "the holder of pod {} died{}",
            self.pod_label(&id.uid),
            words.unwrap_or_default()
        ));
    }

    /// The holder is dead: what it recorded last is what we know.
    fn bury(&mut self, id: &SandboxId) {
        let state = recorded_state(&self.config, &id.uid);
        let cgroups = Rc::clone(&self.cgroups);
        if let Some(holding) = self.holding(id) {
            let recorded = state.map(|state| state.containers);
            let containers = recorded.unwrap_or_else(|| holding.containers().to_vec());
            let cgroup_empty = !cgroups.is_populated(&holding.record.sandbox.pod_cgroup);
            holding.bury(Dead {
                containers,
                cgroup_empty,
                cleaning: false,
            });
        }
    }

    fn cleaned(&mut self, id: &SandboxId) {
        if self.holding(id).is_some() {
            self.jobs.trash_is_dirty = true;
            self.sandboxes.remove(&id.uid);
            self.conditions.clear(&About::Holder(id.uid.clone()));
            self.conditions.clear(&About::Cleaning(id.uid.clone()));
            self.conditions.clear(&About::Limits(id.uid.clone()));
        }
    }
}

/// What a holder wrote last.
fn recorded_state(config: &Config, uid: &PodUid) -> Option<HolderState> {
    state_file::read(&config.paths.holder(uid).state()).ok()?
}
