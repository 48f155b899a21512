//! The hidden role that answers `/stats/summary`: `vetch figures ROOT RUN LOG NODE CGROUP DEPTH INTERVAL_MS`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::{Ask, Depth, gather};
use crate::config::Paths;
use crate::error::chain;

/// Name of the hidden role.
pub const ROLE: &str = "figures";

/// What is used per second is measured over this time, when nobody says over which.
pub const INTERVAL: Duration = Duration::from_millis(250);

/// Below what pods do, but not last: who asks may be on a busy machine, and wants to know why.
const NICE: i32 = 5;

impl Ask {
    /// The arguments of the child, its role first.
    pub fn args(&self) -> Vec<OsString> {
        let depth = match self.depth {
            Depth::CpuAndMemory => "cpu-and-memory",
            Depth::Everything => "everything",
        };
        let paths = [
            &self.paths.root_dir,
            &self.paths.run_dir,
            &self.paths.log_dir,
        ];
        let cgroup_root = self.cgroup_root.as_deref().unwrap_or_default();
        let texts = [&self.node_name, cgroup_root];
        std::iter::once(ROLE.into())
            .chain(paths.map(|path| path.clone().into_os_string()))
            .chain(texts.map(OsString::from))
            .chain([depth.into(), self.interval.as_millis().to_string().into()])
            .collect()
    }

    fn parse(args: &[OsString]) -> Option<Self> {
        let [
            root_dir,
            run_dir,
            log_dir,
            node,
            cgroup_root,
            depth,
            interval,
        ] = args
        else {
            return None;
        };
        Some(Self {
            paths: Paths {
                root_dir: PathBuf::from(root_dir),
                run_dir: PathBuf::from(run_dir),
                log_dir: PathBuf::from(log_dir),
            },
            node_name: node.to_str()?.to_owned(),
            cgroup_root: Some(cgroup_root.to_str()?.to_owned()).filter(|root| !root.is_empty()),
            depth: match depth.to_str()? {
                "cpu-and-memory" => Depth::CpuAndMemory,
                "everything" => Depth::Everything,
                _ => return None,
            },
            interval: Duration::from_millis(interval.to_str()?.parse().ok()?),
        })
    }
}

/// Prints the summary as JSON.
pub fn run(args: &[OsString]) -> ExitCode {
    // Without the right to be nice the work is still to be done.
    let _ = rustix::process::nice(NICE);
    let _ = crate::sys::ioprio::lower();
    match answer(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            let _ = writeln!(io::stderr(), "{words}");
            ExitCode::FAILURE
        }
    }
}

fn answer(args: &[OsString]) -> Result<(), String> {
    let ask = Ask::parse(args).ok_or("figures: wrong arguments")?;
    let summary = gather(&ask).map_err(|error| chain(&error))?;
    let body = serde_json::to_vec(&summary).map_err(|error| error.to_string())?;
    io::stdout()
        .lock()
        .write_all(&body)
        .map_err(|error| error.to_string())
}
