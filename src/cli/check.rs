//! `vetch check`: looks for mistakes in manifests; needs no root and no agent.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

use super::{CliError, output};
use crate::agent::sources::FileSource;
use crate::pod::{Diagnostic, Severity, StaticPod};
use crate::sys::clock;

/// A manifest is refused (sysexits EX_DATAERR).
pub const EXIT_REFUSED: u8 = 65;
/// Manifests do not depend on the node's name, so any will do.
const NODE: &str = "node";

/// Look for mistakes in manifests, without running them
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  vetch check web.yaml\n  vetch check /etc/kubernetes/manifests -o json\n\nExit codes: 0 all good (perhaps with warnings), 65 a manifest is refused."
)]
pub struct Args {
    /// Manifests, or directories of them
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Json,
}

/// Prints every problem of every file.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let report = read(&args.paths)?;
    match args.output {
        Some(Format::Json) => output::print_json(&report.diagnostics)?,
        None => {
            output::print(&lines(&report.diagnostics))?;
            output::say(&report.summary());
        }
    }
    Ok(if report.is_refused() {
        ExitCode::from(EXIT_REFUSED)
    } else {
        ExitCode::SUCCESS
    })
}

/// What came out of reading manifests.
#[derive(Debug, Default)]
pub struct Report {
    /// What was looked at, skipped files included.
    pub files: Vec<PathBuf>,
    /// Good pods.
    pub pods: Vec<StaticPod>,
    /// Everything that was remarked, file by file.
    pub diagnostics: Vec<Diagnostic>,
}

impl Report {
    /// Some file is refused as a whole.
    pub fn is_refused(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    fn count(&self, severity: Severity) -> usize {
        self.diagnostics
            .iter()
            .filter(|d| d.severity == severity)
            .count()
    }

    fn summary(&self) -> String {
        let count = |number: usize, what: &str| {
            let plural = if number == 1 { "" } else { "s" };
            format!("{number} {what}{plural}")
        };
        [
            count(self.files.len(), "file"),
            count(self.pods.len(), "pod"),
            count(self.count(Severity::Error), "error"),
            count(self.count(Severity::Warning), "warning"),
        ]
        .join(", ")
    }
}

/// Reads files and directories, each as an agent that is given just this one.
pub fn read(paths: &[PathBuf]) -> Result<Report, CliError> {
    let mut report = Report::default();
    for path in paths {
        let snapshot = FileSource::new(path, NODE).scan(clock::now());
        if let Some(problem) = snapshot.directory_problem {
            return Err(CliError::NotFound(problem));
        }
        for file in snapshot.files {
            report.files.push(file.file.into());
            report.diagnostics.extend(file.diagnostics);
        }
        report.pods.extend(snapshot.pods);
    }
    Ok(report)
}

/// One diagnostic a line, with its severity in front.
pub fn lines(diagnostics: &[Diagnostic]) -> String {
    diagnostics
        .iter()
        .map(|d| format!("{}\n", line(d)))
        .collect()
}

/// `error: web.yaml:3: spec.containers: …`
pub fn line(diagnostic: &Diagnostic) -> String {
    let severity = match diagnostic.severity {
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    format!("{severity}: {diagnostic}")
}
