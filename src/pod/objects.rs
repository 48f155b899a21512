//! ConfigMap and Secret documents beside the pods (design decision 7). A value of a Secret is never shown: it is in no
//! `Debug`, no error, no log.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Origin;

/// Which kind of document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ObjectKind {
    /// `kind: ConfigMap`.
    ConfigMap,
    /// `kind: Secret`.
    Secret,
}

impl ObjectKind {
    /// As in messages of kubelet: `configmap`, `secret`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}

/// What a document is known by. Pods find those of their own namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// Kind.
    pub kind: ObjectKind,
    /// `metadata.namespace`; `default` if not given.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

/// A ConfigMap or a Secret that parsed and passed validation.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalObject {
    /// Its name.
    pub key: ObjectKey,
    /// `type` of a Secret; empty for a ConfigMap.
    pub type_: String,
    /// `data` and `binaryData`, or `data` (decoded) and `stringData`.
    pub data: BTreeMap<String, Vec<u8>>,
    /// Where it came from.
    pub origin: Origin,
}

impl fmt::Debug for LocalObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalObject")
            .field("key", &self.key)
            .field("keys", &self.data.keys().collect::<Vec<_>>())
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// All documents that are known, and where they were looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objects {
    /// By name.
    pub by_key: BTreeMap<ObjectKey, LocalObject>,
    /// The manifest directory or file, for messages about what is missing.
    pub looked_in: String,
}

impl Objects {
    /// One of them.
    pub fn get(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<&LocalObject> {
        self.by_key.get(&ObjectKey {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}
