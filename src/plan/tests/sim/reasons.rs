//! The law of reasons: nothing waits for ever without saying for what. Each pod has a note; each container that is wanted
//! and does not run says why, and what it waits for is certain to come, or is named.

use std::collections::BTreeSet;

use super::laws::{Scene, is_live};
use crate::plan::{Action, SandboxState};
use crate::pod::PodUid;
use crate::pod::lifecycle;

/// What only somebody outside can change.
const OUTSIDE: [&str; 3] = [
    "is not in the local store",
    "is not a valid image name",
    "; not restarted",
];

pub fn check(scene: Scene<'_>) {
    for uid in scene.plan.pods.keys() {
        let mut notes = scene.plan.notes.iter().filter(|n| n.uid == *uid);
        assert!(notes.clone().next().is_some(), "{uid} says nothing");
        assert!(notes.all(|note| !note.text.is_empty()));
        let state = scene.observed.sandboxes.get(uid).map(|s| &s.state);
        match state {
            Some(SandboxState::Ready { leaving: false, .. }) if scene.is_to_run(uid) => {
                check_containers(scene, uid);
            }
            None if scene.is_to_run(uid) => check_pod(scene, uid),
            Some(
                SandboxState::Ready { .. } | SandboxState::Starting | SandboxState::Dead { .. },
            )
            | None => {}
        }
    }
}

/// It has no sandbox.
fn check_pod(scene: Scene<'_>, uid: &PodUid) {
    let starts = |a: &Action| matches!(a, Action::StartSandbox { uid: u, .. } if u == uid);
    let note = note(scene, uid, None);
    let has_cause = scene.plan.actions.iter().any(starts)
        || note.starts_with("waits until every source")
        || note.starts_with("waits for the old pod")
        || note.ends_with("starts when that has changed")
        || (note.contains("; next try in ") && scene.plan.wake_at_boot_ms.is_some());
    assert!(has_cause, "{uid} waits for ever: {note}");
}

fn check_containers(scene: Scene<'_>, uid: &PodUid) {
    let pod = &scene.desired[uid].pod;
    let is_starting = scene
        .plan
        .actions
        .iter()
        .any(|a| matches!(a, Action::StartContainer { uid: u, .. } if u == uid));
    let Some(SandboxState::Ready {
        containers,
        creating,
        ..
    }) = scene.observed.sandboxes.get(uid).map(|s| &s.state)
    else {
        return;
    };
    let any_lives = !creating.is_empty() || containers.iter().any(is_live);
    // Those with a cause to wait for.
    let mut justified: BTreeSet<&str> = BTreeSet::new();
    for (_, container) in lifecycle::members(pod) {
        let name = container.name.as_str();
        let note = note(scene, uid, Some(name));
        let lives = containers.iter().any(|r| r.name == name && is_live(r));
        let due = scene.plan.restarts.get(&(uid.clone(), name.to_owned()));
        let waits_for = note
            .strip_prefix("waits for ")
            .is_some_and(|_| justified.iter().any(|earlier| note.contains(*earlier)));
        let has_cause = lives
            || creating.contains(name)
            || due.is_some_and(|at| *at > scene.now.boot_ms)
            || (note.starts_with("starts now") || note.starts_with("restarts now"))
                && (is_starting || !creating.is_empty())
            || OUTSIDE.iter().any(|text| note.contains(text))
            || note.starts_with("starts when every container has ended") && any_lives
            || waits_for;
        assert!(has_cause, "{uid} {name} waits for ever: {note}");
        justified.insert(name);
    }
}

fn note<'a>(scene: Scene<'a>, uid: &PodUid, container: Option<&str>) -> &'a str {
    let mut notes = scene.plan.notes.iter();
    let note = notes.find(|n| n.uid == *uid && n.container.as_deref() == container);
    &note
        .unwrap_or_else(|| panic!("{uid} {container:?} says nothing"))
        .text
}
