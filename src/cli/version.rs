//! `vetch version`.

use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;

use super::{CliError, output};

/// Print the version
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  vetch version\n  vetch version -o json")]
pub struct Args {
    /// Output format
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Json,
}

#[derive(Debug, Serialize)]
struct Version {
    version: &'static str,
    os: &'static str,
    arch: &'static str,
}

/// Prints the version of this binary.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
    };
    match args.output {
        Some(Format::Json) => output::print_json(&version)?,
        None => output::print(&format!(
            "vetch {} ({}/{})\n",
            version.version, version.os, version.arch
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}
