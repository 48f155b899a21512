use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use super::{OnExit, RestartPolicy, Role, member, members, on_exit, restart_policy};

fn pod(spec: Value) -> Pod {
    serde_json::from_value(json!({"spec": spec})).expect("a pod")
}

#[test]
fn members_come_in_start_order_with_their_parts() {
    let pod = pod(json!({
        "containers": [{"name": "a", "restartPolicy": "Always"}, {"name": "b"}],
        "initContainers": [
            {"name": "i"},
            {"name": "s", "restartPolicy": "Always"},
            {"name": "j", "restartPolicy": "Never"},
        ],
    }));
    let found: Vec<_> = members(&pod)
        .map(|(role, c)| (c.name.as_str(), role))
        .collect();
    let expected = [
        ("i", Role::Init),
        ("s", Role::Sidecar),
        ("j", Role::Init),
        ("a", Role::Regular),
        ("b", Role::Regular),
    ];
    assert_eq!(found, expected);
    assert_eq!(member(&pod, "s").map(|(role, _)| role), Some(Role::Sidecar));
    assert_eq!(member(&pod, "x"), None);
    assert_eq!(members(&Pod::default()).count(), 0);
}

/// P-53, P-54, P-60, P-62: what the pod says, the container, and the answer by part.
#[test]
fn the_nearest_policy_counts() {
    use RestartPolicy::{Always, Never, OnFailure};
    for (of_pod, own, regular, init) in [
        (None, None, Always, OnFailure),
        (Some("Always"), None, Always, OnFailure),
        (Some("OnFailure"), None, OnFailure, OnFailure),
        (Some("Never"), None, Never, Never),
        (Some("Always"), Some("Never"), Never, Never),
        (Some("Always"), Some("OnFailure"), OnFailure, OnFailure),
        (Some("Never"), Some("OnFailure"), OnFailure, OnFailure),
        // An init container with `Always` is a sidecar.
        (Some("Never"), Some("Always"), Always, Always),
    ] {
        let container = json!({"name": "c", "restartPolicy": own});
        for (list, policy) in [("containers", regular), ("initContainers", init)] {
            let mut spec = json!({"containers": [], "restartPolicy": of_pod});
            spec[list] = json!([container.clone()]);
            let pod = pod(spec);
            let (role, container) = member(&pod, "c").expect("the container");
            let found = restart_policy(&pod, role, container);
            assert_eq!(found, policy, "{of_pod:?} {own:?} {role:?}");
        }
    }
}

fn after(pod_policy: &str, container: Value, code: i32) -> OnExit {
    let pod = pod(json!({"containers": [container], "restartPolicy": pod_policy}));
    let container: &Container = &pod.spec.as_ref().expect("a spec").containers[0];
    on_exit(&pod, (Role::Regular, container), code)
}

#[test]
fn policies_decide_on_exits() {
    for (policy, after_0, after_1) in [
        ("Always", OnExit::Restart, OnExit::Restart),
        ("OnFailure", OnExit::Stay, OnExit::Restart),
        ("Never", OnExit::Stay, OnExit::Stay),
    ] {
        assert_eq!(after(policy, json!({"name": "c"}), 0), after_0, "{policy}");
        assert_eq!(after(policy, json!({"name": "c"}), 1), after_1, "{policy}");
    }
}

/// P-60, P-61, P-63.
#[test]
fn the_first_rule_that_matches_decides() {
    let rule = |action: &str, operator: &str, values: &[i32]| json!({"action": action, "exitCodes": {"operator": operator, "values": values}});
    let rules = json!([
        rule("Restart", "In", &[1, 2]),
        rule("RestartAllContainers", "In", &[2, 3]),
        rule("RestartAllContainers", "NotIn", &[0, 4]),
    ]);
    let container = json!({"name": "c", "restartPolicy": "Never", "restartPolicyRules": rules});
    for (code, outcome) in [
        (0, OnExit::Stay),
        (1, OnExit::Restart),
        (2, OnExit::Restart),
        (3, OnExit::RestartAll),
        (4, OnExit::Stay),
        (137, OnExit::RestartAll),
    ] {
        assert_eq!(after("Always", container.clone(), code), outcome, "{code}");
    }
    let without_codes = json!([{"action": "Restart"}, rule("Restart", "In", &[])]);
    let container =
        json!({"name": "c", "restartPolicy": "Never", "restartPolicyRules": without_codes});
    assert_eq!(after("Always", container, 1), OnExit::Stay);
}
