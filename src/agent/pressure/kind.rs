//! Conditions of the node: kubelet's names and words for them, and what they are about.

use crate::config::Signal;
use crate::plan::Resource;

/// A condition of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `MemoryPressure`.
    Memory,
    /// `DiskPressure`.
    Disk,
    /// `PIDPressure`.
    Pid,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Pid];

    /// The one that a threshold of this signal is about.
    pub fn of(signal: Signal) -> Self {
        match signal {
            Signal::MemoryAvailable => Self::Memory,
            Signal::NodefsAvailable
            | Signal::NodefsInodesFree
            | Signal::ImagefsAvailable
            | Signal::ImagefsInodesFree => Self::Disk,
            Signal::PidAvailable => Self::Pid,
        }
    }

    /// kubelet's words: type, reason and message when it holds, and when it does not.
    pub fn words(self) -> (&'static str, [&'static str; 2], [&'static str; 2]) {
        match self {
            Self::Memory => (
                "MemoryPressure",
                [
                    "KubeletHasInsufficientMemory",
                    "kubelet has insufficient memory available",
                ],
                [
                    "KubeletHasSufficientMemory",
                    "kubelet has sufficient memory available",
                ],
            ),
            Self::Disk => (
                "DiskPressure",
                ["KubeletHasDiskPressure", "kubelet has disk pressure"],
                ["KubeletHasNoDiskPressure", "kubelet has no disk pressure"],
            ),
            Self::Pid => (
                "PIDPressure",
                [
                    "KubeletHasInsufficientPID",
                    "kubelet has insufficient PID available",
                ],
                [
                    "KubeletHasSufficientPID",
                    "kubelet has sufficient PID available",
                ],
            ),
        }
    }

    /// What the node has too little of while it holds.
    pub fn resources(self) -> &'static [Resource] {
        match self {
            Self::Memory => &[Resource::Memory],
            Self::Disk => &[Resource::Disk, Resource::Inodes],
            Self::Pid => &[Resource::Pids],
        }
    }
}

/// What there is too little of below a threshold of this signal.
pub fn resource(signal: Signal) -> Resource {
    match signal {
        Signal::MemoryAvailable => Resource::Memory,
        Signal::NodefsAvailable | Signal::ImagefsAvailable => Resource::Disk,
        Signal::NodefsInodesFree | Signal::ImagefsInodesFree => Resource::Inodes,
        Signal::PidAvailable => Resource::Pids,
    }
}
