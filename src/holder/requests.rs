//! What the holder does when it is asked, and what it makes of its workers' reports.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::ioctl_fionbio;
use rustix::pipe::{PipeFlags, pipe_with};

use super::connection::Role;
use super::instance::Instance;
use super::job::{Job, Outcome, Purpose};
use super::proto::{
    CreateContainer, ExecCommand, FailureKind, InstanceState, Reply, Request, Stamp, ToHolder,
};
use super::report;
use super::rootfs;
use super::runtime::{self, ExecJob, ExecStdio, Place};
use super::server::Holder;
use super::session::Session;
use crate::sys;
use crate::sys::packet::Packet;

const TRY_AGAIN_MS: u64 = 50;
const GIVE_UP_MS: u64 = 10_000;

/// A failed create whose processes take a moment to die.
pub(super) struct Remains {
    request: Box<CreateContainer>,
    pub(super) try_at_ms: u64,
    give_up_at_ms: u64,
}

fn refused(message: impl Into<String>) -> Reply {
    Reply::Failed {
        kind: FailureKind::Refused,
        message: message.into(),
    }
}

fn failed(kind: FailureKind, message: String) -> Reply {
    Reply::Failed { kind, message }
}

impl Holder {
    /// Handles one packet of a connection.
    pub(super) fn request(&mut self, number: u64, packet: Packet, now: Stamp) {
        let ToHolder { id, request } = match serde_json::from_slice(&packet.bytes) {
            Ok(request) => request,
            Err(e) => {
                // A newer agent may know more; its id, if there is one, lets it match the refusal.
                let id = serde_json::from_slice::<serde_json::Value>(&packet.bytes)
                    .ok()
                    .and_then(|value| value.get("id")?.as_u64());
                let reply = refused(format!("request not understood: {e}"));
                return self.reply(number, id.unwrap_or_default(), reply);
            }
        };
        let is_exec = |c: &super::connection::Connection| c.role == Role::Exec;
        if self.connections.get(&number).is_some_and(is_exec) {
            return self.reply(number, id, refused("this connection belongs to an exec"));
        }
        let reply = match request {
            Request::Create(request) => self.create(request, (number, id), now),
            Request::Stop {
                id,
                signal,
                grace_ms,
                reason,
            } => Some(self.stop(&id, (signal, grace_ms), (reason, now))),
            Request::Remove { id, with_logs } => {
                let logs = if with_logs { Logs::Remove } else { Logs::Keep };
                Some(self.remove(&id, logs))
            }
            Request::Exec(command) => self.exec(command, packet.fds, (number, id), now),
            Request::Shutdown => Some(self.shut_down()),
        };
        if let Some(reply) = reply {
            self.reply(number, id, reply);
        }
    }

    fn reply(&mut self, number: u64, id: u64, reply: Reply) {
        self.reply_with(number, id, reply, None);
    }

    fn reply_with(&mut self, number: u64, id: u64, reply: Reply, fd: Option<OwnedFd>) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.reply(id, reply, fd);
        }
    }

    fn find(&mut self, id: &str) -> Option<&mut Instance> {
        self.instances.iter_mut().find(|i| i.record.id == id)
    }

    fn cgroup_of(&self, id: &str) -> String {
        format!("{}/{id}", self.record.sandbox.pod_cgroup)
    }

    fn create(
        &mut self,
        request: Box<CreateContainer>,
        waiter: (u64, u64),
        now: Stamp,
    ) -> Option<Reply> {
        if !is_container_id(&request.id) {
            return Some(refused(format!("bad container id {:?}", request.id)));
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
        match self.start_create(request, waiter, now) {
            Ok(()) => None,
            Err(e) => Some(failed(FailureKind::Create, format!("start a worker: {e}"))),
        }
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
        Ok(())
    }

    fn stop(&mut self, id: &str, how: (i32, u64), why: (String, Stamp)) -> Reply {
        let Some(instance) = self.find(id) else {
            return refused(format!("no container {id}"));
        };
        instance.stop(how.0, how.1, why);
        self.changed = true;
        Reply::Done
    }

    fn remove(&mut self, id: &str, logs: Logs) -> Reply {
        let Some(index) = self.instances.iter().position(|i| i.record.id == id) else {
            return refused(format!("no container {id}"));
        };
        if !self.instances[index].is_ended() {
            return refused(format!("container {id} has not exited"));
        }
        if let Err(e) = self.discard(&self.instances[index].request) {
            return refused(format!("container {id}: {e}"));
        }
        let instance = self.instances.remove(index);
        if logs == Logs::Remove {
            // What cannot be removed now goes with the pod's log directory.
            let _ = super::logs::remove(&instance.request.log);
        }
        self.changed = true;
        Reply::Done
    }

    /// Removes all that a create made, except logs. To be repeated when it fails.
    fn discard(&self, request: &CreateContainer) -> std::io::Result<()> {
        let cgroup = self.cgroup_of(&request.id);
        self.cgroups.kill(&cgroup);
        let bundle = self.paths.bundle(&request.id);
        rootfs::unmount(&bundle.join("rootfs"));
        // While something is mounted there this fails, and nothing below it is touched.
        match fs::remove_dir(bundle.join("rootfs")) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            Ok(()) | Err(_) => {}
        }
        runtime::remove_tree(&bundle)?;
        runtime::remove_tree(&self.paths.runtime().join(&request.id))?;
        // A rename, whatever its size; the agent empties the trash.
        let trash = &self.record.sandbox.trash;
        fs::create_dir_all(trash)?;
        match fs::rename(&request.rootfs.writable, trash.join(&request.id)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            Ok(()) | Err(_) => {}
        }
        self.cgroups.remove(&cgroup).map_err(std::io::Error::other)
    }

    fn discard_soon(&mut self, request: Box<CreateContainer>, now: Stamp) {
        self.remains.push(Remains {
            request,
            try_at_ms: now.boot_ms,
            give_up_at_ms: now.boot_ms + GIVE_UP_MS,
        });
    }

    pub(super) fn clear_remains(&mut self, now: Stamp) {
        let mut remains = std::mem::take(&mut self.remains);
        remains.retain_mut(|remains| {
            if now.boot_ms < remains.try_at_ms {
                return true;
            }
            remains.try_at_ms = now.boot_ms + TRY_AGAIN_MS;
            self.discard(&remains.request).is_err() && now.boot_ms < remains.give_up_at_ms
        });
        self.remains = remains;
    }

    fn shut_down(&mut self) -> Reply {
        if !self.jobs.is_empty() || !self.instances.iter().all(Instance::is_ended) {
            return refused("containers are running");
        }
        for instance in std::mem::take(&mut self.instances) {
            // What is left (a mount that ends with us, say) is the agent's to remove with the directory.
            let _ = self.discard(&instance.request);
        }
        self.changed = true;
        self.leaving = true;
        Reply::Done
    }

    fn exec(
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
            Err(e) => Some(failed(FailureKind::Start, format!("start a worker: {e}"))),
        }
    }

    fn start_exec(
        &mut self,
        command: &ExecCommand,
        (stdio, confinement): (ExecStdio, super::proto::Confinement),
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
                    Outcome::NotExecuted(message) | Outcome::Failed(message) => {
                        self.cgroups.kill(&job.cgroup);
                        let _ = self.cgroups.remove(&job.cgroup);
                        (failed(FailureKind::Start, message), None)
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
        init_end: Option<(super::instance::End, Stamp)>,
        now: Stamp,
    ) -> Reply {
        match outcome {
            Outcome::Started(process) => {
                let mut instance = Instance::running(request, cgroup, outputs, (process, now));
                if let Some((end, at)) = init_end {
                    instance.init_ended(end, at);
                }
                self.instances.push(instance);
                self.changed = true;
                Reply::Started { pid: process.pid }
            }
            Outcome::NotExecuted(message) => {
                let instance = Instance::not_started(request, cgroup, message.clone(), now);
                self.instances.push(instance);
                self.changed = true;
                failed(FailureKind::Start, message)
            }
            Outcome::Failed(message) => {
                self.discard_soon(request, now);
                failed(FailureKind::Create, message)
            }
        }
    }

    fn begin_session(
        &mut self,
        mut session: Session,
        end: Option<super::instance::End>,
        now: Stamp,
    ) {
        if let Some(end) = end {
            return self.end_session(&session, end);
        }
        if !self.connections.contains_key(&session.connection) {
            session.orphan(now);
        }
        self.sessions.push(session);
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logs {
    Keep,
    Remove,
}

/// Safe as a file name and as a cgroup name.
fn is_container_id(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric())
}
