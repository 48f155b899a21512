//! Which nodes a pod wants to run on (S-172).

use serde_json::{Value, json};

use super::{refusal, spec};

fn selected(requirement: Value) -> Option<String> {
    let terms = json!([{"matchExpressions": [requirement]}]);
    affinity(terms)
}

fn affinity(terms: Value) -> Option<String> {
    let required = json!({"nodeSelectorTerms": terms});
    let affinity =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    refusal(&spec(json!({ "affinity": affinity }))).map(|(reason, _)| reason)
}

/// S-172.
#[test]
fn a_node_selector_has_to_fit() {
    assert_eq!(
        refusal(&spec(json!({"nodeSelector": {"disk": "ssd"}}))),
        None
    );
    let (reason, message) = refusal(&spec(json!({"nodeSelector": {"disk": "hdd"}}))).unwrap();
    assert_eq!(reason, "NodeAffinity");
    assert_eq!(
        message,
        "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector (nodeSelector disk=hdd: here it is \"ssd\")"
    );
    let (_, message) = refusal(&spec(json!({"nodeSelector": {"gpu": ""}}))).unwrap();
    assert!(
        message.ends_with("(nodeSelector gpu=: the node has no such label)"),
        "{message}"
    );
}

/// S-172.
#[test]
fn every_operator_of_node_affinity() {
    for (key, operator, values, fits) in [
        ("disk", "In", json!(["hdd", "ssd"]), true),
        ("disk", "In", json!(["hdd"]), false),
        ("gpu", "In", json!([""]), false),
        ("disk", "NotIn", json!(["hdd"]), true),
        ("disk", "NotIn", json!(["ssd"]), false),
        ("gpu", "NotIn", json!(["a"]), true),
        ("disk", "Exists", json!([]), true),
        ("gpu", "Exists", json!([]), false),
        ("disk", "DoesNotExist", json!([]), false),
        ("gpu", "DoesNotExist", json!([]), true),
        ("size", "Gt", json!(["6"]), true),
        ("size", "Gt", json!(["7"]), false),
        ("size", "Lt", json!(["8"]), true),
        ("size", "Lt", json!(["7"]), false),
        ("disk", "Gt", json!(["1"]), false),
        ("gpu", "Lt", json!(["1"]), false),
        ("size", "Gt", json!(["1", "2"]), false),
        ("size", "Like", json!(["7"]), false),
    ] {
        let requirement = json!({"key": key, "operator": operator, "values": values});
        let want = (!fits).then(|| "NodeAffinity".to_owned());
        assert_eq!(selected(requirement.clone()), want, "{requirement}");
    }
}

/// S-172: terms are alternatives, what is in a term has to hold together.
#[test]
fn terms_of_node_affinity() {
    let ssd = json!({"key": "disk", "operator": "In", "values": ["ssd"]});
    let gpu = json!({"key": "gpu", "operator": "Exists"});
    let name = |name: &str| json!({"key": "metadata.name", "operator": "In", "values": [name]});
    for (terms, fits) in [
        (json!([]), false),
        (json!([{}]), false),
        (json!([{}, {"matchExpressions": [ssd]}]), true),
        (
            json!([{"matchExpressions": [gpu]}, {"matchExpressions": [ssd]}]),
            true,
        ),
        (json!([{"matchExpressions": [gpu, ssd]}]), false),
        (json!([{"matchFields": [name("node")]}]), true),
        (json!([{"matchFields": [name("other")]}]), false),
        (
            json!([{"matchFields": [name("node")], "matchExpressions": [gpu]}]),
            false,
        ),
        (
            json!([{"matchFields": [{"key": "disk", "operator": "Exists"}]}]),
            false,
        ),
    ] {
        assert_eq!(affinity(terms.clone()).is_none(), fits, "{terms}");
    }
}
