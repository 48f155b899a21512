//! What a cgroup uses, by its files: v2's, or on v1 those of each controller's hierarchy. A file that is not there is a
//! figure that is not known.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::parse;
use super::summary::{CpuStats, IoStats, MemoryStats, Psi, SwapStats, Usage};
use crate::holder::cgroup::Cgroups;

/// The cgroup of a pod, a container or whatever else.
#[derive(Debug, Clone)]
pub struct Group {
    cpu: Dir,
    memory: Dir,
    io: Dir,
    /// For stalls, which are v2's alone.
    unified: Option<PathBuf>,
}

/// Where a controller's files are.
#[derive(Debug, Clone)]
enum Dir {
    V1(PathBuf),
    V2(PathBuf),
    Missing,
}

impl Group {
    /// Finds its directories; none of them need exist.
    pub fn new(cgroups: &Cgroups, path: &str) -> Self {
        let unified = cgroups.unified_dir(path);
        let dir = |controller: &str| match (cgroups.v1_dir(controller, path), &unified) {
            (Some(dir), _) => Dir::V1(dir),
            (None, Some(dir)) => Dir::V2(dir.clone()),
            (None, None) => Dir::Missing,
        };
        Self {
            cpu: dir("cpuacct"),
            memory: dir("memory"),
            io: dir("blkio"),
            unified,
        }
    }

    /// One directory for all.
    #[cfg(test)]
    pub fn on_v1(dir: &Path) -> Self {
        let here = || Dir::V1(dir.to_owned());
        Self {
            cpu: here(),
            memory: here(),
            io: here(),
            unified: None,
        }
    }

    /// The same of v2.
    #[cfg(test)]
    pub fn on_v2(dir: &Path) -> Self {
        let here = || Dir::V2(dir.to_owned());
        Self {
            cpu: here(),
            memory: here(),
            io: here(),
            unified: Some(dir.to_owned()),
        }
    }

    /// Nanoseconds of CPU so far.
    pub fn cpu_ns(&self) -> Option<u64> {
        match &self.cpu {
            Dir::V1(dir) => parse::number(&read(dir, "cpuacct.usage")?),
            Dir::V2(dir) => {
                let usec = parse::field(&read(dir, "cpu.stat")?, "usage_usec")?;
                Some(usec.saturating_mul(1000))
            }
            Dir::Missing => None,
        }
    }

    /// Processes in it, without those in cgroups below.
    pub fn processes(&self) -> u64 {
        let dirs = [&self.memory, &self.cpu].map(Dir::path);
        let text = dirs
            .into_iter()
            .flatten()
            .find_map(|dir| read(dir, "cgroup.procs"));
        let count = text.map_or(0, |text| text.lines().count());
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// Everything else, as of `time`; of the CPU only what was used so far.
    pub fn usage(&self, time: Timestamp) -> Usage {
        let cpu = self.cpu_ns().map(|usage_core_nano_seconds| CpuStats {
            time,
            usage_nano_cores: None,
            usage_core_nano_seconds,
            psi: self.psi("cpu.pressure"),
        });
        Usage {
            cpu,
            memory: self.memory(time),
            io: self.io(time),
            swap: self.swap(time),
        }
    }

    fn psi(&self, file: &str) -> Option<Psi> {
        parse::psi(&read(self.unified.as_deref()?, file)?)
    }

    fn memory(&self, time: Timestamp) -> Option<MemoryStats> {
        let (dir, [usage, max, prefix, rss]) = match &self.memory {
            Dir::V1(dir) => {
                let (usage, max) = ("memory.usage_in_bytes", "memory.limit_in_bytes");
                (dir, [usage, max, "total_", "rss"])
            }
            Dir::V2(dir) => (dir, ["memory.current", "memory.max", "", "anon"]),
            Dir::Missing => return None,
        };
        let usage_bytes = parse::number(&read(dir, usage)?)?;
        let stat = read(dir, "memory.stat")?;
        let amount = |name: &str| parse::field(&stat, &format!("{prefix}{name}")).unwrap_or(0);
        let working_set_bytes = usage_bytes.saturating_sub(amount("inactive_file"));
        let limit = read(dir, max).and_then(|text| parse::limit(&text));
        Some(MemoryStats {
            time,
            available_bytes: limit.map(|limit| limit.saturating_sub(working_set_bytes)),
            usage_bytes,
            working_set_bytes,
            rss_bytes: amount(rss),
            page_faults: amount("pgfault"),
            major_page_faults: amount("pgmajfault"),
            psi: self.psi("memory.pressure"),
        })
    }

    fn swap(&self, time: Timestamp) -> Option<SwapStats> {
        let (swap_usage_bytes, limit) = match &self.memory {
            Dir::V1(dir) => (
                parse::field(&read(dir, "memory.stat")?, "total_swap")?,
                None,
            ),
            Dir::V2(dir) => {
                let limit = read(dir, "memory.swap.max").and_then(|text| parse::limit(&text));
                (parse::number(&read(dir, "memory.swap.current")?)?, limit)
            }
            Dir::Missing => return None,
        };
        Some(SwapStats {
            time,
            swap_available_bytes: limit.map(|limit| limit.saturating_sub(swap_usage_bytes)),
            swap_usage_bytes,
        })
    }

    fn io(&self, time: Timestamp) -> Option<IoStats> {
        let bytes = match &self.io {
            Dir::V1(dir) => read(dir, "blkio.throttle.io_service_bytes_recursive")
                .map(|text| parse::io_service_bytes(&text)),
            Dir::V2(dir) => read(dir, "io.stat").map(|text| parse::io_stat(&text)),
            Dir::Missing => None,
        };
        let psi = self.psi("io.pressure");
        if bytes.is_none() && psi.is_none() {
            return None;
        }
        let (read_bytes, write_bytes) = bytes.unzip();
        Some(IoStats {
            time,
            read_bytes,
            write_bytes,
            psi,
        })
    }
}

impl Dir {
    fn path(&self) -> Option<&Path> {
        match self {
            Self::V1(dir) | Self::V2(dir) => Some(dir),
            Self::Missing => None,
        }
    }
}

fn read(dir: &Path, file: &str) -> Option<String> {
    std::fs::read_to_string(dir.join(file)).ok()
}
