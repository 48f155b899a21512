//! Section 2.10 and 2.11: conditions and container statuses, row by row.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, PodStatus};
use serde_json::json;

use super::fixtures::*;
use crate::holder::proto::{ContainerRecord, HookState, InstanceState};
use crate::plan::{
    Finding, Halt, History, Observed, Plan, ProbeKey, ProbeVerdict, SandboxState, StartProblem,
};
use crate::pod::StaticPod;
use crate::pod::probe::ProbeKind;

/// A pod with init containers `i` and `j`, a sidecar `s` between them, and regular containers `b` and `a`.
fn whole(policy: &str) -> StaticPod {
    let mut p = pod("u1", policy, &["b", "a"]);
    p.pod.spec.as_mut().unwrap().init_containers = Some(
        serde_json::from_value(json!([
            {"name": "i", "image": "app"},
            {"name": "s", "image": "app", "restartPolicy": "Always"},
            {"name": "j", "image": "app"},
        ]))
        .unwrap(),
    );
    p
}

fn status(plan: &Plan) -> &PodStatus {
    plan.pods[&uid("u1")].status.as_ref().unwrap()
}

/// `i ready started 2 Waiting:PodInitializing last:Error`, init containers first.
fn containers(plan: &Plan) -> Vec<String> {
    let status = status(plan);
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten())
        .map(line)
        .collect()
}

fn line(status: &ContainerStatus) -> String {
    let mut words = vec![status.name.clone()];
    words.extend(status.ready.then(|| "ready".to_owned()));
    words.extend((status.started == Some(true)).then(|| "started".to_owned()));
    words.extend((status.restart_count > 0).then(|| status.restart_count.to_string()));
    words.extend(status.state.as_ref().map(state));
    let last = status.last_state.as_ref().map(state);
    words.extend(last.map(|last| format!("last:{last}")));
    words.join(" ")
}

fn state(state: &ContainerState) -> String {
    match (&state.waiting, &state.running, &state.terminated) {
        (Some(waiting), None, None) => waiting.reason.clone().unwrap(),
        (None, Some(_), None) => "Running".to_owned(),
        (None, None, Some(end)) => format!("{}({})", end.reason.as_deref().unwrap(), end.exit_code),
        _ => panic!("P-130: {state:?}"),
    }
}

/// `Ready=False ContainersNotReady containers with unready status: [a]`.
fn condition(plan: &Plan, kind: &str) -> String {
    let conditions = status(plan).conditions.as_ref().unwrap();
    let found = conditions.iter().find(|c| c.type_ == kind);
    let found = found.unwrap_or_else(|| panic!("no {kind}"));
    let words = [
        Some(found.status.as_str()),
        found.reason.as_deref(),
        found.message.as_deref(),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn phase_of(plan: &Plan) -> &str {
    status(plan).phase.as_deref().unwrap()
}

/// The plan after these sights, one a second.
fn after(pod: &StaticPod, sights: &[Vec<ContainerRecord>]) -> Plan {
    let mut history = History::default();
    let mut plan = planned(&[pod], &nothing(), &history, 0);
    for (second, records) in sights.iter().enumerate() {
        let observed = seen(pod, ready(records.clone()));
        let boot_ms = 1000 * (u64::try_from(second).unwrap() + 1);
        history = plan.history;
        plan = planned(&[pod], &observed, &history, boot_ms);
    }
    plan
}

/// P-101, P-121, P-131, P-135, P-136, P-138.
#[test]
fn a_pod_is_shown_while_it_is_initialised() {
    let p = whole("Always");
    let plan = after(&p, &[vec![]]);
    assert_eq!(phase_of(&plan), "Pending");
    assert_eq!(
        containers(&plan),
        [
            "i PodInitializing",
            "s PodInitializing",
            "j PodInitializing",
            "a PodInitializing",
            "b PodInitializing"
        ]
    );
    assert_eq!(
        condition(&plan, "Initialized"),
        "False ContainersNotInitialized containers with incomplete status: [i s j]"
    );
    assert_eq!(
        condition(&plan, "ContainersReady"),
        "False ContainersNotReady containers with unready status: [s b a]"
    );

    let i = exited("i", 0, (0, 500), 0);
    let plan = after(&p, &[vec![running("i", 0, 0)]]);
    assert_eq!(containers(&plan)[0], "i started Running");
    let plan = after(&p, &[vec![i.clone(), running("s", 0, 600)]]);
    assert_eq!(phase_of(&plan), "Pending");
    assert_eq!(
        containers(&plan)[..3],
        [
            "i ready Completed(0)",
            "s ready started Running",
            "j PodInitializing"
        ]
    );
    assert_eq!(
        condition(&plan, "Initialized"),
        "False ContainersNotInitialized containers with incomplete status: [j]"
    );

    let all = vec![
        i,
        running("s", 0, 600),
        exited("j", 0, (700, 800), 0),
        running("b", 0, 900),
        running("a", 0, 900),
    ];
    let plan = after(&p, &[all]);
    assert_eq!(phase_of(&plan), "Running");
    for kind in ["Initialized", "ContainersReady", "Ready"] {
        assert_eq!(condition(&plan, kind), "True");
    }
}

/// P-100, P-53: with `Never` a failed init container ends the pod; otherwise it waits.
#[test]
fn a_failed_init_container_is_shown() {
    let twice = |p: &StaticPod| {
        let first = exited("i", 0, (0, 500), 3);
        let second = exited("i", 1, (1000, 1500), 3);
        after(p, &[vec![first.clone()], vec![first, second]])
    };
    let plan = twice(&whole("Always"));
    assert_eq!(phase_of(&plan), "Pending");
    assert_eq!(containers(&plan)[0], "i 1 CrashLoopBackOff last:Error(3)");
    let plan = twice(&whole("Never"));
    assert_eq!(phase_of(&plan), "Failed");
    assert_eq!(containers(&plan)[0], "i 1 Error(3) last:Error(3)");
    assert_eq!(condition(&plan, "Ready"), "False PodFailed");
}

/// P-33: in a new sandbox all begins anew, and the pod is Pending again.
#[test]
fn a_pod_with_a_new_sandbox_is_initialised_again() {
    let p = whole("Always");
    let all = vec![
        exited("i", 0, (0, 100), 0),
        running("s", 0, 200),
        exited("j", 0, (300, 400), 0),
        running("b", 0, 500),
        running("a", 0, 500),
    ];
    let plan = after(&p, std::slice::from_ref(&all));
    let plan = planned(&[&p], &seen(&p, dead(all)), &plan.history, 2000);
    let plan = planned(&[&p], &nothing(), &plan.history, 3000);
    let mut fresh = seen(&p, ready(vec![running("i", 1, 3500)]));
    fresh.sandboxes.get_mut(&p.uid).unwrap().record.attempt = 1;
    let plan = planned(&[&p], &fresh, &plan.history, 4000);
    assert_eq!(phase_of(&plan), "Pending");
    assert_eq!(
        containers(&plan),
        [
            "i started 1 Running last:Completed(0)",
            "s PodInitializing last:ContainerStatusUnknown(137)",
            "j PodInitializing last:Completed(0)",
            "a PodInitializing last:ContainerStatusUnknown(137)",
            "b PodInitializing last:ContainerStatusUnknown(137)",
        ]
    );
    assert_eq!(
        condition(&plan, "Initialized"),
        "False ContainersNotInitialized containers with incomplete status: [i s j]"
    );
}

/// P-167: its history is lost, but what comes after it runs.
#[test]
fn an_init_container_without_history_must_have_succeeded() {
    let p = whole("Always");
    let plan = after(&p, &[vec![running("s", 0, 0), running("b", 0, 1)]]);
    assert_eq!(containers(&plan)[0], "i ready Completed(0)");
    assert_eq!(containers(&plan)[2], "j ready Completed(0)");
    assert_eq!(condition(&plan, "Initialized"), "True");
}

fn found(observed: &mut Observed, kind: ProbeKind, verdict: ProbeVerdict) {
    let key = ProbeKey {
        uid: uid("u1"),
        id: "a-0".into(),
        kind,
    };
    let output = "no".to_owned();
    observed.probes.insert(key, Finding { verdict, output });
}

fn probed() -> StaticPod {
    let mut p = pod("u1", "Always", &["a"]);
    let probe = Some(serde_json::from_value(json!({"tcpSocket": {"port": 1}})).unwrap());
    let container = &mut p.pod.spec.as_mut().unwrap().containers[0];
    container.startup_probe.clone_from(&probe);
    container.readiness_probe = probe;
    p
}

/// P-102, P-135, P-136, R-11, R-21: `started`, then `ready`; both outlive the verdicts.
#[test]
fn probes_make_a_container_started_and_ready() {
    let p = probed();
    let mut observed = seen(&p, ready(vec![running("a", 0, 0)]));
    let plan = planned(&[&p], &observed, &History::default(), 0);
    assert_eq!(containers(&plan), ["a Running"]);
    assert_eq!(phase_of(&plan), "Running");
    found(&mut observed, ProbeKind::Startup, ProbeVerdict::Success);
    let plan = planned(&[&p], &observed, &plan.history, 1);
    assert_eq!(containers(&plan), ["a started Running"]);
    found(&mut observed, ProbeKind::Readiness, ProbeVerdict::Success);
    let plan = planned(&[&p], &observed, &plan.history, 2);
    assert_eq!(containers(&plan), ["a ready started Running"]);
    observed.probes.clear();
    let plan = planned(&[&p], &observed, &plan.history, 3);
    assert_eq!(containers(&plan), ["a ready started Running"]);
    found(&mut observed, ProbeKind::Readiness, ProbeVerdict::Failure);
    let plan = planned(&[&p], &observed, &plan.history, 4);
    assert_eq!(containers(&plan), ["a started Running"]);
    assert_eq!(
        condition(&plan, "Ready"),
        "False ContainersNotReady containers with unready status: [a]"
    );
}

/// P-90, P-156: the failed hook is why it waits, until its back-off is.
#[test]
fn a_failed_post_start_hook_is_shown() {
    let p = pod("u1", "Always", &["a"]);
    let failed = |record: ContainerRecord| ContainerRecord {
        post_start: HookState::Failed {
            message: "exit code 1".into(),
        },
        ..record
    };
    let first = failed(running("a", 0, 0));
    let ended = failed(exited("a", 0, (0, 1500), 137));
    let plan = after(&p, &[vec![first], vec![ended]]);
    assert_eq!(containers(&plan), ["a PostStartHookError last:Error(137)"]);
    let statuses = status(&plan).container_statuses.as_ref().unwrap();
    let waiting = statuses[0].state.as_ref().unwrap().waiting.clone().unwrap();
    assert_eq!(waiting.message.as_deref(), Some("exit code 1"));
}

/// P-153, P-154.
#[test]
fn problems_are_waiting_reasons() {
    let p = pod("u1", "Always", &["a"]);
    for reason in [
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    ] {
        let mut observed = seen(&p, ready(vec![]));
        let problem = StartProblem {
            reason: reason.into(),
            message: "no".into(),
            at_boot_ms: 0,
            failures: 1,
        };
        let key = (p.uid.clone(), "a".to_owned());
        observed.start_problems.insert(key, problem);
        let plan = planned(&[&p], &observed, &History::default(), 1);
        assert_eq!(containers(&plan), [format!("a {reason}")]);
        assert_eq!(phase_of(&plan), "Pending");
    }
}

/// P-98: final only when nothing runs any more.
#[test]
fn a_deadline_is_shown_when_the_pod_has_ended() {
    let mut p = pod("u1", "Always", &["a"]);
    p.pod.spec.as_mut().unwrap().active_deadline_seconds = Some(10);
    let observed = seen(&p, ready(vec![running("a", 0, 0)]));
    let plan = planned(&[&p], &observed, &History::default(), 0);
    let plan = planned(&[&p], &observed, &plan.history, 10_000);
    assert_eq!(phase_of(&plan), "Running");
    assert_eq!(status(&plan).reason, None);
    let observed = seen(&p, ready(vec![exited("a", 0, (0, 11_000), 137)]));
    let plan = planned(&[&p], &observed, &plan.history, 11_000);
    assert_eq!(phase_of(&plan), "Failed");
    assert_eq!(status(&plan).reason.as_deref(), Some("DeadlineExceeded"));
    assert_eq!(
        status(&plan).message.as_deref(),
        Some("Pod was active on the node longer than the specified deadline")
    );
}

/// N-28, P-125.
#[test]
fn a_node_that_goes_down_is_the_reason() {
    let p = pod("u1", "Always", &["a"]);
    let mut observed = seen(&p, ready(vec![running("a", 0, 0)]));
    let plan = planned(&[&p], &observed, &History::default(), 0);
    observed.halt = Halt::NodeShutdown {
        since_boot_ms: 1000,
    };
    let plan = planned(&[&p], &observed, &plan.history, 1000);
    assert_eq!(phase_of(&plan), "Running");
    assert_eq!(
        condition(&plan, "DisruptionTarget"),
        "True TerminationByKubelet Pod was terminated in response to imminent node shutdown."
    );
    if let SandboxState::Ready { containers, .. } =
        &mut observed.sandboxes.get_mut(&p.uid).unwrap().state
    {
        *containers = vec![exited("a", 0, (0, 1500), 143)];
    }
    let plan = planned(&[&p], &observed, &plan.history, 2000);
    assert_eq!(phase_of(&plan), "Failed");
    assert_eq!(status(&plan).reason.as_deref(), Some("Terminated"));
}

/// D-3, S-171: nothing is shown of the containers, so that the reason is what `get pods` shows.
#[test]
fn a_refused_pod_shows_its_reason() {
    let mut p = whole("Always");
    let selector = [("disk".to_owned(), "ssd".to_owned())];
    p.pod.spec.as_mut().unwrap().node_selector = Some(selector.into());
    let plan = planned(&[&p], &nothing(), &History::default(), 0);
    assert_eq!(phase_of(&plan), "Pending");
    assert_eq!(status(&plan).reason.as_deref(), Some("NodeAffinity"));
    assert_eq!(containers(&plan), [""; 0]);
    for kind in ["Initialized", "ContainersReady", "Ready"] {
        assert_eq!(condition(&plan, kind), "False UnknownContainerStatuses");
    }
}

/// P-63, P-126, P-159.
#[test]
fn a_restart_of_all_containers_is_shown() {
    let mut p = pod("u1", "Always", &["a", "b"]);
    let container = &mut p.pod.spec.as_mut().unwrap().containers[0];
    container.restart_policy = Some("Never".into());
    container.restart_policy_rules = Some(
        serde_json::from_value(json!([
            {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
        ]))
        .unwrap(),
    );
    let plan = after(&p, &[vec![running("a", 0, 0), running("b", 0, 0)]]);
    assert_eq!(condition(&plan, "AllContainersRestarting"), "False");
    let ended = exited("a", 0, (0, 1500), 42);
    let plan = planned(
        &[&p],
        &seen(&p, ready(vec![ended.clone(), running("b", 0, 0)])),
        &plan.history,
        2000,
    );
    assert_eq!(condition(&plan, "AllContainersRestarting"), "True");
    assert_eq!(
        containers(&plan),
        [
            "a RestartingAllContainers last:Error(42)",
            "b ready started Running"
        ]
    );
    let mut killed = exited("b", 0, (0, 2500), 137);
    if let InstanceState::Exited(exit) = &mut killed.state {
        exit.signal = Some(9);
    }
    let plan = planned(
        &[&p],
        &seen(&p, ready(vec![ended, killed])),
        &plan.history,
        3000,
    );
    assert_eq!(condition(&plan, "AllContainersRestarting"), "False");
    assert_eq!(containers(&plan)[1], "b RestartingAllContainers(137)");
}
