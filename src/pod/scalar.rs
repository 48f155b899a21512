//! What an unquoted YAML scalar means, by the rules of YAML 1.1 that Kubernetes reads by.

use super::yaml::{Node, Value};

/// A plain scalar, as `go-yaml` resolves it when no type is asked for; only `yes`, `no`, `on`, `off`, `y` and `n` are
/// left as text here, and become booleans where one is asked for ([`boolean`]).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Plain {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text,
}

impl Node {
    /// The number, if this is a whole one and not quoted.
    pub(crate) fn integer(&self) -> Option<i64> {
        match &self.value {
            Value::Scalar(scalar) if scalar.plain => match resolve(&scalar.text) {
                Plain::Int(number) => Some(number),
                Plain::Null | Plain::Bool(_) | Plain::Float(_) | Plain::Text => None,
            },
            Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => None,
        }
    }
}

/// Resolves a plain scalar.
pub(super) fn resolve(text: &str) -> Plain {
    if is_null(text) {
        return Plain::Null;
    }
    match text {
        "true" | "True" | "TRUE" => Plain::Bool(true),
        "false" | "False" | "FALSE" => Plain::Bool(false),
        _ if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) => {
            Plain::Text
        }
        _ => integer(text)
            .map(Plain::Int)
            .or_else(|| float(text).map(Plain::Float))
            .unwrap_or(Plain::Text),
    }
}

/// Empty, `~` or `null`.
pub(super) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// A boolean of YAML 1.1.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "y" | "Y" | "on" | "On" | "ON" => {
            Some(true)
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "n" | "N" | "off" | "Off" | "OFF" => {
            Some(false)
        }
        _ => None,
    }
}

/// Decimal, `0400` and `0o400`, `0x1f`, `0b101`, with `_` between digits.
fn integer(text: &str) -> Option<i64> {
    let text = text.replace('_', "");
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(&text)),
    };
    let prefixed = |prefixes: [&str; 2]| prefixes.iter().find_map(|p| digits.strip_prefix(p));
    let (digits, radix) = if let Some(hex) = prefixed(["0x", "0X"]) {
        (hex, 16)
    } else if let Some(octal) = prefixed(["0o", "0O"]) {
        (octal, 8)
    } else if let Some(binary) = prefixed(["0b", "0B"]) {
        (binary, 2)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (digits, 8)
    } else {
        (digits, 10)
    };
    if !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}

fn float(text: &str) -> Option<f64> {
    let unsigned = text.trim_start_matches(['+', '-']);
    match unsigned {
        ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN" => return Some(f64::NAN),
        _ => {}
    }
    let numeric = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-');
    let text = text.replace('_', "");
    (text.bytes().all(numeric) && text.bytes().any(|b| b.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

/// Go writes whole floats as integers when it turns YAML into JSON, so `1e3` is a good port.
#[expect(
    clippy::cast_possible_truncation,
    reason = "whole and below 2^53, so exact"
)]
pub(super) fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64)
}

#[cfg(test)]
mod tests {
    use super::{Plain, boolean, resolve};

    #[test]
    fn resolves_as_yaml_1_1_does() {
        for (text, plain) in [
            ("", Plain::Null),
            ("~", Plain::Null),
            ("true", Plain::Bool(true)),
            ("False", Plain::Bool(false)),
            ("yes", Plain::Text),
            ("8080", Plain::Int(8080)),
            ("-1", Plain::Int(-1)),
            ("+7", Plain::Int(7)),
            ("0400", Plain::Int(0o400)),
            ("0o400", Plain::Int(0o400)),
            ("0x1F", Plain::Int(31)),
            ("-0b11", Plain::Int(-3)),
            ("1_000", Plain::Int(1000)),
            ("0", Plain::Int(0)),
            ("08", Plain::Float(8.0)),
            ("1.10", Plain::Float(1.1)),
            ("1e3", Plain::Float(1000.0)),
            (".5", Plain::Float(0.5)),
            ("1.2.3", Plain::Text),
            ("-", Plain::Text),
            ("...", Plain::Text),
            ("1-2", Plain::Text),
            ("100m", Plain::Text),
            ("0x", Plain::Text),
            ("2001-01-01", Plain::Text),
            ("infinity", Plain::Text),
            ("--1", Plain::Text),
            ("1:30", Plain::Text),
        ] {
            assert_eq!(resolve(text), plain, "{text:?}");
        }
        assert!(matches!(resolve(".nan"), Plain::Float(f) if f.is_nan()));
    }

    #[test]
    fn knows_the_booleans_of_yaml_1_1() {
        for (text, value) in [
            ("yes", Some(true)),
            ("On", Some(true)),
            ("y", Some(true)),
            ("TRUE", Some(true)),
            ("n", Some(false)),
            ("off", Some(false)),
            ("yEs", None),
            ("1", None),
        ] {
            assert_eq!(boolean(text), value, "{text}");
        }
    }
}
