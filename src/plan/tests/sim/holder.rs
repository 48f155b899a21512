//! A holder in memory. Its rules are those of [`crate::holder`]: what a request leads to, the steps of a stop, what is
//! written down and in which order it is told. What containers and hooks do is chance.

use std::collections::BTreeSet;

use super::dice::Dice;
use super::instance::{Instance, Step};
use crate::agent::news::Fact;
use crate::holder::proto::{
    CreateContainer, FailureKind, HolderState, InstanceState, PROTO_VERSION, PodRecord, ProcessId,
    Reply, Request, Stamp, ToHolder,
};
use crate::pod::lifecycle::Role;

/// A holder's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// It will be ready then.
    Coming(u64),
    /// It will give up then.
    Failing(u64),
    /// It serves.
    Up,
    /// It has ended.
    Dead,
}

/// A container in the making.
#[derive(Debug)]
struct Job {
    create: Box<CreateContainer>,
    at_ms: u64,
    waiter: (u32, u64),
}

/// A stop signal that was sent.
#[derive(Debug)]
pub struct Signal {
    pub name: String,
    pub reason: String,
    /// The grace was not over.
    pub is_early: bool,
    /// Names of the others that had not ended.
    pub others: Vec<String>,
}

#[derive(Debug)]
pub struct FakeHolder {
    pub record: PodRecord,
    pub process: Process,
    pub instances: Vec<Instance>,
    /// Its file.
    pub written: Option<HolderState>,
    /// Ids of instances that end soon, as init containers do.
    pub short_lived: BTreeSet<String>,
    /// Since somebody looked.
    pub signals: Vec<Signal>,
    jobs: Vec<Job>,
    has_changed: bool,
    /// Answers, with the connection that asked.
    replies: Vec<(u32, Fact)>,
}

impl FakeHolder {
    pub fn new(record: PodRecord, process: Process) -> Self {
        Self {
            record,
            process,
            instances: Vec::new(),
            written: None,
            short_lived: BTreeSet::new(),
            signals: Vec::new(),
            jobs: Vec::new(),
            has_changed: false,
            replies: Vec::new(),
        }
    }

    /// Everything that is due. Gives what it tells this connection: its new state first.
    pub fn turn(&mut self, connection: u32, now: Stamp, dice: &mut Dice) -> Vec<Fact> {
        match self.process {
            Process::Coming(at) if at <= now.boot_ms => {
                self.process = Process::Up;
                self.has_changed = true;
            }
            Process::Failing(at) if at <= now.boot_ms => {
                self.process = Process::Dead;
                return Vec::new();
            }
            Process::Coming(_) | Process::Failing(_) | Process::Up | Process::Dead => {}
        }
        match self.process {
            Process::Up => {}
            Process::Coming(_) | Process::Failing(_) | Process::Dead => return Vec::new(),
        }
        self.finish_jobs(now, dice);
        for instance in &mut self.instances {
            self.has_changed |= instance.tick(now);
        }
        self.advance_stops(now, dice);
        self.publish(connection)
    }

    fn publish(&mut self, connection: u32) -> Vec<Fact> {
        let mut facts = Vec::new();
        if std::mem::take(&mut self.has_changed) {
            let state = self.state();
            self.written = Some(state.clone());
            facts.push(Fact::State(Box::new(state)));
        }
        let replies = std::mem::take(&mut self.replies).into_iter();
        facts.extend(replies.filter_map(|(to, fact)| (to == connection).then_some(fact)));
        facts
    }

    fn state(&self) -> HolderState {
        HolderState {
            version: PROTO_VERSION,
            release: "sim".into(),
            uid: self.record.pod.uid.clone(),
            process: ProcessId {
                pid: 1,
                start_ticks: 1,
            },
            containers: self.instances.iter().map(|i| i.record.clone()).collect(),
            creating: self.jobs.iter().map(|j| j.create.name.clone()).collect(),
            volumes: Default::default(),
            log_trouble: None,
            log_flaw: None,
            record_trouble: None,
        }
    }

    /// When something is due.
    pub fn wake_at_ms(&self) -> Option<u64> {
        match self.process {
            Process::Coming(at) | Process::Failing(at) => return Some(at),
            Process::Dead => return None,
            Process::Up => {}
        }
        let jobs = self.jobs.iter().map(|job| job.at_ms);
        let instances = self.instances.iter().filter_map(Instance::wake_at_ms);
        jobs.chain(instances).min()
    }

    pub fn request(&mut self, connection: u32, packet: ToHolder, now: Stamp, dice: &mut Dice) {
        let ToHolder { id, request } = packet;
        let reply = match request {
            Request::Create(create) => self.create(create, (connection, id), now, dice),
            Request::Stop {
                id,
                grace_ms,
                reason,
                pre_stop,
                after,
            } => match self.instances.iter_mut().find(|i| i.record.id == id) {
                Some(instance) => {
                    let hook = pre_stop.filter(|_| grace_ms > 0);
                    instance.stop((grace_ms, reason, after, hook), now, dice);
                    self.has_changed = true;
                    Some(Reply::Done)
                }
                None => Some(refused()),
            },
            Request::Remove { id, .. } => Some(self.remove(&id)),
            Request::WriteVolumes | Request::Exec(_) => Some(refused()),
            Request::Shutdown => Some(self.shut_down()),
        };
        if let Some(reply) = reply {
            self.replies.push((connection, Fact::Reply { id, reply }));
        }
    }

    fn create(
        &mut self,
        create: Box<CreateContainer>,
        waiter: (u32, u64),
        now: Stamp,
        dice: &mut Dice,
    ) -> Option<Reply> {
        let lives = |i: &Instance| i.record.name == create.name && i.step != Step::Ended;
        let is_made = |job: &Job| job.create.name == create.name;
        if self.instances.iter().any(lives) || self.jobs.iter().any(is_made) {
            return Some(refused());
        }
        self.jobs.push(Job {
            create,
            at_ms: now.boot_ms + dice.delay_ms(),
            waiter,
        });
        self.has_changed = true;
        None
    }

    fn finish_jobs(&mut self, now: Stamp, dice: &mut Dice) {
        let due = self.jobs.extract_if(.., |job| job.at_ms <= now.boot_ms);
        for Job { create, waiter, .. } in due.collect::<Vec<_>>() {
            self.has_changed = true;
            let role = if self.short_lived.contains(&create.id) {
                Role::Init
            } else {
                Role::Regular
            };
            let reply = if dice.fails(12) {
                failed(FailureKind::Create)
            } else if dice.fails(12) {
                self.instances.push(Instance::not_started(&create, now));
                failed(FailureKind::Start)
            } else {
                let instance = Instance::running((&create, role), now, dice);
                self.instances.push(instance);
                Reply::Started { pid: 7 }
            };
            let id = waiter.1;
            self.replies.push((waiter.0, Fact::Reply { id, reply }));
        }
    }

    fn remove(&mut self, id: &str) -> Reply {
        let ended = |i: &Instance| i.record.id == id && i.step == Step::Ended;
        let Some(index) = self.instances.iter().position(ended) else {
            return refused();
        };
        self.instances.remove(index);
        self.has_changed = true;
        Reply::Done
    }

    fn shut_down(&mut self) -> Reply {
        if !self.jobs.is_empty() || self.instances.iter().any(|i| i.step != Step::Ended) {
            return refused();
        }
        self.instances.clear();
        self.written = Some(self.state());
        self.process = Process::Dead;
        Reply::Done
    }

    fn advance_stops(&mut self, now: Stamp, dice: &mut Dice) {
        let alive = self.instances.iter().filter(|i| i.step != Step::Ended);
        let made = self.jobs.iter().map(|job| job.create.name.clone());
        let living: Vec<String> = alive.map(|i| i.record.name.clone()).chain(made).collect();
        for instance in &mut self.instances {
            let outcome = instance.advance(&|name| living.iter().any(|n| n == name), now, dice);
            self.has_changed |= outcome.has_changed;
            if let Some((reason, is_early)) = outcome.signal {
                let own = &instance.record.name;
                self.signals.push(Signal {
                    name: own.clone(),
                    reason,
                    is_early,
                    others: living.iter().filter(|n| *n != own).cloned().collect(),
                });
            }
        }
    }

    /// It dies, and nobody writes anything down.
    pub fn kill(&mut self) {
        self.process = Process::Dead;
    }

    /// D2: what a reboot leaves in a run directory that is no tmpfs. False when that is nothing.
    pub fn keep_exits(&mut self) -> bool {
        self.kill();
        let Some(state) = &mut self.written else {
            return false;
        };
        state
            .containers
            .retain(|c| matches!(c.state, InstanceState::Exited(_)));
        state.creating.clear();
        !state.containers.is_empty()
    }
}

fn refused() -> Reply {
    failed(FailureKind::Refused)
}

fn failed(kind: FailureKind) -> Reply {
    Reply::Failed {
        kind,
        message: "it failed".into(),
    }
}
