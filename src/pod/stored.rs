//! Pods, and parts of them, inside JSON of our own: records and answers of the agent. They are read by the deserializer of
//! manifests, since a second one for the types of Kubernetes would be 0.5 MB more binary:
//! `#[serde(deserialize_with = "stored::pod")]`. Unknown fields are those of a newer version and left out.

use std::fmt;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor,
};

use super::decode;
use super::report::{Report, Scope};
use super::yaml::{Entry, Node, Scalar, Value};

/// One pod.
pub fn pod<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pod, D::Error> {
    read(deserializer)
}

/// Limits and requests of a container.
pub fn resources<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<ResourceRequirements, D::Error> {
    read(deserializer)
}

fn read<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let node = Node::deserialize(deserializer)?;
    let report = Report::new("");
    let scope = Scope {
        report: &report,
        node: &node,
        prefix: "",
    };
    match decode::decode(scope) {
        Some(value) if !report.has_mistakes() => Ok(value),
        Some(_) | None => {
            let problem = report.finish().into_iter().next();
            let problem = problem.map_or_else(|| "of another type".to_owned(), |d| d.to_string());
            Err(D::Error::custom(problem))
        }
    }
}

/// Several.
pub fn pods<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Pod>, D::Error> {
    let pods = Vec::<Stored>::deserialize(deserializer)?;
    Ok(pods.into_iter().map(|Stored(pod)| pod).collect())
}

struct Stored(Pod);

impl<'de> Deserialize<'de> for Stored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        pod(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = deserializer.deserialize_any(Tree)?;
        Ok(Self { line: 0, value })
    }
}

/// Builds a [`Value`] of whatever comes.
struct Tree;

fn plain<T: ToString, E>(value: &T) -> Result<Value, E> {
    Ok(Value::Scalar(Scalar {
        text: value.to_string(),
        plain: true,
    }))
}

impl<'de> Visitor<'de> for Tree {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        plain(&"null")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        plain(&value)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        plain(&value)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        plain(&value)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        plain(&value)
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Scalar(Scalar {
            text: text.to_owned(),
            plain: false,
        }))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Sequence(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, node)) = map.next_entry()? {
            entries.push(Entry { key, line: 0, node });
        }
        Ok(Value::Mapping(entries))
    }
}

#[cfg(test)]
mod tests;
