//! Annotations (S-110), and those that vetch acts on.

use k8s_openapi::api::core::v1::Pod;

use crate::pod::backoff::{self, annotated};
use crate::pod::cdi;
use crate::pod::names::is_qualified_name;
use crate::pod::report::Scope;
use crate::pod::requests::SINGLE_PROCESS_OOM_KILL;
use crate::pod::suggest::nearest;

/// S-110.
const MAX_BYTES: usize = 256 << 10;
/// Annotations with this prefix are ours.
const OURS: &str = "vetch.io/";

/// Those of a pod.
pub(super) fn all(pod: &Pod, scope: Scope<'_>) {
    let mut total = 0;
    for (key, value) in pod.metadata.annotations.iter().flatten() {
        total += key.len() + value.len();
        let path = format!("metadata.annotations[{key}]");
        // Upper case is allowed in the prefix of an annotation's key, unlike a label's.
        if !is_qualified_name(&key.to_ascii_lowercase()) {
            scope.error(&path, "not a valid annotation key");
        } else if key.starts_with(OURS) {
            ours(pod, key, &path, scope);
        } else if let Some(problem) = cdi::problem(pod, key, value) {
            scope.error(&path, &problem);
        }
    }
    if total > MAX_BYTES {
        scope.error("metadata.annotations", "more than 256 KiB in all");
    }
}

fn ours(pod: &Pod, key: &str, path: &str, scope: Scope<'_>) {
    let known = [backoff::START, backoff::MAX, SINGLE_PROCESS_OOM_KILL];
    if key == SINGLE_PROCESS_OOM_KILL {
        let annotations = pod.metadata.annotations.as_ref();
        let value = annotations.and_then(|all| all.get(key));
        if !value.is_some_and(|value| matches!(value.as_str(), "true" | "false")) {
            scope.warn(path, "must be true or false; the node's setting counts");
        }
        return;
    }
    if known.contains(&key) {
        if let Some(Err(why)) = annotated(pod, key) {
            scope.warn(path, &format!("{why}; the node's setting counts"));
        }
        return;
    }
    let message = match nearest(key, &known) {
        Some(known) => format!("unknown, did you mean {known}?"),
        None => format!("unknown; there are {}", known.join(", ")),
    };
    scope.warn(path, &message);
}
