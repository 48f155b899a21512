//! A worker in flight: the holder listens to it, mostly with a deadline, and never waits for it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal, kill_process};

use super::hooks::HookOf;
use super::instance::End;
use super::proto::{CreateContainer, FailureKind, ProcessId, Stamp};
use super::report::{self, Report};
use super::session::Owner;
use crate::sys;
use crate::sys::packet::{self, Packet};

/// A worker that takes longer is killed.
const DEADLINE_MS: u64 = 60_000;
/// Pause between two attempts to kill it.
const KILL_AGAIN_MS: u64 = 200;
/// After so many attempts it is given up: something in it cannot be killed.
const MAX_KILLS: u32 = 50;
/// Error lines of libcontainer that are kept. The first ones tell the cause.
const MAX_TROUBLE: usize = 3;
/// Beginnings of lines that only say that something further down failed.
const ECHOES: [&str; 5] = [
    "failed to initialize container process",
    "failed to prepare rootfs",
    "failed to run ",
    "failed to wait for ",
    "failed sending error",
];

/// What the worker does.
pub(super) enum Purpose {
    Create {
        request: Box<CreateContainer>,
        /// The container's.
        cgroup: String,
        outputs: [OwnedFd; 2],
        /// (connection, request id) that get the reply.
        waiters: Vec<(u64, u64)>,
    },
    Exec {
        container: String,
        /// Of its own, for what it makes.
        cgroup: String,
        owner: Owner,
        timeout_ms: Option<u64>,
    },
    /// The HTTP request of a hook. It has no time limit.
    Get(HookOf),
    /// New files for volumes, for this request of that connection.
    Write { connection: u64, request: u64 },
}

/// How it came out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The program runs, or has run already.
    Started(ProcessId),
    /// It did all that there was to do.
    Done,
    /// It could not be executed: kind and cause.
    NotExecuted(FailureKind, String),
    /// It did not come that far: kind and cause.
    Failed(FailureKind, String),
}

pub(super) struct Job {
    pub(super) channel: OwnedFd,
    /// Until it is reaped: afterwards its pid may be somebody else's.
    worker: Option<Pid>,
    pub(super) purpose: Purpose,
    /// The new process, once it reported itself.
    init: Option<ProcessId>,
    /// Its end, if it was reaped before the worker was done.
    pub(super) init_end: Option<(End, Stamp)>,
    pub(super) master: Option<OwnedFd>,
    /// The worker's last word: it did its work, or why not.
    said: Option<Result<(), (FailureKind, String)>>,
    /// V-31: hash of the files that it put in place, by volume.
    pub(super) written: BTreeMap<String, String>,
    not_executed: Option<(FailureKind, String)>,
    trouble: Vec<String>,
    deadline_ms: Option<u64>,
    kills: u32,
}

/// What came over the channel.
pub(super) enum Heard {
    /// Nothing more for now.
    Nothing,
    /// The new process is there and waits for go.
    Init(i32),
    /// Something that was noted.
    Noted,
    /// The end: see [`Job::outcome`].
    End,
}

impl Job {
    pub(super) fn new((channel, worker): (OwnedFd, i32), purpose: Purpose, now: Stamp) -> Self {
        let deadline_ms = match &purpose {
            Purpose::Create { .. } | Purpose::Exec { .. } | Purpose::Write { .. } => {
                Some(now.boot_ms.saturating_add(DEADLINE_MS))
            }
            Purpose::Get(_) => None,
        };
        Self {
            channel,
            worker: Pid::from_raw(worker),
            purpose,
            init: None,
            init_end: None,
            master: None,
            said: None,
            written: BTreeMap::new(),
            not_executed: None,
            trouble: Vec::new(),
            deadline_ms,
            kills: 0,
        }
    }

    /// Name of the container that it makes.
    pub(super) fn creates(&self) -> Option<String> {
        match &self.purpose {
            Purpose::Create { request, .. } => Some(request.name.clone()),
            Purpose::Exec { .. } | Purpose::Get(_) | Purpose::Write { .. } => None,
        }
    }

    /// Cgroup that holds what it makes.
    pub(super) fn cgroup(&self) -> Option<&str> {
        match &self.purpose {
            Purpose::Create { cgroup, .. } | Purpose::Exec { cgroup, .. } => Some(cgroup),
            Purpose::Get(_) | Purpose::Write { .. } => None,
        }
    }

    /// The hook that it works for.
    pub(super) fn hook(&self) -> Option<&HookOf> {
        match &self.purpose {
            Purpose::Exec {
                owner: Owner::Hook(of),
                ..
            }
            | Purpose::Get(of) => Some(of),
            Purpose::Create { .. } | Purpose::Exec { .. } | Purpose::Write { .. } => None,
        }
    }

    /// Nobody wants it any more: kill it at the next tick.
    pub(super) fn give_up(&mut self, now: Stamp) {
        if self.kills == 0 {
            self.deadline_ms = Some(now.boot_ms);
        }
    }

    /// Reads one packet.
    pub(super) fn hear(&mut self) -> Heard {
        match packet::receive(&self.channel) {
            Ok(Some(packet)) => self.note(packet),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Heard::Nothing,
            // Longer than a packet may be: skipped.
            Err(e) if e.kind() == io::ErrorKind::InvalidData => Heard::Noted,
            Ok(None) | Err(_) => Heard::End,
        }
    }

    fn note(&mut self, packet: Packet) -> Heard {
        let Ok(report) = serde_json::from_slice(&packet.bytes) else {
            return Heard::Noted;
        };
        match report {
            Report::Init => return self.note_init(packet.sender),
            Report::Trouble(line) => {
                let is_echo = ECHOES.iter().any(|echo| line.starts_with(echo));
                if !is_echo && self.trouble.len() < MAX_TROUBLE {
                    self.trouble.push(line);
                }
            }
            Report::ExecFailed(kind, message) => self.not_executed = Some((kind, message)),
            Report::Failed(kind, message) => self.said = Some(Err((kind, message))),
            Report::Written(written) => self.written.extend(written),
            Report::Done => {
                self.said = Some(Ok(()));
                self.master = packet.fds.into_iter().next();
            }
        }
        Heard::Noted
    }

    fn note_init(&mut self, sender: Option<i32>) -> Heard {
        match sender.map(|pid| (pid, sys::process::of(pid))) {
            Some((pid, Ok(process))) => {
                self.init = Some(process);
                Heard::Init(pid)
            }
            Some((_, Err(_))) | None => Heard::Noted,
        }
    }

    /// Lets the new process go on.
    pub(super) fn go(&self) {
        // Should it be dead already, the end of the channel tells.
        let _ = report::send_go(&self.channel);
    }

    /// Whether the reaped process was this job's new one. Its worker is noted, too.
    pub(super) fn reaped(&mut self, pid: i32, end: End, now: Stamp) -> bool {
        self.worker = self
            .worker
            .filter(|&worker| Some(worker) != Pid::from_raw(pid));
        let ours = self.init.is_some_and(|process| process.pid == pid);
        if ours {
            self.init_end = Some((end, now));
        }
        ours
    }

    /// When [`Self::tick`] has something to do.
    pub(super) fn wake_at_ms(&self) -> Option<u64> {
        self.deadline_ms
    }

    /// Past its deadline the worker is killed; the caller kills the cgroup. False when it is to be given up.
    pub(super) fn tick(&mut self, now: Stamp) -> bool {
        self.deadline_ms = Some(now.boot_ms.saturating_add(KILL_AGAIN_MS));
        self.kills += 1;
        if let Some(worker) = self.worker {
            let _ = kill_process(worker, Signal::KILL);
        }
        self.kills <= MAX_KILLS
    }

    /// How it came out; to be asked at the end of the channel.
    pub(super) fn outcome(&mut self) -> Outcome {
        if let Some((kind, message)) = self.not_executed.take() {
            return Outcome::NotExecuted(kind, message);
        }
        if self.kills > 0 {
            let limit_s = DEADLINE_MS / 1000;
            let message = format!("it took longer than {limit_s} s and was killed");
            return Outcome::Failed(FailureKind::Create, message);
        }
        match (self.said.take(), self.init) {
            (Some(Ok(())), Some(process)) => Outcome::Started(process),
            (Some(Ok(())), None) => Outcome::Done,
            // libcontainer's own text crosses three processes and says less than what it logged.
            _ if !self.trouble.is_empty() => {
                Outcome::Failed(FailureKind::Create, self.trouble.join("; "))
            }
            (Some(Err((kind, message))), _) => Outcome::Failed(kind, message),
            (None, _) => Outcome::Failed(FailureKind::Create, "the worker died".to_owned()),
        }
    }
}
