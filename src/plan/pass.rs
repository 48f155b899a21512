//! One pod's pass: what is it to become, and what is the next step there?

use super::admission::{Refusal, Refusals};
use super::outcome::Outcome;
use super::run::Verdicts;
use super::shutdown::{Due, Leaver};
use super::{
    Action, Desired, Ending, EndingCause, Halt, Note, Now, Observed, PodHistory, Rules, Sandbox,
    SandboxState, absorb, cause, deadline, events, eviction, notes, probes, restart_all, run,
    sandbox, status,
};
use crate::pod::{PodUid, StaticPod};

/// Everything a pass may read.
#[derive(Debug, Clone, Copy)]
pub(super) struct World<'a> {
    pub(super) desired: &'a Desired,
    pub(super) observed: &'a Observed,
    pub(super) rules: &'a Rules,
    pub(super) now: Now,
    /// Waiting pods that the node does not take.
    pub(super) refusals: &'a Refusals,
    /// Whose turn it is, while the node goes down.
    pub(super) due: Option<Due>,
    /// Who ends for the sake of the others.
    pub(super) victim: Option<&'a PodUid>,
}

/// One pod in the world.
#[derive(Debug, Clone, Copy)]
pub(super) struct PodView<'a> {
    pub(super) world: World<'a>,
    pub(super) uid: &'a PodUid,
    /// As desired, else as it was started.
    pub(super) pod: &'a StaticPod,
    pub(super) sandbox: Option<&'a Sandbox>,
    pub(super) goal: Goal,
}

impl<'a> PodView<'a> {
    /// Why the node does not take the pod, if so (D-3).
    pub(super) fn refusal(&self) -> Option<&'a Refusal> {
        self.world.refusals.get(self.uid)
    }

    /// A reason that concerns the whole pod.
    pub(super) fn note(&self, text: impl Into<String>) -> Note {
        Note {
            uid: self.uid.clone(),
            container: None,
            text: text.into(),
        }
    }
}

/// What a pod is to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// Its containers run, as far as policy allows.
    Run,
    /// It stays as it is: no source wants it, but not every source has delivered yet (S-162). Or the node goes down, and
    /// others end first.
    Hold,
    /// It goes.
    End(EndingCause),
    /// It has finished: its sandbox goes, its status stays.
    Rest,
}

/// Plans one pod.
pub(super) fn plan_pod(world: World<'_>, uid: &PodUid, out: &mut Outcome) {
    let sandbox = world.observed.sandboxes.get(uid);
    let wanted = world.desired.get(uid);
    let Some(pod) = wanted.or(sandbox.map(|s| &s.record.pod)) else {
        return forget(world, uid, out);
    };
    let mut memory = recall(world, pod, out);
    let mut view = PodView {
        world,
        uid,
        pod,
        sandbox,
        goal: Goal::Hold,
    };
    eviction::update(&view, &mut memory, out);
    view.goal = goal(world, uid, &memory);
    note_ending(&view, &mut memory);
    note_admission(&view, &mut memory);
    out.events
        .extend(events::ignored_fields(&view, &mut memory));
    absorb::absorb(&view, &mut memory, out);
    deadline::count(&view, &mut memory);
    restart_all::update(&view, &mut memory);
    cause::note(&view, &mut memory, out);
    let mut verdicts = run::verdicts(&view, &memory);
    if view.goal == Goal::Run {
        memory.finished =
            run::result(&view, &memory, &verdicts).or_else(|| deadline::check(&view, &memory, out));
        if memory.finished.is_some() {
            memory.restarting = None;
            view.goal = Goal::Rest;
            verdicts = Verdicts::new();
        }
    }
    step(&view, &mut memory, &verdicts, out);
    probes::order(&view, &memory, out);
    let shown = status::pod_with_status(&view, &mut memory, &verdicts);
    out.pods.insert(uid.clone(), shown);
    out.history.pods.insert(uid.clone(), memory);
}

/// A pod that is only history: dropped as soon as every source has had its say.
fn forget(world: World<'_>, uid: &PodUid, out: &mut Outcome) {
    if !world.observed.sources_ready {
        return;
    }
    if let Some(memory) = out.history.pods.remove(uid) {
        out.actions.push(forget_action(uid, memory));
    }
}

fn forget_action(uid: &PodUid, memory: PodHistory) -> Action {
    Action::ForgetPod {
        uid: uid.clone(),
        namespace: memory.namespace,
        name: memory.name,
    }
}

/// The pod's memory; a new one for a new pod, and for one that came back after its removal (S-160).
fn recall(world: World<'_>, pod: &StaticPod, out: &mut Outcome) -> PodHistory {
    let uid = &pod.uid;
    let old = out.history.pods.remove(uid);
    let came_back = world.observed.halt == Halt::No && !world.observed.sandboxes.contains_key(uid);
    match old {
        Some(memory) if came_back && memory.is_removed() => {
            out.actions.push(forget_action(uid, memory));
            new_memory(world, pod)
        }
        Some(memory) => memory,
        None => new_memory(world, pod),
    }
}

fn new_memory(world: World<'_>, pod: &StaticPod) -> PodHistory {
    PodHistory {
        namespace: pod.namespace().to_owned(),
        name: pod.name().to_owned(),
        start_time: world.now.wall,
        ..PodHistory::default()
    }
}

fn goal(world: World<'_>, uid: &PodUid, memory: &PodHistory) -> Goal {
    let is_unwanted = !world.desired.contains_key(uid);
    if memory.is_removed() || (is_unwanted && world.observed.sources_ready) {
        return Goal::End(EndingCause::Removed);
    }
    match world.observed.halt {
        Halt::AgentStop => Goal::End(EndingCause::AgentStop),
        Halt::NodeShutdown { .. } if is_due(world, uid) => Goal::End(EndingCause::NodeShutdown),
        Halt::No | Halt::NodeShutdown { .. } if is_unwanted => Goal::Hold,
        Halt::No | Halt::NodeShutdown { .. } if memory.finished.is_some() => Goal::Rest,
        Halt::NodeShutdown { .. } => Goal::Hold,
        Halt::No if memory.evicted.is_some() => Goal::End(EndingCause::Evicted),
        Halt::No => Goal::Run,
    }
}

/// N-26: no turn is left for a pod that is not there, and none starts.
fn is_due(world: World<'_>, uid: &PodUid) -> bool {
    let Some(sandbox) = world.observed.sandboxes.get(uid) else {
        return true;
    };
    let leaver = Leaver::new(&world.rules.shutdown, &sandbox.record.pod);
    world.due.is_none_or(|due| leaver.is_due(due))
}

/// Remembers since when the pod is being ended; forgets an end of all pods that an earlier agent was told.
fn note_ending(view: &PodView<'_>, memory: &mut PodHistory) {
    match view.goal {
        Goal::End(cause) if view.sandbox.is_some() => {
            let since = memory.ending.map_or(view.world.now.wall, |e| e.since);
            memory.ending = Some(Ending { since, cause });
        }
        Goal::End(_) => {}
        Goal::Run | Goal::Hold | Goal::Rest => memory.ending = None,
    }
}

/// Whoever was taken keeps its right until the next boot.
fn note_admission(view: &PodView<'_>, memory: &mut PodHistory) {
    let is_taken =
        view.goal == Goal::Run && view.world.observed.sources_ready && view.refusal().is_none();
    let boot_id = &view.world.rules.boot_id;
    if is_taken && memory.admitted_in.as_ref() != Some(boot_id) {
        memory.admitted_in = Some(boot_id.clone());
    }
}

/// The next step from where the sandbox stands to the goal.
fn step(view: &PodView<'_>, memory: &mut PodHistory, verdicts: &Verdicts, out: &mut Outcome) {
    let state = view.sandbox.map(|s| &s.state);
    match (view.goal, state) {
        (Goal::Run, None) => sandbox::start(view, memory, out),
        (Goal::Run, Some(SandboxState::Ready { .. })) => run::run(view, memory, verdicts, out),
        (Goal::Run, Some(SandboxState::Dead { .. })) => sandbox::replace(view, memory, out),
        (Goal::End(_) | Goal::Rest, Some(SandboxState::Ready { .. })) => {
            sandbox::wind_down(view, memory, out);
        }
        (Goal::End(_) | Goal::Rest, Some(SandboxState::Dead { .. })) => sandbox::clean(view, out),
        (Goal::End(_), None) => sandbox::stay_down(view, memory, out),
        (Goal::Rest, None) => out.notes.push(view.note(finished_text(memory))),
        (Goal::Run | Goal::End(_) | Goal::Rest, Some(SandboxState::Starting)) => {
            out.notes.push(view.note("its holder is starting"));
        }
        (Goal::Hold, None | Some(_)) => out.notes.push(view.note(notes::held(view))),
    }
}

fn finished_text(memory: &PodHistory) -> String {
    match memory.finished {
        Some(super::Finished::Succeeded) => "finished: every container exited 0".to_owned(),
        Some(super::Finished::DeadlineExceeded) => {
            "finished: activeDeadlineSeconds were over".to_owned()
        }
        Some(super::Finished::Failed) | None => {
            "finished: some container failed, and restartPolicy starts none again".to_owned()
        }
    }
}
