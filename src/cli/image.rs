//! `vetch image`: the local image store. Works without an agent; a running one sees each change at once.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use serde_json::json;

use super::{CliError, holders, output, table};
use crate::config::Paths;
use crate::image::reclaim::{Kept, Needs, Reclaimed};
use crate::image::{
    self, Image, ImportOptions, ImportReport, Pin, Removed, Store, builtin, import_dir,
};
use crate::plan::ImagePresence;
use crate::pod::lifecycle;
use crate::sys::{clock, ioprio};

/// Unused images that are told by name.
const MAX_NAMED: usize = 3;

/// List, import, remove and inspect local images
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  docker save web:1 | gzip > web.tar.gz\n  vetch image import web.tar.gz\n  vetch image import builtin/hello     the image of the examples\n  vetch image ls\n  vetch image rm web:1\n\nWhat lies in <root-dir>/images-import is imported and pinned by the agent."
)]
pub struct ImageCommand {
    #[command(subcommand)]
    verb: Verb,
    /// Durable state: images and pods
    #[arg(
        long,
        value_name = "DIR",
        global = true,
        default_value = "/var/lib/vetch"
    )]
    root_dir: PathBuf,
    /// Run directory of the agent: tells which images are used
    #[arg(long, value_name = "DIR", global = true, default_value = "/run/vetch")]
    run_dir: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the images
    #[command(alias = "list")]
    Ls {
        /// Output format
        #[arg(short, long, value_name = "FORMAT")]
        output: Option<Format>,
    },
    /// Import OCI layouts and docker-archives, plain or compressed by gzip or zstd
    Import {
        /// Archives, directories with an OCI layout, or builtin/hello
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Name the image so, instead of by its name in the archive; may be repeated
        #[arg(long = "name", value_name = "NAME")]
        names: Vec<String>,
        /// Never collect the images when space gets short
        #[arg(long)]
        pin: bool,
        /// Work at the lowest CPU and disk priority
        #[arg(long)]
        background: bool,
    },
    /// Remove names, and the images that have no other
    Rm {
        /// Names or ids
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Print all that is known about images, as JSON
    Inspect {
        /// Names or ids
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Json,
}

/// Runs the verb.
pub fn run(command: &ImageCommand) -> Result<ExitCode, CliError> {
    let paths = Paths {
        root_dir: command.root_dir.clone(),
        run_dir: command.run_dir.clone(),
        ..Paths::default()
    };
    let store = Store::open(&paths.images())?;
    match &command.verb {
        Verb::Ls { output } => list(&store, *output),
        Verb::Import {
            files,
            names,
            pin,
            background,
        } => {
            if *background {
                lower_priority();
            }
            let options = ImportOptions {
                pin: pin.then_some(Pin::Person),
                names: checked(names)?,
            };
            import(&store, files, &options)
        }
        Verb::Rm { names } => remove(&store, names, &in_use(&store, &paths)),
        Verb::Inspect { names } => inspect(&store, names),
    }
}

fn list(store: &Store, format: Option<Format>) -> Result<ExitCode, CliError> {
    let images = store.list()?;
    match format {
        Some(Format::Json) => {
            let all: Vec<_> = images.iter().map(view).collect();
            output::print_json(&all)?;
        }
        None => output::print(&table(&images))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(images: &[Image]) -> String {
    let mut rows = vec![
        ["NAME", "IMAGE ID", "SIZE", "PINNED"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for image in images {
        let id = image.id.trim_start_matches("sha256:");
        let pinned = if image.pinned { "yes" } else { "no" };
        let unnamed = ["<none>".to_owned()];
        let names = if image.names.is_empty() {
            &unnamed
        } else {
            image.names.as_slice()
        };
        for name in names {
            rows.push(vec![
                name.clone(),
                id.get(..12).unwrap_or(id).to_owned(),
                human_size(image.size),
                pinned.to_owned(),
            ]);
        }
    }
    table::render(&rows)
}

/// `1.2 MB`, in powers of ten.
fn human_size(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut tenths = bytes.saturating_mul(10);
    let mut unit = 0;
    while tenths >= 10_000 && unit + 1 < units.len() {
        tenths /= 1000;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{}.{} {}", tenths / 10, tenths % 10, units[unit]),
    }
}

fn view(image: &Image) -> serde_json::Value {
    json!({
        "id": image.id,
        "names": image.names,
        "pinned": image.pinned,
        "size": image.size,
        "layers": image.layers,
        "config": image.config,
    })
}

/// A bad name is told before anything is unpacked.
fn checked(names: &[String]) -> Result<Vec<String>, CliError> {
    for name in names {
        let parsed: Result<crate::pod::image_ref::ImageRef, _> = name.parse();
        let reference = parsed.map_err(|e| CliError::Usage(e.to_string()))?;
        if reference.digest.is_some() {
            let text =
                format!("--name {name}: a digest cannot be given, it follows from the content");
            return Err(CliError::Usage(text));
        }
    }
    Ok(names.to_vec())
}

fn import(store: &Store, files: &[PathBuf], options: &ImportOptions) -> Result<ExitCode, CliError> {
    if store.try_lock()?.is_none() {
        output::say("waiting for another import to end");
    }
    let mut code = ExitCode::SUCCESS;
    for file in files {
        let outcome = if file == Path::new(builtin::HELLO) {
            builtin::import_hello(store, options)
        } else {
            image::import(store, file, options)
        };
        match outcome {
            Ok(report) => tell(&report)?,
            Err(error) => {
                let error = CliError::Import {
                    path: file.clone(),
                    source: error,
                };
                code = output::report(&error);
            }
        }
    }
    Ok(code)
}

fn tell(report: &ImportReport) -> Result<(), CliError> {
    for image in &report.images {
        let names = image.names.join(" ");
        let (new, all) = (image.new_layers, image.layers);
        output::print(&format!(
            "{} {names} ({new} of {all} layers new)\n",
            image.id
        ))?;
    }
    for warning in &report.warnings {
        output::say(&format!("warning: {warning}"));
    }
    Ok(())
}

/// Images of all container instances that holders know, ended ones included (I-32), and of the volumes of their pods.
fn in_use(store: &Store, paths: &Paths) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for holder in holders::scan(paths) {
        let containers = holder.state.into_iter().flat_map(|state| state.containers);
        used.extend(containers.map(|container| container.image_id));
        for name in lifecycle::volume_images(&holder.record.pod.pod) {
            if let ImagePresence::Present(id) = store.presence(name) {
                used.insert(id);
            }
        }
    }
    used
}

fn remove(
    store: &Store,
    names: &[String],
    in_use: &BTreeSet<String>,
) -> Result<ExitCode, CliError> {
    let writer = store.lock()?;
    let mut code = ExitCode::SUCCESS;
    for name in names {
        match writer.remove(name, in_use) {
            Ok(Removed::Name(name)) => output::print(&format!("untagged {name}\n"))?,
            Ok(Removed::Image(id)) => output::print(&format!("removed {id}\n"))?,
            Err(error) => code = output::report(&error.into()),
        }
    }
    Ok(code)
}

fn inspect(store: &Store, names: &[String]) -> Result<ExitCode, CliError> {
    let mut all = Vec::new();
    for name in names {
        let image = match store.find(name)? {
            Some(record) => store
                .image(record.id.as_str())?
                .map(|image| (record, image)),
            None => None,
        };
        let Some((record, image)) = image else {
            return Err(CliError::NotFound(format!("there is no image {name}")));
        };
        let mut view = view(&image);
        view["digests"] = json!(record.digests);
        view["pins"] = json!(record.pins);
        view["config"] = record.config;
        all.push(view);
    }
    output::print_json(&all)?;
    Ok(ExitCode::SUCCESS)
}

/// What the agent starts when the disk is full: removes images that nobody needs, and says which others a person could
/// remove. `ROOT RUN NAME…`
pub fn reclaim(args: &[OsString]) -> ExitCode {
    lower_priority();
    let [root_dir, run_dir, names @ ..] = args else {
        return ExitCode::FAILURE;
    };
    let paths = Paths {
        root_dir: root_dir.into(),
        run_dir: run_dir.into(),
        ..Paths::default()
    };
    let reclaimed = Store::open(&paths.images()).and_then(|store| {
        let needs = Needs {
            names: names
                .iter()
                .map(|name| name.to_string_lossy().into_owned())
                .collect(),
            ids: in_use(&store, &paths),
        };
        image::reclaim::reclaim(&store, &needs, clock::now().wall.into())
    });
    match reclaimed {
        Ok(reclaimed) => {
            output::say(&unused(&reclaimed));
            ExitCode::SUCCESS
        }
        Err(error) => output::report(&error.into()),
    }
}

fn unused(reclaimed: &Reclaimed) -> String {
    let kept = &reclaimed.kept;
    let one = |kept: &Kept| format!("{} ({})", kept.name, human_size(kept.bytes));
    let mut named: Vec<String> = kept.iter().take(MAX_NAMED).map(one).collect();
    match kept.len() {
        0 => return "no image is unused".to_owned(),
        n if n > MAX_NAMED => named.push(format!("and {} more", n - MAX_NAMED)),
        _ => {}
    }
    let all = human_size(reclaimed.kept_bytes);
    let named = named.join(", ");
    format!("unused images are {named}: `vetch image rm NAME` would free {all}")
}

/// What the agent starts: brings the store in line with images-import, at the lowest priority.
pub fn import_dir(root_dir: &Path) -> ExitCode {
    lower_priority();
    let paths = Paths {
        root_dir: root_dir.to_owned(),
        ..Paths::default()
    };
    bring_in_line(&paths).unwrap_or_else(|error| output::report(&error))
}

fn bring_in_line(paths: &Paths) -> Result<ExitCode, CliError> {
    let store = Store::open(&paths.images())?;
    let dir = paths.images_import();
    let report = import_dir::run(&store, &dir)?;
    for (_, imported) in &report.imported {
        tell(imported)?;
    }
    for (file, error) in &report.failures {
        let path = dir.join(file).display().to_string();
        // Most name the file themselves.
        let subject = if error.contains(&path) { "" } else { &path };
        output::say(format!("{subject}: {error}").trim_start_matches(": "));
    }
    Ok(if report.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Without the right to it the work is still to be done.
fn lower_priority() {
    let _ = rustix::process::nice(19);
    let _ = ioprio::lower();
}
