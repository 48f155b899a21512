//! A pod that should run and has its sandbox: which containers are started, stopped and cleared away.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Container;

use super::container::{self, Verdict};
use super::init::{self, Gate};
use super::outcome::Outcome;
use super::pass::{Goal, PodView};
use super::{Action, Finished, PodHistory, SandboxState, cause, events, notes};
use crate::holder::proto::ContainerRecord;
use crate::pod::lifecycle::{self, Role};
use crate::pod::{PodUid, StaticPod};

/// A verdict for each container of the spec, by name. Empty for a pod that is not to run.
pub(super) type Verdicts = BTreeMap<String, Verdict>;

/// Regular containers, in spec order.
pub(super) fn containers(pod: &StaticPod) -> &[Container] {
    pod.pod
        .spec
        .as_ref()
        .map_or(&[], |spec| spec.containers.as_slice())
}

/// Judges every container of a pod that runs or is held: each by itself, and then by who is before it.
pub(super) fn verdicts(view: &PodView<'_>, memory: &PodHistory) -> Verdicts {
    match view.goal {
        Goal::Run | Goal::Hold => {}
        Goal::End(_) | Goal::Rest => return Verdicts::new(),
    }
    let pod = &view.pod.pod;
    let mut gate: Option<Gate> = None;
    let mut verdicts = Verdicts::new();
    for member in lifecycle::members(pod) {
        let own = container::judge(view, memory, member);
        let next = init::gate(view, memory, member, &own);
        let verdict = match &gate {
            Some(gate) => gate.hold_up(pod, own),
            None => own,
        };
        gate = Gate::and(gate, next);
        verdicts.insert(member.1.name.clone(), verdict);
    }
    verdicts
}

/// P-44, P-53, P-106, P-107: how the pod ended, if nothing of it is to be started any more. Sidecars do not count (P-110).
pub(super) fn result(
    view: &PodView<'_>,
    memory: &PodHistory,
    verdicts: &Verdicts,
) -> Option<Finished> {
    let pod = &view.pod.pod;
    let is_done = |c: &Container| verdicts.get(&c.name) == Some(&Verdict::Done);
    let has_failed = |(role, c): (Role, &Container)| {
        role == Role::Init && is_done(c) && !init::has_passed(pod, memory, &c.name)
    };
    if lifecycle::members(pod).any(has_failed) {
        return Some(Finished::Failed);
    }
    let regular = containers(view.pod);
    if regular.is_empty() || !regular.iter().all(is_done) {
        return None;
    }
    let exited_0 = |c: &Container| {
        let past = memory.containers.get(&c.name);
        past.and_then(|past| past.last.as_ref())
            .is_some_and(|last| last.exit.code == 0)
    };
    Some(if regular.iter().all(exited_0) {
        Finished::Succeeded
    } else {
        Finished::Failed
    })
}

/// The next steps of the containers in a ready sandbox.
pub(super) fn run(
    view: &PodView<'_>,
    memory: &mut PodHistory,
    verdicts: &Verdicts,
    out: &mut Outcome,
) {
    let state = view.sandbox.map(|s| &s.state);
    let Some(SandboxState::Ready {
        containers: records,
        creating,
        removing,
        leaving,
        log_trouble,
    }) = state
    else {
        return;
    };
    if *leaving {
        out.notes
            .push(view.note("its holder is leaving; a new one follows"));
        return;
    }
    match log_trouble {
        Some(trouble) => {
            out.notes
                .push(view.note(format!("log lines are being dropped: {trouble}")));
            let news = events::logs_dropped(trouble);
            events::announce(view, &mut memory.announced, &news, out);
        }
        None => memory.announced = None,
    }
    cause::stop_due(view, memory, records, out);
    remove_surplus(view, records, removing, out);
    memory
        .containers
        .retain(|name, _| verdicts.contains_key(name) || records.iter().any(|r| r.name == *name));
    for (_, container) in lifecycle::members(&view.pod.pod) {
        if let Some(verdict) = verdicts.get(&container.name) {
            wait(view, memory, (&container.name, verdict), out);
        }
    }
    if creating.is_empty() {
        start_next(view, verdicts, out);
    }
}

/// N-40: of each container the newest exited instance is kept beside the running one.
fn remove_surplus(
    view: &PodView<'_>,
    records: &[ContainerRecord],
    removing: &BTreeSet<String>,
    out: &mut Outcome,
) {
    let mut kept: BTreeSet<&str> = BTreeSet::new();
    let mut surplus = Vec::new();
    for record in records.iter().rev() {
        if record.state.is_live() {
            continue;
        }
        let in_spec = lifecycle::member(&view.pod.pod, &record.name).is_some();
        let is_kept = in_spec && kept.insert(&record.name);
        if !is_kept && !removing.contains(&record.id) {
            surplus.push(Action::RemoveContainer {
                uid: view.uid.clone(),
                id: record.id.clone(),
                with_logs: true,
            });
        }
    }
    out.actions.extend(surplus.into_iter().rev());
}

/// Says why a container is not simply running, and when to look at it again.
fn wait(
    view: &PodView<'_>,
    memory: &mut PodHistory,
    (name, verdict): (&String, &Verdict),
    out: &mut Outcome,
) {
    let past = memory.containers.entry(name.clone()).or_default();
    out.notes
        .push(notes::container(view, name, (verdict, past)));
    let Verdict::Wait(wait) = verdict else {
        return;
    };
    if let Some(due) = wait.due_boot_ms {
        out.wake_at(due);
        out.restarts.insert((view.uid.clone(), name.clone()), due);
    }
    if let Some(announcement) = &wait.announcement {
        events::announce(view, &mut past.announced, announcement, out);
    }
}

/// P-43: one after another in spec order. Who has to wait for another is not to be started by its verdict.
fn start_next(view: &PodView<'_>, verdicts: &Verdicts, out: &mut Outcome) {
    let uid: &PodUid = view.uid;
    let first = lifecycle::members(&view.pod.pod).find_map(|(_, c)| {
        let restart_count = match verdicts.get(&c.name)? {
            Verdict::Start { restart_count } => *restart_count,
            Verdict::Running
            | Verdict::Stopping
            | Verdict::Creating
            | Verdict::Wait(_)
            | Verdict::Done => return None,
        };
        Some(Action::StartContainer {
            uid: uid.clone(),
            container: c.name.clone(),
            restart_count,
        })
    });
    out.actions.extend(first);
}
