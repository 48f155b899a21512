//! Resource figures: what the machine, pods and containers use, read when somebody asks (X-11, H-24). Nothing is kept
//! between two questions, and nothing runs without one.
//!
//! [`gather`] does the work, which may take a while: it walks trees and waits for its interval. So it runs in a child for
//! the agent (`vetch figures …`), and in `vetch top` itself.
//!
//! - [`summary`] is what comes out; [`parse`] reads the kernel's texts.
//! - [`cgroup`], [`node`] and `pods` are what is looked at; [`disk`] are file systems and trees.
//! - [`pressure`] is whether the node runs short of something.

pub mod cgroup;
mod child;
pub mod disk;
pub mod node;
pub mod parse;
mod pods;
pub mod pressure;
pub mod summary;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use cgroup::Group;
use disk::Budget;
use jiff::Timestamp;
use pods::{Seen, Trees};
use summary::{ContainerStats, FsStats, NodeStats, RuntimeStats, Summary, Usage};

use crate::config::Paths;
use crate::holder::cgroup::{CgroupError, Cgroups};
use crate::holder::found;
use crate::sys::clock;

pub use child::{INTERVAL, ROLE, run};

/// Files and directories that are counted for one answer.
const MAX_ENTRIES: u64 = 2_000_000;

/// How much is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// `only_cpu_and_memory=true`.
    CpuAndMemory,
    /// Networks, file systems and trees, too.
    Everything,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Where the agent keeps things.
    pub paths: Paths,
    /// Its node's name.
    pub node_name: String,
    /// Its cgroup root, as far as it is known.
    pub cgroup_root: Option<String>,
    /// How much.
    pub depth: Depth,
    /// What is used per second is measured over this time.
    pub interval: Duration,
}

/// Readings of one moment, and what is needed to make more.
#[derive(Debug)]
pub struct Meter<'a> {
    cgroups: &'a Cgroups,
    depth: Depth,
    time: Timestamp,
    before: &'a Readings,
}

/// CPU so far, by cgroup; the machine's under an empty path.
#[derive(Debug, Default)]
struct Readings(BTreeMap<String, (u64, u64)>);

impl Readings {
    fn note(&mut self, path: String, cpu_ns: Option<u64>) {
        if let Some(cpu_ns) = cpu_ns {
            self.0.insert(path, (cpu_ns, clock::boot_ns()));
        }
    }

    /// Billionths of a processor since then.
    fn rate(&self, path: &str, cpu_ns: u64) -> Option<u64> {
        let (before, at) = self.0.get(path)?;
        rate(
            cpu_ns.checked_sub(*before)?,
            clock::boot_ns().checked_sub(*at)?,
        )
    }
}

/// `used` nanoseconds of CPU in `passed` nanoseconds, in billionths of a processor.
fn rate(used: u64, passed: u64) -> Option<u64> {
    let nanos = u128::from(used) * 1_000_000_000;
    u64::try_from(nanos.checked_div(u128::from(passed))?).ok()
}

impl Meter<'_> {
    fn usage(&self, path: &str) -> Usage {
        self.rated(path, Group::new(self.cgroups, path).usage(self.time))
    }

    fn rated(&self, path: &str, mut usage: Usage) -> Usage {
        if let Some(cpu) = &mut usage.cpu {
            cpu.usage_nano_cores = self.before.rate(path, cpu.usage_core_nano_seconds);
        }
        if self.depth == Depth::CpuAndMemory {
            usage.io = None;
        }
        usage
    }
}

/// Looks at everything. Takes as long as the interval, or as the trees need.
pub fn gather(ask: &Ask) -> Result<Summary, CgroupError> {
    let cgroups = Cgroups::discover()?;
    let holders = found::scan(&ask.paths);
    let seen = || {
        let paths = &ask.paths;
        holders.iter().map(move |found| Seen { paths, found })
    };
    let begun_ns = clock::boot_ns();
    let mut before = Readings::default();
    before.note(String::new(), node::cpu_ns());
    let paths = seen()
        .flat_map(Seen::cgroups)
        .chain(system_cgroups(ask).into_values());
    for path in paths {
        let cpu_ns = Group::new(&cgroups, &path).cpu_ns();
        before.note(path, cpu_ns);
    }
    let mut trees = Trees::new();
    if ask.depth == Depth::Everything {
        let mut budget = Budget::new(MAX_ENTRIES);
        seen().for_each(|pod| pod.measure(&mut budget, &mut trees));
    }
    let passed = Duration::from_nanos(clock::boot_ns().saturating_sub(begun_ns));
    std::thread::sleep(ask.interval.saturating_sub(passed));
    let meter = Meter {
        cgroups: &cgroups,
        depth: ask.depth,
        time: clock::now().wall,
        before: &before,
    };
    Ok(Summary {
        node: node_stats(ask, &meter),
        pods: seen().map(|pod| pods::stats(pod, &meter, &trees)).collect(),
    })
}

/// kubelet's names for parts of the node's work → our cgroups.
fn system_cgroups(ask: &Ask) -> BTreeMap<&'static str, String> {
    let holders = |root: &String| ("runtime", format!("{}/holders", root.trim_end_matches('/')));
    ask.cgroup_root.iter().map(holders).collect()
}

fn node_stats(ask: &Ask, meter: &Meter<'_>) -> NodeStats {
    let time = meter.time;
    let system = system_cgroups(ask).into_iter();
    let system_containers = system.map(|(name, path)| ContainerStats {
        name: name.to_owned(),
        start_time: None,
        usage: meter.usage(&path),
        rootfs: None,
        logs: None,
    });
    let deep = || (meter.depth == Depth::Everything).then_some(());
    let fs = || disk::file_system(&ask.paths.root_dir, time);
    NodeStats {
        node_name: ask.node_name.clone(),
        system_containers: system_containers.collect(),
        start_time: started(),
        usage: meter.rated("", node::usage(time)),
        network: deep().and_then(|()| node::network("self", time)),
        fs: deep().and_then(|()| fs()),
        runtime: deep().map(|()| RuntimeStats {
            image_fs: image_fs(&ask.paths, time),
            container_fs: fs(),
        }),
        rlimit: deep().and_then(|()| node::processes(time)),
    }
}

/// When the machine was started, by its present clock.
fn started() -> Timestamp {
    let now = clock::now();
    let up = jiff::SignedDuration::from_millis(i64::try_from(now.boot_ms).unwrap_or(i64::MAX));
    now.wall.checked_sub(up).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Each layer has its size beside it.
fn image_fs(paths: &Paths, time: Timestamp) -> Option<FsStats> {
    let layers = std::fs::read_dir(paths.images().join("layers/sha256"));
    let sizes = layers.into_iter().flatten().flatten().filter_map(|layer| {
        let size = std::fs::read_to_string(layer.path().join("size")).ok()?;
        parse::number(&size)
    });
    let used = sizes.fold(0, u64::saturating_add);
    let whole = disk::file_system(&paths.images(), time)?;
    Some(FsStats {
        used_bytes: Some(used),
        inodes_used: None,
        ..whole
    })
}
