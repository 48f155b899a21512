//! The laws of probes.

use k8s_openapi::api::core::v1::Container;

use super::laws::{Laws, Scene, is_live};
use crate::holder::proto::{ContainerRecord, InstanceState};
use crate::plan::{Action, ProbeKey, ProbeVerdict, SandboxState, StopCause};
use crate::pod::lifecycle::{self, Role};
use crate::pod::probe::ProbeKind;

impl Laws {
    /// What probes and specs say of instances.
    pub fn hear_probes(&mut self, scene: Scene<'_>) {
        for (key, found) in &scene.observed.probes {
            match (key.kind, found.verdict) {
                (ProbeKind::Startup, ProbeVerdict::Success) => self.started.insert(key.id.clone()),
                (ProbeKind::Startup | ProbeKind::Liveness, ProbeVerdict::Failure) => {
                    self.failed.insert(key.id.clone())
                }
                (ProbeKind::Liveness, ProbeVerdict::Success) | (ProbeKind::Readiness, _) => false,
            };
        }
        for uid in scene.observed.sandboxes.keys() {
            let pod = scene.desired.get(uid);
            for record in scene.records(uid) {
                let spec = pod.and_then(|p| lifecycle::member(&p.pod, &record.name));
                if spec.is_some_and(|(_, c)| c.startup_probe.is_none()) {
                    self.started.insert(record.id.clone());
                }
            }
        }
    }

    /// which probes run, and of whom.
    pub fn check_probes(&self, scene: Scene<'_>) {
        for (key, order) in &scene.plan.probes {
            let records = scene.records(&key.uid).iter();
            let record = records.into_iter().find(|r| r.id == key.id).unwrap();
            assert_eq!(record.name, order.container);
            let spec = scene.plan.pods[&key.uid].spec.as_ref().unwrap();
            let is_init = |c: &Container| {
                c.name == record.name && c.restart_policy.as_deref() != Some("Always")
            };
            let init = spec.init_containers.iter().flatten();
            assert!(
                !init.into_iter().any(is_init),
                "a probe of an init container"
            );
            let is_running = matches!(record.state, InstanceState::Running { .. });
            assert!(is_live(record), "a probe of what does not run");
            let current = scene.memory(&key.uid).containers[&record.name]
                .current
                .as_ref();
            assert_eq!(current.map(|c| &c.id), Some(&record.id));
            let is_started = current.unwrap().started;
            match key.kind {
                ProbeKind::Readiness => assert!(is_started, "R-13"),
                ProbeKind::Liveness => assert!(is_started && is_running, "R-13, R-18"),
                ProbeKind::Startup => assert!(!is_started && is_running, "R-13, R-18"),
            }
            assert!(
                key.kind == ProbeKind::Readiness
                    || scene.is_to_run(&key.uid)
                    || is_held(scene, key),
                "R-18: {key:?}"
            );
            assert!(scene.memory(&key.uid).finished.is_none(), "R-23");
        }
        self.check_probes_are_complete(scene);
    }

    /// What a probe has decided outlives the agent, whose verdicts are lost.
    pub fn check_decided(&self, scene: Scene<'_>) {
        for (uid, pod) in scene.desired.iter().filter(|(uid, _)| scene.is_to_run(uid)) {
            let Some(before) = scene.before.pods.get(uid) else {
                continue;
            };
            let is_decided = |record: &&ContainerRecord| {
                let past = before.containers.get(&record.name);
                let current = past.and_then(|past| past.current.as_ref());
                let is_told = current.is_some_and(|c| {
                    c.id == record.id && matches!(c.stop, Some(StopCause::Probe { .. }))
                });
                is_told && matches!(record.state, InstanceState::Running { .. })
            };
            let Some(SandboxState::Ready {
                containers,
                leaving: false,
                ..
            }) = scene.observed.sandboxes.get(uid).map(|s| &s.state)
            else {
                continue;
            };
            for record in containers.iter().filter(is_decided) {
                let stops = |a: &Action| matches!(a, Action::StopContainer { order, .. } if order.id == record.id);
                let name = pod.full_name();
                assert!(
                    scene.plan.actions.iter().any(stops),
                    "{name} is spared: {record:?}"
                );
            }
        }
    }

    fn check_probes_are_complete(&self, scene: Scene<'_>) {
        for (uid, pod) in scene.desired.iter().filter(|(uid, _)| scene.is_to_run(uid)) {
            let Some(SandboxState::Ready { containers, .. }) =
                scene.observed.sandboxes.get(uid).map(|s| &s.state)
            else {
                continue;
            };
            let members = lifecycle::members(&pod.pod).filter(|(role, _)| *role != Role::Init);
            for (_, spec) in members {
                let is_it = |r: &&ContainerRecord| {
                    let current = &scene.memory(uid).containers[&spec.name].current;
                    let current = current.as_ref().filter(|c| c.stop.is_none());
                    r.name == spec.name && current.is_some_and(|c| c.id == r.id)
                };
                let Some(record) = containers.iter().find(is_it) else {
                    continue;
                };
                let has = |kind| {
                    let mut probes = scene.plan.probes.keys();
                    probes.any(|key| key.id == record.id && key.kind == kind)
                };
                let is_up = spec.startup_probe.is_none() || self.started.contains(&record.id);
                assert!(has(ProbeKind::Startup) != is_up, "{uid} {}", spec.name);
                let wants = |probe: bool| probe && is_up;
                assert_eq!(
                    has(ProbeKind::Liveness),
                    wants(spec.liveness_probe.is_some())
                );
                assert_eq!(
                    has(ProbeKind::Readiness),
                    wants(spec.readiness_probe.is_some())
                );
            }
        }
    }
}

/// No source wants it, but not all have delivered; or its turn to end with the node has not come.
fn is_held(scene: Scene<'_>, key: &ProbeKey) -> bool {
    let memory = scene.memory(&key.uid);
    memory.ending.is_none() && memory.finished.is_none()
}
