//! `vetch check`: looks for mistakes in manifests; needs no root and no agent.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;

use super::{CliError, output};
use crate::pod::{Diagnostic, ParsedFile, Severity, manifest};

/// A manifest is refused (sysexits EX_DATAERR).
pub const EXIT_REFUSED: u8 = 65;
/// S-15.
const MAX_MANIFEST: u64 = 10 << 20;
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
    /// Files read.
    pub files: usize,
    /// Good pods.
    pub pods: Vec<crate::pod::StaticPod>,
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
        format!(
            "{} files, {} pods, {} errors, {} warnings",
            self.files,
            self.pods.len(),
            self.count(Severity::Error),
            self.count(Severity::Warning)
        )
    }
}

/// Reads files, and directories by the agent's rules.
pub fn read(paths: &[PathBuf]) -> Result<Report, CliError> {
    let mut report = Report::default();
    for path in paths {
        if path.is_dir() {
            for file in manifests_in(path)? {
                add(&file, &mut report)?;
            }
        } else {
            add(path, &mut report)?;
        }
    }
    Ok(report)
}

fn add(file: &Path, report: &mut Report) -> Result<(), CliError> {
    let parsed = parse(file)?;
    report.files += 1;
    report.pods.extend(parsed.pods);
    report.diagnostics.extend(parsed.diagnostics);
    Ok(())
}

fn parse(file: &Path) -> Result<ParsedFile, CliError> {
    let fail = |source| CliError::Io {
        operation: "read",
        path: file.to_owned(),
        source,
    };
    let mut content = Vec::new();
    std::fs::File::open(file)
        .map_err(fail)?
        .take(MAX_MANIFEST + 1)
        .read_to_end(&mut content)
        .map_err(fail)?;
    Ok(manifest::parse(&file.to_string_lossy(), &content, NODE))
}

/// S-10, S-11: every entry that does not begin with a dot, bytewise sorted.
fn manifests_in(dir: &Path) -> Result<Vec<PathBuf>, CliError> {
    let fail = |source| CliError::Io {
        operation: "read",
        path: dir.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
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
