//! A pod's own restart delays (P-64, P-67), by annotation; without them the node's count.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::duration::{self, BadDuration};

/// Annotation: the first delay that is not zero, like `5s`.
pub const START: &str = "vetch.io/backoff-start";
/// Annotation: the longest delay, like `2m`.
pub const MAX: &str = "vetch.io/backoff-max";

/// What both may be.
const BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// Why an annotation does not count.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DelayError {
    /// Not a duration.
    #[error(transparent)]
    Syntax(#[from] BadDuration),
    /// Too short or too long.
    #[error("{0:?} is not between 1s and 5m")]
    Bounds(String),
}

/// The value of one of these annotations, if the pod has it.
pub fn annotated(pod: &Pod, annotation: &str) -> Option<Result<Duration, DelayError>> {
    let text = pod.metadata.annotations.as_ref()?.get(annotation)?;
    Some(match duration::parse(text) {
        Ok(delay) if (BOUNDS.0..=BOUNDS.1).contains(&delay) => Ok(delay),
        Ok(_) => Err(DelayError::Bounds(text.clone())),
        Err(error) => Err(error.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_may_say_how_long_it_is_held_back() {
        let bounds = "is not between 1s and 5m";
        for (text, expected) in [
            ("1s", Ok(1)),
            ("300s", Ok(300)),
            ("1m30s", Ok(90)),
            ("999ms", Err(bounds)),
            ("301s", Err(bounds)),
            ("0", Err(bounds)),
            ("-1s", Err("is no duration")),
            ("10", Err("is no duration")),
            ("", Err("is no duration")),
        ] {
            let mut pod = Pod::default();
            assert_eq!(annotated(&pod, MAX), None);
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert(MAX.to_owned(), text.to_owned());
            assert_eq!(annotated(&pod, START), None);
            match (annotated(&pod, MAX), expected) {
                (Some(Ok(found)), Ok(seconds)) => {
                    assert_eq!(found, Duration::from_secs(seconds), "{text}");
                }
                (Some(Err(why)), Err(words)) => {
                    assert!(why.to_string().contains(words), "{text}: {why}")
                }
                (found, expected) => panic!("{text}: {found:?}, not {expected:?}"),
            }
        }
    }
}
