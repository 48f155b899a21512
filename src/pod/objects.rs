//! ConfigMap and Secret documents beside the pods (design decision 7). A value of a Secret is never shown: it is in no
//! `Debug`, no error, no log.

pub(super) mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

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
    /// As in documents.
    pub fn written(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }

    /// As in messages of kubelet: `configmap`, `secret`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// A ConfigMap or a Secret that parsed and passed validation.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalObject {
    /// Its name.
    pub key: ObjectKey,
    /// `type` of a Secret; empty for a ConfigMap.
    pub type_: String,
    /// `data` and `binaryData`, or `data` (decoded) and `stringData`.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub data: BTreeMap<String, Vec<u8>>,
    /// Those of its keys that are of `binaryData`: for files, never for variables.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub binary: BTreeSet<String>,
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

fn to_base64<S: Serializer>(
    data: &BTreeMap<String, Vec<u8>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        data.iter()
            .map(|(key, value)| (key, STANDARD.encode(value))),
    )
}

fn from_base64<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Vec<u8>>, D::Error> {
    let texts = BTreeMap::<String, String>::deserialize(deserializer)?;
    let decoded = texts.into_iter().map(|(key, text)| {
        // The error would quote what may be secret.
        let value = STANDARD.decode(text);
        let value = value.map_err(|_| de::Error::custom("a value that is not base64"))?;
        Ok((key, value))
    });
    decoded.collect()
}

/// All documents that are known, and where they were looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objects {
    /// By name.
    pub by_key: BTreeMap<ObjectKey, LocalObject>,
    /// The manifest directory or file, for messages about what is missing.
    pub looked_in: String,
}

/// What a pod refers to and nobody has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The document.
    #[error("{} {:?} not found in namespace {:?}: no document of that name in {looked_in}", .key.kind, .key.name, .key.namespace)]
    Object {
        /// Which one.
        key: ObjectKey,
        /// Where it was looked for.
        looked_in: String,
    },
    /// One of its keys.
    #[error("{} {:?} in namespace {:?} has no key {key:?} ({}:{})", .object.kind, .object.name, .object.namespace, .origin.file, .origin.line)]
    Key {
        /// The document that is there.
        object: ObjectKey,
        /// What it lacks.
        key: String,
        /// Where the document is.
        origin: Origin,
    },
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

    /// One of them, or what to say when it is missing.
    pub fn find(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
    ) -> Result<&LocalObject, Missing> {
        let missing = || Missing::Object {
            key: ObjectKey {
                kind,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
            looked_in: self.looked_in.clone(),
        };
        self.get(kind, namespace, name).ok_or_else(missing)
    }
}

impl LocalObject {
    /// The value of a key, or what to say when there is none.
    pub fn value(&self, key: &str) -> Result<&[u8], Missing> {
        let missing = || Missing::Key {
            object: self.key.clone(),
            key: key.to_owned(),
            origin: self.origin.clone(),
        };
        self.data.get(key).map(Vec::as_slice).ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests;
