//! What a pod says about itself, as files (C-11…C-13).

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::env::{metadata_field, unsupported};
use crate::pod::StaticPod;

/// C-11…C-13, C-17.
pub(super) fn field(pod: &StaticPod, path: &str) -> Result<String, String> {
    let metadata = &pod.pod.metadata;
    match path {
        "metadata.labels" => Ok(lines(metadata.labels.as_ref())),
        "metadata.annotations" => Ok(lines(metadata.annotations.as_ref())),
        _ => metadata_field(pod, path).ok_or_else(|| unsupported(path)),
    }
}

/// C-13: sorted, without a last newline.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<String> = map
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", quoted(value)))
        .collect();
    lines.join("\n")
}

/// As Go's `%q` has it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        let escape = match c {
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{b}' => "\\v",
            '\\' => "\\\\",
            '"' => "\\\"",
            c if is_printable(c) => {
                out.push(c);
                continue;
            }
            c => {
                let code = u32::from(c);
                // Writing to a string cannot fail.
                let _ = match code {
                    0..=0x1f | 0x7f => write!(out, "\\x{code:02x}"),
                    0x20..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
                continue;
            }
        };
        out.push_str(escape);
    }
    out.push('"');
    out
}

/// The standard library knows, but escapes combining characters too where they begin a text.
fn is_printable(c: char) -> bool {
    matches!(c, '\'' | '"') || format!("x{c}").escape_debug().count() == 2
}
