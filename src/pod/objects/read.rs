//! ConfigMap and Secret documents, straight from their trees: the types of Kubernetes would each be another deserializer.
//! Validation is the API server's. No message quotes a value, of either kind: where a Secret was meant, the kind may be
//! the mistake.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::alphabet;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::IgnoredAny;

use super::{LocalObject, ObjectKey, ObjectKind};
use crate::pod::report::Scope;
use crate::pod::scalar::{self, Plain, resolve};
use crate::pod::validate::{LABEL, SUBDOMAIN};
use crate::pod::yaml::{Entry, Node, Value};
use crate::pod::{Origin, decode, names, suggest};

/// As the API server: bytes of all values.
const MAX_BYTES: usize = 1 << 20;
/// Of a key.
const MAX_KEY: usize = 253;

/// Padding is needed, bits that have no meaning do not matter: as Go reads it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// What a section of a document may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Base64,
}

/// The sections of a kind; of a key in two of a Secret's, the later one counts.
fn sections(kind: ObjectKind) -> [(&'static str, Form); 2] {
    match kind {
        ObjectKind::ConfigMap => [("data", Form::Text), ("binaryData", Form::Base64)],
        ObjectKind::Secret => [("data", Form::Base64), ("stringData", Form::Text)],
    }
}

fn fields(kind: ObjectKind) -> &'static [&'static str] {
    match kind {
        ObjectKind::ConfigMap => &[
            "apiVersion",
            "kind",
            "metadata",
            "data",
            "binaryData",
            "immutable",
        ],
        ObjectKind::Secret => &[
            "apiVersion",
            "kind",
            "metadata",
            "data",
            "stringData",
            "type",
            "immutable",
        ],
    }
}

/// Reads one document. Problems are reported; none when it has no usable name.
pub(in crate::pod) fn object(
    kind: ObjectKind,
    file: &str,
    scope: Scope<'_>,
) -> Option<LocalObject> {
    unknown_fields(kind, scope);
    immutable(scope);
    let (namespace, name) = names_of(scope)?;
    let type_ = match kind {
        ObjectKind::ConfigMap => String::new(),
        ObjectKind::Secret => type_of(scope),
    };
    let mut object = LocalObject {
        key: ObjectKey {
            kind,
            namespace,
            name,
        },
        type_,
        data: BTreeMap::new(),
        binary: BTreeSet::new(),
        origin: Origin {
            file: file.to_owned(),
            line: scope.node.line,
        },
    };
    for section in sections(kind) {
        self::section(section, &mut object, scope);
    }
    let bytes: usize = object.data.values().map(Vec::len).sum();
    if bytes > MAX_BYTES {
        let message = format!("{bytes} bytes in all; 1 MiB ({MAX_BYTES} bytes) is possible");
        scope.error("data", &message);
    }
    required_keys(&object, scope);
    Some(object)
}

fn unknown_fields(kind: ObjectKind, scope: Scope<'_>) {
    let known = fields(kind);
    for entry in entries(scope.node) {
        if known.contains(&entry.key.as_str()) {
            continue;
        }
        let message = match suggest::nearest(&entry.key, known) {
            Some(field) => format!("unknown field, did you mean {field}?"),
            None => "unknown field".to_owned(),
        };
        let field = format!("{}{}", scope.prefix, entry.key);
        scope.report.warn(entry.line, &field, &message);
    }
}

/// It keeps others from changing an object of a server; here the file is the truth.
fn immutable(scope: Scope<'_>) {
    let Some(entry) = scope.node.get("immutable") else {
        return;
    };
    let is_boolean = entry.node.text().and_then(scalar::boolean).is_some();
    if !is_boolean && !entry.node.is_null() {
        scope.error("immutable", "must be true or false");
    }
}

/// Namespace and name.
fn names_of(scope: Scope<'_>) -> Option<(String, String)> {
    let Some(metadata) = scope.node.get("metadata") else {
        scope.error("metadata.name", "missing");
        return None;
    };
    let metadata = decode::decode::<ObjectMeta>(Scope {
        node: &metadata.node,
        prefix: &format!("{}metadata.", scope.prefix),
        ..scope
    })?;
    let name = metadata.name.unwrap_or_default();
    let namespace = metadata.namespace.filter(|namespace| !namespace.is_empty());
    let namespace = namespace.unwrap_or_else(|| "default".to_owned());
    if name.is_empty() {
        scope.error("metadata.name", "missing");
    } else if !names::is_dns_subdomain(&name) {
        scope.error("metadata.name", SUBDOMAIN);
    }
    if !names::is_dns_label(&namespace) {
        scope.error("metadata.namespace", LABEL);
    }
    Some((namespace, name))
}

/// As the API server has it: not said is `Opaque`.
fn type_of(scope: Scope<'_>) -> String {
    let Some(entry) = scope.node.get("type").filter(|e| !e.node.is_null()) else {
        return "Opaque".to_owned();
    };
    match entry.node.text() {
        Some(text) if is_text(&entry.node) && !text.is_empty() => text.to_owned(),
        Some(_) | None => {
            scope.error("type", "must be text, such as Opaque");
            String::new()
        }
    }
}

/// Adds one section's keys.
fn section((field, form): (&str, Form), object: &mut LocalObject, scope: Scope<'_>) {
    let Some(section) = scope.node.get(field) else {
        return;
    };
    if !matches!(section.node.value, Value::Mapping(_)) {
        if !section.node.is_null() {
            scope.error(field, "must be a mapping of keys to values");
        }
        return;
    }
    for entry in entries(&section.node) {
        let at = Place {
            field,
            entry,
            scope,
        };
        if let Some(problem) = key_problem(&entry.key) {
            at.error(problem);
        }
        let is_config_map = object.key.kind == ObjectKind::ConfigMap;
        if is_config_map && object.data.contains_key(&entry.key) {
            at.error("the key is in data, too");
        }
        let Some(value) = value(form, &entry.node, &at) else {
            continue;
        };
        if is_config_map && form == Form::Base64 {
            object.binary.insert(entry.key.clone());
        }
        object.data.insert(entry.key.clone(), value);
    }
}

/// One key of a section, for messages.
struct Place<'a> {
    field: &'a str,
    entry: &'a Entry,
    scope: Scope<'a>,
}

impl Place<'_> {
    fn error(&self, message: &str) {
        let Self {
            field,
            entry,
            scope,
        } = self;
        let path = format!("{}{field}[{}]", scope.prefix, entry.key);
        scope.report.error(entry.line, &path, message);
    }
}

/// Why a text cannot be a key.
pub(in crate::pod) fn key_problem(key: &str) -> Option<&'static str> {
    let is_good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if key.is_empty() || key.len() > MAX_KEY || !key.bytes().all(is_good) {
        Some("a key must be 1 to 253 letters, digits, '-', '_' and '.'")
    } else if key == "." || key.starts_with("..") {
        Some("a key must not be \".\" or begin with \"..\"")
    } else {
        None
    }
}

/// Nothing (`key:`) is empty.
fn value(form: Form, node: &Node, at: &Place<'_>) -> Option<Vec<u8>> {
    if node.is_null() {
        return Some(Vec::new());
    }
    let Some(text) = node.text().filter(|_| is_text(node)) else {
        at.error("must be text; a number, true or false needs quotes");
        return None;
    };
    match form {
        Form::Text => Some(text.as_bytes().to_vec()),
        Form::Base64 => {
            // Lines may be broken anywhere.
            let bytes: Vec<u8> = text
                .bytes()
                .filter(|b| !matches!(b, b'\r' | b'\n'))
                .collect();
            let value = BASE64.decode(bytes).ok();
            if value.is_none() {
                at.error(match at.field {
                    "binaryData" => "must be base64; plain text belongs in data",
                    _ => "must be base64; plain text belongs in stringData",
                });
            }
            value
        }
    }
}

/// A plain `8080` or `true` is none.
fn is_text(node: &Node) -> bool {
    match &node.value {
        Value::Scalar(scalar) => !scalar.plain || resolve(&scalar.text) == Plain::Text,
        Value::Sequence(_) | Value::Mapping(_) => false,
    }
}

/// What the API server wants of the types that it knows.
fn required_keys(object: &LocalObject, scope: Scope<'_>) {
    let has = |key: &str| object.data.contains_key(key);
    let is_json = |key: &str| {
        let value = object.data.get(key);
        value.is_none_or(|value| serde_json::from_slice::<IgnoredAny>(value).is_ok())
    };
    let need = |key: &str| {
        if !has(key) {
            let message = format!("a Secret of type {} needs the key {key}", object.type_);
            scope.error("data", &message);
        } else if key.starts_with(".docker") && !is_json(key) {
            let message = format!("the value of {key} must be JSON");
            scope.error("data", &message);
        }
    };
    match object.type_.as_str() {
        "kubernetes.io/tls" => ["tls.crt", "tls.key"].into_iter().for_each(need),
        "kubernetes.io/dockerconfigjson" => need(".dockerconfigjson"),
        "kubernetes.io/dockercfg" => need(".dockercfg"),
        "kubernetes.io/ssh-auth" => need("ssh-privatekey"),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            let message = format!(
                "a Secret of type {} needs the key username or password",
                object.type_
            );
            scope.error("data", &message);
        }
        _ => {}
    }
}

fn entries(node: &Node) -> &[Entry] {
    match &node.value {
        Value::Mapping(entries) => entries,
        Value::Scalar(_) | Value::Sequence(_) => &[],
    }
}
