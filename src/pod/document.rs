//! A pod's document, kept once for all who hold the pod: the types of Kubernetes take tens of kilobytes even for a small one.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::stored;

/// Clones share the pod until one of them is changed.
#[derive(Debug, Clone, Default)]
pub struct Document(Rc<Pod>);

impl From<Pod> for Document {
    fn from(pod: Pod) -> Self {
        Self(Rc::new(pod))
    }
}

impl Deref for Document {
    type Target = Pod;

    fn deref(&self) -> &Pod {
        &self.0
    }
}

/// What is changed is this clone's alone.
impl DerefMut for Document {
    fn deref_mut(&mut self) -> &mut Pod {
        Rc::make_mut(&mut self.0)
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        stored::pod(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_shares_the_pod_until_it_is_changed() {
        let document = Document::from(Pod::default());
        let mut other = document.clone();
        assert!(Rc::ptr_eq(&document.0, &other.0));
        other.metadata.name = Some("b".to_owned());
        assert_ne!(document, other);
        assert_eq!(document.metadata.name, None);
    }
}
