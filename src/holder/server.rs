//! The loop: one thread, one poll. Facts come in (packets, reports, child exits, output, time), state goes out. Nothing
//! here waits for anything but the poll.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketFlags, accept_with, sockopt};
use rustix::process::WaitOptions;

use super::cgroup::Cgroups;
use super::connection::{self, Connection};
use super::hooks::Sleep;
use super::instance::{End, Instance, Pipe};
use super::job::{Heard, Job, Purpose};
use super::proto::{HolderState, PROTO_VERSION, ProcessId, SandboxSpec, Stamp};
use super::reaper::Reaper;
use super::requests::Remains;
use super::session::Session;
use crate::config::HolderPaths;
use crate::pod::PodUid;
use crate::sys;
use crate::sys::packet;

/// More connections than this are left waiting.
const MAX_CONNECTIONS: usize = 64;
/// Read from one pipe in one go.
const READ: usize = 64 * 1024;
/// Large enough for malloc to map it: pages that no read ever reached then cost no memory.
const BUFFER: usize = 2 * READ;
/// Between two tries to write a state down, when nothing else happens.
const REWRITE_MS: u64 = 10_000;

/// Everything the holder knows.
pub(super) struct Holder {
    pub(super) paths: HolderPaths,
    pub(super) uid: PodUid,
    pub(super) sandbox: SandboxSpec,
    pub(super) cgroups: Cgroups,
    pub(super) connections: BTreeMap<u64, Connection>,
    /// Oldest first.
    pub(super) instances: Vec<Instance>,
    pub(super) jobs: Vec<Job>,
    pub(super) sessions: Vec<Session>,
    pub(super) sleeps: Vec<Sleep>,
    /// Cgroups of commands that have ended and left something in the background, or are not quite dead.
    pub(super) left_behind: VecDeque<String>,
    /// Failed creates whose remains could not be removed yet.
    pub(super) remains: Vec<Remains>,
    /// V-31: hash of the content that each volume of files has.
    pub(super) volumes: BTreeMap<String, String>,
    /// Counts connections and execs.
    pub(super) last_number: u64,
    pub(super) changed: bool,
    pub(super) leaving: bool,
    /// Pid 1 of the containers, if they share their processes.
    pub(super) reaper: Option<Reaper>,
    me: ProcessId,
    /// The mount namespace that this process came from.
    pub(super) host_mounts: OwnedFd,
    listener: OwnedFd,
    child_exits: OwnedFd,
    pub(super) buffer: Vec<u8>,
    /// The newest state as a packet.
    greeting: Vec<u8>,
    log_trouble: Option<String>,
    log_flaw: Option<String>,
    record_trouble: Option<String>,
    /// When a state that could not be written is written again.
    rewrite_at_ms: Option<u64>,
}

/// What a polled descriptor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Listener,
    ChildExits,
    /// All are listened to in each turn.
    Job,
    /// (index of the instance, which of its): valid within one turn.
    Output(usize, Pipe),
    /// By its number.
    Connection(u64),
}

impl Holder {
    pub(super) fn new(
        paths: HolderPaths,
        (uid, sandbox): (PodUid, SandboxSpec),
        cgroups: Cgroups,
        [host_mounts, listener, child_exits]: [OwnedFd; 3],
    ) -> io::Result<Self> {
        Ok(Self {
            paths,
            uid,
            sandbox,
            cgroups,
            connections: BTreeMap::new(),
            instances: Vec::new(),
            jobs: Vec::new(),
            sessions: Vec::new(),
            sleeps: Vec::new(),
            left_behind: VecDeque::new(),
            remains: Vec::new(),
            volumes: BTreeMap::new(),
            last_number: 0,
            changed: true,
            leaving: false,
            reaper: None,
            me: sys::process::of_self()?,
            host_mounts,
            listener,
            child_exits,
            buffer: vec![0; BUFFER],
            greeting: Vec::new(),
            log_trouble: None,
            log_flaw: None,
            record_trouble: None,
            rewrite_at_ms: None,
        })
    }

    /// Serves until a shutdown request, or the death of what its containers need.
    pub(super) fn serve(&mut self) -> io::Result<()> {
        // The child that moved us may have ended before we watched.
        self.reap(sys::clock::now());
        while !self.leaving {
            let ready = self.wait()?;
            self.turn(&ready, sys::clock::now());
            self.publish();
        }
        // Nobody shall connect to a holder that is gone.
        std::fs::remove_file(self.paths.socket())
    }

    /// Sleeps until something is ready or due.
    fn wait(&self) -> io::Result<Vec<Source>> {
        let mut sources = vec![Source::ChildExits];
        let mut fds = vec![PollFd::new(&self.child_exits, PollFlags::IN)];
        if self.connections.len() < MAX_CONNECTIONS {
            sources.push(Source::Listener);
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        for job in &self.jobs {
            sources.push(Source::Job);
            fds.push(PollFd::new(&job.channel, PollFlags::IN));
        }
        for (index, instance) in self.instances.iter().enumerate() {
            for (pipe, fd) in instance.pipes() {
                sources.push(Source::Output(index, pipe));
                fds.push(PollFd::new(fd, PollFlags::IN));
            }
        }
        for (&number, connection) in &self.connections {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, connection.wants_to_write());
            sources.push(Source::Connection(number));
            fds.push(PollFd::new(&connection.socket, flags));
        }
        match poll(&mut fds, self.timeout().as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let is_ready =
            |(fd, source): (&PollFd<'_>, Source)| (!fd.revents().is_empty()).then_some(source);
        Ok(fds.iter().zip(sources).filter_map(is_ready).collect())
    }

    fn timeout(&self) -> Option<Timespec> {
        let wakes = self
            .jobs
            .iter()
            .filter_map(Job::wake_at_ms)
            .chain(self.instances.iter().filter_map(Instance::wake_at_ms))
            .chain(self.sessions.iter().filter_map(Session::wake_at_ms))
            .chain(self.sleeps.iter().map(|s| s.until_ms))
            .chain(self.remains.iter().map(|r| r.try_at_ms))
            .chain(self.rewrite_at_ms);
        let wait_ms = wakes.min()?.saturating_sub(sys::clock::now().boot_ms);
        let wait_ms = i64::try_from(wait_ms).unwrap_or(i64::MAX);
        Some(Timespec {
            tv_sec: wait_ms / 1000,
            tv_nsec: wait_ms % 1000 * 1_000_000,
        })
    }

    /// The order matters: reports are read before children are reaped, so that the pid of a container is known before
    /// its end is seen; output is read before requests, which may remove instances and so move their indices.
    fn turn(&mut self, ready: &[Source], now: Stamp) {
        self.hear_jobs(now);
        if ready.contains(&Source::ChildExits) {
            self.reap(now);
        }
        for source in ready {
            match *source {
                Source::Output(index, pipe) => {
                    self.instances[index].pump(pipe, &mut self.buffer[..READ], now);
                }
                Source::Listener | Source::ChildExits | Source::Job | Source::Connection(_) => {}
            }
        }
        for source in ready {
            match *source {
                Source::Connection(number) => self.read_connection(number, now),
                Source::Listener => self.accept(),
                Source::ChildExits | Source::Job | Source::Output(..) => {}
            }
        }
        self.tick(now);
    }

    fn hear_jobs(&mut self, now: Stamp) {
        let mut index = 0;
        while index < self.jobs.len() {
            let job = &mut self.jobs[index];
            match job.hear() {
                Heard::Nothing => index += 1,
                Heard::Noted => {}
                Heard::Init(pid) => {
                    if let Purpose::Exec { cgroup, .. } = &job.purpose {
                        // Should it fail, killing the exec still reaches its first process.
                        let _ = self.cgroups.track(cgroup, pid);
                    }
                    job.go();
                }
                Heard::End => {
                    let job = self.jobs.remove(index);
                    self.finish_job(job, now);
                }
            }
        }
    }

    fn reap(&mut self, now: Stamp) {
        let mut note = [0; 128];
        while rustix::io::read(&self.child_exits, &mut note).is_ok_and(|n| n > 0) {}
        // One process, one wait: whoever ends (workers, intermediates, failed inits, orphans of a container with the
        // host's pids, gzip children) must not stay a zombie.
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            self.reaped(pid.as_raw_nonzero().get(), status.into(), now);
        }
        self.sweep_exec_cgroups();
    }

    fn reaped(&mut self, pid: i32, end: End, now: Stamp) {
        let is_it = |process: ProcessId| process.pid == pid;
        if self.jobs.iter_mut().any(|job| job.reaped(pid, end, now)) {
            return;
        }
        let mut instances = self.instances.iter_mut();
        if let Some(instance) = instances.find(|i| i.process().is_some_and(is_it)) {
            instance.init_ended(end, now);
        } else if let Some(index) = self.sessions.iter().position(|s| is_it(s.process)) {
            let session = self.sessions.remove(index);
            self.end_session(session, end, now);
        } else {
            self.reaper_reaped(pid);
            for instance in &mut self.instances {
                instance.log_child_exited(pid);
            }
        }
    }

    fn tick(&mut self, now: Stamp) {
        for instance in &mut self.instances {
            self.changed |= instance.tick(&self.cgroups, &mut self.buffer[..READ], now);
        }
        self.tick_hooks(now);
        self.advance_stops(now);
        for session in &mut self.sessions {
            session.tick(&self.cgroups, now);
        }
        let mut index = 0;
        while index < self.jobs.len() {
            let job = &mut self.jobs[index];
            if job.wake_at_ms().is_none_or(|at| now.boot_ms < at) {
                index += 1;
                continue;
            }
            if let Some(cgroup) = job.cgroup() {
                self.cgroups.kill(cgroup);
            }
            if job.tick(now) {
                index += 1;
            } else {
                let job = self.jobs.remove(index);
                self.finish_job(job, now);
            }
        }
        self.clear_remains(now);
        self.look_at_logs();
        self.leaving |= self.is_doomed() && self.instances.iter().all(Instance::is_ended);
        self.changed |= self.rewrite_at_ms.is_some_and(|at| at <= now.boot_ms);
    }

    fn look_at_logs(&mut self) {
        let trouble = self.instances.iter().find_map(Instance::log_trouble);
        let flaw = self.instances.iter().find_map(Instance::log_flaw);
        if (self.log_trouble.as_deref(), self.log_flaw.as_deref()) != (trouble, flaw) {
            (self.log_trouble, self.log_flaw) = (trouble.map(Into::into), flaw.map(Into::into));
            self.changed = true;
        }
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(socket) = accept_with(&self.listener, flags) else {
            return;
        };
        // Invariant 12. The socket's mode says the same; this holds also for a descriptor that was passed on.
        if sockopt::socket_peercred(&socket).is_ok_and(|peer| peer.uid.is_root()) {
            self.last_number += 1;
            let connection = Connection::new(socket);
            self.connections.insert(self.last_number, connection);
        }
    }

    fn read_connection(&mut self, number: u64, now: Stamp) {
        let Some(connection) = self.connections.get(&number) else {
            return;
        };
        match packet::receive(connection.socket.as_fd()) {
            Ok(Some(packet)) => self.request(number, packet, now),
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::InvalidData
                ) => {}
            Ok(None) | Err(_) => self.drop_connection(number, now),
        }
    }

    pub(super) fn drop_connection(&mut self, number: u64, now: Stamp) {
        self.connections.remove(&number);
        for session in &mut self.sessions {
            if session.belongs_to(number) {
                session.orphan(now);
            }
        }
    }

    /// The whole truth.
    pub(super) fn state(&self) -> HolderState {
        HolderState {
            version: PROTO_VERSION,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            uid: self.uid.clone(),
            process: self.me,
            containers: self.instances.iter().map(|i| i.record.clone()).collect(),
            creating: self.jobs.iter().filter_map(Job::creates).collect(),
            volumes: self.volumes.clone(),
            log_trouble: self.log_trouble.clone(),
            log_flaw: self.log_flaw.clone(),
            record_trouble: self.record_trouble.clone(),
        }
    }

    /// Writes the state down, then reports it, then sends the replies.
    pub(super) fn publish(&mut self) {
        if self.changed {
            self.changed = false;
            let mut state = self.state();
            // The agent's copy comes over the socket; the file is for the next agent.
            let file = self.paths.state();
            let bytes = serde_json::to_vec(&state).map_err(io::Error::from);
            let written = bytes.and_then(|bytes| sys::state_file::replace(&file, &bytes));
            let failure = written.err();
            self.record_trouble = failure.map(|e| format!("write {}: {e}", file.display()));
            let later = || sys::clock::now().boot_ms.saturating_add(REWRITE_MS);
            self.rewrite_at_ms = self.record_trouble.as_ref().map(|_| later());
            state.record_trouble.clone_from(&self.record_trouble);
            // Kept, because each exec begins with a connection that is greeted with it.
            self.greeting = connection::encode(state);
            for connection in self.connections.values_mut() {
                connection.state_due = true;
            }
        }
        let mut gone = Vec::new();
        for (&number, connection) in &mut self.connections {
            if connection.wants_to_write() && !connection.flush(&self.greeting) {
                gone.push(number);
            }
        }
        if gone.is_empty() {
            return;
        }
        let now = sys::clock::now();
        for number in gone {
            self.drop_connection(number, now);
        }
    }
}
