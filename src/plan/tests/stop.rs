//! Which order each container of a pod gets.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::fixtures::{exited, running, stopping};
use crate::plan::stop::orders;
use crate::pod::hook::Hook;

fn pod() -> Pod {
    let always = |name: &str| json!({"name": name, "restartPolicy": "Always"});
    serde_json::from_value(json!({
        "spec": {
            "initContainers": [always("first"), {"name": "init"}, always("second")],
            "containers": [
                {"name": "a", "lifecycle": {"preStop": {"sleep": {"seconds": 3}}}},
                {"name": "b"},
            ],
        },
    }))
    .unwrap()
}

/// P-77, P-80, P-81.
#[test]
fn sidecars_wait_for_regular_containers_and_later_sidecars() {
    let records = [
        running("first", 0, 0),
        running("init", 0, 0),
        stopping("second", 0, 9000),
        running("a", 2, 0),
        exited("b", 0, (0, 1), 0),
        running("unknown", 0, 0),
    ];
    let orders = orders(&pod(), &records, 7000);
    let told: Vec<(&str, &[String])> = orders
        .iter()
        .map(|order| (order.id.as_str(), order.after.as_slice()))
        .collect();
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        told,
        [
            ("first-0", names(&["second", "a", "b"]).as_slice()),
            ("init-0", &[]),
            ("second-0", names(&["a", "b"]).as_slice()),
            ("a-2", &[]),
            ("unknown-0", &[]),
        ]
    );
    assert_eq!(orders[3].id, "a-2");
    assert_eq!(orders[3].pre_stop, Some(Hook::Sleep { ms: 3000 }));
    assert_eq!(orders[3].reason, "Stopping container a");
    assert!(orders.iter().all(|order| order.grace_ms == 7000));
    assert_eq!(orders[0].pre_stop, None);
}
