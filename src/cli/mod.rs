//! Commands: one file each; the only code that prints.
//!
//! Stdout is data, stderr is talk. Exit codes: 0 done, 1 failed, 64 wrong usage, 65 manifest refused; `exec` passes the
//! command's own code through.

mod agent;
mod changes;
mod check;
mod completion;
mod describe;
mod drain;
mod duration;
mod ending;
mod error;
mod exec;
mod get;
mod habits;
mod hello;
mod image;
mod logs;
mod output;
mod plan;
mod role;
mod run;
mod select;
mod status;
mod stop;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod top;
mod version;
mod wait;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::config::Paths;
use crate::holder::found as holders;

pub use error::CliError;

/// Wrong usage (sysexits EX_USAGE).
const EXIT_USAGE: u8 = 64;

const EXAMPLES: &str = "\
Examples:
  vetch run examples/hello.yaml         try a pod in the foreground, with private directories
  vetch agent                           run the pods of /etc/kubernetes/manifests
  vetch get pods -o wide                what runs
  vetch describe pod web                why it does (or does not)
  vetch logs -f web                     its output
  vetch exec -it web -- sh              a shell in it
  vetch check web.yaml                  look for mistakes, without an agent";

/// Runs Kubernetes Pod manifests on one machine, with no cluster and no container daemon.
#[derive(Debug, Parser)]
#[command(name = "vetch", version, after_help = EXAMPLES)]
#[command(args_override_self = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Agent(agent::Args),
    Get(get::Args),
    Describe(describe::Args),
    Logs(logs::Args),
    Exec(exec::Args),
    Wait(wait::Args),
    Stop(stop::Args),
    Drain(drain::Args),
    Plan(plan::Args),
    Check(check::Args),
    Image(image::ImageCommand),
    Status(status::Args),
    Top(top::Args),
    Completion(completion::Args),
    Version(version::Args),
}

/// How a command finds the agent.
#[derive(Debug, Clone, clap::Args)]
pub struct Reach {
    /// Run directory of the agent
    #[arg(long, value_name = "DIR", default_value = "/run/vetch")]
    run_dir: PathBuf,
}

impl Reach {
    /// The paths of that agent, as far as the run directory tells.
    pub fn paths(&self) -> Paths {
        Paths {
            run_dir: self.run_dir.clone(),
            ..Paths::default()
        }
    }
}

/// Chooses the role from argv, runs it and gives its exit code.
pub fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = role::hidden(&argv) {
        return code;
    }
    output::say_warnings();
    match Cli::try_parse_from(argv) {
        Ok(cli) => perform(cli.command).unwrap_or_else(|error| output::report(&error)),
        Err(refusal) => explain(&habits::advise(refusal)),
    }
}

fn perform(command: Command) -> Result<ExitCode, CliError> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Agent(args) => agent::run(args),
        Command::Get(args) => get::run(args),
        Command::Describe(args) => describe::run(&args),
        Command::Logs(args) => logs::run(&args),
        Command::Exec(args) => exec::run(&args),
        Command::Wait(args) => wait::run(&args),
        Command::Stop(args) => stop::run(&args),
        Command::Drain(args) => drain::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Image(args) => image::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Completion(args) => completion::run(&args, Cli::command()),
        Command::Version(args) => version::run(&args),
    }
}

/// Prints what clap has to say: help on stdout, mistakes on stderr.
fn explain(refusal: &clap::Error) -> ExitCode {
    let is_mistake = refusal.use_stderr();
    // A closed pipe is no reason to fail: whoever closed it has seen enough.
    let _ = refusal.print();
    if is_mistake {
        ExitCode::from(EXIT_USAGE)
    } else {
        ExitCode::SUCCESS
    }
}
