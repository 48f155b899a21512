//! Back-off, status fields, announcements, QoS, small texts.

use std::collections::BTreeSet;

use serde_json::json;

use super::fixtures::*;
use crate::holder::proto::InstanceState;
use crate::plan::backoff::next_delay_ms;
use crate::plan::notes::go_duration;
use crate::plan::{
    Action, History, ImagePresence, QosClass, SandboxState, StartProblem, VOLUME_PROBLEM,
    container_hash, pod_cgroup, qos_class, wall_time,
};

#[test]
fn failed_start_is_shown_and_retried_later() {
    let p = pod("u1", "Always", &["a", "b"]);
    let mut observed = seen(&p, ready(vec![running("b", 0, 0)]));
    let problem = StartProblem {
        reason: "CreateContainerConfigError".into(),
        message: "no command specified".into(),
        at_boot_ms: 100,
        failures: 3,
    };
    let key = (p.uid.clone(), "a".to_owned());
    observed.start_problems.insert(key.clone(), problem);
    let plan = planned(&[&p], &observed, &History::default(), 101);
    assert_eq!(plan.actions, []);
    assert_eq!(plan.wake_at_boot_ms, Some(40_100));
    assert_eq!(plan.restarts[&key], 40_100);
    assert!(event_lines(&plan).contains(&"Failed a Error: no command specified".to_owned()));
    let status = plan.pods[&p.uid].status.clone().unwrap();
    let waiting = status.container_statuses.unwrap()[0].state.clone().unwrap();
    assert_eq!(
        waiting.waiting.unwrap().reason.unwrap(),
        "CreateContainerConfigError"
    );
    let plan = planned(&[&p], &observed, &plan.history, 40_100);
    assert!(matches!(plan.actions[..], [Action::StartContainer { .. }]));
}

/// V-25: the pod stays on its way, and says so once each time it was tried.
#[test]
fn a_volume_that_cannot_be_mounted_leaves_its_container_creating() {
    let mut p = pod("u1", "Always", &["a"]);
    for (init, reason) in [
        (json!(null), "ContainerCreating"),
        (json!([{"name": "i", "image": "app"}]), "PodInitializing"),
    ] {
        let spec = p.pod.spec.as_mut().unwrap();
        spec.init_containers = serde_json::from_value(init).unwrap();
        let name = spec.init_containers.as_ref().map_or("a", |_| "i");
        let mut observed = seen(&p, ready(vec![]));
        let problem = StartProblem {
            reason: VOLUME_PROBLEM.to_owned(),
            message: "MountVolume.SetUp failed for volume \"v\": gone".into(),
            at_boot_ms: 100,
            failures: 1,
        };
        let key = (p.uid.clone(), name.to_owned());
        observed.start_problems.insert(key, problem);
        let plan = planned(&[&p], &observed, &History::default(), 101);
        assert_eq!(plan.actions, []);
        assert_eq!(plan.wake_at_boot_ms, Some(10_100));
        let text = format!("FailedMount {name} MountVolume.SetUp failed for volume \"v\": gone");
        assert_eq!(event_lines(&plan), [text]);
        let again = planned(&[&p], &observed, &plan.history, 102);
        assert_eq!(event_lines(&again).len(), 0);
        let status = plan.pods[&p.uid].status.clone().unwrap();
        let list = status.init_container_statuses.or(status.container_statuses);
        let waiting = list.unwrap()[0].state.clone().unwrap().waiting.unwrap();
        assert_eq!(waiting.reason.as_deref(), Some(reason));
        assert!(waiting.message.unwrap().contains("volume \"v\""));
    }
}

/// V-57: a container waits for the images that it mounts as it does for its own, and only for those.
#[test]
fn a_missing_image_of_a_volume_is_the_containers_trouble() {
    let mut p = pod("u1", "Always", &["a", "b"]);
    let spec = p.pod.spec.as_mut().unwrap();
    spec.containers[0].volume_mounts =
        serde_json::from_value(json!([{"name": "m", "mountPath": "/m"}])).unwrap();
    for (policy, reason) in [
        ("Never", "ErrImageNeverPull"),
        ("IfNotPresent", "ErrImagePull"),
    ] {
        let spec = p.pod.spec.as_mut().unwrap();
        let volume = json!([{"name": "m", "image": {"reference": "model", "pullPolicy": policy}}]);
        spec.volumes = serde_json::from_value(volume).unwrap();
        let mut observed = seen(&p, ready(vec![]));
        observed
            .images
            .insert("model".to_owned(), ImagePresence::Absent);
        let plan = planned(&[&p], &observed, &History::default(), 1);
        assert!(
            matches!(&plan.actions[..], [Action::StartContainer { container, .. }] if container == "b"),
            "{:?}",
            plan.actions
        );
        let status = plan.pods[&p.uid].status.clone().unwrap();
        let state = status.container_statuses.unwrap()[0].state.clone().unwrap();
        let waiting = state.waiting.unwrap();
        assert_eq!(waiting.reason.as_deref(), Some(reason));
        assert!(
            waiting
                .message
                .unwrap()
                .contains("\"model\" is not in the local store")
        );
        let present = ImagePresence::Present("sha256:1".to_owned());
        observed.images.insert("model".to_owned(), present);
        let plan = planned(&[&p], &observed, &plan.history, 2);
        assert!(
            matches!(&plan.actions[..], [Action::StartContainer { container, .. }, ..] if container == "a"),
            "{:?}",
            plan.actions
        );
    }
}

/// P-64, P-66: up to the cap and never beyond, for any number of crashes; a long run resets.
#[test]
fn back_off_rises_to_its_cap_and_a_long_run_resets_it() {
    let curve = rules().backoff;
    let delays: Vec<u64> = std::iter::successors(Some(0), |d| Some(next_delay_ms(curve, *d)))
        .take(10_000)
        .collect();
    assert_eq!(
        delays[..8],
        [0, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]
    );
    assert!(delays.is_sorted() && delays[9_999] == 300_000);

    let p = pod("u1", "Always", &["a"]);
    let crash = |n, span| seen(&p, ready(vec![exited("a", n, span, 1)]));
    let short = history_of(&[&p], &[(1, crash(0, (0, 1))), (2, crash(1, (1, 2)))]);
    for (end, is_reset) in [(600_003, false), (600_004, true)] {
        let plan = planned(&[&p], &crash(2, (3, end)), &short, end);
        assert_eq!(!plan.actions.is_empty(), is_reset, "run until {end}");
    }
}

#[test]
fn status_has_everything_that_kubectl_shows() {
    let mut p = pod("u1", "Always", &["b", "a"]);
    p.pod.spec.as_mut().unwrap().host_network = Some(true);
    let mut long = exited("a", 0, (1000, 2500), 1);
    if let InstanceState::Exited(exit) = &mut long.state {
        exit.message = Some(format!("start{}end", "ä".repeat(5000)));
    }
    let observed = seen(
        &p,
        ready(vec![long, running("a", 1, 3999), running("b", 0, 1000)]),
    );
    let plan = planned(&[&p], &observed, &History::default(), 4999);
    let status = serde_json::to_value(plan.pods[&p.uid].status.as_ref().unwrap()).unwrap();
    let a = &status["containerStatuses"][0];
    assert_eq!(a["name"], "a");
    assert_eq!(a["restartCount"], 1);
    assert_eq!(a["containerID"], "vetch://a-1");
    assert_eq!(a["imageID"], "sha256:app");
    assert_eq!(a["ready"], true);
    assert_eq!(a["state"]["running"]["startedAt"], "2023-11-14T22:13:23Z");
    let last = &a["lastState"]["terminated"];
    assert_eq!(last["finishedAt"], "2023-11-14T22:13:22Z");
    let message = last["message"].as_str().unwrap();
    assert!(message.ends_with("äend") && (6142..=6144).contains(&message.len()));
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["qosClass"], "BestEffort");
    assert_eq!(status["podIPs"], json!([{"ip": "10.0.0.1"}]));
    assert_eq!(status["hostIP"], "10.0.0.1");
    let kinds: Vec<_> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| {
            format!(
                "{}={}",
                c["type"].as_str().unwrap(),
                c["status"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "PodReadyToStartContainers=True",
            "Initialized=True",
            "Ready=True",
            "ContainersReady=True",
            "PodScheduled=True"
        ]
    );
}

#[test]
fn condition_times_move_only_with_their_status() {
    let p = pod("u1", "Always", &["a", "b"]);
    let one = seen(&p, ready(vec![running("a", 0, 0)]));
    let history = history_of(&[&p], &[(0, one.clone()), (5000, one.clone())]);
    assert_eq!(
        history.pods[&p.uid].conditions["Ready"],
        (false, at(0).wall)
    );
    let plan = planned(&[&p], &one, &history, 5000);
    let status = plan.pods[&p.uid].status.clone().unwrap();
    let ready_condition = &status.conditions.unwrap()[2];
    assert_eq!(
        ready_condition.message.as_deref(),
        Some("containers with unready status: [b]")
    );
    let two = seen(&p, ready(vec![running("a", 0, 0), running("b", 0, 6000)]));
    let plan = planned(&[&p], &two, &history, 7000);
    assert_eq!(
        plan.history.pods[&p.uid].conditions["Ready"],
        (true, at(7000).wall)
    );
}

/// A container that is being removed or created is not asked for again.
#[test]
fn requests_in_flight_are_not_repeated() {
    let p = pod("u1", "Always", &["a"]);
    let old = exited("a", 0, (0, 1), 1);
    let mut observed = seen(&p, ready(vec![old, exited("a", 1, (1, 2), 1)]));
    if let SandboxState::Ready {
        creating, removing, ..
    } = &mut observed.sandboxes.get_mut(&p.uid).unwrap().state
    {
        *creating = BTreeSet::from(["a".to_owned()]);
        *removing = BTreeSet::from(["a-0".to_owned()]);
    }
    assert_eq!(
        planned(&[&p], &observed, &History::default(), 3).actions,
        []
    );
}

#[test]
fn lost_log_lines_and_warnings_are_said_once() {
    let mut p = pod("u1", "Always", &["a"]);
    p.diagnostics.push(crate::pod::Diagnostic {
        severity: crate::pod::Severity::Warning,
        file: "web.yaml".into(),
        line: Some(3),
        field: "spec.foo".into(),
        message: "unknown field".into(),
    });
    let mut observed = seen(&p, ready(vec![running("a", 0, 0)]));
    if let SandboxState::Ready { log_trouble, .. } =
        &mut observed.sandboxes.get_mut(&p.uid).unwrap().state
    {
        *log_trouble = Some("no space left on device".into());
    }
    let plan = planned(&[&p], &observed, &History::default(), 0);
    let lines = event_lines(&plan);
    assert_eq!(
        lines[0],
        "ManifestWarning - web.yaml:3: spec.foo: unknown field"
    );
    assert_eq!(
        lines.last().unwrap(),
        "LogsDropped - Log lines are being dropped: no space left on device"
    );
    assert_eq!(planned(&[&p], &observed, &plan.history, 1).events, []);
}

#[test]
fn qos_classes_and_cgroups() {
    let with = |resources: serde_json::Value| {
        let mut p = pod("u1", "Always", &["a", "b"]);
        for c in &mut p.pod.spec.as_mut().unwrap().containers {
            c.resources = Some(serde_json::from_value(resources.clone()).unwrap());
        }
        p
    };
    let all = json!({"cpu": "0.5", "memory": "1Gi"});
    for (resources, class, cgroup) in [
        (json!({}), QosClass::BestEffort, "/vetch/besteffort/podu1"),
        (
            json!({"limits": {"cpu": "0"}}),
            QosClass::BestEffort,
            "/vetch/besteffort/podu1",
        ),
        (
            json!({"requests": {"cpu": "1n"}}),
            QosClass::Burstable,
            "/vetch/burstable/podu1",
        ),
        (
            json!({"limits": {"cpu": "1"}}),
            QosClass::Burstable,
            "/vetch/burstable/podu1",
        ),
        (
            json!({"limits": all}),
            QosClass::Guaranteed,
            "/vetch/guaranteed/podu1",
        ),
        (
            json!({"limits": all, "requests": {"cpu": "500m", "memory": "1024Mi"}}),
            QosClass::Guaranteed,
            "/vetch/guaranteed/podu1",
        ),
        (
            json!({"limits": all, "requests": {"cpu": "500m", "memory": "1e3"}}),
            QosClass::Burstable,
            "/vetch/burstable/podu1",
        ),
    ] {
        let p = with(resources.clone());
        assert_eq!(qos_class(&p.pod), class, "{resources}");
        assert_eq!(pod_cgroup("/vetch/", &p), cgroup);
    }
}

/// Init containers and sidecars count as the others do.
#[test]
fn one_init_container_changes_the_qos_class() {
    let all = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    for (regular, init, class) in [
        (json!({}), json!({}), QosClass::BestEffort),
        (
            json!({}),
            json!({"requests": {"cpu": "1m"}}),
            QosClass::Burstable,
        ),
        (json!({}), all.clone(), QosClass::Burstable),
        (all.clone(), json!({}), QosClass::Burstable),
        (all.clone(), all, QosClass::Guaranteed),
    ] {
        for policy in [None, Some("Always")] {
            let mut p = pod("u1", "Always", &["a", "i"]);
            let spec = p.pod.spec.as_mut().unwrap();
            let mut last = spec.containers.pop().unwrap();
            last.resources = Some(serde_json::from_value(init.clone()).unwrap());
            last.restart_policy = policy.map(str::to_owned);
            spec.init_containers = Some(vec![last]);
            spec.containers[0].resources = Some(serde_json::from_value(regular.clone()).unwrap());
            assert_eq!(qos_class(&p.pod), class, "{regular} {init} {policy:?}");
        }
    }
}

#[test]
fn small_texts() {
    for (ms, text) in [
        (10_000, "10s"),
        (160_000, "2m40s"),
        (300_000, "5m0s"),
        (1500, "1.5s"),
        (250, "250ms"),
        (3_600_000, "1h0m0s"),
    ] {
        assert_eq!(go_duration(ms), text);
    }
    // FNV-1a of "a\0b".
    assert_eq!(container_hash("", ""), "050c5d1f");
    assert_ne!(container_hash("ab", "c"), container_hash("a", "bc"));
    assert_eq!(wall_time(3000, at(1000)), at(3000).wall);
}
