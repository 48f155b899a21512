//! A running exec: whose it is, when it has to die, and what is left of it afterwards.

use super::cgroup::Cgroups;
use super::hooks::HookOf;
use super::instance::End;
use super::proto::{FromHolder, ProcessId, Stamp};
use super::server::Holder;
use crate::sys;

const KILL_AGAIN_MS: u64 = 100;
/// Most cgroups of ended commands that are tried to be removed in one go.
const MAX_SWEPT: usize = 4;

/// Whose command it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owner {
    /// A connection's, which gets the reply to this request of its, and dies with that.
    Client { connection: u64, request: u64 },
    /// A hook's.
    Hook(HookOf),
}

pub(super) struct Session {
    pub(super) owner: Owner,
    pub(super) process: ProcessId,
    /// Holds the command's whole tree.
    pub(super) cgroup: String,
    pub(super) timed_out: bool,
    kill_at_ms: Option<u64>,
    /// Set once its owner is gone.
    orphaned: bool,
}

impl Session {
    pub(super) fn new(
        owner: Owner,
        process: ProcessId,
        cgroup: String,
        kill_at_ms: Option<u64>,
    ) -> Self {
        Self {
            owner,
            process,
            cgroup,
            timed_out: false,
            kill_at_ms,
            orphaned: false,
        }
    }

    pub(super) fn belongs_to(&self, number: u64) -> bool {
        match &self.owner {
            Owner::Client { connection, .. } => *connection == number,
            Owner::Hook(_) => false,
        }
    }

    pub(super) fn hook(&self) -> Option<&HookOf> {
        match &self.owner {
            Owner::Client { .. } => None,
            Owner::Hook(of) => Some(of),
        }
    }

    /// Nobody wants it any more: kill it at the next tick.
    pub(super) fn orphan(&mut self, now: Stamp) {
        self.orphaned = true;
        self.kill_at_ms = Some(now.boot_ms);
    }

    pub(super) fn wake_at_ms(&self) -> Option<u64> {
        self.kill_at_ms
    }

    pub(super) fn tick(&mut self, cgroups: &Cgroups, now: Stamp) {
        if self.kill_at_ms.is_none_or(|at| now.boot_ms < at) {
            return;
        }
        self.timed_out = !self.orphaned;
        self.kill_at_ms = Some(now.boot_ms + KILL_AGAIN_MS);
        cgroups.kill(&self.cgroup);
        let _ = sys::signals::send(self.process.pid, libc::SIGKILL);
    }
}

impl Holder {
    pub(super) fn end_session(&mut self, session: Session, end: End, now: Stamp) {
        // What the command left behind in the background lives on, as it would with kubectl exec.
        self.remove_exec_cgroup(session.cgroup);
        match session.owner {
            Owner::Client { connection, .. } => {
                if let Some(connection) = self.connections.get_mut(&connection) {
                    connection.say_last(&FromHolder::ExecExited {
                        code: end.code,
                        timed_out: session.timed_out,
                    });
                }
            }
            Owner::Hook(of) => self.end_hook_command(&of, end, now),
        }
    }

    /// Removes a command's cgroup now, or once it is empty.
    pub(super) fn remove_exec_cgroup(&mut self, cgroup: String) {
        if self.cgroups.untrack(&cgroup).is_err() {
            self.left_behind.push_back(cgroup);
        }
    }

    /// Tries again. More in one go than one command can add, so the list only grows with what lives.
    pub(super) fn sweep_exec_cgroups(&mut self) {
        for _ in 0..self.left_behind.len().min(MAX_SWEPT) {
            if let Some(cgroup) = self.left_behind.pop_front() {
                self.remove_exec_cgroup(cgroup);
            }
        }
    }
}
