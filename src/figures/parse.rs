//! The kernel's texts → numbers. Pure.

use super::summary::{InterfaceStats, Psi, PsiLine};

/// The number behind a word that begins a line (`memory.stat`, `cpu.stat`, /proc/vmstat).
pub fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

/// The same of /proc/meminfo, in bytes.
pub fn meminfo(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, rest) = line.split_once(':')?;
        let kib: u64 =
            (key == name).then(|| rest.split_ascii_whitespace().next()?.parse().ok())??;
        Some(kib.saturating_mul(1024))
    })
}

/// A file with one number.
pub fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// A limit: none for `max` (v2), and for the number that v1 has instead, which is larger than any machine.
pub fn limit(text: &str) -> Option<u64> {
    /// cAdvisor's border.
    const UNLIMITED: u64 = 1 << 62;
    number(text).filter(|bytes| *bytes < UNLIMITED)
}

/// Bytes read and written over all devices, of v2's `io.stat`: `8:0 rbytes=1 wbytes=2 …`.
pub fn io_stat(text: &str) -> (u64, u64) {
    let sum = |key: &str| {
        let words = text.split_ascii_whitespace();
        let amounts = words.filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok());
        amounts.fold(0, u64::saturating_add)
    };
    (sum("rbytes="), sum("wbytes="))
}

/// The same of v1's `blkio.throttle.io_service_bytes_recursive`: `8:0 Read 1`.
pub fn io_service_bytes(text: &str) -> (u64, u64) {
    let sum = |direction: &str| {
        let amounts = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            (words.next()? == direction).then(|| words.next()?.parse::<u64>().ok())?
        });
        amounts.fold(0, u64::saturating_add)
    };
    (sum("Read"), sum("Write"))
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and `full` where there is one.
pub fn psi(text: &str) -> Option<Psi> {
    let line = |kind: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(kind))?;
        let value = |key: &str| {
            let mut words = rest.split_ascii_whitespace();
            words.find_map(|word| word.strip_prefix(key))
        };
        let share = |key: &str| value(key)?.parse().ok();
        Some(PsiLine {
            total: value("total=")?.parse().ok()?,
            avg10: share("avg10=")?,
            avg60: share("avg60=")?,
            avg300: share("avg300=")?,
        })
    };
    Some(Psi {
        some: line("some ")?,
        full: line("full ").unwrap_or_default(),
    })
}

/// Interfaces of a `/proc/<pid>/net/dev`, but for those that cAdvisor leaves out: loopback, and the ends of other namespaces.
pub fn interfaces(text: &str) -> Vec<InterfaceStats> {
    let counts =
        |name: &str| name != "lo" && !name.starts_with("veth") && !name.starts_with("docker");
    text.lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once(':')?;
            let amounts: Vec<u64> = rest
                .split_ascii_whitespace()
                .map_while(|word| word.parse().ok())
                .collect();
            Some(InterfaceStats {
                name: name.trim().to_owned(),
                rx_bytes: *amounts.first()?,
                rx_errors: *amounts.get(2)?,
                tx_bytes: *amounts.get(8)?,
                tx_errors: *amounts.get(10)?,
            })
        })
        .filter(|interface| counts(&interface.name))
        .collect()
}

/// Nanoseconds of all processors that were not idle, of /proc/stat: user, nice, system, irq, softirq, steal. The time of
/// guests is in that of their users already.
pub fn busy_ns(stat: &str) -> Option<u64> {
    /// USER_HZ is 100 on every architecture that we run on.
    const NS_PER_TICK: u64 = 10_000_000;
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line
        .split_ascii_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let busy = [0, 1, 2, 5, 6, 7].map(|at| ticks.get(at).copied());
    busy.into_iter()
        .sum::<Option<u64>>()
        .map(|ticks| ticks.saturating_mul(NS_PER_TICK))
}

/// How many tasks there are, of /proc/loadavg: `0.00 0.00 0.00 1/115 8790`.
pub fn tasks(loadavg: &str) -> Option<u64> {
    let word = loadavg.split_ascii_whitespace().nth(3)?;
    word.split_once('/')?.1.parse().ok()
}
