//! Waiting for the next change that the agent tells, also while there is no agent for a moment.

use std::time::Duration;

use super::CliError;
use crate::api::client::{Client, ClientError};

/// Pause between attempts while there is no agent.
const RETRY: Duration = Duration::from_millis(100);

/// The agent is not up yet, or is being restarted.
pub fn is_away(error: &CliError) -> bool {
    matches!(error, CliError::Client(error) if is_gone(error))
}

fn is_gone(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::NoAgent { .. } | ClientError::Talk { .. }
    )
}

/// Returns when something has changed since the generation `seen`, and at the latest when the time is over. A new agent
/// counts as a change.
pub fn pause(client: &Client, seen: u64, left: Duration) -> Result<(), CliError> {
    let asked = {
        let client = client.clone();
        smol::unblock(move || client.changes(seen))
    };
    let outcome = smol::block_on(smol::future::or(async { Some(asked.await) }, async {
        smol::Timer::after(left).await;
        None
    }));
    match outcome {
        Some(Err(error)) if is_gone(&error) => {
            smol::block_on(smol::Timer::after(RETRY.min(left)));
            Ok(())
        }
        Some(Err(error)) => Err(error.into()),
        Some(Ok(_)) | None => Ok(()),
    }
}
