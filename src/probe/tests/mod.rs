//! Checks against real servers on loopback.

mod exec;
mod grpc;
mod http;
mod https;
mod request;
mod server;
mod tcp;

use std::time::Duration;

use super::*;

/// For what must not take its time: the longest that a loaded machine may need.
const LONG: Duration = Duration::from_secs(30);
/// For what waits in vain.
const SHORT: Duration = Duration::from_millis(300);

fn target() -> Target {
    Target {
        network: Network::Host,
        holder: HolderPaths::new("/nonexistent".into()),
        container_id: "none".to_owned(),
    }
}

fn check(check: &Check, timeout: Duration) -> Outcome {
    smol::block_on(run(check, &target(), timeout))
}

fn failure(text: impl Into<String>) -> Outcome {
    Outcome::Failure(text.into())
}
