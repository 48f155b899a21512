//! How the containers of a pod are asked to end: with their preStop hooks, sidecars last. One way for the agent's plan
//! and for commands that ask holders without an agent.

use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use crate::holder::proto::{ContainerRecord, Request};
use crate::pod::hook::{self, Hook};
use crate::pod::lifecycle::{self, Role};

/// The end of one container, as its holder is asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopOrder {
    /// Container id.
    pub id: String,
    /// P-76: from now to SIGKILL, in ms.
    pub grace_ms: u64,
    /// P-84.
    pub reason: String,
    /// P-77.
    pub pre_stop: Option<Hook>,
    /// P-81: names of containers that have to end before the signal is sent.
    pub after: Vec<String>,
}

impl StopOrder {
    /// For the holder.
    pub fn into_request(self) -> Request {
        Request::Stop {
            id: self.id,
            grace_ms: self.grace_ms,
            reason: self.reason,
            pre_stop: self.pre_stop,
            after: self.after,
        }
    }
}

/// P-80: an order for each instance that lives, all to be given at once. `pod` is as it was started.
pub fn orders(pod: &Pod, records: &[ContainerRecord], grace_ms: u64) -> Vec<StopOrder> {
    let live = records.iter().filter(|record| record.state.is_live());
    live.map(|record| order(pod, record, grace_ms)).collect()
}

/// The end of this instance with the rest of its pod.
pub fn order(pod: &Pod, record: &ContainerRecord, grace_ms: u64) -> StopOrder {
    StopOrder {
        id: record.id.clone(),
        grace_ms,
        reason: format!("Stopping container {}", record.name),
        pre_stop: pre_stop(pod, &record.name),
        after: predecessors(pod, &record.name),
    }
}

/// The hook of a container that is still in the spec.
pub fn pre_stop(pod: &Pod, container: &str) -> Option<Hook> {
    let (_, spec) = lifecycle::member(pod, container)?;
    hook::pre_stop(spec)
}

/// P-81: which containers end before this one when the whole pod does. A sidecar outlives the regular containers and the
/// later sidecars; nothing else waits.
fn predecessors(pod: &Pod, container: &str) -> Vec<String> {
    let mut members = lifecycle::members(pod).skip_while(|(_, c)| c.name != container);
    match members.next() {
        Some((Role::Sidecar, _)) => members
            .filter(|(role, _)| *role != Role::Init)
            .map(|(_, c)| c.name.clone())
            .collect(),
        Some((Role::Init | Role::Regular, _)) | None => Vec::new(),
    }
}
