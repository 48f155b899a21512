//! What the holder does when it is asked, except starting things, which is in [`super::starts`].

use std::fs::{self, DirBuilder};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;

use super::connection::{Connection, Role};
use super::ending::StopOrder;
use super::hooks::HookKind;
use super::instance::Instance;
use super::job::{Job, Purpose};
use super::proto::{CreateContainer, FailureKind, Reply, Request, Stamp, ToHolder};
use super::rootfs;
use super::server::Holder;
use crate::pod::hook::Hook;
use crate::sys::packet::Packet;
use crate::sys::remove;
use crate::volume;

const TRY_AGAIN_MS: u64 = 50;
const GIVE_UP_MS: u64 = 10_000;

/// A forgotten instance whose files and cgroup are still there: the last process of a failed create takes a moment to
/// die. Usually gone before the reply is sent.
pub(super) struct Remains {
    pub(super) request: Box<CreateContainer>,
    pub(super) try_at_ms: u64,
    give_up_at_ms: u64,
}

pub(super) fn refused(message: impl Into<String>) -> Reply {
    Reply::Failed {
        kind: FailureKind::Refused,
        message: message.into(),
    }
}

pub(super) fn failed(kind: FailureKind, message: String) -> Reply {
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
        let is_exec = |c: &Connection| c.role == Role::Exec;
        if self.connections.get(&number).is_some_and(is_exec) {
            return self.reply(number, id, refused("this connection belongs to an exec"));
        }
        let reply = match request {
            Request::Create(request) => self.create(request, packet.fds, (number, id), now),
            Request::Stop {
                id,
                grace_ms,
                reason,
                pre_stop,
                after,
            } => {
                let order = StopOrder {
                    grace_ms,
                    reason,
                    after,
                };
                // P-77: without grace there is no time for a hook.
                let hook = pre_stop.filter(|_| grace_ms > 0);
                Some(self.stop(&id, (order, hook), now))
            }
            Request::Remove { id, with_logs } => {
                let logs = if with_logs { Logs::Remove } else { Logs::Keep };
                Some(self.remove(&id, logs, now))
            }
            Request::WriteVolumes => self.write_volumes(packet.fds, (number, id), now),
            Request::Exec(command) => self.exec(command, packet.fds, (number, id), now),
            Request::Shutdown => Some(self.shut_down()),
        };
        if let Some(reply) = reply {
            self.reply(number, id, reply);
        }
    }

    pub(super) fn reply(&mut self, number: u64, id: u64, reply: Reply) {
        self.reply_with(number, id, reply, None);
    }

    pub(super) fn reply_with(&mut self, number: u64, id: u64, reply: Reply, fd: Option<OwnedFd>) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.reply(id, reply, fd);
        }
    }

    pub(super) fn find(&mut self, id: &str) -> Option<&mut Instance> {
        self.instances.iter_mut().find(|i| i.record.id == id)
    }

    pub(super) fn cgroup_of(&self, id: &str) -> String {
        format!("{}/{id}", self.sandbox.pod_cgroup)
    }

    /// Begins a stop; the steps that follow are taken in [`Instance::advance`], the first ones in this turn.
    fn stop(&mut self, id: &str, (order, hook): (StopOrder, Option<Hook>), now: Stamp) -> Reply {
        let Some(instance) = self.find(id) else {
            return refused(format!("no container {id}"));
        };
        if instance.stop(order, now) {
            self.kill_post_start(id, now);
            if let Some(hook) = hook {
                self.start_hook((id, HookKind::PreStop), &hook, now);
            }
        }
        self.changed = true;
        Reply::Done
    }

    fn remove(&mut self, id: &str, logs: Logs, now: Stamp) -> Reply {
        let Some(index) = self.instances.iter().position(|i| i.record.id == id) else {
            return refused(format!("no container {id}"));
        };
        if !self.instances[index].is_ended() {
            return refused(format!("container {id} has not exited"));
        }
        // Only the request is kept: the log's writer must be gone before its files are.
        let request = self.instances.remove(index).into_request();
        if logs == Logs::Remove {
            // What cannot be removed now goes with the pod's log directory.
            let _ = super::logs::remove(&request.log);
        }
        self.discard_soon(request, now);
        self.changed = true;
        Reply::Done
    }

    /// Removes all that a create made, except logs. To be repeated when it fails.
    fn discard(&self, request: &CreateContainer) -> std::io::Result<()> {
        let cgroup = self.cgroup_of(&request.id);
        self.cgroups.kill(&cgroup);
        let bundle = self.paths.bundle(&request.id);
        rootfs::unmount(&bundle.join("rootfs"));
        volume::unmount(&self.paths, &request.id)?;
        // While something is mounted there this fails, and nothing below it is touched.
        remove::missing_is_fine(fs::remove_dir(bundle.join("rootfs")))?;
        remove::tree(&bundle)?;
        remove::tree(&self.paths.runtime().join(&request.id))?;
        // A rename, whatever its size; the agent empties the trash.
        let trash = &self.sandbox.trash;
        // Root's alone: what containers left may be set-user-ID.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(trash)?;
        let target = trash.join(&request.id);
        remove::missing_is_fine(fs::rename(&request.rootfs.writable, target))?;
        self.cgroups.remove(&cgroup).map_err(std::io::Error::other)
    }

    /// Has [`Self::clear_remains`] discard it in this turn, and again until it works.
    pub(super) fn discard_soon(&mut self, request: Box<CreateContainer>, now: Stamp) {
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
        // The request of a hook is being killed: its container ended.
        let holds_up = |job: &Job| !matches!(job.purpose, Purpose::Get(_));
        if self.jobs.iter().any(holds_up) || !self.instances.iter().all(Instance::is_ended) {
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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logs {
    Keep,
    Remove,
}
