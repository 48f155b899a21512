//! Starting things: workers for containers and commands, and what becomes of their reports.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::ioctl_fionbio;
use rustix::pipe::{PipeFlags, pipe_with};

use super::connection::Role;
use super::hooks::HookKind;
use super::instance::{End, Instance};
use super::job::{Job, Outcome, Purpose};
use super::proto::{CreateContainer, ExecCommand, FailureKind, InstanceState, Reply, Stamp};
use super::reaper::{REAPER_DIED, Reaper};
use super::report;
use super::requests::{failed, refused};
use super::runtime::{self, ExecJob, ExecStdio, Place};
use super::server::Holder;
use super::session::{Owner, Session};
use super::volumes::Supplies;
use crate::sys;

impl Holder {
    pub(super) fn create(
        &mut self,
        request: Box<CreateContainer>,
        mut fds: Vec<OwnedFd>,
        waiter: (u64, u64),
        now: Stamp,
    ) -> Option<Reply> {
        if !is_container_id(&request.id) {
            return Some(refused(format!("bad container id {:?}", request.id)));
        }
        if self.is_doomed() {
            return Some(refused(REAPER_DIED));
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
        let payload = fds.pop();
        match self.start_create((request, payload), waiter, now) {
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
        (request, payload): (Box<CreateContainer>, Option<OwnedFd>),
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
            pid_namespace: self.reaper.as_ref().map(Reaper::namespace),
            line,
        };
        let stdio = [null, out_write, err_write];
        let supplies = Supplies {
            host: self.host_mounts.as_fd(),
            payload,
        };
        let worker = sys::process::fork(|| runtime::create(&place, &request, &supplies, stdio))?;
        drop(place);
        let purpose = Purpose::Create {
            request,
            cgroup,
            outputs: [out_read, err_read],
            waiters: vec![waiter],
        };
        self.jobs.push(Job::new((ours, worker), purpose, now));
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
        let (connection, request) = waiter;
        let running = |i: &&mut Instance| i.is_alive();
        if self.find(&command.container).filter(running).is_none() {
            let container = command.container;
            return Some(refused(format!("container {container} is not running")));
        }
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.role = Role::Exec;
        }
        let owner = Owner::Client {
            connection,
            request,
        };
        match self.start_exec(&command, stdio, owner, now) {
            Ok(()) => None,
            Err(e) => Some(failed(FailureKind::Create, format!("start a worker: {e}"))),
        }
    }

    pub(super) fn start_exec(
        &mut self,
        command: &ExecCommand,
        stdio: ExecStdio,
        owner: Owner,
        now: Stamp,
    ) -> std::io::Result<()> {
        let mut instances = self.instances.iter();
        let Some(instance) = instances.find(|i| i.record.id == command.container) else {
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        };
        self.last_number += 1;
        let container_cgroup = self.cgroup_of(&command.container);
        let (ours, line) = report::open_line()?;
        let place = Place {
            paths: &self.paths,
            cgroups: &self.cgroups,
            cgroup: &container_cgroup,
            pid_namespace: None,
            line,
        };
        let job = ExecJob {
            container: &command.container,
            confinement: &instance.request.confinement,
            args: &command.args,
            number: self.last_number,
        };
        let worker = sys::process::fork(|| runtime::exec(&place, &job, stdio))?;
        drop(place);
        let purpose = Purpose::Exec {
            container: command.container.clone(),
            cgroup: format!("{container_cgroup}/exec-{}", self.last_number),
            owner,
            timeout_ms: command.timeout_ms,
        };
        self.jobs.push(Job::new((ours, worker), purpose, now));
        Ok(())
    }

    /// A worker's channel ended.
    pub(super) fn finish_job(&mut self, mut job: Job, now: Stamp) {
        let outcome = job.outcome();
        self.changed |= !job.written.is_empty();
        self.volumes.append(&mut job.written);
        match job.purpose {
            Purpose::Create {
                request,
                cgroup,
                outputs,
                waiters,
            } => {
                let made = (request, cgroup, outputs);
                let reply = self.finish_create(made, outcome, job.init_end, now);
                for (number, id) in waiters {
                    self.reply(number, id, reply.clone());
                }
            }
            Purpose::Exec {
                container,
                cgroup,
                owner,
                timeout_ms,
            } => {
                self.sweep_exec_files(&container);
                let failure = match outcome {
                    Outcome::Started(process) => {
                        let kill_at_ms = timeout_ms.map(|ms| now.boot_ms.saturating_add(ms));
                        let session = Session::new(owner, process, cgroup, kill_at_ms);
                        let end = job.init_end.map(|(end, _)| end);
                        return self.begin_session(session, (end, job.master), now);
                    }
                    Outcome::NotExecuted(kind, message) | Outcome::Failed(kind, message) => {
                        (kind, message)
                    }
                    Outcome::Done => (FailureKind::Create, "it made no process".to_owned()),
                };
                self.fail_exec(&owner, cgroup, failure);
            }
            Purpose::Get(of) => {
                let result = match outcome {
                    Outcome::Done => Ok(()),
                    Outcome::NotExecuted(_, message) | Outcome::Failed(_, message) => {
                        Err(format!("error: {message}"))
                    }
                    Outcome::Started(_) => Err("it made a process".to_owned()),
                };
                self.end_hook(&of, result);
            }
            Purpose::Write {
                connection,
                request,
            } => self.finish_write((connection, request), outcome),
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
                let id = request.id.clone();
                let post_start = request.post_start.clone();
                let mut instance = Instance::running(request, cgroup, outputs, (process, now));
                if let Some((end, at)) = init_end {
                    instance.init_ended(end, at);
                }
                self.instances.push(instance);
                if let Some(hook) = post_start {
                    self.start_hook((&id, HookKind::PostStart), &hook, now);
                }
                Reply::Started { pid: process.pid }
            }
            Outcome::NotExecuted(_, message) => {
                let instance = Instance::not_started(request, cgroup, message.clone(), now);
                self.instances.push(instance);
                failed(FailureKind::Start, message)
            }
            Outcome::Failed(kind, message) => {
                self.discard_soon(request, now);
                failed(kind, message)
            }
            Outcome::Done => {
                self.discard_soon(request, now);
                failed(FailureKind::Create, "it made no process".to_owned())
            }
        }
    }

    /// The command runs, or has run already. With a tty, there is a master to give away.
    fn begin_session(
        &mut self,
        mut session: Session,
        (end, master): (Option<End>, Option<OwnedFd>),
        now: Stamp,
    ) {
        if let Owner::Client {
            connection,
            request,
        } = session.owner
        {
            let pid = session.process.pid;
            self.reply_with(connection, request, Reply::Started { pid }, master);
            if !self.connections.contains_key(&connection) {
                session.orphan(now);
            }
        }
        match end {
            Some(end) => self.end_session(session, end, now),
            None => self.sessions.push(session),
        }
    }

    fn fail_exec(&mut self, owner: &Owner, cgroup: String, (kind, message): (FailureKind, String)) {
        self.cgroups.kill(&cgroup);
        self.remove_exec_cgroup(cgroup);
        match owner {
            Owner::Client {
                connection,
                request,
            } => self.reply(*connection, *request, failed(kind, message)),
            Owner::Hook(of) => self.end_hook(of, Err(format!("error: {message}"))),
        }
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
