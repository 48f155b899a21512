//! Signals by name.

/// Asks a process to end, where nothing else is said.
pub const SIGTERM: i32 = 15;
/// The first real-time signal as the C libraries number it.
const SIGRTMIN: i32 = 34;
const SIGRTMAX: i32 = 64;

/// The number of `SIGTERM`, `TERM`, `15`, `SIGRTMIN+3`, `RTMAX-1`, in any case.
pub fn parse(text: &str) -> Option<i32> {
    let upper = text.trim().to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let number = if let Some(offset) = name.strip_prefix("RTMIN") {
        SIGRTMIN.checked_add(parse_offset(offset, '+')?)?
    } else if let Some(offset) = name.strip_prefix("RTMAX") {
        SIGRTMAX.checked_sub(parse_offset(offset, '-')?)?
    } else if let Some((_, number)) = SIGNALS.iter().find(|(known, _)| *known == name) {
        *number
    } else {
        parse_number(name)?
    };
    (1..=SIGRTMAX).contains(&number).then_some(number)
}

/// S-121: as the API takes it: the whole name, in upper case, and never a number.
pub fn is_name(text: &str) -> bool {
    let is_upper = text.bytes().all(|b| !b.is_ascii_lowercase());
    let names_one = |name: &str| name.starts_with(|c: char| c.is_ascii_uppercase());
    is_upper && text.strip_prefix("SIG").is_some_and(names_one) && parse(text).is_some()
}

/// `""` is 0, `"+3"` is 3.
fn parse_offset(text: &str, sign: char) -> Option<i32> {
    if text.is_empty() {
        return Some(0);
    }
    parse_number(text.strip_prefix(sign)?)
}

/// Digits only.
fn parse_number(text: &str) -> Option<i32> {
    let number: u8 = text.parse().ok()?;
    text.starts_with(|c: char| c.is_ascii_digit())
        .then_some(i32::from(number))
}

/// Signal numbers of the architectures we run on (x86, ARM, RISC-V share them).
const SIGNALS: [(&str, i32); 33] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("IOT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", SIGTERM),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("POLL", 29),
    ("PWR", 30),
    ("SYS", 31),
];

#[cfg(test)]
mod tests;
