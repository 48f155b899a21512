//! Removing trees. The loop only renames them into the trash; a niced child (`vetch remove-trash DIR…`) does the work,
//! since a tree of gigabytes takes minutes on a card.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::store::{self, WriteError};
use crate::config::Paths;
use crate::sys::{mounts, remove};

/// Every trash directory: one beside the pods' durable directories, one beside their logs (another file system, often).
pub fn dirs(paths: &Paths) -> [PathBuf; 2] {
    [paths.trash(), paths.log_dir.join("pods").join(".trash")]
}

/// Moves a tree into a trash directory of its file system; one that does not exist is fine.
pub fn throw(trash: &Path, tree: &Path) -> Result<(), WriteError> {
    let failed = |source| WriteError {
        path: tree.to_path_buf(),
        source,
    };
    if tree.symlink_metadata().is_err() {
        return Ok(());
    }
    // V-8: what a container mounted for the host (V-52) does not go with its pod.
    mounts::unmount_below(tree).map_err(failed)?;
    store::make_private_dir(trash)?;
    let name = tree.file_name().unwrap_or_default();
    // A name that is taken by an earlier tree of the same pod gets a number.
    let free = (0_u32..).find_map(|n| {
        let mut target = name.to_os_string();
        target.push(format!(".{n}"));
        let target = trash.join(target);
        target.symlink_metadata().is_err().then_some(target)
    });
    match free {
        Some(target) => std::fs::rename(tree, target).map_err(failed),
        None => Err(failed(std::io::ErrorKind::AlreadyExists.into())),
    }
}

/// The trash directories with something in them.
pub fn full(paths: &Paths) -> Vec<PathBuf> {
    let is_full = |dir: &PathBuf| std::fs::read_dir(dir).is_ok_and(|mut all| all.next().is_some());
    dirs(paths).into_iter().filter(is_full).collect()
}

/// Name of the hidden role.
pub const ROLE: &str = "remove-trash";

/// The hidden role: removes everything in each directory, but not the directory itself, at the lowest priority. Links
/// are removed, never followed.
pub fn run(dirs: &[OsString]) -> ExitCode {
    // Without the right to be nice the work is still to be done.
    let _ = rustix::process::nice(19);
    let _ = crate::sys::ioprio::lower();
    let mut code = ExitCode::SUCCESS;
    for dir in dirs.iter().map(Path::new) {
        if let Err(error) = empty(dir) {
            super::log::Log::from_env().warn(format_args!("empty {}: {error}", dir.display()));
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// Goes on after a failure and returns the first one.
fn empty(dir: &Path) -> std::io::Result<()> {
    let mut outcome = Ok(());
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let removed = mounts::unmount_below(&path).and_then(|()| remove::tree(&path));
        outcome = outcome.and(removed);
    }
    outcome
}

#[cfg(test)]
mod tests;
