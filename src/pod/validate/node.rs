//! Which nodes a pod may run on (S-172, S-175).

use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodSpec,
};

use super::one_of;
use crate::pod::names::{is_label_value, is_qualified_name};
use crate::pod::report::Scope;

/// Node selector, node affinity and operating system.
pub(super) fn all(spec: &PodSpec, scope: Scope<'_>) {
    for (key, value) in spec.node_selector.iter().flatten() {
        let path = format!("spec.nodeSelector[{key}]");
        label(key, &path, scope);
        if !is_label_value(value) {
            scope.error(&path, VALUE);
        }
    }
    let affinity = spec.affinity.as_ref();
    if let Some(affinity) = affinity.and_then(|a| a.node_affinity.as_ref()) {
        self::affinity(affinity, scope);
    }
    if let Some(os) = &spec.os {
        one_of(Some(&os.name), &["linux", "windows"], "spec.os.name", scope);
        if os.name == "windows" {
            let message = "this node runs linux, so the pod will not be admitted";
            scope.warn("spec.os.name", message);
        }
    }
}

const VALUE: &str = "a label's value is at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit";
const AFFINITY: &str = "spec.affinity.nodeAffinity";

fn label(key: &str, path: &str, scope: Scope<'_>) {
    if !is_qualified_name(key) {
        scope.error(path, "not a valid label key");
    }
}

fn affinity(affinity: &NodeAffinity, scope: Scope<'_>) {
    if let Some(selector) = &affinity.required_during_scheduling_ignored_during_execution {
        let path =
            format!("{AFFINITY}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
        if selector.node_selector_terms.is_empty() {
            scope.error(&path, "needs at least one");
        }
        for (index, term) in selector.node_selector_terms.iter().enumerate() {
            self::term(term, &format!("{path}[{index}]"), scope);
        }
    }
    let preferred = &affinity.preferred_during_scheduling_ignored_during_execution;
    for (index, preferred) in preferred.iter().flatten().enumerate() {
        let path = format!("{AFFINITY}.preferredDuringSchedulingIgnoredDuringExecution[{index}]");
        if !(1..=100).contains(&preferred.weight) {
            scope.error(&format!("{path}.weight"), "must be from 1 to 100");
        }
        term(&preferred.preference, &format!("{path}.preference"), scope);
    }
}

fn term(term: &NodeSelectorTerm, path: &str, scope: Scope<'_>) {
    for (index, rule) in term.match_expressions.iter().flatten().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        label(&rule.key, &format!("{path}.key"), scope);
        expression(rule, &path, scope);
    }
    for (index, rule) in term.match_fields.iter().flatten().enumerate() {
        let path = format!("{path}.matchFields[{index}]");
        if rule.key != "metadata.name" {
            scope.error(&format!("{path}.key"), "must be metadata.name");
        }
        one_of(
            Some(&rule.operator),
            &["In", "NotIn"],
            &format!("{path}.operator"),
            scope,
        );
        if rule.values.as_ref().is_none_or(|values| values.len() != 1) {
            scope.error(&format!("{path}.values"), "must be exactly one");
        }
    }
}

fn expression(rule: &NodeSelectorRequirement, path: &str, scope: Scope<'_>) {
    let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
    one_of(
        Some(&rule.operator),
        &operators,
        &format!("{path}.operator"),
        scope,
    );
    let values = rule.values.as_deref().unwrap_or_default();
    let at = format!("{path}.values");
    match rule.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            scope.error(&at, "needs at least one with this operator");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            scope.error(&at, "must be empty with this operator");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            scope.error(&at, "must be exactly one with this operator");
        }
        "Gt" | "Lt" => {
            if values.iter().any(|value| value.parse::<i64>().is_err()) {
                let message = "no whole number, so no node matches";
                scope.warn(&format!("{at}[0]"), message);
            }
        }
        _ => {
            for (index, value) in values.iter().enumerate() {
                if !is_label_value(value) {
                    scope.error(&format!("{at}[{index}]"), VALUE);
                }
            }
        }
    }
}
