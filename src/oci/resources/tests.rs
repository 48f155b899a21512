use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{div_ceil, oom_score_adj};

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

/// The specification's test vectors (12.2).
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
