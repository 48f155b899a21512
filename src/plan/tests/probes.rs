//! Which probes run, and what their verdicts do (P-42, P-76, R-6, R-11… ).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::fixtures::*;
use super::story::*;
use crate::holder::proto::ContainerRecord;
use crate::plan::{Finished, Halt, Plan, ProbeVerdict, StopCause};
use crate::pod::probe::ProbeKind;

fn story(policy: &str, kinds: &[&str]) -> Story {
    let mut app = json!({"name": "app"});
    for kind in kinds {
        app[*kind] = json!({"tcpSocket": {"port": 80}, "failureThreshold": 1});
    }
    Story::new(json!({"restartPolicy": policy, "containers": [app]}))
}

const ALL: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

fn app() -> Vec<ContainerRecord> {
    vec![running("app", 0, 1000)]
}

fn probes(lines: &[&str]) -> BTreeSet<String> {
    lines.iter().map(ToString::to_string).collect()
}

/// `(started, ready)` as the pod's status says it.
fn shown(plan: &Plan, story: &Story) -> (bool, bool) {
    let status = plan.pods[&story.pod.uid].status.clone().unwrap();
    let container = status.container_statuses.unwrap()[0].clone();
    (container.started.unwrap(), container.ready)
}

///
#[test]
fn startup_comes_first_then_the_others() {
    let mut story = story("Always", &ALL);
    let plan = story.sees(2000, app());
    assert_eq!(probe_lines(&plan), probes(&["app-0 Startup"]));
    assert_eq!(shown(&plan, &story), (false, false));
    let order = &plan.probes[&story.key("app-0", ProbeKind::Startup)];
    assert_eq!((order.initial, order.started_at), (None, at(1000)));

    story.finds("app-0", ProbeKind::Startup, ProbeVerdict::Success);
    let plan = story.sees(3000, app());
    assert_eq!(
        probe_lines(&plan),
        probes(&["app-0 Liveness", "app-0 Readiness"])
    );
    assert_eq!(shown(&plan, &story), (true, false));
    let initial = |kind| plan.probes[&story.key("app-0", kind)].initial;
    assert_eq!(initial(ProbeKind::Liveness), Some(ProbeVerdict::Success));
    assert_eq!(initial(ProbeKind::Readiness), Some(ProbeVerdict::Failure));

    // The startup probe is gone, and so is its verdict.
    story.observed.probes.clear();
    story.finds("app-0", ProbeKind::Readiness, ProbeVerdict::Success);
    let plan = story.sees(4000, app());
    assert_eq!(shown(&plan, &story), (true, true));
    assert_eq!(action_lines(&plan), NONE);
}

/// without a startup probe it is started at once; without a readiness probe it is ready then.
#[test]
fn what_has_no_probe_is_started_and_ready() {
    for (kinds, expected, lines) in [
        (&[][..], (true, true), &[][..]),
        (&["livenessProbe"], (true, true), &["app-0 Liveness"]),
        (&["readinessProbe"], (true, false), &["app-0 Readiness"]),
        (&["startupProbe"], (false, false), &["app-0 Startup"]),
    ] {
        let mut story = story("Always", kinds);
        let plan = story.sees(2000, app());
        assert_eq!(shown(&plan, &story), expected, "{kinds:?}");
        assert_eq!(probe_lines(&plan), probes(lines));
    }
}

/// a restart of the agent, which forgets all findings, changes neither.
#[test]
fn restart_of_the_agent_does_not_flap() {
    let mut story = story("Always", &ALL);
    story.finds("app-0", ProbeKind::Startup, ProbeVerdict::Success);
    story.finds("app-0", ProbeKind::Readiness, ProbeVerdict::Success);
    story.sees(2000, app());
    story.observed.probes.clear();
    story.state(crate::plan::SandboxState::Starting);
    let plan = story.pass(3000);
    assert_eq!(probe_lines(&plan), probes(&[]));
    assert_eq!(shown(&plan, &story), (true, true));
    let plan = story.sees(4000, app());
    assert_eq!(shown(&plan, &story), (true, true));
    let order = &plan.probes[&story.key("app-0", ProbeKind::Readiness)];
    assert_eq!(order.initial, Some(ProbeVerdict::Success));
    story.finds("app-0", ProbeKind::Readiness, ProbeVerdict::Failure);
    let plan = story.sees(5000, app());
    assert_eq!(shown(&plan, &story), (true, false));
    assert_eq!(action_lines(&plan), NONE);
}

/// P-42, R-16: the cause outlives the verdict, and the agent.
#[test]
fn failed_liveness_probe_kills_and_the_cause_is_remembered() {
    let mut story = story("Always", &["livenessProbe"]);
    story.sees(2000, app());
    story.finds("app-0", ProbeKind::Liveness, ProbeVerdict::Failure);
    let plan = story.sees(3000, app());
    assert_eq!(action_lines(&plan), ["stop app-0 5000"]);
    let reason = "Container app failed liveness probe, will be restarted";
    assert_eq!(stop_reasons(&plan), [reason]);
    assert_eq!(event_lines(&plan), [format!("Killing app {reason}")]);
    assert_eq!(probe_lines(&plan), probes(&[]));
    // The holder has not said so yet, and the finding is gone with its probe.
    story.observed.probes.clear();
    assert_eq!(story.asks(3100, app()), ["stop app-0 5000"]);
    assert_eq!(story.asks(3200, vec![stopping("app", 0, 8100)]), NONE);
    let over = vec![exited("app", 0, (1000, 4000), 143)];
    assert_eq!(story.asks(4100, over), ["start app 1"]);
    let last = story.memory().containers["app"].last.clone().unwrap();
    let output = "it said so".into();
    let kind = ProbeKind::Liveness;
    assert_eq!(last.stop, Some(StopCause::Probe { kind, output }));
}

/// P-42, P-69: with back-off, and not with `Never`; rules do not count, the container's own policy does.
#[test]
fn probe_kill_restarts_by_policy() {
    let rule = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [143]}}]);
    for (policy, own, restarts) in [
        ("Always", json!({}), true),
        ("OnFailure", json!({}), true),
        ("Never", json!({}), false),
        ("Never", json!({"restartPolicy": "OnFailure"}), true),
        ("Always", json!({"restartPolicy": "Never"}), false),
        (
            "Always",
            json!({"restartPolicy": "Never", "restartPolicyRules": rule}),
            false,
        ),
    ] {
        let mut app_spec = own.clone();
        app_spec["name"] = json!("app");
        app_spec["livenessProbe"] = json!({"tcpSocket": {"port": 80}});
        let mut story = Story::new(json!({"restartPolicy": policy, "containers": [app_spec]}));
        story.sees(1000, app());
        story.finds("app-0", ProbeKind::Liveness, ProbeVerdict::Failure);
        let plan = story.sees(2000, app());
        let says_so = stop_reasons(&plan)[0].ends_with("will be restarted");
        assert_eq!(says_so, restarts, "{policy} {own}");
        // Even if it exits 0 on the signal.
        let plan = story.sees(3000, vec![exited("app", 0, (1000, 2500), 0)]);
        let started = action_lines(&plan) == ["start app 1"];
        assert_eq!(started, restarts, "{policy} {own}");
        assert_eq!(story.memory().finished.is_some(), !restarts);
        if restarts {
            story.sees(3100, vec![running("app", 1, 3050)]);
            story.finds("app-1", ProbeKind::Liveness, ProbeVerdict::Failure);
            story.sees(3200, vec![running("app", 1, 3050)]);
            let plan = story.sees(4000, vec![exited("app", 1, (3050, 4000), 143)]);
            assert_eq!(plan.wake_at_boot_ms, Some(14_000));
        }
    }
}

/// R-6, P-76: a probe's own grace, which may be longer than the pod's.
#[test]
fn probe_kill_has_the_probes_own_grace() {
    let probe =
        |grace: Value| json!({"tcpSocket": {"port": 80}, "terminationGracePeriodSeconds": grace});
    for (grace, expected) in [
        (json!(null), "stop app-0 5000"),
        (json!(1), "stop app-0 1000"),
        (json!(60), "stop app-0 60000"),
    ] {
        let spec = json!({"name": "app", "startupProbe": probe(grace)});
        let mut story = Story::new(json!({"restartPolicy": "Always", "containers": [spec]}));
        story.finds("app-0", ProbeKind::Startup, ProbeVerdict::Failure);
        let plan = story.sees(1000, app());
        assert_eq!(action_lines(&plan), [expected]);
        assert_eq!(
            stop_reasons(&plan),
            ["Container app failed startup probe, will be restarted"]
        );
    }
}

/// A verdict about another instance is nobody's.
#[test]
fn verdicts_belong_to_an_instance() {
    let mut story = story("Always", &["livenessProbe", "startupProbe"]);
    story.finds("app-7", ProbeKind::Startup, ProbeVerdict::Failure);
    story.finds("app-7", ProbeKind::Liveness, ProbeVerdict::Failure);
    assert_eq!(story.asks(2000, app()), NONE);
    // A late word of the startup probe is not heard once it has succeeded.
    story.finds("app-0", ProbeKind::Startup, ProbeVerdict::Success);
    assert_eq!(story.asks(3000, app()), NONE);
    story.finds("app-0", ProbeKind::Startup, ProbeVerdict::Failure);
    assert_eq!(story.asks(4000, app()), NONE);
}

/// readiness goes on until the end; R-23: not for a pod that has finished.
#[test]
fn pod_that_ends_is_asked_for_readiness_only() {
    let mut story = story("Always", &["livenessProbe", "readinessProbe"]);
    story.finds("app-0", ProbeKind::Readiness, ProbeVerdict::Success);
    story.sees(2000, app());
    story.observed.halt = Halt::AgentStop;
    let plan = story.sees(3000, app());
    assert_eq!(probe_lines(&plan), probes(&["app-0 Readiness"]));
    // What liveness says does not matter any more.
    story.finds("app-0", ProbeKind::Liveness, ProbeVerdict::Failure);
    let plan = story.sees(3100, vec![stopping("app", 0, 8000)]);
    assert_eq!(probe_lines(&plan), probes(&["app-0 Readiness"]));
    assert_eq!(action_lines(&plan), NONE);
    let plan = story.sees(4000, vec![exited("app", 0, (1000, 3900), 143)]);
    assert_eq!(probe_lines(&plan), probes(&[]));
    assert_eq!(
        story.memory().containers["app"].last.clone().unwrap().stop,
        Some(StopCause::PodEnds)
    );

    let mut story = Story::new(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "log", "restartPolicy": "Always",
                            "readinessProbe": {"tcpSocket": {"port": 80}}}],
        "containers": [{"name": "app"}],
    }));
    let log = running("log", 0, 0);
    let plan = story.sees(1000, vec![log.clone(), running("app", 0, 500)]);
    assert_eq!(probe_lines(&plan), probes(&["log-0 Readiness"]));
    let plan = story.sees(2000, vec![log, exited("app", 0, (500, 1500), 0)]);
    assert_eq!(story.memory().finished, Some(Finished::Succeeded));
    assert_eq!(probe_lines(&plan), probes(&[]));
    // Nor when it is removed before its sidecars have ended.
    let plan = planned(&[], &story.observed, &story.history, 2500);
    assert_eq!(probe_lines(&plan), probes(&[]));
}

/// A stop that was decided but never sent is decided anew: its cause may have gone.
#[test]
fn cause_that_has_gone_is_forgotten() {
    let mut story = story("Never", &[]);
    story.sees(1000, app());
    story.observed.halt = Halt::AgentStop;
    assert_eq!(story.asks(2000, app()), ["stop app-0 5000"]);
    // That agent died before it could ask; the next one wants the pod to run.
    story.observed.halt = Halt::No;
    assert_eq!(story.asks(3000, app()), NONE);
    assert_eq!(
        story.memory().containers["app"]
            .current
            .clone()
            .unwrap()
            .stop,
        None
    );
    story.sees(4000, vec![exited("app", 0, (1000, 3500), 0)]);
    assert_eq!(story.memory().finished, Some(Finished::Succeeded));
}
