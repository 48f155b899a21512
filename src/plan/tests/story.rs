//! A pod's life, told pass by pass: what is seen, and what the plan asks for, a line each.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::fixtures::*;
use crate::holder::proto::{ContainerRecord, HookState};
use crate::plan::stop::StopOrder;
use crate::plan::{
    Action, Finding, History, Observed, Plan, PodHistory, ProbeKey, ProbeVerdict, Rules,
    SandboxState, plan,
};
use crate::pod::StaticPod;
use crate::pod::hook::Hook;
use crate::pod::probe::ProbeKind;

/// A pod with this spec; each container uses the image `app` unless it says otherwise. The grace is 5 s.
pub(super) fn pod_of(mut spec: Value) -> StaticPod {
    let mut p = pod("u1", "Always", &[]);
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            container["image"] = json!("app");
        }
    }
    spec["terminationGracePeriodSeconds"] = json!(5);
    p.pod.spec = Some(serde_json::from_value(spec).unwrap());
    p
}

/// One pod on its node.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) pod: StaticPod,
    pub(super) history: History,
    pub(super) rules: Rules,
    pub(super) observed: Observed,
}

impl Story {
    pub(super) fn new(spec: Value) -> Self {
        let pod = pod_of(spec);
        Self {
            observed: seen(&pod, ready(vec![])),
            pod,
            history: History::default(),
            rules: rules(),
        }
    }

    /// One pass, with these containers in the sandbox.
    pub(super) fn sees(&mut self, boot_ms: u64, records: Vec<ContainerRecord>) -> Plan {
        self.state(ready(records));
        self.pass(boot_ms)
    }

    /// The actions of such a pass.
    pub(super) fn asks(&mut self, boot_ms: u64, records: Vec<ContainerRecord>) -> Vec<String> {
        action_lines(&self.sees(boot_ms, records))
    }

    pub(super) fn state(&mut self, state: SandboxState) {
        let sandbox = self.observed.sandboxes.get_mut(&self.pod.uid);
        sandbox.unwrap().state = state;
    }

    /// A pass; planning it again without news says the same.
    pub(super) fn pass(&mut self, boot_ms: u64) -> Plan {
        let wanted = desired(&[&self.pod]);
        let pass = |history| plan(&wanted, &self.observed, history, &self.rules, at(boot_ms));
        let plan = pass(&self.history);
        let again = pass(&plan.history);
        assert_eq!(again.history, plan.history, "history moved without news");
        assert_eq!(again.events, [], "an event was repeated");
        assert_eq!(again.actions, plan.actions);
        assert_eq!(again.probes, plan.probes);
        self.history = plan.history.clone();
        plan
    }

    /// What a probe of an instance has found from now on.
    pub(super) fn finds(&mut self, id: &str, kind: ProbeKind, verdict: ProbeVerdict) {
        let found = Finding {
            verdict,
            output: "it said so".into(),
        };
        self.observed.probes.insert(self.key(id, kind), found);
    }

    pub(super) fn key(&self, id: &str, kind: ProbeKind) -> ProbeKey {
        ProbeKey {
            uid: self.pod.uid.clone(),
            id: id.into(),
            kind,
        }
    }

    pub(super) fn memory(&self) -> &PodHistory {
        &self.history.pods[&self.pod.uid]
    }
}

/// `start a 0`, `stop a-0 5000`, `stop s-0 5000 after a b`, `remove a-0`, `leave`, …
pub(super) fn action_lines(plan: &Plan) -> Vec<String> {
    plan.actions.iter().map(line).collect()
}

fn line(action: &Action) -> String {
    match action {
        Action::StartSandbox { attempt, .. } => format!("sandbox {attempt}"),
        Action::StartContainer {
            container,
            restart_count,
            ..
        } => format!("start {container} {restart_count}"),
        Action::StopContainer { order, .. } => {
            let StopOrder {
                id,
                grace_ms,
                pre_stop,
                after,
                reason: _,
            } = order;
            let hook = match pre_stop {
                None => String::new(),
                Some(Hook::Sleep { ms }) => format!(" sleep {ms}"),
                Some(other) => format!(" {other:?}"),
            };
            let after = match after.as_slice() {
                [] => String::new(),
                names => format!(" after {}", names.join(" ")),
            };
            format!("stop {id} {grace_ms}{hook}{after}")
        }
        Action::RemoveContainer { id, .. } => format!("remove {id}"),
        Action::StopSandbox { .. } => "leave".into(),
        Action::CleanSandbox { .. } => "clean".into(),
        Action::ForgetPod { .. } => "forget".into(),
    }
}

/// The reason of each stop.
pub(super) fn stop_reasons(plan: &Plan) -> Vec<String> {
    let reasons = plan.actions.iter().filter_map(|action| match action {
        Action::StopContainer { order, .. } => Some(order.reason.clone()),
        Action::StartSandbox { .. }
        | Action::StartContainer { .. }
        | Action::RemoveContainer { .. }
        | Action::StopSandbox { .. }
        | Action::CleanSandbox { .. }
        | Action::ForgetPod { .. } => None,
    });
    reasons.collect()
}

/// `a-0 Liveness` of each probe that is to run.
pub(super) fn probe_lines(plan: &Plan) -> BTreeSet<String> {
    let keys = plan.probes.keys();
    keys.map(|key| format!("{} {}", key.id, key.kind.as_str()))
        .collect()
}

/// `name: waiting reason` of each container that waits.
pub(super) fn waiting_lines(plan: &Plan, pod: &StaticPod) -> Vec<String> {
    let status = plan.pods[&pod.uid].status.clone().unwrap();
    let all = status.init_container_statuses.into_iter().flatten();
    all.chain(status.container_statuses.into_iter().flatten())
        .filter_map(|s| {
            let reason = s.state?.waiting?.reason?;
            Some(format!("{}: {reason}", s.name))
        })
        .collect()
}

pub(super) fn with_post_start(mut record: ContainerRecord, state: HookState) -> ContainerRecord {
    record.post_start = state;
    record
}

/// Nothing.
pub(super) const NONE: [&str; 0] = [];
