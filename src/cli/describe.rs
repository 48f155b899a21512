//! `vetch describe pod NAME`: everything about one pod, in the layout of kubectl.

mod containers;
mod environment;
mod page;
mod probes;
#[cfg(test)]
mod tests;
mod text;
mod volumes;

use std::process::ExitCode;

use super::select::{self, Scope};
use super::{CliError, Reach, output};
use crate::api::client::Client;
use crate::sys::clock;

/// Show everything about one pod, with the reasons for what is done
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  vetch describe pod web\n  vetch describe pod/web -n kube-system"
)]
pub struct Args {
    /// `pod NAME` or `pod/NAME`; the node's name at the end can be left out
    #[arg(required = true, num_args = 1..=2, value_name = "pod NAME")]
    words: Vec<String>,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    reach: Reach,
}

/// Asks the agent and prints.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let name = match args.words.as_slice() {
        [name] => name,
        [kind, name] if select::is_pods(kind) => name,
        _ => {
            return Err(CliError::Usage(
                "describe knows pods only: vetch describe pod NAME".to_owned(),
            ));
        }
    };
    let client = Client::new(&args.reach.paths());
    let pod = args.scope.pod(&client, name)?;
    let description = client.describe(&select::uid(&pod)?)?;
    output::print(&text::render(&description, clock::now().wall))?;
    Ok(ExitCode::SUCCESS)
}
