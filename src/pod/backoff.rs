//! A pod's own restart delays (P-64, P-67), by annotation; without them the node's count.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::duration;

/// Annotation: the first delay that is not zero, like `5s`.
pub const START: &str = "vetch.io/backoff-start";
/// Annotation: the longest delay, like `2m`.
pub const MAX: &str = "vetch.io/backoff-max";

/// What both may be.
const BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// The value of one of these annotations, if the pod has it; an error says in words why it does not count.
pub fn annotated(pod: &Pod, annotation: &str) -> Option<Result<Duration, String>> {
    let text = pod.metadata.annotations.as_ref()?.get(annotation)?;
    Some(match duration::parse(text) {
        Ok(delay) if (BOUNDS.0..=BOUNDS.1).contains(&delay) => Ok(delay),
        Ok(_) => Err(format!("{text:?} is not between 1s and 5m")),
        Err(error) => Err(error.to_string()),
    })
}
