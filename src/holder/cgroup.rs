//! Control groups by their files, v1, hybrid and v2 alike: a path means that directory in every mounted hierarchy.
//! This is about which processes belong together and how to end them; [`super::limits`] is about how much they may use.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

/// Why a cgroup could not be used.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// No cgroup file system.
    #[error("no cgroup hierarchy is mounted")]
    NoneMounted,
    /// Relative, the root itself, or with `..`.
    #[error("{0:?} is no absolute cgroup path below the root")]
    BadPath(String),
    /// A file operation.
    #[error("{operation} {path}")]
    Io {
        /// Verb.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

pub(super) fn io_error(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> CgroupError {
    let path = path.to_owned();
    move |source| CgroupError::Io {
        operation,
        path,
        source,
    }
}

/// What a hierarchy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// v1 with controllers that libcontainer handles.
    Controllers,
    /// v1 `cpuset`: new groups are unusable until they have cpus and memory nodes.
    Cpuset,
    /// v1 without a controller: `name=systemd`.
    Named,
    /// v2.
    Unified,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    mount: PathBuf,
    pub(super) kind: Kind,
    /// What v1 mounts it for.
    controllers: Vec<String>,
}

/// Every mounted hierarchy.
#[derive(Debug, Clone)]
pub struct Cgroups {
    pub(super) hierarchies: Vec<Hierarchy>,
}

/// Controllers that are handed down the tree on v2; the rest stays off, as it was.
const WANTED: [&str; 5] = ["cpu", "hugetlb", "io", "memory", "pids"];

impl Cgroups {
    /// Looks at the caller's mounts.
    pub fn discover() -> Result<Self, CgroupError> {
        let path = Path::new("/proc/self/mountinfo");
        let text = fs::read_to_string(path).map_err(io_error("read", path))?;
        let hierarchies = parse_mountinfo(&text);
        if hierarchies.is_empty() {
            return Err(CgroupError::NoneMounted);
        }
        Ok(Self { hierarchies })
    }

    /// True with v2 alone (neither v1 nor hybrid).
    pub fn is_unified(&self) -> bool {
        self.hierarchies.iter().all(|h| h.kind == Kind::Unified)
    }

    /// The cgroup's directory on v2, also on hybrid systems; `None` without v2.
    pub fn unified_dir(&self, path: &str) -> Option<PathBuf> {
        let mut hierarchies = self.hierarchies.iter();
        let unified = hierarchies.find(|h| h.kind == Kind::Unified)?;
        Some(unified.dir(path))
    }

    /// The directory of a cgroup where v1 has this controller.
    pub fn v1_dir(&self, controller: &str, path: &str) -> Option<PathBuf> {
        let has = |h: &&Hierarchy| h.controllers.iter().any(|name| name == controller);
        self.hierarchies.iter().find(has).map(|h| h.dir(path))
    }

    /// Creates the cgroup in every hierarchy; one that exists is fine. On v2 its ancestors hand down cpu, hugetlb,
    /// io, memory and pids as far as the kernel has them.
    pub fn create(&self, path: &str) -> Result<(), CgroupError> {
        let names = names(path)?;
        self.hierarchies
            .iter()
            .try_for_each(|hierarchy| hierarchy.create(&names))
    }

    /// Moves a process into the cgroup in every hierarchy.
    pub fn join(&self, path: &str, pid: i32) -> Result<(), CgroupError> {
        names(path)?;
        self.hierarchies
            .iter()
            .try_for_each(|hierarchy| hierarchy.join(path, pid))
    }

    /// Moves a process into the cgroup in the hierarchies that libcontainer leaves alone on v1 and hybrid systems:
    /// `name=systemd` and unified. Creates it there.
    pub fn join_beside_controllers(&self, path: &str, pid: i32) -> Result<(), CgroupError> {
        let names = names(path)?;
        if self.is_unified() {
            return Ok(());
        }
        let beside = |h: &&Hierarchy| matches!(h.kind, Kind::Named | Kind::Unified);
        self.hierarchies.iter().filter(beside).try_for_each(|h| {
            h.create(&names)?;
            h.join(path, pid)
        })
    }

    /// Creates the cgroup in one hierarchy only and moves a process there, so that it and its children can be found and
    /// killed together. Limits stay those of the parent. Unified if there is one: its kill is atomic.
    pub fn track(&self, path: &str, pid: i32) -> Result<(), CgroupError> {
        let names = names(path)?;
        let tracker = self.tracker().ok_or(CgroupError::NoneMounted)?;
        // Not `create`: the parent has processes and must not hand down controllers on v2.
        let (leaf, _) = names.split_last().ok_or(CgroupError::NoneMounted)?;
        let parent = path.strip_suffix(leaf).unwrap_or(path);
        make_dir(&tracker.dir(parent).join(leaf))?;
        tracker.join(path, pid)
    }

    fn tracker(&self) -> Option<&Hierarchy> {
        let rank = |h: &&Hierarchy| match h.kind {
            Kind::Unified => 0,
            Kind::Named => 1,
            Kind::Controllers => 2,
            Kind::Cpuset => 3,
        };
        self.hierarchies.iter().min_by_key(rank)
    }

    /// Removes a cgroup of [`Self::track`]. Fails with EBUSY while it is populated.
    pub fn untrack(&self, path: &str) -> Result<(), CgroupError> {
        names(path)?;
        self.tracker()
            .map_or(Ok(()), |hierarchy| hierarchy.remove(path))
    }

    /// Pids in the cgroup and below it, over all hierarchies. Empty also when there is no such cgroup.
    pub fn pids(&self, path: &str) -> BTreeSet<i32> {
        let mut pids = BTreeSet::new();
        for hierarchy in &self.hierarchies {
            walk(&hierarchy.dir(path), &mut |dir| {
                let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
                pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
            });
        }
        pids.remove(&0);
        pids
    }

    /// Whether a process lives in the cgroup or below it.
    pub fn is_populated(&self, path: &str) -> bool {
        !self.pids(path).is_empty()
    }

    /// Sends SIGKILL to every process in the cgroup and below it; one pass that does not wait. Repeat it until
    /// [`Self::is_populated`] is false: without v2 a fork can escape one pass.
    pub fn kill(&self, path: &str) {
        for hierarchy in self.hierarchies.iter().filter(|h| h.kind == Kind::Unified) {
            // Kernel 5.14; older ones are served by the loop below.
            let _ = put(&hierarchy.dir(path).join("cgroup.kill"), "1");
        }
        for pid in self.pids(path).into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Removes the cgroup and all below it, deepest first, from every hierarchy. Fails with EBUSY while it is populated.
    pub fn remove(&self, path: &str) -> Result<(), CgroupError> {
        names(path)?;
        let mut failure = Ok(());
        for hierarchy in &self.hierarchies {
            if let Err(error) = hierarchy.remove(path) {
                failure = Err(error);
            }
        }
        failure
    }

    /// How often the kernel killed a process of this cgroup for want of memory.
    pub fn oom_kills(&self, path: &str) -> u64 {
        let count = |hierarchy: &Hierarchy| {
            let file = match hierarchy.kind {
                Kind::Unified => "memory.events",
                Kind::Controllers | Kind::Cpuset | Kind::Named => "memory.oom_control",
            };
            let text = fs::read_to_string(hierarchy.dir(path).join(file)).ok()?;
            text.lines()
                .find_map(|line| line.strip_prefix("oom_kill "))?
                .parse::<u64>()
                .ok()
        };
        self.hierarchies
            .iter()
            .filter(|h| h.has("memory"))
            .filter_map(count)
            .sum()
    }
}

impl Hierarchy {
    /// On v2 it may have it.
    pub(super) fn has(&self, controller: &str) -> bool {
        self.kind == Kind::Unified || self.controllers.iter().any(|name| name == controller)
    }

    pub(super) fn dir(&self, path: &str) -> PathBuf {
        self.mount.join(path.trim_matches('/'))
    }

    /// The leaf is tried first: its parents are there already, but for a pod's first container.
    fn create(&self, names: &[&str]) -> Result<(), CgroupError> {
        let dir = self.dir(&names.join("/"));
        let (Some(parent), [parents @ .., _]) = (dir.parent(), names) else {
            return Ok(());
        };
        match fs::create_dir(&dir) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound && !parents.is_empty() => {
                self.create(parents)?;
                make_dir(&dir)?;
            }
            Err(e) => return Err(io_error("create", &dir)(e)),
        }
        match self.kind {
            Kind::Unified => hand_down(parent),
            Kind::Cpuset => inherit(parent, &dir)?,
            Kind::Controllers | Kind::Named => {}
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<(), CgroupError> {
        let mut failure = None;
        walk(&self.dir(path), &mut |dir| {
            if let Err(source) = fs::remove_dir(dir)
                && source.kind() != io::ErrorKind::NotFound
            {
                failure = Some(io_error("remove", dir)(source));
            }
        });
        failure.map_or(Ok(()), Err)
    }

    fn join(&self, path: &str, pid: i32) -> Result<(), CgroupError> {
        let file = self.dir(path).join("cgroup.procs");
        put(&file, &pid.to_string()).map_err(io_error("write", &file))
    }
}

fn make_dir(dir: &Path) -> Result<(), CgroupError> {
    match fs::create_dir(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(io_error("create", dir)(e)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Best effort: a limit that needs a missing controller fails later, and says so.
pub(super) fn hand_down(dir: &Path) {
    let has = fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
    let on = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
    let in_list = |list: &str, name: &str| list.split_ascii_whitespace().any(|w| w == name);
    // Beside v1 there may be hugetlb, which nobody limits there.
    let is_whole = in_list(&has, "cpu") || in_list(&has, "memory");
    for name in WANTED.into_iter().filter(|_| is_whole) {
        if in_list(&has, name) && !in_list(&on, name) {
            let _ = put(&dir.join("cgroup.subtree_control"), &format!("+{name}"));
        }
    }
}

/// Copies cpus and memory nodes from the parent into a new v1 cpuset.
fn inherit(parent: &Path, dir: &Path) -> Result<(), CgroupError> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let (from, to) = (parent.join(file), dir.join(file));
        let own = fs::read_to_string(&to).map_err(io_error("read", &to))?;
        if own.trim().is_empty() {
            let theirs = fs::read_to_string(&from).map_err(io_error("read", &from))?;
            put(&to, theirs.trim()).map_err(io_error("write", &to))?;
        }
    }
    // Cgroups below this one then have theirs from the start: each of the writes above waits for the scheduler.
    let _ = put(&dir.join("cgroup.clone_children"), "1");
    Ok(())
}

/// Writes a control file: one write, no creation, no truncation.
fn put(file: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    fs::OpenOptions::new()
        .write(true)
        .open(file)?
        .write_all(text.as_bytes())
}

/// Visits a cgroup directory and those below it, deepest first.
fn walk(dir: &Path, visit: &mut impl FnMut(&Path)) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            walk(&entry.path(), visit);
        }
    }
    visit(dir);
}

pub(super) fn names(path: &str) -> Result<Vec<&str>, CgroupError> {
    let bad = || CgroupError::BadPath(path.to_owned());
    let rest = path.strip_prefix('/').ok_or_else(bad)?;
    let names: Vec<&str> = rest.split('/').collect();
    if names.iter().any(|n| matches!(*n, "" | "." | "..")) {
        return Err(bad());
    }
    Ok(names)
}

fn parse_mountinfo(text: &str) -> Vec<Hierarchy> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for line in text.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let (&[_, _, device, root, mount, ..], &[kind, _, options, ..]) = (&left[..], &right[..])
        else {
            continue;
        };
        // The device tells hierarchies apart: a second mount of the same one is skipped.
        if root != "/" || !kind.starts_with("cgroup") || !seen.insert(device) {
            continue;
        }
        let has = |name: &str| options.split(',').any(|o| o == name);
        let kind = match kind {
            "cgroup2" => Kind::Unified,
            _ if has("cpuset") => Kind::Cpuset,
            _ if options.contains("name=") => Kind::Named,
            _ => Kind::Controllers,
        };
        found.push(Hierarchy {
            mount: PathBuf::from(mount),
            kind,
            controllers: match kind {
                Kind::Unified | Kind::Named => Vec::new(),
                Kind::Controllers | Kind::Cpuset => options.split(',').map(str::to_owned).collect(),
            },
        });
    }
    found
}

#[cfg(test)]
mod tests;
