//! Whether the node runs short of something: how much there is of it, against its thresholds.

use std::collections::BTreeMap;

use crate::config::{Paths, Signal, Threshold};
use crate::sys::clock;

use super::{disk, node};

/// How much is left of what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Levels(pub BTreeMap<Signal, Level>);

/// How much is left of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Left.
    pub available: u64,
    /// All.
    pub capacity: u64,
}

/// A threshold that is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// Of what.
    pub signal: Signal,
    /// As it is set.
    pub threshold: Threshold,
    /// Left.
    pub level: Level,
}

/// Looks. A few files of the kernel and two file systems; what cannot be read is no shortage.
pub fn look(paths: &Paths) -> Levels {
    let time = clock::now().wall;
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = node::Memory::of(&info).map(|memory| Level {
        available: memory.available(),
        capacity: memory.capacity,
    });
    let pids = node::processes(time).map(|limits| Level {
        available: limits.maxpid.saturating_sub(limits.curproc),
        capacity: limits.maxpid,
    });
    let file_system = |path: &std::path::Path| {
        let stats = disk::file_system(path, time);
        let level = |available: Option<u64>, capacity: Option<u64>| {
            Some(Level {
                available: available?,
                capacity: capacity?,
            })
        };
        stats.map_or((None, None), |fs| {
            (
                level(fs.available_bytes, fs.capacity_bytes),
                level(fs.inodes_free, fs.inodes),
            )
        })
    };
    let (bytes, inodes) = file_system(&paths.root_dir);
    let (image_bytes, image_inodes) = file_system(&paths.images());
    let all = [
        (Signal::MemoryAvailable, memory),
        (Signal::NodefsAvailable, bytes),
        (Signal::NodefsInodesFree, inodes),
        (Signal::ImagefsAvailable, image_bytes),
        (Signal::ImagefsInodesFree, image_inodes),
        (Signal::PidAvailable, pids),
    ];
    let known = all.into_iter();
    Levels(
        known
            .filter_map(|(signal, level)| Some((signal, level?)))
            .collect(),
    )
}

impl Levels {
    /// Every threshold that is met, memory first.
    pub fn shortages(&self, thresholds: &BTreeMap<Signal, Threshold>) -> Vec<Shortage> {
        let met = |(&signal, &threshold): (&Signal, &Threshold)| {
            let level = *self.0.get(&signal)?;
            let is_met = level.available < threshold.of(level.capacity);
            is_met.then_some(Shortage {
                signal,
                threshold,
                level,
            })
        };
        thresholds.iter().filter_map(met).collect()
    }
}
