//! Who a pod is (S-64…S-77): name with the node's suffix, annotations, and a UID that only a change of content changes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Toleration};

use super::scalar::{Plain, resolve};
use super::yaml::{Node, Value};

/// S-75.
pub const CONFIG_HASH: &str = "kubernetes.io/config.hash";
/// S-76.
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";

const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// S-67: 128-bit FNV-1a over the canonical document and the node's name, as 32 hex digits. Not over our own structs or
/// defaults, so that a new version of vetch restarts nothing; not over the path, so that `mv` restarts nothing (D-3).
pub(super) fn document_hash(document: &Node, node_name: &str) -> String {
    let text = format!("{}host:{node_name}", canonical(document));
    let hash = text.bytes().fold(FNV_OFFSET, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME)
    });
    format!("{hash:032x}")
}

/// JSON with sorted keys and every scalar as text, so that quoting, order, comments and YAML or JSON make no difference.
/// `apiVersion` and `kind` are left out: they say the same in every pod, and items of a PodList need not have them.
fn canonical(document: &Node) -> String {
    let mut out = String::new();
    match &document.value {
        Value::Mapping(entries) => {
            let fields = entries
                .iter()
                .filter(|e| !matches!(e.key.as_str(), "apiVersion" | "kind"));
            write_mapping(
                fields.map(|e| (e.key.as_str(), &e.node)).collect(),
                &mut out,
            );
        }
        Value::Scalar(_) | Value::Sequence(_) => write(document, &mut out),
    }
    out
}

fn write(node: &Node, out: &mut String) {
    match &node.value {
        Value::Scalar(scalar) if scalar.plain => match resolve(&scalar.text) {
            Plain::Null => out.push_str("null"),
            Plain::Bool(value) => write_text(&value.to_string(), out),
            Plain::Int(value) => write_text(&value.to_string(), out),
            Plain::Float(value) => write_text(&value.to_string(), out),
            Plain::Text => write_text(&scalar.text, out),
        },
        Value::Scalar(scalar) => write_text(&scalar.text, out),
        Value::Sequence(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Mapping(entries) => write_mapping(
            entries.iter().map(|e| (e.key.as_str(), &e.node)).collect(),
            out,
        ),
    }
}

fn write_mapping(fields: BTreeMap<&str, &Node>, out: &mut String) {
    out.push('{');
    for (index, (key, node)) in fields.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_text(key, out);
        out.push(':');
        write(node, out);
    }
    out.push('}');
}

/// Only what JSON must escape is escaped; written out here because it must never change.
fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// S-69…S-73, S-75, S-76. `config.seen` (S-77) is not set: nothing here depends on it.
pub(super) fn complete(pod: &mut Pod, uid: &str, node_name: &str) {
    let metadata = &mut pod.metadata;
    metadata.name = metadata
        .name
        .take()
        .map(|name| format!("{name}-{node_name}"));
    if metadata.namespace.as_deref().unwrap_or_default().is_empty() {
        metadata.namespace = Some("default".to_owned());
    }
    metadata.uid = Some(uid.to_owned());
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(CONFIG_HASH.to_owned(), uid.to_owned());
    annotations.insert(CONFIG_SOURCE.to_owned(), "file".to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(node_name.to_owned());
    let tolerations = spec.tolerations.get_or_insert_default();
    // S-71: the same key and effect is replaced, not doubled.
    tolerations.retain(|t| t.key.is_some() || t.effect.as_deref() != Some("NoExecute"));
    tolerations.push(Toleration {
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        ..Toleration::default()
    });
    pod.status = None;
}

#[cfg(test)]
mod tests;
