//! One container instance, from its successful start to its removal.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::WaitStatus;

use super::cgroup::Cgroups;
use super::logs::{LogWriter, Stream};
use super::proto::{
    ContainerRecord, CreateContainer, Exit, HookState, InstanceState, ProcessId, Stamp, StopPhase,
};
use crate::sys;

/// P-78: least time between stop signal and SIGKILL.
pub(super) const MIN_GRACE_MS: u64 = 2000;
/// Pause between two passes of killing the same cgroup; doubles up to the second: what does not die at once may be in the
/// kernel for long, and must not keep us awake.
const KILL_AGAIN_MS: (u64, u64) = (10, 1000);
/// Most that is read from a pipe after its last writer is gone: the largest pipe a container can make by default.
const MAX_DRAIN: usize = 1 << 20;
/// P-171.
const MESSAGE_BYTES: u64 = 4096;
/// P-172.
const FALLBACK: (u64, usize) = (80, 2048);

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) code: i32,
    pub(super) signal: Option<i32>,
}

impl From<WaitStatus> for End {
    fn from(status: WaitStatus) -> Self {
        let signal = status.terminating_signal();
        Self {
            code: status
                .exit_status()
                .or(signal.map(|s| 128 + s))
                .unwrap_or(255),
            signal,
        }
    }
}

/// See [`super::proto::Request::Stop`].
pub(super) struct StopOrder {
    pub(super) grace_ms: u64,
    pub(super) reason: String,
}

/// What the holder has to do about an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Its init runs. Left by [`Instance::init_ended`].
    Alive {
        /// When to kill its cgroup (again); set by a stop.
        kill_at_ms: Option<u64>,
        pause_ms: u64,
    },
    /// Its init was reaped, others are still in its cgroup. Left by [`Instance::tick`].
    Dying {
        end: End,
        finished_at: Stamp,
        kill_at_ms: u64,
        pause_ms: u64,
    },
    /// Its record says `Exited`.
    Ended,
}

pub(super) struct Instance {
    pub(super) record: ContainerRecord,
    pub(super) request: Box<CreateContainer>,
    pub(super) cgroup: String,
    /// Read ends of stdout and stderr, until their end.
    outputs: [Option<OwnedFd>; 2],
    log: Result<LogWriter, String>,
    phase: Phase,
}

const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

impl Instance {
    /// An instance whose process just executed its program.
    pub(super) fn running(
        request: Box<CreateContainer>,
        cgroup: String,
        outputs: [OwnedFd; 2],
        (process, started_at): (ProcessId, Stamp),
    ) -> Self {
        let state = InstanceState::Running {
            process,
            started_at,
        };
        let phase = Phase::Alive {
            kill_at_ms: None,
            pause_ms: KILL_AGAIN_MS.0,
        };
        Self::new(request, cgroup, outputs.map(Some), (state, phase))
    }

    /// An instance whose program could not be executed (P-163).
    pub(super) fn not_started(
        request: Box<CreateContainer>,
        cgroup: String,
        message: String,
        now: Stamp,
    ) -> Self {
        let state = InstanceState::Exited(Exit {
            started_at: None,
            finished_at: now,
            code: 128,
            signal: None,
            reason: "StartError".into(),
            message: Some(message),
        });
        Self::new(request, cgroup, [None, None], (state, Phase::Ended))
    }

    fn new(
        request: Box<CreateContainer>,
        cgroup: String,
        outputs: [Option<OwnedFd>; 2],
        (state, phase): (InstanceState, Phase),
    ) -> Self {
        let log = LogWriter::open(&request.log).map_err(|e| e.to_string());
        Self {
            record: ContainerRecord {
                id: request.id.clone(),
                name: request.name.clone(),
                restart_count: request.restart_count,
                hash: request.hash.clone(),
                image: request.image.clone(),
                image_id: request.image_id.clone(),
                log: request.log.file.clone(),
                stop_signal: request.stop_signal,
                post_start: HookState::None,
                pre_stop: HookState::None,
                state,
            },
            request,
            cgroup,
            outputs,
            log,
            phase,
        }
    }

    /// The init process while it is not reaped.
    pub(super) fn process(&self) -> Option<ProcessId> {
        match (self.phase, &self.record.state) {
            (
                Phase::Alive { .. },
                InstanceState::Running { process, .. } | InstanceState::Stopping { process, .. },
            ) => Some(*process),
            (Phase::Alive { .. } | Phase::Dying { .. } | Phase::Ended, _) => None,
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Pipes to poll: (0 or 1, descriptor).
    pub(super) fn outputs(&self) -> impl Iterator<Item = (usize, &OwnedFd)> {
        let open = |(i, fd): (usize, &'_ Option<OwnedFd>)| fd.is_some().then_some(i);
        let indices: Vec<usize> = self.outputs.iter().enumerate().filter_map(open).collect();
        indices
            .into_iter()
            .filter_map(|i| Some((i, self.outputs[i].as_ref()?)))
    }

    /// Moves one buffer's worth of output into the log; returns how much.
    pub(super) fn pump(&mut self, output: usize, buffer: &mut [u8], now: Stamp) -> usize {
        let Some(fd) = &self.outputs[output] else {
            return 0;
        };
        match rustix::io::read(fd, &mut *buffer) {
            Ok(0) => {
                self.outputs[output] = None;
                0
            }
            Ok(count) => {
                if let Ok(log) = &mut self.log {
                    log.feed(STREAMS[output], &buffer[..count], now.wall);
                }
                count
            }
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => {
                self.outputs[output] = None;
                0
            }
        }
    }

    /// Why log lines are being lost.
    pub(super) fn log_trouble(&self) -> Option<&str> {
        match &self.log {
            Ok(log) => log.trouble(),
            Err(error) => (!self.is_ended()).then_some(error),
        }
    }

    /// What else is wrong with the log.
    pub(super) fn log_flaw(&self) -> Option<&str> {
        self.log.as_ref().ok().and_then(LogWriter::flaw)
    }

    /// A child of the holder that is no container, exec or worker ended: the log writer may have started it.
    pub(super) fn log_child_exited(&mut self, pid: i32) {
        if let Ok(log) = &mut self.log {
            log.child_exited(pid);
        }
    }

    /// What it was made from, when everything else of it goes.
    pub(super) fn into_request(self) -> Box<CreateContainer> {
        self.request
    }

    /// Sends the stop signal and sets the deadline; a later call can only bring it forward (P-75, P-78).
    pub(super) fn stop(&mut self, order: StopOrder, now: Stamp) {
        let Phase::Alive { kill_at_ms, .. } = &mut self.phase else {
            return;
        };
        let wanted = now.boot_ms.saturating_add(order.grace_ms.max(MIN_GRACE_MS));
        match &mut self.record.state {
            InstanceState::Running {
                process,
                started_at,
            } => {
                // Gone already: its exit is about to be reaped.
                let _ = sys::signals::send(process.pid, self.request.stop_signal);
                *kill_at_ms = Some(wanted);
                self.record.state = InstanceState::Stopping {
                    process: *process,
                    started_at: *started_at,
                    kill_at_boot_ms: wanted,
                    reason: order.reason,
                    phase: StopPhase::Signalled,
                };
            }
            InstanceState::Stopping {
                kill_at_boot_ms, ..
            } => {
                *kill_at_boot_ms = wanted.min(*kill_at_boot_ms);
                *kill_at_ms = kill_at_ms.map(|at| at.min(*kill_at_boot_ms));
            }
            InstanceState::Exited(_) => {}
        }
    }

    /// Its init was reaped.
    pub(super) fn init_ended(&mut self, end: End, now: Stamp) {
        self.phase = Phase::Dying {
            end,
            finished_at: now,
            kill_at_ms: now.boot_ms,
            pause_ms: KILL_AGAIN_MS.0,
        };
    }

    /// When [`Self::tick`] has something to do.
    pub(super) fn wake_at_ms(&self) -> Option<u64> {
        match self.phase {
            Phase::Alive { kill_at_ms, .. } => kill_at_ms,
            Phase::Dying { kill_at_ms, .. } => Some(kill_at_ms),
            Phase::Ended => None,
        }
    }

    /// Kills what is due, and records the exit once the cgroup is empty. True when the record changed.
    pub(super) fn tick(&mut self, cgroups: &Cgroups, buffer: &mut [u8], now: Stamp) -> bool {
        match &mut self.phase {
            Phase::Alive {
                kill_at_ms: Some(at),
                pause_ms,
            } if now.boot_ms >= *at => {
                *at = now.boot_ms + *pause_ms;
                *pause_ms = (*pause_ms * 2).min(KILL_AGAIN_MS.1);
                cgroups.kill(&self.cgroup);
                if let Some(process) = self.process() {
                    let _ = sys::signals::send(process.pid, libc::SIGKILL);
                }
                false
            }
            Phase::Dying {
                end,
                finished_at,
                kill_at_ms,
                pause_ms,
            } if now.boot_ms >= *kill_at_ms => {
                let (end, finished_at) = (*end, *finished_at);
                if cgroups.is_populated(&self.cgroup) {
                    *kill_at_ms = now.boot_ms + *pause_ms;
                    *pause_ms = (*pause_ms * 2).min(KILL_AGAIN_MS.1);
                    cgroups.kill(&self.cgroup);
                    return false;
                }
                self.record_exit(cgroups, buffer, (end, finished_at));
                true
            }
            Phase::Alive { .. } | Phase::Dying { .. } | Phase::Ended => false,
        }
    }

    fn record_exit(
        &mut self,
        cgroups: &Cgroups,
        buffer: &mut [u8],
        (end, finished_at): (End, Stamp),
    ) {
        for output in 0..STREAMS.len() {
            let mut drained = 0;
            while drained < MAX_DRAIN {
                match self.pump(output, buffer, finished_at) {
                    0 => break,
                    count => drained += count,
                }
            }
        }
        self.outputs = [None, None];
        if let Ok(log) = &mut self.log {
            log.finish(finished_at.wall);
        }
        let oom = end.code != 0 && cgroups.oom_kills(&self.cgroup) > 0;
        // Empty, so this fails only if somebody put a process there by hand; removal tries again.
        let _ = cgroups.remove(&self.cgroup);
        let started_at = match self.record.state {
            InstanceState::Running { started_at, .. }
            | InstanceState::Stopping { started_at, .. } => Some(started_at),
            InstanceState::Exited(_) => None,
        };
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
            message: self.termination_message(end.code),
        });
        self.phase = Phase::Ended;
    }

    /// P-170 to P-173.
    fn termination_message(&self, code: i32) -> Option<String> {
        let text = match self.request.termination_message.as_deref().map(read_tail) {
            Some(Ok(text)) => text,
            Some(Err(e)) => return Some(format!("read the termination message: {e}")),
            None => String::new(),
        };
        if text.is_empty() && code != 0 && self.request.termination_message_from_logs {
            let log = self.log.as_ref().ok()?;
            let tail = log.tail(FALLBACK.0, FALLBACK.1);
            return (!tail.is_empty()).then_some(tail);
        }
        (!text.is_empty()).then_some(text)
    }
}

/// The last [`MESSAGE_BYTES`] of a regular file. Never waits: the container could write to it, not replace it.
fn read_tail(path: &Path) -> std::io::Result<String> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MESSAGE_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(MESSAGE_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
