//! What the API tells: read from the agent's state between two passes.

use std::convert::Infallible;

use async_channel::Receiver;
use k8s_openapi::api::core::v1::Pod;

use super::conditions::About;
use super::details::details;
use super::objects::view;
use super::state::Shared;
use crate::api::server::Backend;
use crate::api::types::{AgentStatus, Description, Draining, EventRecord, ObjectView, PlanView};
use crate::figures::Depth;
use crate::plan::{self, Note};
use crate::pod::PodUid;
use crate::sys::clock;

/// N-29.
const DRAINING: &str =
    "the node is shutting down: pods end, and none starts until the agent is started anew";

/// The agent, for its API.
pub struct Answers(pub Shared);

impl Backend for Answers {
    fn status(&self) -> AgentStatus {
        let agent = self.0.borrow();
        AgentStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            node_name: agent.config.node_name.clone(),
            paths: agent.config.paths.clone(),
            pod_manifest_path: agent.config.pod_manifest_path.clone(),
            ready: agent.manifests.has_delivered,
            stopping: agent.wishes.stop,
            draining: agent.wishes.drain.is_some(),
            labels: agent.rules.labels.clone(),
            allocatable: Some(agent.rules.allocatable),
            generation: agent.view.generation(),
            files: agent.manifests.snapshot.files.clone(),
            node_conditions: agent.pressure.conditions(),
            conditions: agent.view.shown.conditions.clone(),
        }
    }

    fn pods(&self) -> Vec<Pod> {
        self.0.borrow().view.shown.pods.values().cloned().collect()
    }

    fn describe(&self, uid: &PodUid) -> Option<Description> {
        // Of this moment: in the last pass's own, a wait would have the length that it had then.
        let notes = self.plan().notes;
        let agent = self.0.borrow();
        let pod = agent.view.shown.pods.get(uid)?.clone();
        let holding = agent.sandboxes.get(uid);
        let document = agent.pod(uid)?;
        let events = agent.ring.iter().filter(|record| record.event.uid == *uid);
        let file = agent.manifests.snapshot.files.iter();
        let file = file.filter(|file| file.file == document.origin.file);
        let held = file.clone().find(|file| file.held);
        let of_pod = |note: &Note| note.uid == *uid;
        let volumes = agent.volumes.notes().into_iter().filter(of_pod);
        Some(Description {
            pod,
            origin: document.origin.clone(),
            held: held.is_some(),
            diagnostics: held
                .map_or(&document.diagnostics, |file| &file.diagnostics)
                .clone(),
            notes: notes.into_iter().filter(of_pod).chain(volumes).collect(),
            events: events.cloned().collect(),
            containers: details(&agent, document, holding),
            holder: holding.map(|h| agent.config.paths.holder(&h.id.uid).dir().to_path_buf()),
        })
    }

    fn events(&self) -> Vec<EventRecord> {
        self.0.borrow().ring.iter().cloned().collect()
    }

    fn objects(&self) -> Vec<ObjectView> {
        let agent = self.0.borrow();
        agent.objects.by_key.values().map(view).collect()
    }

    fn plan(&self) -> PlanView {
        let mut agent = self.0.borrow_mut();
        let now = clock::now();
        let observed = agent.observe();
        let plan = plan::plan(&agent.desired, &observed, &agent.history, &agent.rules, now);
        PlanView {
            actions: plan.actions,
            notes: plan.notes,
            wake_in_ms: plan
                .wake_at_boot_ms
                .map(|at| at.saturating_sub(now.boot_ms)),
            pods: plan.pods.into_keys().collect(),
        }
    }

    fn summary(&self, depth: Depth) -> Receiver<Result<Vec<u8>, String>> {
        self.0.borrow().summarize(depth)
    }

    fn generation(&self) -> u64 {
        self.0.borrow().view.generation()
    }

    fn changed(&self) -> Receiver<Infallible> {
        self.0.borrow().view.changed()
    }

    fn stop(&self) {
        let mut agent = self.0.borrow_mut();
        agent.wishes.stop = true;
        agent.rise();
        agent.look_again();
    }

    fn drain(&self) -> Draining {
        let mut agent = self.0.borrow_mut();
        agent.wishes.drain.get_or_insert(clock::now().boot_ms);
        agent.conditions.set(About::Shutdown, DRAINING.to_owned());
        agent.rise();
        agent.look_again();
        Draining {
            turns: agent.rules.shutdown.clone(),
        }
    }
}
