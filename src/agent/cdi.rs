//! Finding the devices that a container asks for by their CDI names (D-16): the node's files are read anew for each
//! container that does, in order, so that what was installed a moment ago counts.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use oci_spec::runtime::LinuxDeviceType;

use crate::oci::cdi::{self, DeviceNode, Edits, SpecFile};
use crate::pod::cdi::DeviceName;

#[cfg(test)]
mod tests;

/// A file is a page of text, or some for a machine full of devices.
const MAX_FILE: u64 = 1 << 20;
/// Files of one directory.
const MAX_FILES: usize = 256;
/// Broken files that are named beside what is missing.
const MAX_TROUBLES: usize = 3;

/// Why a container cannot have its devices.
#[derive(Debug, thiserror::Error)]
pub enum CdiError {
    /// Nowhere.
    #[error("CDI device {name} is not defined in {dirs}{troubles}")]
    Unknown {
        /// As asked for.
        name: DeviceName,
        /// Where it was looked for.
        dirs: String,
        /// Files that could not be read: `; FILE:LINE: …`.
        troubles: String,
    },
    /// Neither of two files counts more.
    #[error("CDI device {name} is defined twice, in {first} and in {second}")]
    Twice {
        /// As asked for.
        name: DeviceName,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// Its definition names something that is not there.
    #[error("CDI device {name} in {file}: {path}")]
    Missing {
        /// As asked for.
        name: DeviceName,
        /// Where it is defined.
        file: PathBuf,
        /// Of the device node or mount.
        path: PathBuf,
        /// Why it cannot be used.
        source: io::Error,
    },
}

/// All that these devices change in a container, in their order; what files say for all of their devices comes once,
/// before the first of these. A later directory's definition of a device wins.
pub fn find(dirs: &[PathBuf], names: &[DeviceName]) -> Result<Vec<Edits>, CdiError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let shelf = Shelf::read(dirs);
    let mut edits = Vec::new();
    let mut begun = Vec::new();
    for name in names {
        let place = shelf.look_up(name)?;
        let (path, file) = &shelf.files[place.file];
        let missing = |(path_, source)| CdiError::Missing {
            name: name.clone(),
            file: path.clone(),
            path: path_,
            source,
        };
        if !begun.contains(&place.file) {
            begun.push(place.file);
            edits.push(complete(file.edits.clone()).map_err(missing)?);
        }
        edits.push(complete(file.devices[place.device].1.clone()).map_err(missing)?);
    }
    Ok(edits)
}

/// The files of all directories.
struct Shelf {
    files: Vec<(PathBuf, SpecFile)>,
    /// By name.
    places: BTreeMap<String, Place>,
    dirs: String,
    troubles: Vec<String>,
}

/// A device: indices of its file, and in it.
#[derive(Debug, Clone, Copy)]
struct Place {
    file: usize,
    device: usize,
    /// Of the directory; a higher one wins.
    rank: usize,
    /// Another file of the same rank that has it.
    rival: Option<usize>,
}

impl Shelf {
    fn read(dirs: &[PathBuf]) -> Self {
        let names = dirs.iter().map(|dir| dir.display().to_string());
        let mut shelf = Self {
            files: Vec::new(),
            places: BTreeMap::new(),
            dirs: names.collect::<Vec<_>>().join(" or "),
            troubles: Vec::new(),
        };
        for (rank, dir) in dirs.iter().enumerate() {
            for path in shelf.files_of(dir) {
                match read(&path) {
                    Ok(file) => shelf.add(path, file, rank),
                    Err(trouble) => shelf.troubles.push(trouble),
                }
            }
        }
        shelf
    }

    fn files_of(&mut self, dir: &Path) -> Vec<PathBuf> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                self.troubles.push(format!("{}: {error}", dir.display()));
                return Vec::new();
            }
        };
        let is_spec = |path: &PathBuf| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            matches!(extension, Some("json" | "yaml"))
        };
        let paths = entries.flatten().map(|entry| entry.path());
        let mut paths: Vec<PathBuf> = paths.filter(is_spec).collect();
        paths.sort();
        if paths.len() > MAX_FILES {
            let dir = dir.display();
            self.troubles
                .push(format!("{dir}: more than {MAX_FILES} files"));
            paths.truncate(MAX_FILES);
        }
        paths
    }

    fn add(&mut self, path: PathBuf, file: SpecFile, rank: usize) {
        let index = self.files.len();
        for (device, (name, _)) in file.devices.iter().enumerate() {
            let place = Place {
                file: index,
                device,
                rank,
                rival: None,
            };
            let known = self
                .places
                .entry(format!("{}={name}", file.kind))
                .or_insert(place);
            if known.rank < rank {
                *known = place;
            } else if known.file != index {
                known.rival = Some(index);
            }
        }
        self.files.push((path, file));
    }

    fn look_up(&self, name: &DeviceName) -> Result<Place, CdiError> {
        let Some(place) = self.places.get(&name.to_string()) else {
            let troubles = self.troubles.iter().take(MAX_TROUBLES);
            return Err(CdiError::Unknown {
                name: name.clone(),
                dirs: self.dirs.clone(),
                troubles: troubles.map(|trouble| format!("; {trouble}")).collect(),
            });
        };
        match place.rival {
            Some(rival) => Err(CdiError::Twice {
                name: name.clone(),
                first: self.files[place.file].0.clone(),
                second: self.files[rival].0.clone(),
            }),
            None => Ok(*place),
        }
    }
}

fn read(path: &Path) -> Result<SpecFile, String> {
    let text = text(path).map_err(|error| format!("{}: {error}", path.display()))?;
    cdi::parse(&text).map_err(|problem| format!("{}:{problem}", path.display()))
}

fn text(path: &Path) -> io::Result<String> {
    // A FIFO would make us wait.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("is no file"));
    }
    let mut text = String::new();
    File::open(path)?
        .take(MAX_FILE + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

/// Looks up what the definition leaves open, and whether what it names is there.
fn complete(mut edits: Edits) -> Result<Edits, (PathBuf, io::Error)> {
    for node in &mut edits.nodes {
        if node.kind.is_none() || (node.numbers.is_none() && node.kind != Some(LinuxDeviceType::P))
        {
            let path = node.host_path.as_ref().unwrap_or(&node.path).clone();
            look_at(&path, node).map_err(|error| (path, error))?;
        }
    }
    for mount in edits.mounts.iter().filter(|mount| mount.is_bind()) {
        fs::metadata(&mount.host_path).map_err(|error| (mount.host_path.clone(), error))?;
    }
    for (_, hook) in &edits.hooks {
        fs::metadata(hook.path()).map_err(|error| (hook.path().clone(), error))?;
    }
    Ok(edits)
}

fn look_at(path: &Path, node: &mut DeviceNode) -> io::Result<()> {
    let found = fs::metadata(path)?;
    let kind = match found.file_type() {
        kind if kind.is_block_device() => LinuxDeviceType::B,
        kind if kind.is_char_device() => LinuxDeviceType::C,
        kind if kind.is_fifo() => LinuxDeviceType::P,
        _ => return Err(io::Error::other("is no device")),
    };
    let is_same = match node.kind {
        Some(LinuxDeviceType::U) => kind == LinuxDeviceType::C,
        Some(wanted) => kind == wanted,
        None => true,
    };
    if !is_same {
        return Err(io::Error::other("is a device of another type"));
    }
    let number = |number: u32| i64::from(number);
    let rdev = found.rdev();
    node.kind = Some(kind);
    node.numbers = Some((
        number(rustix::fs::major(rdev)),
        number(rustix::fs::minor(rdev)),
    ));
    Ok(())
}
