//! One container instance, from its successful start to its removal: what is told of it, and its pipes. How it ends is in
//! [`super::ending`].

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::WaitStatus;

use super::ending::Phase;
use super::hooks::HookKind;
use super::logs::{LogWriter, Stream};
use super::proto::{
    ContainerRecord, CreateContainer, Exit, HookState, InstanceState, ProcessId, Stamp,
};

/// Most that is read from a pipe after its last writer is gone: the largest pipe a container can make by default.
const MAX_DRAIN: usize = 1 << 20;
/// What is kept of the output of a hook, in bytes.
const MAX_COLLECTED: usize = 1024;

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

/// The pipes of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pipe {
    Stdout,
    Stderr,
    /// Both outputs of the postStart hook.
    PostStart,
    /// Both outputs of the preStop hook.
    PreStop,
}

impl Pipe {
    pub(super) const ALL: [Self; 4] = [Self::Stdout, Self::Stderr, Self::PostStart, Self::PreStop];

    pub(super) fn of_hook(kind: HookKind) -> Self {
        match kind {
            HookKind::PostStart => Self::PostStart,
            HookKind::PreStop => Self::PreStop,
        }
    }
}

pub(super) struct Instance {
    pub(super) record: ContainerRecord,
    pub(super) request: Box<CreateContainer>,
    pub(super) cgroup: String,
    pub(super) log: Result<LogWriter, String>,
    pub(super) phase: Phase,
    /// Read ends, in the order of [`Pipe::ALL`], until their end.
    pipes: [Option<OwnedFd>; 4],
    /// The end of what the running hook said.
    collected: Vec<u8>,
}

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
        let mut instance = Self::new(request, cgroup, (state, Phase::Running));
        let [stdout, stderr] = outputs.map(Some);
        instance.pipes = [stdout, stderr, None, None];
        instance
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
        Self::new(request, cgroup, (state, Phase::Ended))
    }

    fn new(
        request: Box<CreateContainer>,
        cgroup: String,
        (state, phase): (InstanceState, Phase),
    ) -> Self {
        let log = LogWriter::open(&request.log).map_err(|e| e.to_string());
        Self {
            record: ContainerRecord {
                user: request.user.clone(),
                id: request.id.clone(),
                name: request.name.clone(),
                restart_count: request.restart_count,
                hash: request.hash.clone(),
                image: request.image.clone(),
                image_id: request.image_id.clone(),
                log: request.log.file.clone(),
                stop_signal: request.stop_signal,
                resources: request.resources.clone(),
                post_start: HookState::None,
                pre_stop: HookState::None,
                state,
            },
            request,
            cgroup,
            log,
            phase,
            pipes: [const { None }; 4],
            collected: Vec::new(),
        }
    }

    /// The init process while it is not reaped.
    pub(super) fn process(&self) -> Option<ProcessId> {
        let live = self.record.state.live().filter(|_| self.is_alive());
        live.map(|(process, _)| process)
    }

    /// Pipes to poll.
    pub(super) fn pipes(&self) -> impl Iterator<Item = (Pipe, &OwnedFd)> {
        Pipe::ALL
            .into_iter()
            .zip(&self.pipes)
            .filter_map(|(pipe, fd)| Some((pipe, fd.as_ref()?)))
    }

    /// Moves one buffer's worth of output to where it belongs; returns how much.
    pub(super) fn pump(&mut self, pipe: Pipe, buffer: &mut [u8], now: Stamp) -> usize {
        let end = &mut self.pipes[pipe as usize];
        let Some(fd) = end else {
            return 0;
        };
        match rustix::io::read(fd, &mut *buffer) {
            Ok(0) => {
                *end = None;
                0
            }
            Ok(count) => {
                self.take(pipe, &buffer[..count], now);
                count
            }
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => {
                *end = None;
                0
            }
        }
    }

    fn take(&mut self, pipe: Pipe, bytes: &[u8], now: Stamp) {
        let stream = match pipe {
            Pipe::Stdout => Stream::Stdout,
            Pipe::Stderr => Stream::Stderr,
            Pipe::PostStart => return self.keep(HookKind::PostStart, bytes),
            Pipe::PreStop => return self.keep(HookKind::PreStop, bytes),
        };
        if let Ok(log) = &mut self.log {
            log.feed(stream, bytes, now.wall);
        }
    }

    /// What a hook that is over left in the background may go on writing; nobody wants to read it.
    fn keep(&mut self, kind: HookKind, bytes: &[u8]) {
        if *self.hook_state(kind) != HookState::Running {
            return;
        }
        self.collected.extend_from_slice(bytes);
        let surplus = self.collected.len().saturating_sub(MAX_COLLECTED);
        self.collected.drain(..surplus);
    }

    /// Reads a pipe until nothing is left in it for now.
    pub(super) fn drain(&mut self, pipe: Pipe, buffer: &mut [u8], now: Stamp) {
        let mut drained = 0;
        while drained < MAX_DRAIN {
            match self.pump(pipe, buffer, now) {
                0 => break,
                count => drained += count,
            }
        }
    }

    /// Nothing is read any more.
    pub(super) fn close_pipes(&mut self) {
        self.pipes = [const { None }; 4];
    }

    /// The output of this hook comes from here.
    pub(super) fn collect(&mut self, kind: HookKind, output: OwnedFd) {
        self.pipes[Pipe::of_hook(kind) as usize] = Some(output);
        self.collected = Vec::new();
    }

    /// The end of what the running hook said. It has ended.
    pub(super) fn collected(&mut self) -> String {
        let bytes = std::mem::take(&mut self.collected);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(super) fn hook_state(&mut self, kind: HookKind) -> &mut HookState {
        match kind {
            HookKind::PostStart => &mut self.record.post_start,
            HookKind::PreStop => &mut self.record.pre_stop,
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
}
