//! The environment: what the pod asks for (C-1…C-20) over what the image and the runtime give (C-8).

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVarSource};

use super::{ConfigError, ContainerInput, resources};
use crate::pod::StaticPod;
use crate::pod::env::expand;
use crate::pod::objects::LocalObject;
use crate::pod::references::{of_env_from, of_value};

/// C-8, as containerd has it.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables in the order of their first appearance; the last value of a name wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(Vec<(String, String)>);

impl Variables {
    /// Sets or replaces.
    fn set(&mut self, name: &str, value: String) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<String> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// The pod's own part, which `$(NAME)` in command and args can see (C-4). C-1: `env` overrides `envFrom`, and later
/// sources override earlier ones.
pub fn pod_env(input: &ContainerInput<'_>) -> Result<Variables, ConfigError> {
    let mut variables = Variables::default();
    for source in input.container.env_from.iter().flatten() {
        add_all(input, source, &mut variables)?;
    }
    for entry in input.container.env.iter().flatten() {
        let value = match &entry.value_from {
            Some(source) => from_source(input, source).map_err(|problem| ConfigError::Env {
                name: entry.name.clone(),
                problem,
            })?,
            None => {
                let written = entry.value.as_deref().unwrap_or_default();
                Some(expand(written, |name| variables.get(name)))
            }
        };
        if let Some(value) = value {
            variables.set(&entry.name, value);
        }
    }
    Ok(variables)
}

/// Every key of an object. With a prefix that passed validation each is a good name (S-115), so none is skipped.
fn add_all(
    input: &ContainerInput<'_>,
    source: &EnvFromSource,
    variables: &mut Variables,
) -> Result<(), ConfigError> {
    let Some(wanted) = of_env_from(source) else {
        return Ok(());
    };
    let Some(object) = wanted.find(input.objects, input.pod.namespace())? else {
        return Ok(());
    };
    let prefix = source.prefix.as_deref().unwrap_or_default();
    for key in object
        .data
        .keys()
        .filter(|key| !object.binary.contains(*key))
    {
        let name = format!("{prefix}{key}");
        let value = object_value(object, key);
        let value = value.map_err(|problem| ConfigError::Env {
            name: name.clone(),
            problem,
        })?;
        variables.set(&name, value);
    }
    Ok(())
}

/// A value as a variable. Messages never quote it.
fn object_value(object: &LocalObject, key: &str) -> Result<String, String> {
    let bytes = object.value(key).map_err(|missing| missing.to_string())?;
    let refuse = |why: &str| {
        let (kind, name) = (object.key.kind, &object.key.name);
        format!("the value of key {key:?} of {kind} {name:?} {why}")
    };
    if object.binary.contains(key) {
        return Err(refuse("is binaryData, which only volumes can have"));
    }
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| refuse("is not UTF-8 text, which a variable must be"))?;
    if text.contains('\0') {
        return Err(refuse("has a NUL character, which no variable can have"));
    }
    Ok(text.to_owned())
}

/// C-8: the whole environment as `NAME=value`. HOME is never empty, or libcontainer would look it up in the image's
/// user database with the image's C library plug-ins.
pub fn process_env(
    input: &ContainerInput<'_>,
    own: &Variables,
    home: &str,
) -> Result<Vec<String>, ConfigError> {
    let mut all = Variables::default();
    all.set("PATH", DEFAULT_PATH.to_owned());
    if input.container.tty == Some(true) {
        all.set("TERM", "xterm".to_owned());
    }
    all.set(
        "HOSTNAME",
        crate::network::hostname(input.pod, &input.node.name)?,
    );
    let image = input.image.config().as_ref();
    let image = image.and_then(|config| config.env().as_ref());
    for entry in image.into_iter().flatten() {
        if let Some((name, value)) = entry.split_once('=').filter(|(name, _)| !name.is_empty()) {
            all.set(name, value.to_owned());
        }
    }
    for (name, value) in own.iter() {
        all.set(name, value.to_owned());
    }
    if all.get("HOME").is_none_or(|home| home.is_empty()) {
        all.set("HOME", home.to_owned());
    }
    let entries = all.iter().map(|(name, value)| format!("{name}={value}"));
    Ok(entries.collect())
}

/// `None` leaves the variable out.
fn from_source(
    input: &ContainerInput<'_>,
    source: &EnvVarSource,
) -> Result<Option<String>, String> {
    if let Some(field) = &source.field_ref {
        return field_value(input, &field.field_path).map(Some);
    }
    if let Some(selector) = &source.resource_field_ref {
        return resources::field_value(input.facts(), Some(input.container), selector);
    }
    let Some((wanted, key)) = of_value(source) else {
        return Err("its source is not supported".to_owned());
    };
    let namespace = input.pod.namespace();
    let found = input.objects.find(wanted.kind, namespace, wanted.name);
    let found = found.and_then(|object| object.value(key).map(|_| object));
    match found {
        Ok(object) => object_value(object, key).map(Some),
        Err(_) if wanted.optional => Ok(None),
        Err(missing) => Err(missing.to_string()),
    }
}

/// C-11…C-17. All labels or annotations at once are for volumes only (C-13).
fn field_value(input: &ContainerInput<'_>, path: &str) -> Result<String, String> {
    if let Some(value) = metadata_field(input.pod, path) {
        return Ok(value);
    }
    let spec = input.pod.pod.spec.as_ref();
    let ips = pod_ips(input);
    let host_ips = &input.node.host_ips;
    Ok(match path {
        "spec.nodeName" => input.node.name.clone(),
        "spec.serviceAccountName" => spec
            .and_then(|spec| spec.service_account_name.clone())
            .unwrap_or_default(),
        "status.hostIP" => host_ips.first().cloned().unwrap_or_default(),
        "status.hostIPs" => host_ips.join(","),
        "status.podIP" => ips.first().cloned().unwrap_or_default(),
        "status.podIPs" => ips.join(","),
        _ => return Err(unsupported(path)),
    })
}

/// C-11, C-12: what variables and volumes may both have. A label that is not there is empty.
pub(super) fn metadata_field(pod: &StaticPod, path: &str) -> Option<String> {
    let metadata = &pod.pod.metadata;
    if let Some((map, key)) = keyed_path(path) {
        let map = match map {
            "metadata.labels" => metadata.labels.as_ref(),
            "metadata.annotations" => metadata.annotations.as_ref(),
            _ => return None,
        };
        let value = map.and_then(|map| map.get(key));
        return Some(value.cloned().unwrap_or_default());
    }
    match path {
        "metadata.name" => Some(pod.name().to_owned()),
        "metadata.namespace" => Some(pod.namespace().to_owned()),
        "metadata.uid" => Some(pod.uid.to_string()),
        _ => None,
    }
}

pub(super) fn unsupported(path: &str) -> String {
    format!("fieldPath {path:?} is not supported")
}

/// `metadata.labels['key']` → (`metadata.labels`, `key`).
fn keyed_path(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['")
}

/// C-16: a host-network pod has the node's addresses; other pods have none while there is only a loopback.
fn pod_ips<'a>(input: &ContainerInput<'a>) -> &'a [String] {
    if input.pod.is_host_network() {
        &input.node.host_ips
    } else {
        &[]
    }
}

#[cfg(test)]
mod tests;
