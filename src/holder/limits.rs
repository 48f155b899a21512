//! Limits of cgroups that hold no processes themselves: of pods, of QoS classes, and of all pods together. Those of
//! containers are libcontainer's work.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::cgroup::{CgroupError, Cgroups, Hierarchy, Kind, hand_down, names};
use crate::oci::limits::{Controllers, Limits, weight};

/// Why limits do not hold.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// The kernel does not take it.
    #[error("write {value} to {path}")]
    Write {
        /// What.
        value: String,
        /// Where.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The kernel would kill for it (v2), or refuse after a while (v1).
    #[error("{used} bytes of memory are in use, more than {limit}")]
    InUse {
        /// Bytes that cannot just be dropped.
        used: u64,
        /// Bytes.
        limit: u64,
    },
}

impl Cgroups {
    /// Makes the cgroup, and has its ancestors hand down all they can. Gives what can be limited in it.
    pub fn controllers(&self, path: &str) -> Result<Controllers, CgroupError> {
        self.create(path)?;
        for hierarchy in self.hierarchies.iter().filter(|h| h.kind == Kind::Unified) {
            let mut above = String::from("/");
            for name in names(path)? {
                hand_down(&hierarchy.dir(&above));
                above = format!("{above}/{name}");
            }
            hand_down(&hierarchy.dir(&above));
        }
        let has = |v1: &str, v2: &str| {
            self.limited().any(|hierarchy| {
                let file = hierarchy.either(v1, v2);
                hierarchy.dir(path).join(file).exists()
            })
        };
        Ok(Controllers {
            cpu: has("cpu.shares", "cpu.weight"),
            cpu_quota: has("cpu.cfs_quota_us", "cpu.max"),
            memory: has("memory.limit_in_bytes", "memory.max"),
            swap: has("memory.memsw.limit_in_bytes", "memory.swap.max"),
            pids: has("pids.max", "pids.max"),
            huge_pages: self.limited().flat_map(|h| h.page_sizes(path)).collect(),
        })
    }

    /// Sets all limits, those that are unlimited too. After a failure it goes on; the first one is told.
    pub fn limit(&self, path: &str, limits: &Limits) -> Result<(), LimitError> {
        let mut outcome = Ok(());
        for hierarchy in self.limited() {
            let dir = hierarchy.dir(path);
            if !dir.exists() {
                // Its pod has just ended.
                continue;
            }
            for (file, value) in hierarchy.files(limits) {
                outcome = outcome.and(set(&dir.join(file), &value));
            }
            if hierarchy.has("memory") {
                outcome = outcome.and(hierarchy.limit_memory(&dir, limits.memory));
            }
        }
        outcome
    }

    /// The hierarchies whose controllers count: on a hybrid machine those of v1, as for libcontainer.
    fn limited(&self) -> impl Iterator<Item = &Hierarchy> {
        let is_unified = self.is_unified();
        let counts = move |h: &&Hierarchy| is_unified == (h.kind == Kind::Unified);
        self.hierarchies.iter().filter(counts)
    }
}

impl Hierarchy {
    fn either<'a>(&self, v1: &'a str, v2: &'a str) -> &'a str {
        match self.kind {
            Kind::Unified => v2,
            Kind::Controllers | Kind::Cpuset | Kind::Named => v1,
        }
    }

    /// Sizes of huge pages: `hugetlb.2MB.max` is there.
    fn page_sizes(&self, path: &str) -> Vec<String> {
        let end = self.either(".limit_in_bytes", ".max");
        let entries = fs::read_dir(self.dir(path)).into_iter().flatten().flatten();
        let size = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let size = name.strip_prefix("hugetlb.")?.strip_suffix(end)?;
            // `2MB.rsvd` is the same in another way.
            (!size.contains('.')).then(|| size.to_owned())
        };
        entries.filter_map(size).collect()
    }

    /// What is written into which files, but for memory.
    fn files(&self, limits: &Limits) -> Vec<(String, String)> {
        let number = |limit: Option<u64>| limit.map_or_else(|| "max".to_owned(), |n| n.to_string());
        let mut files = Vec::new();
        let mut add = |file: &str, value: String| files.push((file.to_owned(), value));
        if self.has("cpu") {
            match (self.kind, limits.cpu_shares) {
                (Kind::Unified, Some(shares)) => add("cpu.weight", weight(shares).to_string()),
                (_, Some(shares)) => add("cpu.shares", shares.to_string()),
                (_, None) => {}
            }
            match (self.kind, limits.cpu_quota) {
                (Kind::Unified, Some(cfs)) => {
                    add("cpu.max", format!("{} {}", cfs.quota, cfs.period))
                }
                (Kind::Unified, None) => add("cpu.max", "max".to_owned()),
                (_, Some(cfs)) => {
                    add("cpu.cfs_period_us", cfs.period.to_string());
                    add("cpu.cfs_quota_us", cfs.quota.to_string());
                }
                (_, None) => add("cpu.cfs_quota_us", "-1".to_owned()),
            }
        }
        if self.has("pids") {
            add("pids.max", number(limits.pids));
        }
        if self.has("hugetlb") {
            for (size, bytes) in &limits.huge_pages {
                let end = self.either("limit_in_bytes", "max");
                add(&format!("hugetlb.{size}.{end}"), bytes.to_string());
            }
        }
        files
    }

    /// A limit below what is in use is not even tried.
    fn limit_memory(&self, dir: &Path, limit: Option<u64>) -> Result<(), LimitError> {
        let file = dir.join(self.either("memory.limit_in_bytes", "memory.max"));
        let Some(limit) = limit else {
            return set(&file, self.either("-1", "max"));
        };
        let is_lower = number(&file).is_none_or(|now| limit < now);
        if is_lower {
            let used = self.memory_in_use(dir);
            if used > limit {
                return Err(LimitError::InUse { used, limit });
            }
        }
        set(&file, &limit.to_string())
    }

    /// Without the file cache that was not used lately, which the kernel drops when it has to.
    fn memory_in_use(&self, dir: &Path) -> u64 {
        let used = number(&dir.join(self.either("memory.usage_in_bytes", "memory.current")));
        let stat = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
        let key = self.either("total_inactive_file ", "inactive_file ");
        let cache = stat.lines().find_map(|line| line.strip_prefix(key));
        let cache = cache.and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        used.unwrap_or(0).saturating_sub(cache)
    }
}

/// None also for `max`.
fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// One write. No limit needs no file.
fn set(path: &Path, value: &str) -> Result<(), LimitError> {
    // Since Linux 6.16 a write of memory.max that does not block leaves reclaim to those who use more.
    let file = fs::OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    let is_limit = !matches!(value, "max" | "-1");
    match file.and_then(|mut file| file.write_all(value.as_bytes())) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_limit => Ok(()),
        written => written.map_err(|source| LimitError::Write {
            value: value.to_owned(),
            path: path.to_owned(),
            source,
        }),
    }
}
