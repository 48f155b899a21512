//! `vetch drain`: ends all pods in order because the node goes down.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use super::holders::Found;
use super::{CliError, Reach, ending, holders, output, stop};
use crate::api::client::{Client, ClientError};
use crate::config::{self, Config, Overrides, Paths, ShutdownTurn};
use crate::error::chain;
use crate::plan::shutdown::Leaver;
use crate::sys::clock;

/// End all pods in the order of their priorities, because the node goes down
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  vetch drain\n\nPods with a low spec.priority end first; those from 2000000000 on (critical ones) last. How long each turn takes at most is\nset by shutdownGracePeriod and its relatives in the configuration file; otherwise each pod has its own grace. Returns when\nthe last pod is gone.\n\nThe agent goes on and starts no pod until it is started anew. Works without an agent, too; one that is started meanwhile\nor afterwards starts its pods. vetch-drain.service runs this when the machine shuts down."
)]
pub struct Args {
    /// Configuration file for the order, if there is no agent [default: /etc/vetch/config.yaml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    reach: Reach,
}

/// Asks the agent to end its pods and watches it do so. Whatever is left when there is no agent, or no longer, is ended
/// here.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let paths = args.reach.paths();
    let client = Client::new(&paths);
    let turns = match stop::persistently(|| client.drain()) {
        Ok(draining) => {
            if watch(&client, &paths, &draining.turns)? {
                return Ok(ExitCode::SUCCESS);
            }
            output::say("the agent is gone; its pods are ended without it");
            draining.turns
        }
        Err(ClientError::NoAgent { .. }) => {
            stop::tell_of_emptiness(&paths);
            configured(args)
        }
        // One that is stuck, or does not understand: its pods end nevertheless.
        Err(error) => {
            output::say(&format!("the agent does not do it: {}", chain(&error)));
            configured(args)
        }
    };
    ending::end_in_turns(&paths, &turns)?;
    Ok(ExitCode::SUCCESS)
}

/// A machine that goes down cannot wait for a better configuration.
fn configured(args: &Args) -> Vec<ShutdownTurn> {
    match config::load(args.config.as_deref(), Overrides::default()) {
        Ok(loaded) => loaded.config.shutdown,
        Err(error) => {
            let why = chain(&error);
            output::say(&format!("{why}; every pod has its own grace"));
            Config::new(String::new()).shutdown
        }
    }
}

/// Says which pods have ended. True when all have, false when the agent is gone before.
fn watch(client: &Client, paths: &Paths, turns: &[ShutdownTurn]) -> Result<bool, CliError> {
    let found = holders::scan(paths);
    let leavers = found.iter().map(|f| Leaver::new(turns, &f.record.pod));
    let leavers: Vec<Leaver> = leavers.collect();
    let deadline = ending::time_limit(clock::now().boot_ms, &leavers);
    let mut left = names(&found);
    let mut seen = 0;
    loop {
        let now_left = names(&holders::scan(paths));
        for name in left.difference(&now_left) {
            output::say(&format!("{name} has ended"));
        }
        left = now_left;
        if left.is_empty() {
            return Ok(true);
        }
        if clock::now().boot_ms > deadline {
            let names: Vec<String> = left.into_iter().collect();
            let names = names.join(", ");
            return Err(CliError::TimedOut(format!("still not ended: {names}")));
        }
        match client.changes(seen) {
            Ok(changes) => seen = changes.generation,
            Err(_) => return Ok(false),
        }
    }
}

fn names(found: &[Found]) -> BTreeSet<String> {
    let names = found.iter().map(|found| found.record.pod.full_name());
    names.collect()
}
