//! The file source (S-10…S-22): a directory of manifests, or one file. Level-triggered: each scan looks at everything and
//! gives the complete set.
//!
//! It never loses a pod by accident: a bad file keeps its last good pods until it is deleted or valid (D-1), a directory
//! that vanished keeps them all (D-2), and what a file contains is replaced as one (D-3). So it is with ConfigMaps and
//! Secrets. A missing file counts as
//! deleted only when it is still missing [`SETTLE_MS`] later: editors save by moving the old file away first, and `rm -r`
//! deletes the files before their directory.

mod claims;
mod read;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::api::types::FileStatus;
use crate::holder::proto::Stamp;
use crate::pod::objects::{LocalObject, Objects};
use crate::pod::{Diagnostic, Severity, StaticPod, manifest};
use claims::Claims;
use read::{Identity, Sight};

/// How long a file must be missing to count as deleted.
const SETTLE_MS: u64 = 100;
/// Entries of a directory that are looked at; with more, something else than manifests lies there.
const MAX_ENTRIES: usize = 4096;

/// What a scan found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// All pods that are wanted, in the order of their files; each full name and each uid once.
    pub pods: Vec<StaticPod>,
    /// All ConfigMaps and Secrets, each name once.
    pub objects: Objects,
    /// Every file that was looked at or is still remembered, in order, with its problems.
    pub files: Vec<FileStatus>,
    /// Why the directory or file could not be read; all last good pods are held then (D-2).
    pub directory_problem: Option<String>,
    /// Scan again at this CLOCK_BOOTTIME ms even without a change: a file is missing and may be deleted.
    pub again_at_boot_ms: Option<u64>,
}

/// Remembers what each file last said.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    node_name: String,
    files: BTreeMap<PathBuf, Known>,
    /// The directory in which there last was something, [`NOWHERE`] when it was lost since; none at start, when an empty
    /// directory means that all files were deleted meanwhile.
    inhabited: Option<DirectoryId>,
}

/// Device and inode.
type DirectoryId = (u64, u64);

/// No directory is this one.
const NOWHERE: DirectoryId = (0, 0);

/// One file's past.
#[derive(Debug, Default)]
struct Known {
    /// Of the content that was read; none when it could not be, or when it may have changed within the clock's tick.
    identity: Option<Identity>,
    /// Hash of the content that was read, so that a young file is parsed once though it is read at each scan.
    content: Option<u64>,
    /// The content that was read is bad, or nothing was read yet.
    bad: bool,
    /// The last good content.
    good: Good,
    diagnostics: Vec<Diagnostic>,
    /// Permission bits, when it was last read.
    mode: u32,
    /// CLOCK_BOOTTIME ms at which it was first not found.
    missing_since: Option<u64>,
}

/// What a file contains.
#[derive(Debug, Default)]
struct Good {
    pods: Vec<StaticPod>,
    objects: Vec<LocalObject>,
}

impl Good {
    fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.objects.is_empty()
    }
}

impl FileSource {
    /// `path` is a directory or a file (S-1); it need not exist yet.
    pub fn new(path: &Path, node_name: &str) -> Self {
        Self {
            // Also trims trailing slashes.
            path: path.components().collect(),
            node_name: node_name.to_owned(),
            files: BTreeMap::new(),
            inhabited: None,
        }
    }

    /// Pods that an earlier agent ran, newest first: they count as the last good content of their `origin.file` until
    /// that file is valid or deleted. To be called before the first scan. Pods from elsewhere are left out.
    pub fn seed(&mut self, pods: Vec<StaticPod>) {
        for pod in pods {
            let Some(good) = self.seeded(&pod.origin.file) else {
                continue;
            };
            if !good.pods.iter().any(|p| p.full_name() == pod.full_name()) {
                good.pods.push(pod);
            }
        }
    }

    /// The same for the ConfigMaps and Secrets that an earlier agent knew.
    pub fn seed_objects(&mut self, objects: Vec<LocalObject>) {
        for object in objects {
            if let Some(good) = self.seeded(&object.origin.file) {
                good.objects.push(object);
            }
        }
    }

    /// What counts as the last good content of a file until it is read; none if the file is not of this source.
    fn seeded(&mut self, file: &str) -> Option<&mut Good> {
        let file = PathBuf::from(file);
        if file != self.path && file.parent() != Some(&self.path) {
            return None;
        }
        let known = self.files.entry(file).or_default();
        known.bad = true;
        Some(&mut known.good)
    }

    /// Looks at everything again. Reads only what changed; never blocks on FIFOs or devices; never fails.
    pub fn scan(&mut self, now: Stamp) -> Snapshot {
        let listing = self.list();
        let problem = match listing {
            Ok(paths) => {
                self.update(paths, now);
                None
            }
            Err(problem) => {
                self.inhabited = Some(NOWHERE);
                Some(problem)
            }
        };
        self.snapshot(problem)
    }

    /// The files to read, sorted bytewise (S-11); or why that cannot be said.
    fn list(&mut self) -> Result<Vec<PathBuf>, String> {
        let path = self.path.display();
        let metadata = match std::fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_deleted_file() => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(format!("{path}: {error}")),
        };
        if metadata.is_file() {
            if self.files.keys().any(|file| *file != self.path) {
                return Err(format!(
                    "{path}: a file where a directory was; its pods are kept until the directory is back"
                ));
            }
            return Ok(vec![self.path.clone()]);
        }
        if !metadata.is_dir() {
            return Err(format!("{path}: neither a directory nor a file"));
        }
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(|e| format!("{path}: {e}"))? {
            let entry = entry.map_err(|e| format!("{path}: {e}"))?;
            if paths.len() == MAX_ENTRIES {
                return Err(format!("{path}: more than {MAX_ENTRIES} entries"));
            }
            // S-10, S-13: also leaves out `..data`, whose links are read.
            if !entry.file_name().as_encoded_bytes().starts_with(b".") {
                paths.push(entry.path());
            }
        }
        paths.sort();
        let identity = Some((metadata.dev(), metadata.ino()));
        if !paths.is_empty() {
            self.inhabited = identity;
        } else if self.inhabited.is_some() && self.inhabited != identity && !self.files.is_empty() {
            return Err(format!(
                "{path}: is another directory than before, and empty; its pods are kept until there is a file in it"
            ));
        }
        Ok(paths)
    }

    /// In single-file mode a missing file was deleted, as long as its directory is there.
    fn is_deleted_file(&self) -> bool {
        self.files.contains_key(&self.path) && self.path.parent().is_some_and(Path::is_dir)
    }

    fn update(&mut self, paths: Vec<PathBuf>, now: Stamp) {
        let mut before = std::mem::take(&mut self.files);
        for path in paths {
            let old = before.remove(&path);
            if let Some(known) = self.look(&path, old, now) {
                self.files.insert(path, known);
            }
        }
        self.adopt_renamed(&mut before);
        for (path, mut known) in before {
            let since = *known.missing_since.get_or_insert(now.boot_ms);
            if !known.good.is_empty() && now.boot_ms < since.saturating_add(SETTLE_MS) {
                self.files.insert(path, known);
            }
        }
    }

    /// The state of a file that was listed; none when it has vanished meanwhile and was not known.
    fn look(&self, path: &Path, old: Option<Known>, now: Stamp) -> Option<Known> {
        let mut known = old.unwrap_or_default();
        let file = path.to_string_lossy();
        let trusted = known.identity.filter(|_| known.missing_since.is_none());
        // A single file was named by a person, so it is wanted whatever its name.
        let sight = if path != self.path && read::is_backup(path) {
            Sight::Skipped("a back-up by its name; not read")
        } else {
            read::look(path, trusted, now.wall)
        };
        match sight {
            Sight::Unchanged => {}
            Sight::Vanished => {
                known.missing_since.get_or_insert(now.boot_ms);
                return (!known.good.is_empty()).then_some(known);
            }
            // What is not read has no pods; what was read here before is deleted.
            Sight::Skipped(message) => {
                let diagnostics = vec![remark(Severity::Warning, &file, message)];
                return Some(Known {
                    diagnostics,
                    ..Known::default()
                });
            }
            Sight::Unreadable(message) => {
                known.identity = None;
                known.content = None;
                known.bad = true;
                known.diagnostics = vec![remark(Severity::Error, &file, &message)];
            }
            Sight::Content {
                bytes,
                identity,
                mode,
            } => {
                known.identity = identity;
                known.mode = mode;
                let content = Some(hash(&bytes));
                if std::mem::replace(&mut known.content, content) != content {
                    self.parse(&file, &bytes, &mut known);
                }
            }
        }
        known.missing_since = None;
        Some(known)
    }

    fn parse(&self, file: &str, content: &[u8], known: &mut Known) {
        let parsed = manifest::parse(file, content, &self.node_name);
        let mut problems = parsed.diagnostics.iter();
        known.bad = problems.any(|d| d.severity == Severity::Error);
        known.diagnostics = parsed.diagnostics;
        if !known.bad {
            known.good = Good {
                pods: parsed.pods,
                objects: parsed.objects,
            };
        }
    }

    /// A bad file under a new name is the same bad file: it keeps its last good content.
    fn adopt_renamed(&mut self, vanished: &mut BTreeMap<PathBuf, Known>) {
        for (path, known) in &mut self.files {
            let Some(identity) = known
                .identity
                .filter(|_| known.bad && known.good.is_empty())
            else {
                continue;
            };
            let old = vanished.iter().find_map(|(old, k)| {
                let same = k.bad && k.identity.is_some_and(|i| i.same_content(&identity));
                same.then(|| old.clone())
            });
            if let Some(old) = old.and_then(|old| vanished.remove(&old)) {
                known.good = old.good;
                let pods = known.good.pods.iter_mut().map(|pod| &mut pod.origin);
                let objects = known.good.objects.iter_mut().map(|o| &mut o.origin);
                for origin in pods.chain(objects) {
                    origin.file = path.to_string_lossy().into_owned();
                }
            }
        }
    }

    fn snapshot(&self, directory_problem: Option<String>) -> Snapshot {
        let mut claims = Claims::default();
        let unreadable = directory_problem.is_some();
        let is_missing = |known: &Known| known.missing_since.is_some();
        // A file that is there comes before one that is missing: it may be the same file under a new name.
        let present = self.files.iter().filter(|(_, k)| !is_missing(k));
        let missing = self.files.iter().filter(|(_, k)| is_missing(k));
        let mut files: Vec<FileStatus> = present
            .chain(missing)
            .map(|(path, known)| {
                let mut diagnostics = known.diagnostics.clone();
                let (pods, objects) = claims.claim(path, known, &mut diagnostics);
                let has_any = !pods.is_empty() || !objects.is_empty();
                FileStatus {
                    file: path.to_string_lossy().into_owned(),
                    held: has_any && (unreadable || known.bad || is_missing(known)),
                    pods,
                    objects,
                    diagnostics,
                }
            })
            .collect();
        files.sort_by(|a, b| a.file.cmp(&b.file));
        let missing_since = self.files.values().filter_map(|k| k.missing_since).min();
        Snapshot {
            pods: claims.pods,
            objects: Objects {
                by_key: claims.objects,
                looked_in: self.path.to_string_lossy().into_owned(),
            },
            files,
            again_at_boot_ms: missing_since
                .filter(|_| !unreadable)
                .map(|since| since.saturating_add(SETTLE_MS)),
            directory_problem,
        }
    }
}

fn hash(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    hasher.finish()
}

fn remark(severity: Severity, file: &str, message: &str) -> Diagnostic {
    Diagnostic {
        severity,
        file: file.to_owned(),
        line: None,
        field: String::new(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
