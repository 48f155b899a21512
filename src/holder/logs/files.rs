//! The files of one container instance on disk: directories, link, the list of rotated files.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink,
};
use std::path::{Path, PathBuf};

use super::names::{Kept, RotatedName, Turn, UNFINISHED, parse_rotated};
use crate::holder::proto::LogSpec;
use crate::sys::remove;

/// G-2: mode of all log files.
pub const LOG_MODE: u32 = 0o640;

/// Where an instance's files are: the live file and its neighbours.
#[derive(Debug, Clone)]
pub struct Place {
    /// The live file.
    pub live: PathBuf,
    /// Its directory.
    pub dir: PathBuf,
    /// Its name.
    pub name: String,
}

/// A rotated file that exists.
#[derive(Debug, Clone)]
pub struct Rotated {
    /// Where.
    pub path: PathBuf,
    /// Its place in the order.
    pub turn: Turn,
    /// Size and form.
    pub kept: Kept,
}

/// A live file that was opened for appending.
#[derive(Debug)]
pub struct Opened {
    /// O_APPEND.
    pub file: File,
    /// Its size so far.
    pub size: u64,
    /// It ends in the middle of an entry (a holder was killed while it wrote).
    pub is_torn: bool,
}

impl Place {
    /// None if `live` names no file in a directory, or its name is not UTF-8.
    pub fn new(live: &Path) -> Option<Self> {
        Some(Self {
            live: live.to_owned(),
            dir: live.parent()?.to_owned(),
            name: live.file_name()?.to_str()?.to_owned(),
        })
    }

    /// G-1: container's and pod's directory 0755 below a root of 0750.
    pub fn create_dirs(&self) -> io::Result<()> {
        let pod = self.dir.parent().unwrap_or(&self.dir);
        let root = pod.parent().unwrap_or(pod);
        if let Some(log_dir) = root.parent() {
            fs::create_dir_all(log_dir)?;
        }
        create_dir(root, 0o750)?;
        create_dir(pod, 0o755)?;
        create_dir(&self.dir, 0o755)
    }

    /// G-2: opens the live file, 0640, for appending.
    pub fn open_live(&self) -> io::Result<Opened> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(LOG_MODE)
            .open(&self.live)?;
        let size = file.metadata()?.size();
        if size == 0 {
            // Whatever the umask is.
            file.set_permissions(Permissions::from_mode(LOG_MODE))?;
        }
        let mut last = [b'\n'];
        if size > 0 {
            file.read_exact_at(&mut last, size - 1)?;
        }
        Ok(Opened {
            file,
            size,
            is_torn: last != [b'\n'],
        })
    }

    /// The rotated files, oldest first. A file whose compressed form exists too (a crash between rename and unlink) is
    /// listed once.
    pub fn rotated(&self) -> io::Result<Vec<Rotated>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let parsed = name
                .to_str()
                .and_then(|name| parse_rotated(&self.name, name));
            let Some(RotatedName { turn, compressed }) = parsed else {
                continue;
            };
            match entry.metadata() {
                Ok(metadata) => found.push(Rotated {
                    path: entry.path(),
                    turn,
                    kept: Kept {
                        size: metadata.size(),
                        compressed,
                    },
                }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        found.sort_by(|a, b| (&a.turn, a.kept.compressed).cmp(&(&b.turn, b.kept.compressed)));
        found.dedup_by(|later, earlier| later.turn == earlier.turn);
        Ok(found)
    }

    /// Path of the rotated, not compressed file of a turn.
    pub fn rotated_path(&self, turn: &Turn) -> PathBuf {
        self.dir.join(format!("{}.{turn}", self.name))
    }

    /// Removes what unfinished compressions left in the container's directory. No other instance of the container runs
    /// now; a child that still compresses for one just fails.
    pub fn remove_unfinished(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().ends_with(UNFINISHED) {
                remove::file(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// G-3: makes the link, in place of an old one.
pub fn make_link(link: &Path, target: &Path) -> io::Result<()> {
    if let Some(dir) = link.parent() {
        fs::create_dir_all(dir)?;
    }
    remove::file(link)?;
    symlink(target, link)
}

/// G-17: removes the files of an instance and its link, and the container's directory if that was all.
pub fn remove(spec: &LogSpec) -> io::Result<()> {
    remove::file(&spec.link)?;
    let Some(place) = Place::new(&spec.file) else {
        return Ok(());
    };
    let entries = match fs::read_dir(&place.dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let rotated = format!("{}.", place.name);
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name == place.name || name.starts_with(&rotated) {
            remove::file(&entry.path())?;
        }
    }
    match fs::remove_dir(&place.dir) {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Renames a file; it is fine if it is not there (somebody removed the live file).
pub fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    remove::missing_is_fine(fs::rename(from, to))
}

fn create_dir(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        // Whatever the umask is.
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(mode)),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Err(_) => Ok(()),
    }
}
