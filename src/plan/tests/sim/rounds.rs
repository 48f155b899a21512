//! The law of order: a container never starts before its predecessors are ready (P-43, P-50 to P-57, P-90). A round is the
//! life of a sandbox, or what is left of it after a restart of all its containers.

use std::collections::{BTreeMap, BTreeSet};

use super::laws::{Scene, is_live};
use crate::holder::proto::{ContainerRecord, HookState, InstanceState};
use crate::pod::PodUid;
use crate::pod::lifecycle::{self, Role};

#[derive(Debug, Default)]
pub struct Rounds {
    pods: BTreeMap<PodUid, Round>,
    /// Every id that was seen, so that none counts in two rounds.
    seen: BTreeSet<String>,
}

/// What has happened in the present round of a pod.
#[derive(Debug, Default)]
struct Round {
    attempt: u32,
    anew_from: u32,
    /// Names of containers that had an instance.
    begun: BTreeSet<String>,
    /// Ids of its instances.
    ids: BTreeSet<String>,
    /// Names of containers of which one exited 0.
    done: BTreeSet<String>,
}

impl Rounds {
    pub fn forget(&mut self, uid: &PodUid) {
        self.pods.remove(uid);
    }

    /// Takes in what is seen in this pass.
    pub fn see(&mut self, scene: Scene<'_>) {
        for (uid, sandbox) in &scene.observed.sandboxes {
            let round = self.pods.entry(uid.clone()).or_default();
            if round.attempt != sandbox.record.attempt {
                *round = Round {
                    attempt: sandbox.record.attempt,
                    anew_from: round.anew_from,
                    ..Round::default()
                };
            }
            for record in scene.records(uid) {
                if self.seen.insert(record.id.clone()) {
                    round.begun.insert(record.name.clone());
                    round.ids.insert(record.id.clone());
                }
                let past = scene.memory(uid).containers.get(&record.name);
                let last = past.and_then(|past| past.last.as_ref());
                // One that was told to end did not end by itself, whatever its code.
                let was_told = last.is_some_and(|l| l.id == record.id && l.stop.is_some());
                if let InstanceState::Exited(exit) = &record.state
                    && exit.code == 0
                    && !was_told
                    && round.ids.contains(&record.id)
                {
                    round.done.insert(record.name.clone());
                }
            }
            // Edits: what was out of the spec for a while is new, and the newest instance counts.
            let containers = &scene.memory(uid).containers;
            round.begun.retain(|name| containers.contains_key(name));
            round.done.retain(|name| {
                let last = containers.get(name).and_then(|past| past.last.as_ref());
                last.is_some_and(|last| last.exit.code == 0 && last.stop.is_none())
            });
            // Whatever ended before the restart of all belongs to the round before.
            let anew_from = scene.memory(uid).anew_from;
            if round.anew_from != anew_from {
                *round = Round {
                    attempt: round.attempt,
                    anew_from,
                    ..Round::default()
                };
            }
        }
    }

    pub fn check_start(
        &self,
        scene: Scene<'_>,
        (uid, name): (&PodUid, &String),
        started: &BTreeSet<String>,
    ) {
        let round = &self.pods[uid];
        let members: Vec<_> = lifecycle::members(&scene.desired[uid].pod).collect();
        let own = members.iter().position(|(_, c)| c.name == *name).unwrap();
        let has_begun = |from: usize| {
            members[from..]
                .iter()
                .any(|(_, c)| round.begun.contains(&c.name))
        };
        if members[own].0 == Role::Init {
            assert!(!has_begun(own + 1), "{uid}: {name} is behind");
            assert!(!round.done.contains(name), "{uid}: {name} is done");
        }
        for (index, (role, earlier)) in members[..own].iter().enumerate() {
            let lives = |r: &&ContainerRecord| r.name == earlier.name && is_live(r);
            let record = scene.records(uid).iter().find(lives);
            let is_hook_over = record.is_none_or(|r| r.post_start != HookState::Running);
            let is_ready = match role {
                Role::Regular => is_hook_over,
                Role::Init => round.done.contains(&earlier.name) || has_begun(index + 1),
                Role::Sidecar => {
                    let is_up = record.is_some_and(|r| {
                        started.contains(&r.id) && matches!(r.state, InstanceState::Running { .. })
                    });
                    is_hook_over && (is_up || has_begun(index + 1))
                }
            };
            assert!(
                is_ready,
                "{uid}: {name} starts before {} is ready",
                earlier.name
            );
        }
    }
}
