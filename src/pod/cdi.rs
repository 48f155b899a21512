//! Devices that a pod asks for by their CDI names (D-16): `cdi.k8s.io/gpu: vendor.com/class=device[,…]` for all of its
//! containers, `cdi.k8s.io/container.web: …` for one.

use k8s_openapi::api::core::v1::Pod;

use super::lifecycle;

/// Of annotations.
pub(super) const PREFIX: &str = "cdi.k8s.io/";
const OF_CONTAINER: &str = "container.";

/// `vendor.com/class=device`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceName {
    /// `vendor.com/class`.
    pub kind: String,
    /// Unique in its kind.
    pub device: String,
}

impl std::fmt::Display for DeviceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.kind, self.device)
    }
}

/// What a container of a pod asks for, each once, in the order of the annotations' keys.
pub fn devices(pod: &Pod, container: &str) -> Vec<DeviceName> {
    let mut devices: Vec<DeviceName> = Vec::new();
    for (key, value) in pod.metadata.annotations.iter().flatten() {
        let Some(rest) = key.strip_prefix(PREFIX) else {
            continue;
        };
        if rest
            .strip_prefix(OF_CONTAINER)
            .is_some_and(|name| name != container)
        {
            continue;
        }
        for device in parse(value).unwrap_or_default() {
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
    }
    devices
}

/// What is wrong with an annotation of ours; none if its key is another's.
pub(super) fn problem(pod: &Pod, key: &str, value: &str) -> Option<String> {
    let rest = key.strip_prefix(PREFIX)?;
    if let Some(name) = rest.strip_prefix(OF_CONTAINER)
        && lifecycle::member(pod, name).is_none()
    {
        return Some(format!("the pod has no container {name:?}"));
    }
    parse(value).err()
}

fn parse(value: &str) -> Result<Vec<DeviceName>, String> {
    value.split(',').map(name).collect()
}

fn name(text: &str) -> Result<DeviceName, String> {
    let text = text.trim();
    let bad = || format!("{text:?} is not a device, written like vendor.com/class=device");
    let (kind, device) = text.split_once('=').ok_or_else(bad)?;
    if !is_kind(kind) || !is_device(device) {
        return Err(bad());
    }
    Ok(DeviceName {
        kind: kind.to_owned(),
        device: device.to_owned(),
    })
}

/// `vendor.com/class`.
pub fn is_kind(text: &str) -> bool {
    let letter = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic());
    text.split_once('/').is_some_and(|(vendor, class)| {
        letter(vendor) && letter(class) && is_word(vendor, "_-.") && is_word(class, "_-")
    })
}

/// The name of a device within its kind.
pub fn is_device(text: &str) -> bool {
    is_word(text, "_-.:")
}

/// Letters and digits, with others only between.
fn is_word(text: &str, between: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(alphanumeric)
        && text.ends_with(alphanumeric)
        && text.chars().all(|c| alphanumeric(c) || between.contains(c))
}

#[cfg(test)]
mod tests;
