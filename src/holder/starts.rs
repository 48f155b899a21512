//! Starting things: workers for containers and commands, and what becomes of their reports.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::ioctl_fionbio;
use rustix::pipe::{PipeFlags, pipe_with};

use super::connection::Role;
use super::instance::{End, Instance};
use super::job::{Job, Outcome, Purpose};
use super::proto::{
    Confinement, CreateContainer, ExecCommand, FailureKind, InstanceState, Reply, Stamp,
};
use super::report;
use super::requests::{failed, refused};
use super::runtime::{self, ExecJob, ExecStdio, Place};
use super::server::Holder;
use super::session::Session;
use crate::sys;

impl Holder {
    pub(super) fn create(
        &mut self,
        request: Box<CreateContainer>,
        waiter: (u64, u64),
        now: Stamp,
    ) -> Option<Reply> {
        if !is_container_id(&request.id) {
            return Some(refused(format!("bad container id {:?}", request.id)));
        }
        if self.remains.iter().any(|r| r.request.id == request.id) {
            return Some(refused(format!(
                "container {} is being removed",
                request.id
            )));
        }
        for job in &mut self.jobs {
            if let Purpose::Create {
                request: other,
                waiters,
                ..
            } = &mut job.purpose
                && other.id == request.id
            {
                waiters.push(waiter);
                return None;
            }
        }
        if let Some(instance) = self.find(&request.id) {
            return Some(match &instance.record.state {
                InstanceState::Running { process, .. }
                | InstanceState::Stopping { process, .. } => Reply::Started { pid: process.pid },
                InstanceState::Exited(exit) if exit.started_at.is_none() => {
                    failed(FailureKind::Start, exit.message.clone().unwrap_or_default())
                }
                InstanceState::Exited(_) => Reply::Done,
            });
        }
        if self.is_busy(&request.name) {
            let name = &request.name;
            return Some(refused(format!(
                "another instance of container {name} lives or is being made"
            )));
        }
        match self.start_create(request, waiter, now) {
            Ok(()) => None,
            Err(e) => Some(failed(FailureKind::Create, format!("start a worker: {e}"))),
        }
    }

    /// The agent was killed after it asked for the same container, and its successor asks again.
    fn is_busy(&self, name: &str) -> bool {
        let lives = |i: &Instance| i.record.name == name && !i.is_ended();
        let is_made = |job: &Job| job.creates().as_deref() == Some(name);
        self.instances.iter().any(lives) || self.jobs.iter().any(is_made)
    }

    fn start_create(
        &mut self,
        request: Box<CreateContainer>,
        waiter: (u64, u64),
        now: Stamp,
    ) -> std::io::Result<()> {
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let (out_read, out_write) = pipe_with(PipeFlags::CLOEXEC)?;
        let (err_read, err_write) = pipe_with(PipeFlags::CLOEXEC)?;
        ioctl_fionbio(&out_read, true)?;
        ioctl_fionbio(&err_read, true)?;
        let cgroup = self.cgroup_of(&request.id);
        let (ours, line) = report::open_line()?;
        let place = Place {
            paths: &self.paths,
            cgroups: &self.cgroups,
            cgroup: &cgroup,
            line,
        };
        let stdio = [null, out_write, err_write];
        let worker = sys::process::fork(|| runtime::create(&place, &request, stdio))?;
        drop(place);
        let purpose = Purpose::Create {
            request,
            outputs: [out_read, err_read],
            waiters: vec![waiter],
        };
        self.jobs
            .push(Job::new((ours, worker), cgroup, purpose, now));
        self.changed = true;
        Ok(())
    }

    pub(super) fn exec(
        &mut self,
        command: ExecCommand,
        fds: Vec<OwnedFd>,
        waiter: (u64, u64),
        now: Stamp,
    ) -> Option<Reply> {
        let stdio = match (command.tty, <[OwnedFd; 3]>::try_from(fds)) {
            (false, Ok(fds)) => ExecStdio::Pipes(fds),
            (true, Err(fds)) if fds.is_empty() => ExecStdio::Terminal,
            (false, Err(_)) => return Some(refused("an exec needs three descriptors")),
            (true, _) => return Some(refused("an exec with tty takes no descriptors")),
        };
        let running = |i: &&mut Instance| i.process().is_some();
        let Some(instance) = self.find(&command.container).filter(running) else {
            return Some(refused(format!(
                "container {} is not running",
                command.container
            )));
        };
        let confinement = instance.request.confinement.clone();
        if let Some(connection) = self.connections.get_mut(&waiter.0) {
            connection.role = Role::Exec;
        }
        match self.start_exec(&command, (stdio, confinement), waiter, now) {
            Ok(()) => None,
            Err(e) => Some(failed(FailureKind::Create, format!("start a worker: {e}"))),
        }
    }

    fn start_exec(
        &mut self,
        command: &ExecCommand,
        (stdio, confinement): (ExecStdio, Confinement),
        waiter: (u64, u64),
        now: Stamp,
    ) -> std::io::Result<()> {
        self.last_number += 1;
        let container_cgroup = self.cgroup_of(&command.container);
        let (ours, line) = report::open_line()?;
        let place = Place {
            paths: &self.paths,
            cgroups: &self.cgroups,
            cgroup: &container_cgroup,
            line,
        };
        let job = ExecJob {
            container: &command.container,
            confinement: &confinement,
            args: &command.args,
            number: self.last_number,
        };
        let worker = sys::process::fork(|| runtime::exec(&place, &job, stdio))?;
        drop(place);
        let purpose = Purpose::Exec {
            container: command.container.clone(),
            waiter,
            timeout_ms: command.timeout_ms,
        };
        let cgroup = format!("{container_cgroup}/exec-{}", self.last_number);
        self.jobs
            .push(Job::new((ours, worker), cgroup, purpose, now));
        Ok(())
    }

    /// A worker's channel ended.
    pub(super) fn finish_job(&mut self, mut job: Job, now: Stamp) {
        let outcome = job.outcome();
        match job.purpose {
            Purpose::Create {
                request,
                outputs,
                waiters,
            } => {
                let reply =
                    self.finish_create((request, job.cgroup, outputs), outcome, job.init_end, now);
                for (number, id) in waiters {
                    self.reply(number, id, reply.clone());
                }
            }
            Purpose::Exec {
                container,
                waiter,
                timeout_ms,
            } => {
                self.sweep_exec_files(&container);
                let kill_at_ms = timeout_ms.map(|ms| now.boot_ms.saturating_add(ms));
                let (reply, session) = match outcome {
                    Outcome::Started(process) => (
                        Reply::Started { pid: process.pid },
                        Some(Session::new(waiter.0, process, job.cgroup, kill_at_ms)),
                    ),
                    Outcome::NotExecuted(kind, message) => {
                        self.end_failed_exec(&job.cgroup);
                        (failed(kind, message), None)
                    }
                    Outcome::Failed(message) => {
                        self.end_failed_exec(&job.cgroup);
                        (failed(FailureKind::Create, message), None)
                    }
                };
                self.reply_with(waiter.0, waiter.1, reply, job.master);
                if let Some(session) = session {
                    self.begin_session(session, job.init_end.map(|(end, _)| end), now);
                }
            }
        }
    }

    fn finish_create(
        &mut self,
        (request, cgroup, outputs): (Box<CreateContainer>, String, [OwnedFd; 2]),
        outcome: Outcome,
        init_end: Option<(End, Stamp)>,
        now: Stamp,
    ) -> Reply {
        self.changed = true;
        match outcome {
            Outcome::Started(process) => {
                let mut instance = Instance::running(request, cgroup, outputs, (process, now));
                if let Some((end, at)) = init_end {
                    instance.init_ended(end, at);
                }
                self.instances.push(instance);
                Reply::Started { pid: process.pid }
            }
            Outcome::NotExecuted(_, message) => {
                let instance = Instance::not_started(request, cgroup, message.clone(), now);
                self.instances.push(instance);
                failed(FailureKind::Start, message)
            }
            Outcome::Failed(message) => {
                self.discard_soon(request, now);
                failed(FailureKind::Create, message)
            }
        }
    }

    fn begin_session(&mut self, mut session: Session, end: Option<End>, now: Stamp) {
        if let Some(end) = end {
            return self.end_session(&session, end);
        }
        if !self.connections.contains_key(&session.connection) {
            session.orphan(now);
        }
        self.sessions.push(session);
    }

    fn end_failed_exec(&self, cgroup: &str) {
        self.cgroups.kill(cgroup);
        let _ = self.cgroups.remove(cgroup);
    }

    /// libcontainer leaves a socket per exec behind. Their names are random, so they go when no exec is being started.
    fn sweep_exec_files(&self, container: &str) {
        let same = |job: &Job| matches!(&job.purpose, Purpose::Exec { container: other, .. } if other == container);
        if self.jobs.iter().any(same) {
            return;
        }
        let dir = self.paths.runtime().join(container);
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b"tenant-") {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Safe as a file name and as a cgroup name.
fn is_container_id(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric())
}
