//! Lifecycle hooks. A hook that runs is a job (being started, or an HTTP request), then perhaps a session, or a sleep; what
//! came of it is in the record of its container (P-90 to P-95).
//!
//! Nothing here ends a command because its container ends: it is in the container's cgroup and dies with that.

use rustix::fs::{Mode, OFlags};
use rustix::io::ioctl_fionbio;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::instance::{End, Instance, Pipe};
use super::job::{Job, Purpose};
use super::proto::{ExecCommand, FailureKind, HookState, Stamp};
use super::report::{self, Line, Report};
use super::runtime::ExecStdio;
use super::server::Holder;
use super::session::Owner;
use crate::pod::hook::Hook;
use crate::pod::probe::HttpGet;
use crate::probe;
use crate::sys;

/// Bytes of a command that are told when it failed.
const MAX_TITLE: usize = 512;

/// Which hook of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HookKind {
    PostStart,
    PreStop,
}

impl HookKind {
    pub(super) const ALL: [Self; 2] = [Self::PostStart, Self::PreStop];
}

impl std::fmt::Display for HookKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::PostStart => "postStart",
            Self::PreStop => "preStop",
        })
    }
}

/// Names a hook that runs: each kind runs at most once in an instance's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HookOf {
    /// Container id.
    pub(super) container: String,
    pub(super) kind: HookKind,
    /// For people: `Exec lifecycle hook ([sleep 5])`.
    title: String,
}

/// P-94: a hook that does nothing for a while.
pub(super) struct Sleep {
    of: HookOf,
    pub(super) until_ms: u64,
}

impl Holder {
    /// Starts a hook of a running container. Whether it can be run or not, the record tells from here on.
    pub(super) fn start_hook(&mut self, (id, kind): (&str, HookKind), hook: &Hook, now: Stamp) {
        let Some(instance) = self.find(id) else {
            return;
        };
        *instance.hook_state(kind) = HookState::Running;
        self.changed = true;
        if self.find(id).is_none_or(|instance| !instance.is_alive()) {
            // Given up at the end of this turn.
            return;
        }
        let of = HookOf {
            container: id.to_owned(),
            kind,
            title: title(hook),
        };
        let started = match hook {
            Hook::Exec { args } => self.start_hook_command(of.clone(), args, now),
            Hook::HttpGet(get) => self.start_hook_request(of.clone(), get, now),
            Hook::Sleep { ms } => {
                self.sleeps.push(Sleep {
                    of: of.clone(),
                    until_ms: now.boot_ms.saturating_add(*ms),
                });
                Ok(())
            }
            Hook::Broken { why } => Err(std::io::Error::other(why.clone())),
        };
        if let Err(error) = started {
            self.end_hook(&of, Err(format!("error: {error}")));
        }
    }

    /// P-91. Both outputs go into one pipe, whose end becomes part of the failure's message.
    fn start_hook_command(
        &mut self,
        of: HookOf,
        args: &[String],
        now: Stamp,
    ) -> std::io::Result<()> {
        let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        ioctl_fionbio(&read, true)?;
        let stdio = ExecStdio::Pipes([null, write.try_clone()?, write]);
        let command = ExecCommand {
            container: of.container.clone(),
            args: args.to_vec(),
            tty: false,
            timeout_ms: None,
        };
        if let Some(instance) = self.find(&of.container) {
            instance.collect(of.kind, read);
        }
        self.start_exec(&command, stdio, Owner::Hook(of), now)
    }

    /// P-92, in a worker: the holder never waits for a network. It is in the pod's network namespace.
    fn start_hook_request(&mut self, of: HookOf, get: &HttpGet, now: Stamp) -> std::io::Result<()> {
        let (ours, line) = report::open_line()?;
        let worker = sys::process::fork(|| request(&line, get))?;
        let job = Job::new((ours, worker), Purpose::Get(of), now);
        self.jobs.push(job);
        Ok(())
    }

    /// Records how a hook came out, with what its container is called, unless it was given up before.
    pub(super) fn end_hook(&mut self, of: &HookOf, outcome: Result<(), String>) {
        let Some(instance) = self.find(&of.container) else {
            return;
        };
        let name = instance.record.name.clone();
        let state = instance.hook_state(of.kind);
        if *state != HookState::Running {
            return;
        }
        *state = match outcome {
            Ok(()) => HookState::Done,
            Err(why) => HookState::Failed {
                message: format!("{} for container {name:?} failed - {why}", of.title),
            },
        };
        self.changed = true;
    }

    /// The command of a hook ended.
    pub(super) fn end_hook_command(&mut self, of: &HookOf, end: End, now: Stamp) {
        let outcome = if end.code == 0 {
            Ok(())
        } else {
            let said = self.output_of_hook(of, now);
            Err(format!("exit code {}, message: {said:?}", end.code))
        };
        self.end_hook(of, outcome);
    }

    fn output_of_hook(&mut self, of: &HookOf, now: Stamp) -> String {
        let mut instances = self.instances.iter_mut();
        let Some(instance) = instances.find(|i| i.record.id == of.container) else {
            return String::new();
        };
        instance.drain(Pipe::of_hook(of.kind), &mut self.buffer, now);
        instance.collected()
    }

    /// Ends a container's postStart hook with everything that it started: a stop came.
    pub(super) fn kill_post_start(&mut self, id: &str, now: Stamp) {
        let is_it = |of: &HookOf| of.container == id && of.kind == HookKind::PostStart;
        for session in &mut self.sessions {
            if session.hook().is_some_and(is_it) {
                session.orphan(now);
            }
        }
        for job in &mut self.jobs {
            if job.hook().is_some_and(is_it) {
                job.give_up(now);
            }
        }
        self.sleeps.retain(|sleep| !is_it(&sleep.of));
        if let Some(instance) = self.find(id) {
            instance.give_hook_up(
                HookKind::PostStart,
                "the container was stopped while it ran",
            );
        }
    }

    /// Sleeps that are over, and hooks whose container has ended.
    pub(super) fn tick_hooks(&mut self, now: Stamp) {
        for instance in &mut self.instances {
            self.changed |= instance.end_hooks_of_the_dead();
        }
        let lives = |of: &HookOf| {
            let is_it = |i: &&Instance| i.record.id == of.container;
            let found = self.instances.iter().find(is_it);
            found.is_some_and(Instance::is_alive)
        };
        for job in &mut self.jobs {
            if matches!(&job.purpose, Purpose::Get(of) if !lives(of)) {
                job.give_up(now);
            }
        }
        self.sleeps.retain(|sleep| lives(&sleep.of));
        let is_over = |sleep: &mut Sleep| sleep.until_ms <= now.boot_ms;
        let over: Vec<Sleep> = self.sleeps.extract_if(.., is_over).collect();
        for sleep in over {
            self.end_hook(&sleep.of, Ok(()));
        }
    }
}

/// The worker's whole life. It may live for long, so it keeps nothing of the holder's open, and does not survive it. The
/// threads that it starts are its own.
fn request(line: &Line, get: &HttpGet) -> i32 {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let outcome = line
        .close_others()
        .map_err(|error| error.to_string())
        .and_then(|()| smol::block_on(probe::hook_get(get)));
    match outcome {
        Ok(()) => line.tell(&Report::Done),
        Err(message) => line.tell(&Report::Failed(FailureKind::Create, message)),
    }
    0
}

fn title(hook: &Hook) -> String {
    match hook {
        Hook::Exec { args } => {
            let mut command = args.join(" ");
            command.truncate(command.floor_char_boundary(MAX_TITLE));
            format!("Exec lifecycle hook ([{command}])")
        }
        Hook::HttpGet(get) => {
            let path = &get.path[..get.path.floor_char_boundary(MAX_TITLE)];
            format!("HTTP lifecycle hook ({path})")
        }
        Hook::Sleep { ms } => format!("Sleep lifecycle hook ({} s)", ms / 1000),
        Hook::Broken { .. } => "Lifecycle hook".to_owned(),
    }
}
