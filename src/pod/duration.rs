//! Durations as Go programs write them: `20s`, `1m30s`, `1.5h`, `250ms`.

use std::time::Duration;

/// Why a text is no duration.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is no duration; write it like 20s, 1m30s or 250ms")]
pub struct BadDuration(String);

/// Longest unit names first, so that `ms` is not read as `m`.
const UNITS: [(&str, f64); 7] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// Reads a duration; a bare `0` is one, any other bare number is not.
pub fn parse(text: &str) -> Result<Duration, BadDuration> {
    let bad = || BadDuration(text.to_owned());
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(bad());
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let (part, after) = first_part(rest).ok_or_else(bad)?;
        seconds += part;
        rest = after;
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| bad())
}

/// `1m30s` → (60.0, `30s`).
fn first_part(text: &str) -> Option<(f64, &str)> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .filter(|&end| end > 0)?;
    let (number, rest) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    UNITS
        .iter()
        .find_map(|(unit, scale)| Some((number * scale, rest.strip_prefix(unit)?)))
}
