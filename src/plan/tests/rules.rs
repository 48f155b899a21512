//! Restart policies of containers, restart rules, RestartAllContainers (P-60…P-63), and delays per pod (P-64, P-67).

use serde_json::{Value, json};

use super::fixtures::*;
use super::story::*;
use crate::plan::{Finished, PodHistory, StopCause};

fn rule(action: &str, operator: &str, values: &[i32]) -> Value {
    json!({"action": action, "exitCodes": {"operator": operator, "values": values}})
}

/// P-60…P-62: rules, then the container's policy, then the pod's.
#[test]
fn exit_leads_on_by_rule_then_policy() {
    let on_42 = rule("Restart", "In", &[42]);
    let but_42 = rule("Restart", "NotIn", &[42]);
    for (pod_policy, own, code, restarts) in [
        ("Always", json!({}), 0, true),
        ("OnFailure", json!({}), 0, false),
        ("Never", json!({}), 1, false),
        ("Never", json!({"restartPolicy": "OnFailure"}), 1, true),
        ("Never", json!({"restartPolicy": "OnFailure"}), 0, false),
        ("Always", json!({"restartPolicy": "Never"}), 1, false),
        ("Never", json!({"restartPolicyRules": [on_42]}), 42, true),
        ("Never", json!({"restartPolicyRules": [on_42]}), 1, false),
        ("Never", json!({"restartPolicyRules": [but_42]}), 1, true),
        ("Never", json!({"restartPolicyRules": [but_42]}), 42, false),
    ] {
        let mut a = own.clone();
        a["name"] = json!("a");
        let mut story = Story::new(json!({
            "restartPolicy": pod_policy,
            "containers": [a, {"name": "b"}],
        }));
        let asked = story.asks(2, vec![exited("a", 0, (0, 1), code), running("b", 0, 0)]);
        let expected: &[&str] = if restarts { &["start a 1"] } else { &[] };
        assert_eq!(asked, expected, "{pod_policy} {own} {code}");
        assert_eq!(story.memory().finished, None);
    }
}

fn restart_all() -> Story {
    Story::new(json!({
        "restartPolicy": "Never",
        "initContainers": [
            {"name": "log", "restartPolicy": "Always"},
            {"name": "init"},
        ],
        "containers": [
            {"name": "a", "restartPolicyRules": [rule("RestartAllContainers", "In", &[42])],
             "restartPolicy": "Never", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}},
            {"name": "b", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}},
            {"name": "done"},
        ],
    }))
}

/// P-63, from the trigger to the last container that runs again.
#[test]
fn exit_restarts_all_containers() {
    let mut story = restart_all();
    let log = running("log", 0, 0);
    let init = exited("init", 0, (1, 2), 0);
    let (a, b) = (running("a", 0, 3), running("b", 0, 4));
    let done = exited("done", 0, (5, 6), 0);
    story.sees(
        7,
        vec![log.clone(), init.clone(), a, b.clone(), done.clone()],
    );
    let epoch = story.memory().epoch;

    let a = exited("a", 0, (3, 8), 42);
    let plan = story.sees(9, vec![log, init.clone(), a.clone(), b, done.clone()]);
    // No grace: no hooks, and nobody waits for another.
    assert_eq!(action_lines(&plan), ["stop log-0 0", "stop b-0 0"]);
    let restarting = story.memory().restarting.clone().unwrap();
    assert_eq!(
        (restarting.container.as_str(), restarting.since),
        ("a", at(9).wall)
    );
    assert!(
        note_lines(&plan)
            .contains(&"a starts when every container has ended, because a exited".to_owned())
    );

    let b = exited("b", 0, (4, 10), 137);
    let stopping_log = stopping("log", 0, 2009);
    let plan = story.sees(
        11,
        vec![
            stopping_log,
            init.clone(),
            a.clone(),
            b.clone(),
            done.clone(),
        ],
    );
    assert_eq!(action_lines(&plan), NONE);
    let last = story.memory().containers["b"].last.clone().unwrap();
    assert_eq!(last.stop, Some(StopCause::RestartAll));

    let log = exited("log", 0, (0, 12), 137);
    let ended = vec![log, init, a, b, done];
    assert_eq!(story.asks(13, ended.clone()), ["start log 1"]);
    assert_eq!(story.memory().restarting, None);
    assert_eq!(story.memory().epoch, epoch + 1);

    // In order, and whatever the policy of each.
    let mut records = ended;
    for (name, next) in [
        ("log", "start init 1"),
        ("init", "start a 1"),
        ("a", "start b 1"),
        ("b", "start done 1"),
    ] {
        records.retain(|r| r.name != name);
        records.push(match name {
            "init" => exited("init", 1, (20, 21), 0),
            _ => running(name, 1, 20),
        });
        assert_eq!(story.asks(22, records.clone()), [next]);
    }
    records.retain(|r| r.name != "done");
    records.push(running("done", 1, 23));
    assert_eq!(story.asks(24, records), NONE);
}

/// P-63: the back-off of the trigger counts, and nobody else's.
#[test]
fn only_the_trigger_backs_off() {
    let mut story = Story::new(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "init"}],
        "containers": [
            {"name": "a", "restartPolicyRules": [rule("RestartAllContainers", "In", &[42])]},
        ],
    }));
    // Its own end is enough: nothing else is to be stopped.
    let init = |n| exited("init", n, (0, 1), 0);
    story.sees(2, vec![init(0), running("a", 0, 2)]);
    assert_eq!(
        story.asks(4, vec![init(0), exited("a", 0, (2, 3), 42)]),
        ["start init 1"]
    );
    assert_eq!(
        story.asks(6, vec![init(1), exited("a", 0, (2, 3), 42)]),
        ["start a 1"]
    );
    story.sees(7, vec![init(1), running("a", 1, 7)]);
    let crashed = exited("a", 1, (7, 8), 42);
    assert_eq!(
        story.asks(9, vec![init(1), crashed.clone()]),
        ["start init 2"]
    );
    let plan = story.sees(10, vec![init(2), crashed]);
    assert_eq!(action_lines(&plan), NONE);
    assert_eq!(plan.wake_at_boot_ms, Some(10_008));
    // Another exit code of the same container is the end.
    story.sees(10_010, vec![init(2), running("a", 2, 10_009)]);
    story.sees(10_012, vec![init(2), exited("a", 2, (10_009, 10_011), 0)]);
    assert_eq!(story.memory().finished, Some(Finished::Succeeded));
}

/// Removal wins over a restart of all containers.
#[test]
fn pod_that_ends_restarts_nothing() {
    let mut story = restart_all();
    let records = vec![exited("a", 0, (0, 1), 42), running("b", 0, 0)];
    story.sees(2, records);
    assert!(story.memory().restarting.is_some());
    let plan = planned(&[], &story.observed, &story.history, 3);
    assert_eq!(plan.history.pods[&story.pod.uid].restarting, None);
    assert_eq!(action_lines(&plan), ["stop b-0 5000 sleep 1000"]);
}

/// P-64, P-67: the annotations bend the curve of this pod; what cannot be read does not count.
#[test]
fn delays_can_be_set_per_pod() {
    for (annotations, expected) in [
        (json!({}), [10, 20, 40, 80, 160, 300, 300]),
        (
            json!({"vetch.io/backoff-start": "1s", "vetch.io/backoff-max": "5s"}),
            [1, 2, 4, 5, 5, 5, 5],
        ),
        (json!({"vetch.io/backoff-max": "3s"}), [3, 3, 3, 3, 3, 3, 3]),
        (
            json!({"vetch.io/backoff-start": "2m"}),
            [120, 240, 300, 300, 300, 300, 300],
        ),
        (
            json!({"vetch.io/backoff-start": "0s", "vetch.io/backoff-max": "6m"}),
            [10, 20, 40, 80, 160, 300, 300],
        ),
        (
            json!({"vetch.io/backoff-start": "often"}),
            [10, 20, 40, 80, 160, 300, 300],
        ),
    ] {
        let mut story =
            Story::new(json!({"restartPolicy": "Always", "containers": [{"name": "a"}]}));
        story.pod.pod.metadata.annotations = serde_json::from_value(annotations.clone()).unwrap();
        let crash = |n| vec![exited("a", n, (0, 1000), 1)];
        story.sees(1000, crash(0));
        let delays =
            (1..=7).map(|n| (story.sees(1000, crash(n)).wake_at_boot_ms.unwrap() - 1000) / 1000);
        assert_eq!(delays.collect::<Vec<_>>(), expected, "{annotations}");
    }
}

/// Records of an agent that knew no causes and no epochs.
#[test]
fn old_history_still_loads() {
    let exit = json!({"started_at": at(0), "finished_at": at(5), "code": 143, "signal": null,
                      "reason": "Error", "message": null});
    let instance = json!({"id": "x", "restart_count": 2, "image": "app", "image_id": "sha256:app",
                          "hash": "0", "started_at": at(0), "boot_id": "boot-1", "exit": exit});
    let with = |interrupted: Value| {
        let mut old = instance.clone();
        if !interrupted.is_null() {
            old["interrupted"] = interrupted;
        }
        old
    };
    for (old, expected) in [
        (json!(null), None),
        (json!(false), None),
        (json!(true), Some(StopCause::PodEnds)),
    ] {
        let memory: PodHistory = serde_json::from_value(json!({
            "start_time": at(0).wall,
            "next_attempt": 3,
            "containers": {"a": {"current": with(old.clone()), "last": with(old)}},
        }))
        .unwrap();
        let a = &memory.containers["a"];
        assert_eq!(a.current.clone().unwrap().stop, expected);
        assert_eq!(a.last.clone().unwrap().stop, expected);
        let text = serde_json::to_string(&memory).unwrap();
        assert_eq!(serde_json::from_str::<PodHistory>(&text).unwrap(), memory);
    }
}
