//! A pod that should run and has its sandbox: which containers are started, stopped and cleared away.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Container;

use super::container::{self, Verdict};
use super::outcome::Outcome;
use super::pass::{Goal, PodView};
use super::sandbox::{self, Stop};
use super::{Action, Finished, PodHistory, SandboxState, events, notes};
use crate::holder::proto::{ContainerRecord, InstanceState};
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

/// Judges every container of a pod that runs or is held.
pub(super) fn verdicts(view: &PodView<'_>, memory: &PodHistory) -> Verdicts {
    match view.goal {
        Goal::Run | Goal::Hold => containers(view.pod)
            .iter()
            .map(|c| {
                let past = memory.containers.get(&c.name);
                (c.name.clone(), container::judge(view, c, past))
            })
            .collect(),
        Goal::End(_) | Goal::Rest => Verdicts::new(),
    }
}

/// P-44: nothing runs and nothing is to be started.
pub(super) fn is_over(verdicts: &Verdicts) -> bool {
    !verdicts.is_empty() && verdicts.values().all(|v| *v == Verdict::Done)
}

/// P-106, P-107: how a pod that is over ended.
pub(super) fn result(verdicts: &Verdicts, memory: &PodHistory) -> Finished {
    let exited_0 = |name: &String| {
        let past = memory.containers.get(name).and_then(|c| c.last.as_ref());
        past.is_some_and(|last| last.exit.code == 0)
    };
    if verdicts.keys().all(exited_0) {
        Finished::Succeeded
    } else {
        Finished::Failed
    }
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
    stop_outdated(view, memory, records, out);
    remove_surplus(view, records, removing, out);
    memory
        .containers
        .retain(|name, _| verdicts.contains_key(name) || records.iter().any(|r| r.name == *name));
    for container in containers(view.pod) {
        if let Some(verdict) = verdicts.get(&container.name) {
            wait(view, memory, (&container.name, verdict), out);
        }
    }
    if creating.is_empty() {
        start_next(view, verdicts, out);
    }
}

/// P-40: stops what runs with another definition, or none: unlike kubelet (S-155), a container that was taken out of the
/// spec of a pod with a fixed uid is stopped at once.
fn stop_outdated(
    view: &PodView<'_>,
    memory: &mut PodHistory,
    records: &[ContainerRecord],
    out: &mut Outcome,
) {
    for record in records {
        let spec = containers(view.pod).iter().find(|c| c.name == record.name);
        let name = &record.name;
        let reason = match spec {
            None => format!("Container {name} was removed from the pod"),
            Some(c) if container::hash(c) != record.hash => {
                format!("Container {name} definition changed, will be restarted")
            }
            Some(_) if is_double(record, memory) => {
                format!("Container {name} was started twice, the second is stopped")
            }
            Some(_) => continue,
        };
        sandbox::stop(view, memory, &Stop { record, reason }, out);
    }
}

/// Another instance of the same container is the one that counts.
fn is_double(record: &ContainerRecord, memory: &PodHistory) -> bool {
    let container = memory.containers.get(&record.name);
    container.is_some_and(|c| c.current.as_ref().is_none_or(|c| c.id != record.id))
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
        let is_exited = match record.state {
            InstanceState::Running { .. } | InstanceState::Stopping { .. } => false,
            InstanceState::Exited(_) => true,
        };
        let in_spec = containers(view.pod).iter().any(|c| c.name == record.name);
        if is_exited && !(in_spec && kept.insert(&record.name)) && !removing.contains(&record.id) {
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

/// P-43: one after another in spec order; one that has to wait does not hold up the following ones.
fn start_next(view: &PodView<'_>, verdicts: &Verdicts, out: &mut Outcome) {
    let uid: &PodUid = view.uid;
    let first = containers(view.pod).iter().find_map(|c| {
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
