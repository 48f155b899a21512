//! `vetch check`: looks for mistakes in manifests; needs no root and no agent.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

use super::{CliError, output};
use crate::agent::sources::FileSource;
use crate::pod::objects::Objects;
use crate::pod::references::references;
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
    /// ConfigMaps and Secrets.
    pub objects: Objects,
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
        let objects = self.objects.by_key.len();
        let parts = [
            Some(count(self.files.len(), "file")),
            Some(count(self.pods.len(), "pod")),
            (objects > 0).then(|| count(objects, "object")),
            Some(count(self.count(Severity::Error), "error")),
            Some(count(self.count(Severity::Warning), "warning")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Reads files and directories, each as an agent that is given just this one; but pods find ConfigMaps and Secrets in all
/// of them.
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
        report.objects.by_key.extend(snapshot.objects.by_key);
    }
    report.objects.looked_in = "the files that were checked".to_owned();
    let unresolved = report.pods.iter();
    let unresolved = unresolved.flat_map(|pod| unresolved_in(pod, &report.objects));
    report.diagnostics.extend(unresolved.collect::<Vec<_>>());
    Ok(report)
}

/// References of a pod that lead nowhere, and that it cannot do without.
fn unresolved_in(pod: &StaticPod, objects: &Objects) -> Vec<Diagnostic> {
    let needed = references(&pod.pod).into_iter().filter(|r| !r.optional);
    let unresolved = needed.filter_map(|reference| {
        let found = objects.find(reference.kind, pod.namespace(), reference.name);
        let missing = match (found, reference.key) {
            (Err(missing), None) => missing,
            // That the document is missing is said once, where it has a reference of its own.
            (Err(missing), Some(_)) if !reference.field.contains(".items[") => missing,
            (Ok(object), Some(key)) => object.value(key).err()?,
            (Ok(_), None) | (Err(_), Some(_)) => return None,
        };
        Some(Diagnostic {
            severity: Severity::Warning,
            file: pod.origin.file.clone(),
            line: Some(pod.origin.line),
            field: reference.field,
            message: missing.to_string(),
        })
    });
    unresolved.collect()
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
