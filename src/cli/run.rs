//! `vetch run`: manifests in the foreground. It is the agent itself, as a child with private directories and its own
//! cgroup root; this process shows what happens, and ends everything on Ctrl-C.

mod follow;
mod home;
mod session;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use self::home::Home;
use super::ending::Grace;
use super::{CliError, check, output};
use crate::agent::AgentError;
use crate::sys::signals;

/// Run manifests in the foreground, with private directories, until Ctrl-C
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  vetch run examples/hello.yaml\n  vetch run web.yaml --image web.tar\n  vetch run manifests/\n\nEvents go to stderr, what the pods write to stdout. Edits of the manifests are followed. Ctrl-C (or SIGTERM) ends the pods with their grace and leaves nothing behind; a second one gives them two seconds. Exit codes: 0 ended on request, 1 failed, 65 a manifest is refused."
)]
pub struct Args {
    /// Manifests, or directories of them
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Import this image archive first; can be repeated
    #[arg(long, value_name = "ARCHIVE")]
    image: Vec<PathBuf>,
}

/// Checks everything, then runs until told to end.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    // Before a second thread is started, which would get our signals.
    let signals = signals::watch(&[libc::SIGINT, libc::SIGTERM]).map_err(CliError::Signals)?;
    let report = check::read(&args.paths)?;
    for diagnostic in &report.diagnostics {
        output::say(&check::line(diagnostic));
    }
    if report.is_refused() {
        return Ok(ExitCode::from(check::EXIT_REFUSED));
    }
    crate::agent::start::check_environment().map_err(AgentError::from)?;
    let home = Home::create()?;
    let outcome = home
        .provide_images(&args.image, &report.pods)
        .and_then(|()| home.provide_manifests(&args.paths, &report.files))
        .and_then(|manifests| session::run(&home, &manifests, signals));
    // Whatever happened, nothing is left behind.
    let grace = *outcome.as_ref().unwrap_or(&Grace::Recorded);
    let left = home.leave(grace);
    outcome.and(left).map(|()| ExitCode::SUCCESS)
}

/// As the person called it, who may not have it in the PATH.
fn own_name() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// This very program, even if its file was replaced meanwhile.
fn own_binary() -> &'static Path {
    Path::new("/proc/self/exe")
}
