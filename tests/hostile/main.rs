//! Pods and images that mean harm, with a real agent: they harm themselves at most, and the others never notice.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "test code outside #[test] functions"
)]

mod images;
mod neighbours;
mod secrets;
mod silent_disk;
#[expect(dead_code, reason = "the harness has more than is needed here")]
#[path = "../support/mod.rs"]
mod support;
