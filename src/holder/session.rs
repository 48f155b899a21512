//! A running exec: whose it is, and when it has to die.

use super::cgroup::Cgroups;
use super::proto::{ProcessId, Stamp};
use crate::sys;

const KILL_AGAIN_MS: u64 = 100;

pub(super) struct Session {
    /// The connection that it belongs to.
    pub(super) connection: u64,
    pub(super) process: ProcessId,
    /// Holds the command's whole tree.
    pub(super) cgroup: String,
    pub(super) timed_out: bool,
    kill_at_ms: Option<u64>,
    /// Set once its connection closed.
    orphaned: bool,
}

impl Session {
    pub(super) fn new(
        connection: u64,
        process: ProcessId,
        cgroup: String,
        kill_at_ms: Option<u64>,
    ) -> Self {
        Self {
            connection,
            process,
            cgroup,
            timed_out: false,
            kill_at_ms,
            orphaned: false,
        }
    }

    /// Its connection is gone: kill it at the next tick.
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
