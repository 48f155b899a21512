//! Volumes of pods, with a real agent and real containers.

mod dev;
mod images;
mod lifetimes;
#[expect(dead_code, reason = "the harness has more than is needed here")]
#[path = "../support/mod.rs"]
mod support;
mod updates;
