//! The machine, by the files that every kernel has: so its figures are there without a memory controller, too.

use jiff::Timestamp;

use super::parse;
use super::summary::{CpuStats, IoStats, MemoryStats, NetworkStats, RlimitStats, SwapStats, Usage};

/// Nanoseconds of CPU so far.
pub fn cpu_ns() -> Option<u64> {
    parse::busy_ns(&read("/proc/stat")?)
}

/// Everything but what was used of the CPU per second.
pub fn usage(time: Timestamp) -> Usage {
    let psi = |kind: &str| parse::psi(&read(&format!("/proc/pressure/{kind}"))?);
    let cpu = cpu_ns().map(|usage_core_nano_seconds| CpuStats {
        time,
        usage_nano_cores: None,
        usage_core_nano_seconds,
        psi: psi("cpu"),
    });
    let info = read("/proc/meminfo").unwrap_or_default();
    let io = psi("io").map(|psi| IoStats {
        time,
        read_bytes: None,
        write_bytes: None,
        psi: Some(psi),
    });
    Usage {
        cpu,
        memory: Memory::of(&info).map(|memory| memory.stats(time, psi("memory"))),
        io,
        swap: swap(&info, time),
    }
}

/// Memory of the machine, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// All.
    pub capacity: u64,
    usage: u64,
    working_set: u64,
    rss: u64,
}

impl Memory {
    /// By /proc/meminfo.
    pub fn of(info: &str) -> Option<Self> {
        let amount = |name: &str| parse::meminfo(info, name);
        let capacity = amount("MemTotal")?;
        let usage = capacity.saturating_sub(amount("MemFree")?);
        Some(Self {
            capacity,
            usage,
            working_set: usage.saturating_sub(amount("Inactive(file)").unwrap_or(0)),
            rss: amount("AnonPages").unwrap_or(0),
        })
    }

    /// N-3 `memory.available`: what is not in the working set.
    pub fn available(self) -> u64 {
        self.capacity.saturating_sub(self.working_set)
    }

    fn stats(self, time: Timestamp, psi: Option<super::summary::Psi>) -> MemoryStats {
        let vmstat = read("/proc/vmstat").unwrap_or_default();
        MemoryStats {
            time,
            available_bytes: Some(self.available()),
            usage_bytes: self.usage,
            working_set_bytes: self.working_set,
            rss_bytes: self.rss,
            page_faults: parse::field(&vmstat, "pgfault").unwrap_or(0),
            major_page_faults: parse::field(&vmstat, "pgmajfault").unwrap_or(0),
            psi,
        }
    }
}

fn swap(info: &str, time: Timestamp) -> Option<SwapStats> {
    let (total, free) = (
        parse::meminfo(info, "SwapTotal")?,
        parse::meminfo(info, "SwapFree")?,
    );
    Some(SwapStats {
        time,
        swap_available_bytes: Some(free),
        swap_usage_bytes: total.saturating_sub(free),
    })
}

/// Interfaces of the network namespace of a process (`self` for ours); none if it has none that counts.
pub fn network(process: &str, time: Timestamp) -> Option<NetworkStats> {
    let interfaces = parse::interfaces(&read(&format!("/proc/{process}/net/dev"))?);
    let main = interfaces.iter().find(|i| i.name == "eth0").cloned();
    (!interfaces.is_empty()).then_some(NetworkStats {
        time,
        main,
        interfaces,
    })
}

/// N-3 `pid.available`: how many tasks there may be, and are.
pub fn processes(time: Timestamp) -> Option<RlimitStats> {
    let most = |file: &str| parse::number(&read(file)?);
    let maxpid = most("/proc/sys/kernel/pid_max")?.min(most("/proc/sys/kernel/threads-max")?);
    Some(RlimitStats {
        time,
        maxpid,
        curproc: parse::tasks(&read("/proc/loadavg")?)?,
    })
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}
