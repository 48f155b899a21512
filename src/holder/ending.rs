//! How an instance ends: the steps of a stop, the kill, the exit's record. Nothing here waits; [`Instance::advance`] and
//! [`Instance::tick`] are asked again when [`Instance::wake_at_ms`] says so, and after everything that happens.

use std::collections::BTreeSet;

use super::cgroup::Cgroups;
use super::hooks::HookKind;
use super::instance::{End, Instance, Pipe};
use super::job::Job;
use super::proto::{Exit, HookState, InstanceState, MIN_GRACE_MS, Stamp, StopPhase};
use super::server::Holder;
use super::termination;
use crate::sys;

/// Pause between two passes of killing the same cgroup; doubles up to the second: what does not die at once may be in the
/// kernel for long, and must not keep us awake.
const KILL_AGAIN_MS: (u64, u64) = (10, 1000);

/// See [`super::proto::Request::Stop`].
pub(super) struct StopOrder {
    pub(super) grace_ms: u64,
    pub(super) reason: String,
    pub(super) after: Vec<String>,
}

/// Where an instance is, with what the holder has to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its init runs. To `PreStop` by [`Instance::stop`]; to `Dying`, as from all that follow, by [`Instance::init_ended`].
    Running,
    /// A stop was asked for. To `Waiting` by [`Instance::advance`] when the preStop hook does not run (any more).
    PreStop(Patience),
    /// To `Signalled` by [`Instance::advance`] when nobody has to end before it.
    Waiting(Patience),
    /// The stop signal was sent. [`Instance::tick`] kills when it is due.
    Signalled { since_ms: u64, kill: Kill },
    /// Its init was reaped, others are still in its cgroup. To `Ended` by [`Instance::tick`].
    Dying {
        end: End,
        finished_at: Stamp,
        kill: Kill,
    },
    /// Its record says `Exited`.
    Ended,
}

/// What a stop that has not come to its signal waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Patience {
    /// End of the grace.
    until_ms: u64,
    /// Names of containers.
    after: Vec<String>,
}

/// When to kill, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kill {
    at_ms: u64,
    pause_ms: u64,
}

impl Kill {
    fn at(at_ms: u64) -> Self {
        let pause_ms = KILL_AGAIN_MS.0;
        Self { at_ms, pause_ms }
    }

    /// True when it is due; then it is due again after a pause.
    fn is_due(&mut self, now: Stamp) -> bool {
        let is_due = now.boot_ms >= self.at_ms;
        if is_due {
            self.at_ms = now.boot_ms + self.pause_ms;
            self.pause_ms = (self.pause_ms * 2).min(KILL_AGAIN_MS.1);
        }
        is_due
    }
}

impl Holder {
    /// After everything else, so that who waited for another one's end learns of it in the same turn.
    pub(super) fn advance_stops(&mut self, now: Stamp) {
        let made = self.jobs.iter().filter_map(Job::creates);
        let alive = self.instances.iter().filter(|i| !i.is_ended());
        let living: BTreeSet<String> = alive.map(|i| i.record.name.clone()).chain(made).collect();
        for instance in &mut self.instances {
            self.changed |= instance.advance(&|name| living.contains(name), now);
        }
    }
}

impl Instance {
    /// Its init runs, or was not seen to end.
    pub(super) fn is_alive(&self) -> bool {
        match self.phase {
            Phase::Running | Phase::PreStop(_) | Phase::Waiting(_) | Phase::Signalled { .. } => {
                true
            }
            Phase::Dying { .. } | Phase::Ended => false,
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Begins to stop, or brings the end forward (P-75). True when it begins: the preStop hook is to be started.
    pub(super) fn stop(&mut self, order: StopOrder, now: Stamp) -> bool {
        let until_ms = now.boot_ms.saturating_add(order.grace_ms);
        match &mut self.phase {
            Phase::Running => {
                let mut after = order.after;
                after.retain(|name| *name != self.record.name);
                self.phase = Phase::PreStop(Patience { until_ms, after });
                self.begin_stop(order.reason, until_ms.max(now.boot_ms + MIN_GRACE_MS));
                return true;
            }
            Phase::PreStop(patience) | Phase::Waiting(patience) => {
                patience.until_ms = patience.until_ms.min(until_ms);
                let kill_at_ms = patience.until_ms.max(now.boot_ms + MIN_GRACE_MS);
                self.tell_kill(kill_at_ms);
            }
            Phase::Signalled { since_ms, kill } => {
                let wanted = until_ms.max(*since_ms + MIN_GRACE_MS);
                kill.at_ms = kill.at_ms.min(wanted);
                self.tell_kill(wanted);
            }
            Phase::Dying { .. } | Phase::Ended => {}
        }
        false
    }

    fn begin_stop(&mut self, reason: String, kill_at_boot_ms: u64) {
        let Some((process, started_at)) = self.record.state.live() else {
            return;
        };
        self.record.state = InstanceState::Stopping {
            process,
            started_at,
            kill_at_boot_ms,
            reason,
            phase: StopPhase::PreStop,
        };
    }

    /// Tells the time of the SIGKILL, if that is earlier than what was told.
    fn tell_kill(&mut self, wanted: u64) {
        match &mut self.record.state {
            InstanceState::Stopping {
                kill_at_boot_ms, ..
            } => *kill_at_boot_ms = wanted.min(*kill_at_boot_ms),
            InstanceState::Running { .. } | InstanceState::Exited(_) => {}
        }
    }

    /// Goes on with a stop as far as it can. `lives` says of a container's name whether it has not ended. True when
    /// something changed.
    pub(super) fn advance(&mut self, lives: &impl Fn(&str) -> bool, now: Stamp) -> bool {
        match &mut self.phase {
            Phase::PreStop(patience) => {
                let is_over = now.boot_ms >= patience.until_ms;
                if self.record.pre_stop == HookState::Running && !is_over {
                    return false;
                }
                self.phase = Phase::Waiting(std::mem::take(patience));
                // P-77: abandoned, not killed. It dies with the container.
                let why = "it still ran at the end of the grace period";
                self.give_hook_up(HookKind::PreStop, why);
                self.tell_phase(StopPhase::Waiting);
                self.advance(lives, now);
                true
            }
            Phase::Waiting(patience) => {
                let until_ms = patience.until_ms;
                let is_over = now.boot_ms >= until_ms;
                let has_to_wait = !is_over && patience.after.iter().any(|name| lives(name));
                if !has_to_wait {
                    self.signal(until_ms, now);
                }
                !has_to_wait
            }
            Phase::Running | Phase::Signalled { .. } | Phase::Dying { .. } | Phase::Ended => false,
        }
    }

    /// P-79.
    fn signal(&mut self, until_ms: u64, now: Stamp) {
        if let Some(process) = self.process() {
            // Gone already: its exit is about to be reaped.
            let _ = sys::signals::send(process.pid, self.record.stop_signal);
        }
        let kill_at_ms = until_ms.max(now.boot_ms + MIN_GRACE_MS);
        self.phase = Phase::Signalled {
            since_ms: now.boot_ms,
            kill: Kill::at(kill_at_ms),
        };
        self.tell_phase(StopPhase::Signalled);
        if let InstanceState::Stopping {
            kill_at_boot_ms, ..
        } = &mut self.record.state
        {
            *kill_at_boot_ms = kill_at_ms;
        }
    }

    fn tell_phase(&mut self, now_in: StopPhase) {
        match &mut self.record.state {
            InstanceState::Stopping { phase, .. } => *phase = now_in,
            InstanceState::Running { .. } | InstanceState::Exited(_) => {}
        }
    }

    /// Nobody waits for this hook any more, if it runs.
    pub(super) fn give_hook_up(&mut self, kind: HookKind, why: &str) -> bool {
        let name = &self.record.name;
        let message = format!("{kind} hook of container {name:?} was given up: {why}");
        let state = self.hook_state(kind);
        let runs = *state == HookState::Running;
        if runs {
            *state = HookState::Failed { message };
        }
        runs
    }

    /// A container that ends ends its hooks. True when one ran.
    pub(super) fn end_hooks_of_the_dead(&mut self) -> bool {
        let why = "the container ended";
        !self.is_alive()
            && HookKind::ALL
                .into_iter()
                .any(|kind| self.give_hook_up(kind, why))
    }

    /// Its init was reaped.
    pub(super) fn init_ended(&mut self, end: End, now: Stamp) {
        self.phase = Phase::Dying {
            end,
            finished_at: now,
            kill: Kill::at(now.boot_ms),
        };
    }

    /// When [`Self::advance`] or [`Self::tick`] has something to do.
    pub(super) fn wake_at_ms(&self) -> Option<u64> {
        match &self.phase {
            Phase::PreStop(patience) | Phase::Waiting(patience) => Some(patience.until_ms),
            Phase::Signalled { kill, .. } | Phase::Dying { kill, .. } => Some(kill.at_ms),
            Phase::Running | Phase::Ended => None,
        }
    }

    /// Kills what is due, and records the exit once the cgroup is empty. True when the record changed.
    pub(super) fn tick(&mut self, cgroups: &Cgroups, buffer: &mut [u8], now: Stamp) -> bool {
        match &mut self.phase {
            Phase::Signalled { kill, .. } => {
                if kill.is_due(now) {
                    cgroups.kill(&self.cgroup);
                    if let Some(process) = self.process() {
                        let _ = sys::signals::send(process.pid, libc::SIGKILL);
                    }
                }
                false
            }
            Phase::Dying {
                end,
                finished_at,
                kill,
            } => {
                let ended = (*end, *finished_at);
                if !kill.is_due(now) {
                    return false;
                }
                if cgroups.is_populated(&self.cgroup) {
                    cgroups.kill(&self.cgroup);
                    return false;
                }
                self.record_exit(cgroups, buffer, ended);
                true
            }
            Phase::Running | Phase::PreStop(_) | Phase::Waiting(_) | Phase::Ended => false,
        }
    }

    fn record_exit(
        &mut self,
        cgroups: &Cgroups,
        buffer: &mut [u8],
        (end, finished_at): (End, Stamp),
    ) {
        for pipe in [Pipe::Stdout, Pipe::Stderr] {
            self.drain(pipe, buffer, finished_at);
        }
        self.close_pipes();
        if let Ok(log) = &mut self.log {
            log.finish(finished_at.wall);
        }
        let oom = end.code != 0 && cgroups.oom_kills(&self.cgroup) > 0;
        // Empty, so this fails only if somebody put a process there by hand; removal tries again.
        let _ = cgroups.remove(&self.cgroup);
        let started_at = self.record.state.live().map(|(_, started_at)| started_at);
        // It may have been reaped before its start was told; and somebody may have set the clock back.
        let finished_at = started_at.map_or(finished_at, |start| finished_at.not_before(start));
        let reason = match (oom, end.code) {
            (true, _) => "OOMKilled",
            (false, 0) => "Completed",
            (false, _) => "Error",
        };
        self.record.state = InstanceState::Exited(Exit {
            started_at,
            finished_at,
            code: end.code,
            signal: end.signal,
            reason: reason.into(),
            message: termination::message(&self.request, end.code, self.log.as_ref().ok()),
        });
        self.phase = Phase::Ended;
    }
}
