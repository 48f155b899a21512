//! What a pod says about itself, as files (C-11…C-13).

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::pod::StaticPod;

/// C-11…C-13, C-17.
pub(super) fn field(pod: &StaticPod, path: &str) -> Result<String, String> {
    let metadata = &pod.pod.metadata;
    let labels = metadata.labels.as_ref();
    let annotations = metadata.annotations.as_ref();
    let one = |map: Option<&BTreeMap<String, String>>, key: &str| {
        let value = map.and_then(|map| map.get(key));
        value.cloned().unwrap_or_default()
    };
    Ok(match path {
        "metadata.name" => pod.name().to_owned(),
        "metadata.namespace" => pod.namespace().to_owned(),
        "metadata.uid" => pod.uid.to_string(),
        "metadata.labels" => lines(labels),
        "metadata.annotations" => lines(annotations),
        _ => match path
            .strip_suffix("']")
            .and_then(|path| path.split_once("['"))
        {
            Some(("metadata.labels", key)) => one(labels, key),
            Some(("metadata.annotations", key)) => one(annotations, key),
            Some(_) | None => return Err(format!("fieldPath {path:?} is not supported")),
        },
    })
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
