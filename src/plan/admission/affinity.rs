//! S-172: node selector and required node affinity, with the scheduler's semantics.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Pod};

use super::Refusal;

/// The only field that can be selected by.
const NAME_FIELD: &str = "metadata.name";

/// What a selector looks at.
#[derive(Clone, Copy)]
struct Node<'a> {
    name: &'a str,
    labels: &'a BTreeMap<String, String>,
}

/// What the pod asks of its node and does not find.
pub(super) fn mismatch(
    pod: &Pod,
    labels: &BTreeMap<String, String>,
    node_name: &str,
) -> Option<Refusal> {
    let node = Node {
        name: node_name,
        labels,
    };
    let detail = wrong_label(pod, node).or_else(|| wrong_affinity(pod, node))?;
    Some(Refusal::new(
        "NodeAffinity",
        format!(
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector ({detail})"
        ),
    ))
}

fn wrong_label(pod: &Pod, node: Node<'_>) -> Option<String> {
    let wanted = pod.spec.as_ref()?.node_selector.as_ref()?;
    let (key, value) = wanted
        .iter()
        .find(|(key, value)| node.labels.get(*key) != Some(value))?;
    let found = match node.labels.get(key) {
        Some(own) => format!("here it is {own:?}"),
        None => "the node has no such label".to_owned(),
    };
    Some(format!("nodeSelector {key}={value}: {found}"))
}

/// One of the terms is enough. No term, and a term that says nothing, fit no node.
fn wrong_affinity(pod: &Pod, node: Node<'_>) -> Option<String> {
    let affinity = pod
        .spec
        .as_ref()?
        .affinity
        .as_ref()?
        .node_affinity
        .as_ref()?;
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let terms = &required.node_selector_terms;
    (!terms.iter().any(|term| fits(term, node)))
        .then(|| "no term of its required node affinity fits the node".to_owned())
}

fn fits(term: &NodeSelectorTerm, node: Node<'_>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let label = |r: &NodeSelectorRequirement| holds(r, node.labels.get(&r.key).map(String::as_str));
    let field = |r: &NodeSelectorRequirement| {
        let is_known = r.key == NAME_FIELD && matches!(r.operator.as_str(), "In" | "NotIn");
        is_known && holds(r, Some(node.name))
    };
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(label)
        && fields.iter().all(field)
}

/// What is missing is in no list; what is no number is neither greater nor less.
fn holds(requirement: &NodeSelectorRequirement, found: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = found.is_some_and(|found| values.iter().any(|value| value == found));
    let numbers = || {
        let [value] = values else { return None };
        Some((found?.parse::<i64>().ok()?, value.parse::<i64>().ok()?))
    };
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !values.is_empty() && !is_listed,
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => numbers().is_some_and(|(found, value)| found > value),
        "Lt" => numbers().is_some_and(|(found, value)| found < value),
        _ => false,
    }
}
