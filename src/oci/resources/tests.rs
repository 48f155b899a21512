use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{div_ceil, oom_score_adj};
use crate::oci::limits::{Controllers, tests::able};
use crate::oci::tests::Fixture;
use crate::pod::requests::SINGLE_PROCESS_OOM_KILL;

const GIB: u64 = 1 << 30;

fn pod(resources: Value, priority_class: &str) -> Pod {
    let container = json!({"name": "main", "resources": resources});
    serde_json::from_value(json!({
        "spec": {"containers": [container], "priorityClassName": priority_class},
    }))
    .unwrap()
}

fn score(resources: Value, priority_class: &str, node_memory: u64) -> i32 {
    let pod = pod(resources, priority_class);
    oom_score_adj(&pod, &pod.spec.as_ref().unwrap().containers[0], node_memory)
}

/// C-78: the specification's test vectors (12.2).
#[test]
fn oom_scores_on_a_node_with_1_gib() {
    let memory = |request: &str| json!({"requests": {"memory": request}});
    for (resources, expected) in [
        (json!({"limits": {"cpu": "1", "memory": "1Gi"}}), -997),
        (json!({}), 1000),
        (json!({"requests": {"cpu": "1"}}), 999),
        (memory("128Mi"), 875),
        (memory("512Mi"), 500),
        (memory("1023Mi"), 3),
        (memory("5Gi"), 3),
        (memory("1"), 999),
    ] {
        assert_eq!(score(resources.clone(), "", GIB), expected, "{resources}");
    }
    assert_eq!(score(json!({}), "system-node-critical", GIB), -997);
    assert_eq!(score(json!({}), "system-cluster-critical", GIB), 1000);
}

#[test]
fn on_a_node_of_unknown_size_requests_do_not_count() {
    assert_eq!(score(json!({"requests": {"memory": "512Mi"}}), "", 0), 999);
    assert_eq!(score(json!({}), "", 0), 1000);
}

#[test]
fn division_rounds_up() {
    for (value, divisor, expected) in [
        (0, 5, 0),
        (1, 5, 1),
        (5, 5, 1),
        (6, 5, 2),
        (-1, 5, 0),
        (-6, 5, -1),
    ] {
        assert_eq!(div_ceil(value, divisor), expected, "{value} / {divisor}");
    }
}

fn scores(spec: Value) -> Vec<i32> {
    let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
    crate::pod::lifecycle::members(&pod)
        .map(|(_, container)| oom_score_adj(&pod, container, GIB))
        .collect()
}

fn member(name: &str, memory: &str) -> Value {
    json!({"name": name, "resources": {"requests": {"memory": memory}}})
}

/// C-78.
#[test]
fn a_sidecar_is_killed_no_sooner_than_who_it_serves() {
    for (sidecar, regular, expected) in [
        ("0", vec![member("a", "512Mi")], vec![500, 500]),
        ("768Mi", vec![member("a", "512Mi")], vec![250, 500]),
        (
            "0",
            vec![member("a", "512Mi"), member("b", "128Mi")],
            vec![875, 500, 875],
        ),
    ] {
        let mut init = member("sidecar", sidecar);
        init["restartPolicy"] = json!("Always");
        let spec = json!({"initContainers": [init], "containers": regular});
        assert_eq!(scores(spec.clone()), expected, "{spec}");
        // One that only runs before the others is judged by itself.
        let mut before = spec;
        before["initContainers"][0]["restartPolicy"] = Value::Null;
        let own = if sidecar == "0" { 999 } else { 250 };
        assert_eq!(scores(before)[0], own);
    }
}

/// C-78: what the pod requests beyond its containers is shared by them.
#[test]
fn what_a_pod_requests_as_a_whole_counts_for_each_container() {
    let spec = json!({
        "resources": {"requests": {"memory": "512Mi"}},
        "containers": [member("a", "128Mi"), {"name": "b"}],
    });
    assert_eq!(scores(spec), [688, 813]);
    let whole = json!({
        "resources": {"limits": {"cpu": "1", "memory": "512Mi"}},
        "containers": [member("a", "128Mi"), {"name": "b"}],
    });
    assert_eq!(scores(whole), [-997, -997]);
}

/// The part of a specification that limits.
fn limits(resources: Value, change: impl Fn(&mut Fixture)) -> Value {
    let spec = json!({"containers": [{"name": "main", "resources": resources}]});
    let mut fixture = Fixture::new(spec, json!({"Cmd": ["sh"]}));
    fixture.node.controllers = able().controllers;
    change(&mut fixture);
    let launch = fixture.launch().unwrap();
    let linux = serde_json::to_value(launch.spec.linux()).unwrap();
    let mut limits = linux["resources"].clone();
    limits.as_object_mut().unwrap().remove("devices");
    limits
}

/// C-70, C-72…C-77.
#[test]
fn limits_are_in_the_specification() {
    let wanted = json!({"limits": {"cpu": "500m", "memory": "32Mi", "hugepages-2Mi": "4Mi"}});
    let common = json!({
        "cpu": {"shares": 512, "quota": 50_000, "period": 100_000},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 4 << 20}],
    });
    let mut v2 = common.clone();
    v2["memory"] = json!({"limit": 32 << 20});
    v2["unified"] = json!({"memory.swap.max": "0", "memory.oom.group": "1"});
    assert_eq!(limits(wanted.clone(), |_| ()), v2);

    // C-75: with v1, swap is limited by the sum.
    let mut v1 = common;
    v1["memory"] = json!({"limit": 32 << 20, "swap": 32 << 20});
    let on_v1 = |fixture: &mut Fixture| fixture.node.unified_cgroups = false;
    assert_eq!(limits(wanted.clone(), on_v1), v1);

    let nothing = json!({
        "cpu": {"shares": 2},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 0}],
    });
    assert_eq!(limits(json!({}), on_v1), nothing);
    // A kernel that can limit nothing, on which a create would fail.
    let unable = |fixture: &mut Fixture| fixture.node.controllers = Controllers::default();
    assert_eq!(limits(wanted, unable), json!({}));
}

/// C-74.
#[test]
fn a_whole_container_is_killed_unless_it_is_asked_otherwise() {
    let group = |change: &dyn Fn(&mut Fixture)| {
        limits(json!({}), |fixture| change(fixture))["unified"]["memory.oom.group"].clone()
    };
    assert_eq!(group(&|_| ()), json!("1"));
    let by_node = |fixture: &mut Fixture| fixture.node.limit_rules.single_process_oom_kill = true;
    assert_eq!(group(&by_node), Value::Null);
    let annotate = |fixture: &mut Fixture, value: &str| {
        let annotations = fixture.pod.pod.metadata.annotations.get_or_insert_default();
        annotations.insert(SINGLE_PROCESS_OOM_KILL.to_owned(), value.to_owned());
    };
    assert_eq!(group(&|fixture| annotate(fixture, "true")), Value::Null);
    assert_eq!(group(&|fixture| annotate(fixture, "false")), json!("1"));
    let both = |fixture: &mut Fixture| {
        by_node(fixture);
        annotate(fixture, "false");
    };
    assert_eq!(group(&both), json!("1"), "the pod's word counts");
}
