//! Kubernetes quantities: `100m`, `1.5Gi`, `1e3`.

/// Billionths of a whole one: the finest unit that Kubernetes knows.
pub const NANOS: i128 = 1_000_000_000;

/// What amounts are counted in, rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Whole ones, such as bytes.
    One,
    /// Thousandths, of a CPU most often.
    Milli,
}

impl Unit {
    /// How many make up so many billionths; none for less than nothing, and for more than can be counted.
    pub fn count(self, nanos: i128) -> Option<u64> {
        let size = match self {
            Self::One => NANOS,
            Self::Milli => NANOS / 1000,
        };
        let nanos = u128::try_from(nanos).ok()?;
        u64::try_from(nanos.div_ceil(size.unsigned_abs())).ok()
    }
}

/// The value in billionths, rounded up; none when the text is no quantity or far out of range.
pub fn nanos(text: &str) -> Option<i128> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (factor, power) = unit(suffix)?;
    let power = power.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let scaled = digits.checked_mul(factor)?.checked_mul(NANOS)?;
    let ten = 10_i128.checked_pow(power.unsigned_abs())?;
    let value = if power >= 0 {
        scaled.checked_mul(ten)?
    } else {
        scaled.checked_add(ten - 1)? / ten
    };
    Some(if text.starts_with('-') { -value } else { value })
}

/// Factor and power of ten.
fn unit(suffix: &str) -> Option<(i128, i32)> {
    let binary = |shift: u32| Some((1_i128 << shift, 0));
    match suffix {
        "n" => Some((1, -9)),
        "u" => Some((1, -6)),
        "m" => Some((1, -3)),
        "" => Some((1, 0)),
        "k" => Some((1, 3)),
        "M" => Some((1, 6)),
        "G" => Some((1, 9)),
        "T" => Some((1, 12)),
        "P" => Some((1, 15)),
        "E" => Some((1, 18)),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let power = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some((1, power))
        }
    }
}

/// An amount as a Quantity of powers of two: `100Mi`, `1536`.
pub fn text(amount: u64) -> String {
    let units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (mut amount, mut unit) = (amount, 0);
    while amount > 0 && amount.is_multiple_of(1024) && unit + 1 < units.len() {
        amount /= 1024;
        unit += 1;
    }
    format!("{amount}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::{NANOS, nanos};

    #[test]
    fn reads_quantities() {
        for (text, value) in [
            ("0", Some(0)),
            ("1", Some(NANOS)),
            ("100m", Some(NANOS / 10)),
            ("0.5", Some(NANOS / 2)),
            (".5", Some(NANOS / 2)),
            ("5.", Some(5 * NANOS)),
            ("1.5Gi", Some((3 << 29) * NANOS)),
            ("1e3", Some(1000 * NANOS)),
            ("1E-3", Some(NANOS / 1000)),
            ("2E", Some(2 * NANOS * 1_000_000_000_000_000_000)),
            ("8Ei", Some((8 << 60) * NANOS)),
            ("-1", Some(-NANOS)),
            ("0.0000000001", Some(1)),
            ("", None),
            (".", None),
            ("1..2", None),
            ("1K", None),
            ("1 Gi", None),
            ("m", None),
            ("1e", None),
            ("1e999999999", None),
            ("1e-999999999", None),
            ("99999999999999999999999999999999999999999", None),
            ("--1", None),
            ("Infinity", None),
        ] {
            assert_eq!(nanos(text), value, "{text:?}");
        }
    }

    #[test]
    fn amounts_are_written_as_quantities() {
        for (amount, text) in [
            (0, "0"),
            (1023, "1023"),
            (1536, "1536"),
            (100 << 20, "100Mi"),
            (3 << 39, "1536Gi"),
        ] {
            assert_eq!(super::text(amount), text);
        }
    }
}
