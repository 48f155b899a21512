//! Pods as users write them: parsing, defaults, validation and identity. Pure: text in, pods and diagnostics out.

use std::fmt;

pub mod backoff;
pub mod capability;
pub mod cdi;
mod decode;
mod defaults;
mod document;
pub mod duration;
pub mod env;
pub mod hook;
pub mod identity;
pub mod image_ref;
pub mod lifecycle;
pub mod manifest;
pub(crate) mod names;
pub mod objects;
pub mod ports;
pub mod probe;
pub mod quantity;
pub mod references;
mod report;
pub mod requests;
mod scalar;
pub mod signal;
pub mod stored;
mod suggest;
mod support;
pub mod sysctl;
mod validate;
pub(crate) mod yaml;

pub use document::Document;
use serde::{Deserialize, Serialize};

/// `spec.priority` of `system-cluster-critical`; who has as much or more is critical (N-7, N-26).
pub const CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// A pod's UID: 32 hex digits of the normalised document's hash (S-66, S-67), or the manifest's own `metadata.uid`
/// (S-68). Always safe as a file name: `[A-Za-z0-9._-]{1,64}`, not starting with a dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PodUid(String);

/// Why a text is no UID.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0:?} is not usable as a pod uid: 1 to 64 letters, digits, '-', '_' or '.', not starting with '.'"
)]
pub struct BadUid(String);

impl PodUid {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for PodUid {
    type Error = BadUid;
    fn try_from(text: String) -> Result<Self, BadUid> {
        let good = (1..=64).contains(&text.len())
            && !text.starts_with('.')
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        if good {
            Ok(Self(text))
        } else {
            Err(BadUid(text))
        }
    }
}

impl From<PodUid> for String {
    fn from(uid: PodUid) -> Self {
        uid.0
    }
}

impl fmt::Display for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pod that parsed, was given its defaults, passed validation and got its identity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StaticPod {
    /// Identity. A changed document without own uid has a new one.
    pub uid: PodUid,
    /// Defaulted and completed: name with node suffix (S-69), namespace, uid, config.hash and config.source annotations,
    /// nodeName, toleration. `status` is empty.
    pub pod: Document,
    /// Hash of the normalised document; differs from the uid only when the manifest sets its own uid.
    pub document_hash: String,
    /// Where it came from.
    pub origin: Origin,
    /// Warnings: unknown fields, fields we do not act on, … (D-10). Errors never reach here.
    pub diagnostics: Vec<Diagnostic>,
}

impl StaticPod {
    /// `metadata.name` with the node suffix.
    pub fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }
    /// `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or("default")
    }
    /// `<namespace>/<name>`: what may run only once at a time (S-157).
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace(), self.name())
    }
    /// `spec.priority`; none counts as 0 (N-27).
    pub fn priority(&self) -> i32 {
        let spec = self.pod.spec.as_ref();
        spec.and_then(|spec| spec.priority).unwrap_or(0)
    }
    /// P-180: it has no network namespace of its own.
    pub fn is_host_network(&self) -> bool {
        let spec = self.pod.spec.as_ref();
        spec.and_then(|spec| spec.host_network) == Some(true)
    }
    /// P-75: `terminationGracePeriodSeconds`, at least 1.
    pub fn grace_s(&self) -> u32 {
        let grace = self
            .pod
            .spec
            .as_ref()
            .and_then(|s| s.termination_grace_period_seconds)
            .unwrap_or(30);
        u32::try_from(grace.max(1)).unwrap_or(u32::MAX)
    }
}

/// The document that a pod came from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// Path of the file as it was found.
    pub file: String,
    /// Line of the document's first content, from 1.
    pub line: u32,
}

/// How bad a [`Diagnostic`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// The pod runs; something in the manifest has no effect or is doubtful.
    Warning,
    /// The file is refused as a whole.
    Error,
}

/// One remark about a manifest; `Display` gives `web.yaml:14: spec.containers[0].foo: unknown field, did you mean …?`
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// File as it was found.
    pub file: String,
    /// Line from 1, where known.
    pub line: Option<u32>,
    /// Field path such as `spec.containers[0].image`; empty when it concerns the document.
    pub field: String,
    /// What is wrong and what to do; lower case, no full stop.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// A manifest file, read whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParsedFile {
    /// Empty when there is any error: a file is good or bad as a whole.
    pub pods: Vec<StaticPod>,
    /// ConfigMaps and Secrets, under the same condition.
    pub objects: Vec<objects::LocalObject>,
    /// Errors and warnings, sorted by line. A pod's own warnings are also in [`StaticPod::diagnostics`].
    pub diagnostics: Vec<Diagnostic>,
}
