//! Durations as people and Go programs write them: `20s`, `1m30s`, `1.5h`; and as kubectl shows them: `5m10s`, `3d4h`.

use std::time::Duration;

pub use crate::pod::duration::parse;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// An age as kubectl's HumanDuration: two units at most, the smaller one only while it matters.
pub fn human(age: Duration) -> String {
    let s = age.as_secs();
    match s {
        0..120 => format!("{s}s"),
        120..600 => pair((s / MINUTE, "m"), (s % MINUTE, "s")),
        600..10_800 => format!("{}m", s / MINUTE),
        10_800..28_800 => pair((s / HOUR, "h"), (s % HOUR / MINUTE, "m")),
        28_800..172_800 => format!("{}h", s / HOUR),
        172_800..691_200 => pair((s / DAY, "d"), (s % DAY / HOUR, "h")),
        691_200..63_072_000 => format!("{}d", s / DAY),
        63_072_000..252_288_000 => pair((s / YEAR, "y"), (s % YEAR / DAY, "d")),
        _ => format!("{}y", s / YEAR),
    }
}

fn pair(big: (u64, &str), small: (u64, &str)) -> String {
    if small.0 == 0 {
        format!("{}{}", big.0, big.1)
    } else {
        format!("{}{}{}{}", big.0, big.1, small.0, small.1)
    }
}

/// How long ago, as kubectl's AGE column; a time in the future counts as now.
pub fn since(then: jiff::Timestamp, now: jiff::Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second());
    human(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// How long it still is until `due`, rounded up as in the plan's reasons; a time in the past counts as now.
pub fn until(due: jiff::Timestamp, now: jiff::Timestamp) -> String {
    let ms = due.as_millisecond().saturating_sub(now.as_millisecond());
    let seconds = u64::try_from(ms).unwrap_or(0).div_ceil(1000);
    human(Duration::from_secs(seconds))
}
