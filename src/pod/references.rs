//! Which ConfigMaps and Secrets a pod refers to, and where.

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVarSource, KeyToPath, Pod, Volume, VolumeProjection,
};

use super::objects::ObjectKind;

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

/// All references of a pod, in the order of its fields.
pub fn references(pod: &Pod) -> Vec<Reference<'_>> {
    let mut found = Found::default();
    let Some(spec) = &pod.spec else {
        return found.0;
    };
    for (index, secret) in spec.image_pull_secrets.iter().flatten().enumerate() {
        let field = format!("spec.imagePullSecrets[{index}]");
        found.add((ObjectKind::Secret, &secret.name), None, field);
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
    fn add(&mut self, (kind, name): (ObjectKind, &'a str), optional: Option<bool>, field: String) {
        self.0.push(Reference {
            kind,
            name,
            key: None,
            optional: optional == Some(true),
            field,
        });
    }

    fn container(&mut self, container: &'a Container, path: &str) {
        for (index, source) in container.env_from.iter().flatten().enumerate() {
            self.env_from(source, &format!("{path}.envFrom[{index}]"));
        }
        for (index, variable) in container.env.iter().flatten().enumerate() {
            if let Some(source) = &variable.value_from {
                self.value_from(source, &format!("{path}.env[{index}].valueFrom"));
            }
        }
    }

    fn env_from(&mut self, source: &'a EnvFromSource, path: &str) {
        if let Some(map) = &source.config_map_ref {
            let object = (ObjectKind::ConfigMap, map.name.as_str());
            self.add(object, map.optional, format!("{path}.configMapRef"));
        }
        if let Some(secret) = &source.secret_ref {
            let object = (ObjectKind::Secret, secret.name.as_str());
            self.add(object, secret.optional, format!("{path}.secretRef"));
        }
    }

    fn value_from(&mut self, source: &'a EnvVarSource, path: &str) {
        if let Some(map) = &source.config_map_key_ref {
            self.0.push(Reference {
                kind: ObjectKind::ConfigMap,
                name: &map.name,
                key: Some(&map.key),
                optional: map.optional == Some(true),
                field: format!("{path}.configMapKeyRef"),
            });
        }
        if let Some(secret) = &source.secret_key_ref {
            self.0.push(Reference {
                kind: ObjectKind::Secret,
                name: &secret.name,
                key: Some(&secret.key),
                optional: secret.optional == Some(true),
                field: format!("{path}.secretKeyRef"),
            });
        }
    }

    fn volume(&mut self, volume: &'a Volume, path: &str) {
        if let Some(map) = &volume.config_map {
            let object = (ObjectKind::ConfigMap, map.name.as_str());
            let field = format!("{path}.configMap");
            self.files(object, (map.optional, map.items.as_deref()), &field);
        }
        if let Some(secret) = &volume.secret {
            let name = secret.secret_name.as_deref().unwrap_or_default();
            let object = (ObjectKind::Secret, name);
            let field = format!("{path}.secret");
            self.files(object, (secret.optional, secret.items.as_deref()), &field);
        }
        let projected = volume.projected.as_ref();
        let sources = projected.and_then(|p| p.sources.as_deref());
        for (index, source) in sources.unwrap_or_default().iter().enumerate() {
            self.projection(source, &format!("{path}.projected.sources[{index}]"));
        }
    }

    fn projection(&mut self, source: &'a VolumeProjection, path: &str) {
        if let Some(map) = &source.config_map {
            let object = (ObjectKind::ConfigMap, map.name.as_str());
            let field = format!("{path}.configMap");
            self.files(object, (map.optional, map.items.as_deref()), &field);
        }
        if let Some(secret) = &source.secret {
            let object = (ObjectKind::Secret, secret.name.as_str());
            let field = format!("{path}.secret");
            self.files(object, (secret.optional, secret.items.as_deref()), &field);
        }
    }

    /// The object, or those of its keys that are wanted.
    fn files(
        &mut self,
        object: (ObjectKind, &'a str),
        (optional, items): (Option<bool>, Option<&'a [KeyToPath]>),
        path: &str,
    ) {
        self.add(object, optional, path.to_owned());
        for (index, item) in items.unwrap_or_default().iter().enumerate() {
            self.0.push(Reference {
                kind: object.0,
                name: object.1,
                key: Some(&item.key),
                optional: optional == Some(true),
                field: format!("{path}.items[{index}]"),
            });
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
