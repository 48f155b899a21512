//! `vetch stop --all`: ends all pods, then the agent.

use std::process::ExitCode;
use std::time::Duration;

use super::ending::{self, Grace};
use super::{CliError, Reach, holders, output};
use crate::api::client::{Client, ClientError};
use crate::config::Paths;

/// How often a dying agent is asked.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// End all pods with their grace, then the agent
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  vetch stop --all\n\nReturns when the last pod is gone. Works without an agent, too. The manifests stay: the next agent starts the pods again."
)]
pub struct Args {
    /// Every pod; to end one, remove its manifest
    #[arg(long = "all", required = true)]
    _all: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Asks the agent to end everything and watches it do so. Whatever is left when there is no agent, or no longer, is ended
/// here.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let paths = args.reach.paths();
    let client = Client::new(&paths);
    match persistently(|| client.stop()) {
        Ok(()) => watch(&client),
        Err(ClientError::NoAgent { .. }) => tell_of_emptiness(&paths),
        Err(error) => return Err(error.into()),
    }
    ending::end_all(&paths, Grace::Recorded)?;
    Ok(ExitCode::SUCCESS)
}

/// A person may have meant another run directory.
pub fn tell_of_emptiness(paths: &Paths) {
    if holders::scan(paths).is_empty() {
        output::say(&format!(
            "vetch: nothing to stop: no agent and no pods in {}",
            paths.run_dir.display()
        ));
    }
}

/// Asks again if the agent dies before it has answered: soon there is none, or a new one.
pub fn persistently<T>(ask: impl Fn() -> Result<T, ClientError>) -> Result<T, ClientError> {
    for _ in 0..ATTEMPTS {
        match ask() {
            Err(ClientError::Talk { .. }) => std::thread::sleep(PAUSE),
            outcome @ (Ok(_) | Err(_)) => return outcome,
        }
    }
    ask()
}

/// Returns when the agent no longer answers: it is done, or dead.
fn watch(client: &Client) {
    let mut seen = 0;
    while let Ok(changes) = client.changes(seen) {
        seen = changes.generation;
    }
}
