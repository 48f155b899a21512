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

/// When it has to die. Times are CLOCK_BOOTTIME ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It may run for ever. To `Orphaned`, as from all others, by [`Session::orphan`].
    Free,
    /// It has a time limit. To `Expired` by [`Session::tick`].
    Limited { until_ms: u64 },
    /// Its time is over: it was killed, and is again.
    Expired { again_ms: u64 },
    /// Nobody wants it any more: it is killed, and again.
    Orphaned { again_ms: u64 },
}

pub(super) struct Session {
    pub(super) owner: Owner,
    pub(super) process: ProcessId,
    /// Holds the command's whole tree.
    pub(super) cgroup: String,
    fate: Fate,
}

impl Session {
    pub(super) fn new(
        owner: Owner,
        process: ProcessId,
        cgroup: String,
        until_ms: Option<u64>,
    ) -> Self {
        Self {
            owner,
            process,
            cgroup,
            fate: until_ms.map_or(Fate::Free, |until_ms| Fate::Limited { until_ms }),
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
        self.fate = Fate::Orphaned {
            again_ms: now.boot_ms,
        };
    }

    fn has_timed_out(&self) -> bool {
        match self.fate {
            Fate::Expired { .. } => true,
            Fate::Free | Fate::Limited { .. } | Fate::Orphaned { .. } => false,
        }
    }

    pub(super) fn wake_at_ms(&self) -> Option<u64> {
        match self.fate {
            Fate::Free => None,
            Fate::Limited { until_ms } => Some(until_ms),
            Fate::Expired { again_ms } | Fate::Orphaned { again_ms } => Some(again_ms),
        }
    }

    pub(super) fn tick(&mut self, cgroups: &Cgroups, now: Stamp) {
        if self.wake_at_ms().is_none_or(|at| now.boot_ms < at) {
            return;
        }
        let again_ms = now.boot_ms + KILL_AGAIN_MS;
        self.fate = match self.fate {
            Fate::Free => Fate::Free,
            Fate::Limited { .. } | Fate::Expired { .. } => Fate::Expired { again_ms },
            Fate::Orphaned { .. } => Fate::Orphaned { again_ms },
        };
        cgroups.kill(&self.cgroup);
        let _ = sys::signals::send(self.process.pid, libc::SIGKILL);
    }
}

impl Holder {
    pub(super) fn end_session(&mut self, session: Session, end: End, now: Stamp) {
        let timed_out = session.has_timed_out();
        // What the command left behind in the background lives on, as it would with kubectl exec.
        self.remove_exec_cgroup(session.cgroup);
        match session.owner {
            Owner::Client { connection, .. } => {
                if let Some(connection) = self.connections.get_mut(&connection) {
                    connection.say_last(&FromHolder::ExecExited {
                        code: end.code,
                        timed_out,
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
