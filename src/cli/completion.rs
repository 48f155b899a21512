//! `vetch completion`.

use std::process::ExitCode;

use clap::ValueEnum;
use clap_complete::{Generator, Shell};

use super::{CliError, output};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  vetch completion bash > /etc/bash_completion.d/vetch\n  vetch completion fish > ~/.config/fish/completions/vetch.fish"
)]
pub struct Args {
    /// Which shell
    shell: Kind,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script, made from the commands themselves.
pub fn run(args: &Args, mut command: clap::Command) -> Result<ExitCode, CliError> {
    let shell = match args.shell {
        Kind::Bash => Shell::Bash,
        Kind::Zsh => Shell::Zsh,
        Kind::Fish => Shell::Fish,
    };
    command.set_bin_name("vetch");
    command.build();
    let mut script = Vec::new();
    shell
        .try_generate(&command, &mut script)
        .map_err(CliError::Output)?;
    output::print_bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}
