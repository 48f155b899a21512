//! Which ConfigMaps and Secrets a pod refers to, and where.

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVarSource, KeyToPath, Pod, Volume, VolumeProjection,
};

use super::objects::{LocalObject, Missing, ObjectKind, Objects};

/// A place in a pod that names a ConfigMap or a Secret of its namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference<'a> {
    /// Which kind.
    pub kind: ObjectKind,
    /// `metadata.name` of the document.
    pub name: &'a str,
    /// Only this key of it.
    pub key: Option<&'a str>,
    /// The pod can do without.
    pub optional: bool,
    /// Field path, such as `spec.containers[0].envFrom[0].configMapRef`.
    pub field: String,
}

/// A ConfigMap or a Secret, as a field of a pod names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named<'a> {
    /// Which kind.
    pub kind: ObjectKind,
    /// `metadata.name` of the document.
    pub name: &'a str,
    /// The pod can do without.
    pub optional: bool,
    /// The field's own name: `configMapRef`.
    pub field: &'static str,
}

impl<'a> Named<'a> {
    fn config_map(field: &'static str, name: &'a str, optional: Option<bool>) -> Self {
        Self {
            kind: ObjectKind::ConfigMap,
            name,
            optional: optional == Some(true),
            field,
        }
    }

    fn secret(field: &'static str, name: &'a str, optional: Option<bool>) -> Self {
        Self {
            kind: ObjectKind::Secret,
            ..Self::config_map(field, name, optional)
        }
    }

    /// The document; none if it is missing and the pod can do without.
    pub fn find<'o>(
        &self,
        objects: &'o Objects,
        namespace: &str,
    ) -> Result<Option<&'o LocalObject>, Missing> {
        match objects.find(self.kind, namespace, self.name) {
            Err(_) if self.optional => Ok(None),
            found => found.map(Some),
        }
    }
}

/// What has all its keys become variables.
pub fn of_env_from(source: &EnvFromSource) -> Option<Named<'_>> {
    let map = source.config_map_ref.as_ref();
    let map = map.map(|r| Named::config_map("configMapRef", &r.name, r.optional));
    let secret = source.secret_ref.as_ref();
    let secret = secret.map(|r| Named::secret("secretRef", &r.name, r.optional));
    map.or(secret)
}

/// What has one key become a variable, and which.
pub fn of_value(source: &EnvVarSource) -> Option<(Named<'_>, &str)> {
    let map = source.config_map_key_ref.as_ref();
    let map = map.map(|r| {
        let object = Named::config_map("configMapKeyRef", &r.name, r.optional);
        (object, r.key.as_str())
    });
    let secret = source.secret_key_ref.as_ref();
    let secret = secret.map(|r| {
        let object = Named::secret("secretKeyRef", &r.name, r.optional);
        (object, r.key.as_str())
    });
    map.or(secret)
}

/// What has keys become files.
#[derive(Debug, Clone, Copy)]
pub struct Files<'a> {
    /// The document.
    pub object: Named<'a>,
    /// Only these; all if there are none.
    pub items: &'a [KeyToPath],
}

impl<'a> Files<'a> {
    fn new(object: Named<'a>, items: Option<&'a Vec<KeyToPath>>) -> Self {
        Self {
            object,
            items: items.map(Vec::as_slice).unwrap_or_default(),
        }
    }
}

/// What is in a volume, without those of `projected`.
pub fn of_volume(volume: &Volume) -> impl Iterator<Item = Files<'_>> {
    let map = volume.config_map.as_ref().map(|map| {
        let object = Named::config_map("configMap", &map.name, map.optional);
        Files::new(object, map.items.as_ref())
    });
    let secret = volume.secret.as_ref().map(|secret| {
        let name = secret.secret_name.as_deref().unwrap_or_default();
        let object = Named::secret("secret", name, secret.optional);
        Files::new(object, secret.items.as_ref())
    });
    map.into_iter().chain(secret)
}

/// What is in one source of a projected volume.
pub fn of_projection(source: &VolumeProjection) -> impl Iterator<Item = Files<'_>> {
    let map = source.config_map.as_ref().map(|map| {
        let object = Named::config_map("configMap", &map.name, map.optional);
        Files::new(object, map.items.as_ref())
    });
    let secret = source.secret.as_ref().map(|secret| {
        let object = Named::secret("secret", &secret.name, secret.optional);
        Files::new(object, secret.items.as_ref())
    });
    map.into_iter().chain(secret)
}

/// All references of a pod, in the order of its fields.
pub fn references(pod: &Pod) -> Vec<Reference<'_>> {
    let mut found = Found::default();
    let Some(spec) = &pod.spec else {
        return found.0;
    };
    for (index, secret) in spec.image_pull_secrets.iter().flatten().enumerate() {
        let object = Named::secret("imagePullSecrets", &secret.name, None);
        found.add(object, None, format!("spec.{}[{index}]", object.field));
    }
    let init = spec.init_containers.as_deref().unwrap_or_default();
    for (list, containers) in [("initContainers", init), ("containers", &spec.containers)] {
        for (index, container) in containers.iter().enumerate() {
            found.container(container, &format!("spec.{list}[{index}]"));
        }
    }
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        found.volume(volume, &format!("spec.volumes[{index}]"));
    }
    found.0
}

#[derive(Default)]
struct Found<'a>(Vec<Reference<'a>>);

impl<'a> Found<'a> {
    fn add(&mut self, object: Named<'a>, key: Option<&'a str>, field: String) {
        self.0.push(Reference {
            kind: object.kind,
            name: object.name,
            key,
            optional: object.optional,
            field,
        });
    }

    fn container(&mut self, container: &'a Container, path: &str) {
        for (index, source) in container.env_from.iter().flatten().enumerate() {
            if let Some(object) = of_env_from(source) {
                let field = format!("{path}.envFrom[{index}].{}", object.field);
                self.add(object, None, field);
            }
        }
        for (index, variable) in container.env.iter().flatten().enumerate() {
            if let Some((object, key)) = variable.value_from.as_ref().and_then(of_value) {
                let field = format!("{path}.env[{index}].valueFrom.{}", object.field);
                self.add(object, Some(key), field);
            }
        }
    }

    fn volume(&mut self, volume: &'a Volume, path: &str) {
        for files in of_volume(volume) {
            self.files(files, path);
        }
        let projected = volume.projected.as_ref();
        let sources = projected.and_then(|p| p.sources.as_deref());
        for (index, source) in sources.unwrap_or_default().iter().enumerate() {
            for files in of_projection(source) {
                self.files(files, &format!("{path}.projected.sources[{index}]"));
            }
        }
    }

    /// The object, and those of its keys that are wanted.
    fn files(&mut self, Files { object, items }: Files<'a>, path: &str) {
        let path = format!("{path}.{}", object.field);
        self.add(object, None, path.clone());
        for (index, item) in items.iter().enumerate() {
            self.add(object, Some(&item.key), format!("{path}.items[{index}]"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::references;

    /// S-141, S-142, S-145: every place.
    #[test]
    fn every_reference_is_found() {
        let container = json!({"name": "c",
        "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b", "optional": true}}],
        "env": [
            {"name": "X", "value": "x"},
            {"name": "Y", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            {"name": "Z", "valueFrom": {"secretKeyRef": {"name": "d", "key": "k", "optional": false}}},
        ]});
        let pod = serde_json::from_value(json!({"spec": {
        "imagePullSecrets": [{"name": "pull"}],
        "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "i"}}]}],
        "containers": [container],
        "volumes": [
            {"name": "v", "configMap": {"name": "e", "items": [{"key": "k", "path": "p"}]}},
            {"name": "w", "secret": {"secretName": "f", "optional": true}},
            {"name": "x", "projected": {"sources": [
                {"configMap": {"name": "g"}}, {"downwardAPI": {}}, {"secret": {"name": "h"}}]}},
            {"name": "y", "emptyDir": {}},
        ]}}))
        .unwrap();
        let found: Vec<String> = references(&pod)
            .iter()
            .map(|r| {
                let key = r.key.map(|key| format!("[{key}]")).unwrap_or_default();
                let optional = if r.optional { "?" } else { "" };
                format!("{} {}{key}{optional} {}", r.kind, r.name, r.field)
            })
            .collect();
        assert_eq!(
            found,
            [
                "secret pull spec.imagePullSecrets[0]",
                "configmap i spec.initContainers[0].envFrom[0].configMapRef",
                "configmap a spec.containers[0].envFrom[0].configMapRef",
                "secret b? spec.containers[0].envFrom[1].secretRef",
                "configmap c[k] spec.containers[0].env[1].valueFrom.configMapKeyRef",
                "secret d[k] spec.containers[0].env[2].valueFrom.secretKeyRef",
                "configmap e spec.volumes[0].configMap",
                "configmap e[k] spec.volumes[0].configMap.items[0]",
                "secret f? spec.volumes[1].secret",
                "configmap g spec.volumes[2].projected.sources[0].configMap",
                "secret h spec.volumes[2].projected.sources[2].secret",
            ]
        );
    }
}
