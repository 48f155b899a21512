//! The environment: what the pod asks for (C-1…C-20) over what the image and the runtime give (C-8).

use k8s_openapi::api::core::v1::EnvVarSource;

use super::{ConfigError, ContainerInput, resources};
use crate::pod::env::expand;

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

/// The pod's own part, which `$(NAME)` in command and args can see (C-4). `envFrom` reads only ConfigMaps and Secrets,
/// which are resolved before this room is reached.
pub fn pod_env(input: &ContainerInput<'_>) -> Result<Variables, ConfigError> {
    let mut variables = Variables::default();
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

/// C-8: the whole environment as `NAME=value`. HOME is never empty, or libcontainer would look it up in the image's
/// user database with the image's C library plug-ins.
pub fn process_env(input: &ContainerInput<'_>, own: &Variables, home: &str) -> Vec<String> {
    let mut all = Variables::default();
    all.set("PATH", DEFAULT_PATH.to_owned());
    if input.container.tty == Some(true) {
        all.set("TERM", "xterm".to_owned());
    }
    all.set(
        "HOSTNAME",
        crate::network::hostname(input.pod, &input.node.name),
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
    all.iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
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
        return resources::field_value(input, selector);
    }
    Err("its source is not supported".to_owned())
}

/// C-11…C-17. All labels or annotations at once are for volumes only (C-13).
fn field_value(input: &ContainerInput<'_>, path: &str) -> Result<String, String> {
    let metadata = &input.pod.pod.metadata;
    let spec = input.pod.pod.spec.as_ref();
    if let Some((map, key)) = keyed_path(path) {
        let map = match map {
            "metadata.labels" => metadata.labels.as_ref(),
            "metadata.annotations" => metadata.annotations.as_ref(),
            _ => return Err(unsupported(path)),
        };
        return Ok(map
            .and_then(|map| map.get(key))
            .cloned()
            .unwrap_or_default());
    }
    let ips = pod_ips(input);
    let host_ips = &input.node.host_ips;
    Ok(match path {
        "metadata.name" => input.pod.name().to_owned(),
        "metadata.namespace" => input.pod.namespace().to_owned(),
        "metadata.uid" => input.pod.uid.to_string(),
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

fn unsupported(path: &str) -> String {
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
