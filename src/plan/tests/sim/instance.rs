//! One container instance of a holder in memory, and the steps of its end.

use super::dice::Dice;
use crate::holder::proto::{
    ContainerRecord, CreateContainer, Exit, HookState, InstanceState, MIN_GRACE_MS, ProcessId,
    Stamp, StopPhase,
};
use crate::pod::hook::Hook;
use crate::pod::lifecycle::Role;

/// As in the holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Running,
    PreStop(Patience),
    Waiting(Patience),
    Signalled {
        since_ms: u64,
        kill_at_ms: u64,
        /// It obeys then.
        ends_at_ms: u64,
    },
    /// Its init was reaped; its record follows.
    Dying {
        finished_at: Stamp,
        code: i32,
        recorded_at_ms: u64,
    },
    Ended,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patience {
    until_ms: u64,
    after: Vec<String>,
}

#[derive(Debug)]
pub struct Instance {
    pub record: ContainerRecord,
    pub step: Step,
    /// When it ends by itself, and how.
    ends: Option<(u64, i32)>,
    /// When the hook ends, and whether well.
    post_start: Option<(u64, bool)>,
    pre_stop: Option<(u64, bool)>,
    /// The startup probe succeeds from here on.
    pub up_at_ms: u64,
    pub is_healthy: bool,
    pub is_ready: bool,
}

/// What a turn did to a stop.
#[derive(Debug, Default)]
pub struct Advance {
    pub has_changed: bool,
    /// The signal was sent: for this reason, and whether before the grace was over.
    pub signal: Option<(String, bool)>,
}

/// Grace, reason, predecessors, preStop.
pub type StopOrder = (u64, String, Vec<String>, Option<Hook>);

impl Instance {
    pub fn running((create, role): (&CreateContainer, Role), now: Stamp, dice: &mut Dice) -> Self {
        let process = ProcessId {
            pid: 7,
            start_ticks: 70,
        };
        let state = InstanceState::Running {
            process,
            started_at: now,
        };
        let mut instance = Self::new(create, state, Step::Running);
        instance.ends = life(role, now, dice);
        instance.up_at_ms = now.boot_ms + dice.delay_ms();
        instance.is_healthy = !dice.fails(5);
        instance.is_ready = !dice.fails(5);
        if let Some(hook) = &create.post_start {
            instance.record.post_start = HookState::Running;
            instance.post_start = Some(course(hook, now, dice));
        }
        instance
    }

    /// P-163.
    pub fn not_started(create: &CreateContainer, now: Stamp) -> Self {
        let exit = Exit {
            started_at: None,
            finished_at: now,
            code: 128,
            signal: None,
            reason: "StartError".into(),
            message: Some("no such file".into()),
        };
        Self::new(create, InstanceState::Exited(exit), Step::Ended)
    }

    fn new(create: &CreateContainer, state: InstanceState, step: Step) -> Self {
        Self {
            record: ContainerRecord {
                user: None,
                id: create.id.clone(),
                name: create.name.clone(),
                restart_count: create.restart_count,
                hash: create.hash.clone(),
                image: create.image.clone(),
                image_id: create.image_id.clone(),
                log: create.log.file.clone(),
                stop_signal: create.stop_signal,
                resources: create.resources.clone(),
                post_start: HookState::None,
                pre_stop: HookState::None,
                state,
            },
            step,
            ends: None,
            post_start: None,
            pre_stop: None,
            up_at_ms: 0,
            is_healthy: true,
            is_ready: true,
        }
    }

    pub fn is_alive(&self) -> bool {
        match self.step {
            Step::Running | Step::PreStop(_) | Step::Waiting(_) | Step::Signalled { .. } => true,
            Step::Dying { .. } | Step::Ended => false,
        }
    }

    /// Its init ends.
    pub fn end(&mut self, code: i32, now: Stamp, dice: &mut Dice) {
        if self.is_alive() {
            self.die(code, now, now.boot_ms + dice.delay_ms() / 10);
        }
    }

    fn die(&mut self, code: i32, now: Stamp, recorded_at_ms: u64) {
        self.step = Step::Dying {
            finished_at: now,
            code,
            recorded_at_ms,
        };
        give_up(&mut self.record.post_start);
        give_up(&mut self.record.pre_stop);
    }

    /// What is due but needs nobody else. True when the record changed.
    pub fn tick(&mut self, now: Stamp) -> bool {
        let before = self.record.clone();
        self.end_hooks(now.boot_ms);
        match &self.step {
            Step::Dying {
                finished_at,
                code,
                recorded_at_ms,
            } if *recorded_at_ms <= now.boot_ms => {
                let (finished_at, code) = (*finished_at, *code);
                self.record_exit(finished_at, code);
            }
            Step::Signalled {
                kill_at_ms,
                ends_at_ms,
                ..
            } if *ends_at_ms.min(kill_at_ms) <= now.boot_ms => {
                let code = if ends_at_ms <= kill_at_ms { 143 } else { 137 };
                self.die(code, now, now.boot_ms);
            }
            Step::Running
            | Step::PreStop(_)
            | Step::Waiting(_)
            | Step::Signalled { .. }
            | Step::Dying { .. }
            | Step::Ended => {}
        }
        if let Some((at, code)) = self.ends
            && at <= now.boot_ms
            && self.is_alive()
        {
            self.die(code, now, now.boot_ms);
        }
        self.record != before
    }

    fn end_hooks(&mut self, now_ms: u64) {
        let hooks = [
            (&mut self.post_start, &mut self.record.post_start),
            (&mut self.pre_stop, &mut self.record.pre_stop),
        ];
        for (course, state) in hooks {
            if let Some((_, is_good)) = course.take_if(|(at, _)| *at <= now_ms)
                && *state == HookState::Running
            {
                *state = if is_good {
                    HookState::Done
                } else {
                    HookState::Failed {
                        message: "exit code 1".into(),
                    }
                };
            }
        }
    }

    fn record_exit(&mut self, finished_at: Stamp, code: i32) {
        let (InstanceState::Running { started_at, .. }
        | InstanceState::Stopping { started_at, .. }) = self.record.state
        else {
            return;
        };
        self.step = Step::Ended;
        self.record.state = InstanceState::Exited(Exit {
            started_at: Some(started_at),
            finished_at: finished_at.not_before(started_at),
            code,
            signal: None,
            reason: if code == 0 { "Completed" } else { "Error" }.into(),
            message: None,
        });
    }

    pub fn stop(&mut self, order: StopOrder, now: Stamp, dice: &mut Dice) {
        let (grace_ms, reason, mut after, hook) = order;
        let until_ms = now.boot_ms + grace_ms;
        match &mut self.step {
            Step::Running => {
                after.retain(|name| *name != self.record.name);
                self.step = Step::PreStop(Patience { until_ms, after });
                self.tell_stop(reason, until_ms.max(now.boot_ms + MIN_GRACE_MS));
                give_up(&mut self.record.post_start);
                if let Some(hook) = hook {
                    self.record.pre_stop = HookState::Running;
                    self.pre_stop = Some(course(&hook, now, dice));
                }
            }
            Step::PreStop(patience) | Step::Waiting(patience) => {
                patience.until_ms = patience.until_ms.min(until_ms);
                let kill_at_ms = patience.until_ms.max(now.boot_ms + MIN_GRACE_MS);
                self.tell_kill(kill_at_ms);
            }
            Step::Signalled {
                since_ms,
                kill_at_ms,
                ..
            } => {
                let wanted = until_ms.max(*since_ms + MIN_GRACE_MS);
                *kill_at_ms = wanted.min(*kill_at_ms);
                self.tell_kill(wanted);
            }
            Step::Dying { .. } | Step::Ended => {}
        }
    }

    fn tell_stop(&mut self, reason: String, kill_at_boot_ms: u64) {
        if let InstanceState::Running {
            process,
            started_at,
        } = self.record.state
        {
            self.record.state = InstanceState::Stopping {
                process,
                started_at,
                kill_at_boot_ms,
                reason,
                phase: StopPhase::PreStop,
            };
        }
    }

    fn tell_kill(&mut self, wanted: u64) {
        if let InstanceState::Stopping {
            kill_at_boot_ms, ..
        } = &mut self.record.state
        {
            *kill_at_boot_ms = wanted.min(*kill_at_boot_ms);
        }
    }

    fn tell_phase(&mut self, now_in: StopPhase) {
        if let InstanceState::Stopping { phase, .. } = &mut self.record.state {
            *phase = now_in;
        }
    }

    /// `lives` says of a name whether its container has not ended.
    pub fn advance(
        &mut self,
        lives: &impl Fn(&str) -> bool,
        now: Stamp,
        dice: &mut Dice,
    ) -> Advance {
        let mut outcome = Advance::default();
        if let Step::PreStop(patience) = &self.step {
            let is_over = now.boot_ms >= patience.until_ms;
            if self.record.pre_stop == HookState::Running && !is_over {
                return outcome;
            }
            self.step = Step::Waiting(patience.clone());
            give_up(&mut self.record.pre_stop);
            self.tell_phase(StopPhase::Waiting);
            outcome.has_changed = true;
        }
        if let Step::Waiting(Patience { until_ms, after }) = self.step.clone() {
            let is_over = now.boot_ms >= until_ms;
            if !is_over && after.iter().any(|name| lives(name)) {
                return outcome;
            }
            outcome.has_changed = true;
            outcome.signal = Some((self.reason(), !is_over));
            self.signal(until_ms, now, dice);
        }
        outcome
    }

    fn reason(&self) -> String {
        match &self.record.state {
            InstanceState::Stopping { reason, .. } => reason.clone(),
            InstanceState::Running { .. } | InstanceState::Exited(_) => String::new(),
        }
    }

    fn signal(&mut self, until_ms: u64, now: Stamp, dice: &mut Dice) {
        let kill_at_ms = until_ms.max(now.boot_ms + MIN_GRACE_MS);
        self.step = Step::Signalled {
            since_ms: now.boot_ms,
            kill_at_ms,
            ends_at_ms: now.boot_ms + dice.delay_ms(),
        };
        self.tell_phase(StopPhase::Signalled);
        if let InstanceState::Stopping {
            kill_at_boot_ms, ..
        } = &mut self.record.state
        {
            *kill_at_boot_ms = kill_at_ms;
        }
    }

    pub fn wake_at_ms(&self) -> Option<u64> {
        let step = match &self.step {
            Step::Running | Step::Ended => None,
            Step::PreStop(patience) | Step::Waiting(patience) => Some(patience.until_ms),
            Step::Signalled {
                kill_at_ms,
                ends_at_ms,
                ..
            } => Some(*kill_at_ms.min(ends_at_ms)),
            Step::Dying { recorded_at_ms, .. } => Some(*recorded_at_ms),
        };
        if !self.is_alive() {
            return step;
        }
        let hooks = [self.post_start, self.pre_stop].into_iter().flatten();
        step.into_iter()
            .chain(self.ends.map(|(at, _)| at))
            .chain(hooks.map(|(at, _)| at))
            .min()
    }
}

fn give_up(hook: &mut HookState) {
    if *hook == HookState::Running {
        *hook = HookState::Failed {
            message: "it was given up".into(),
        };
    }
}

/// When the hook ends, and whether well.
fn course(hook: &Hook, now: Stamp, dice: &mut Dice) -> (u64, bool) {
    match hook {
        Hook::Sleep { ms } => (now.boot_ms + ms, true),
        Hook::Exec { .. } | Hook::HttpGet(_) => {
            let is_good = !dice.fails(4);
            (now.boot_ms + dice.delay_ms(), is_good)
        }
        Hook::Broken { .. } => (now.boot_ms, false),
    }
}

/// When a container ends by itself, and how.
fn life(role: Role, now: Stamp, dice: &mut Dice) -> Option<(u64, i32)> {
    let at = now.boot_ms + dice.delay_ms() + dice.below(2000);
    match role {
        Role::Init if dice.is_calm => Some((at, 0)),
        Role::Init => Some((at, dice.pick(&[0, 0, 0, 1, 42]))),
        Role::Sidecar | Role::Regular if dice.is_calm => None,
        Role::Sidecar | Role::Regular => match dice.below(4) {
            0 => Some((at, dice.pick(&[0, 1, 42, 139]))),
            1 => Some((at + dice.below(1_500_000), dice.pick(&[0, 0, 1, 42]))),
            _ => None,
        },
    }
}
