use serde_json::json;

use super::*;
use crate::oci::tests::Fixture;

/// C-40.
#[test]
fn a_holder_that_knows_no_device_programs_gets_no_container_that_needs_them() {
    let enforced = |unified_cgroups, holder_version| {
        let node = NodeFacts {
            unified_cgroups,
            device_rules_enforced: true,
            ..NodeFacts::default()
        };
        super::node(&node, holder_version).device_rules_enforced
    };
    assert!(enforced(true, 3) && enforced(false, 2));
    assert!(!enforced(true, 2));
}

/// Who would start a container without what it asks for starts none.
#[test]
fn an_old_holder_makes_no_container_that_it_would_make_otherwise() {
    let with = |container: serde_json::Value| {
        let mut container = container;
        container["name"] = "c".into();
        container["command"] = json!(["/x"]);
        let volumes = json!([{"name": "v", "hostPath": {"path": "/v"}}]);
        let spec = json!({"containers": [container], "volumes": volumes});
        Fixture::new(spec, json!({})).launch().unwrap()
    };
    for (container, knows) in [
        (json!({}), Ok(())),
        (
            json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
            Err(TooOld("knows no volumes")),
        ),
        (
            json!({"securityContext": {"privileged": true}}),
            Err(TooOld("cannot confine this container as it asks")),
        ),
    ] {
        let launch = with(container);
        assert_eq!(check(&launch, 2), knows);
        assert_eq!(check(&launch, 3), Ok(()));
    }
}
