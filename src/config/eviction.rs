//! When the node counts as short of something (N-1, N-2), and what follows (N-5, D-8).

use std::collections::BTreeMap;
use std::time::Duration;

use super::file::File;
use super::node::amount;
use super::place::{ConfigError, Place};
use crate::pod::quantity::Unit;

/// Settings of node pressure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// `evictionHard`.
    pub thresholds: BTreeMap<Signal, Threshold>,
    /// N-5: a condition holds on for so long.
    pub transition: Duration,
    /// D-8: pods are ended when nothing else helps.
    pub of_pods: bool,
}

impl Default for Eviction {
    fn default() -> Self {
        Self {
            thresholds: BTreeMap::from(DEFAULTS),
            transition: Duration::from_secs(300),
            of_pods: false,
        }
    }
}

/// N-1.
const DEFAULTS: [(Signal, Threshold); 5] = [
    (Signal::MemoryAvailable, Threshold::Amount(100 << 20)),
    (Signal::NodefsAvailable, Threshold::Share(10_000)),
    (Signal::NodefsInodesFree, Threshold::Share(5000)),
    (Signal::ImagefsAvailable, Threshold::Share(15_000)),
    (Signal::ImagefsInodesFree, Threshold::Share(5000)),
];

/// N-3: what is measured. Writable layers lie in the root directory, so that `containerfs` is `nodefs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Memory that is not in use, or could be had at once.
    MemoryAvailable,
    /// Bytes of the root directory's file system.
    NodefsAvailable,
    /// Inodes there.
    NodefsInodesFree,
    /// Bytes of the image store's file system.
    ImagefsAvailable,
    /// Inodes there.
    ImagefsInodesFree,
    /// Processes.
    PidAvailable,
}

impl Signal {
    /// As kubelet writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory.available",
            Self::NodefsAvailable => "nodefs.available",
            Self::NodefsInodesFree => "nodefs.inodesFree",
            Self::ImagefsAvailable => "imagefs.available",
            Self::ImagefsInodesFree => "imagefs.inodesFree",
            Self::PidAvailable => "pid.available",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let all = [
            Self::MemoryAvailable,
            Self::NodefsAvailable,
            Self::NodefsInodesFree,
            Self::ImagefsAvailable,
            Self::ImagefsInodesFree,
            Self::PidAvailable,
        ];
        let text = text.replace("containerfs.", "nodefs.");
        all.into_iter().find(|signal| signal.as_str() == text)
    }
}

/// The node is short of what is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threshold {
    /// Bytes, inodes, processes.
    Amount(u64),
    /// Of the capacity, in thousandths of a percent.
    Share(u32),
}

impl Threshold {
    /// In bytes, inodes or processes.
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            Self::Amount(amount) => amount,
            Self::Share(share) => {
                let part = u128::from(capacity) * u128::from(share) / 100_000;
                u64::try_from(part).unwrap_or(u64::MAX)
            }
        }
    }
}

const BAD_SIGNAL: &str = "is no signal of eviction; there are memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available";
const BAD_THRESHOLD: &str =
    "must be an amount above 0, or a share of at most 100%, written like 100Mi or 10%";

impl Place<'_> {
    /// The file's settings of this kind.
    pub(super) fn eviction(&self, file: &File) -> Result<Eviction, ConfigError> {
        let mut eviction = Eviction {
            of_pods: file.vetch.evict_static_pods,
            ..Eviction::default()
        };
        if let Some(text) = &file.eviction_pressure_transition_period {
            let field = "evictionPressureTransitionPeriod";
            eviction.transition = self.duration(field, text)?;
        }
        let Some(own) = &file.eviction_hard else {
            return Ok(eviction);
        };
        if !file.merge_default_eviction_settings {
            eviction.thresholds.clear();
        }
        for (name, text) in own {
            let field = format!("evictionHard[{name}]");
            let signal = Signal::parse(name).ok_or_else(|| self.refuse(&field, BAD_SIGNAL))?;
            match threshold(text).ok_or_else(|| self.refuse(&field, BAD_THRESHOLD))? {
                Setting::Below(threshold) => eviction.thresholds.insert(signal, threshold),
                Setting::Off => eviction.thresholds.remove(&signal),
            };
        }
        Ok(eviction)
    }
}

/// What the file says of a signal.
enum Setting {
    Below(Threshold),
    /// 0% and 100%.
    Off,
}

fn threshold(text: &str) -> Option<Setting> {
    let Some(percent) = text.strip_suffix('%') else {
        let amount = amount(text, Unit::One).filter(|&amount| amount > 0)?;
        return Some(Setting::Below(Threshold::Amount(amount)));
    };
    let share = u32::try_from(amount(percent, Unit::Milli)?).ok()?;
    match share {
        0 | 100_000 => Some(Setting::Off),
        1..100_000 => Some(Setting::Below(Threshold::Share(share))),
        100_001.. => None,
    }
}
