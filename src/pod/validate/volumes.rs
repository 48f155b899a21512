//! Volumes of a pod (S-116, S-131, V-26, V-33, V-35).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, EmptyDirVolumeSource, HostPathVolumeSource, ImageVolumeSource,
    KeyToPath, PodSpec, ProjectedVolumeSource, Volume,
};

use super::{LABEL, env, one_of};
use crate::pod::image_ref::ImageRef;
use crate::pod::names::{is_dns_label, is_file_path, is_qualified_name};
use crate::pod::quantity;
use crate::pod::report::Scope;
use crate::pod::yaml::{Node, Value};

/// S-116.
pub(super) fn all(spec: &PodSpec, scope: Scope<'_>) {
    let mut names = BTreeSet::new();
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let path = format!("spec.volumes[{index}]");
        let name_path = format!("{path}.name");
        if volume.name.is_empty() {
            scope.error(&name_path, "missing");
        } else if !is_dns_label(&volume.name) {
            scope.error(&name_path, LABEL);
        } else if !names.insert(&volume.name) {
            scope.error(&name_path, "another volume has this name");
        }
        sources(volume, index, scope);
        self::volume(volume, &path, scope);
    }
}

/// S-116, S-95: one at most, and none only where nothing else was written: what is misspelled is no emptyDir.
fn sources(volume: &Volume, index: usize, scope: Scope<'_>) {
    let path = format!("spec.volumes[{index}]");
    let list = scope.node.get("spec").and_then(|e| e.node.get("volumes"));
    let written = list.and_then(|e| e.node.items().get(index));
    let is_written = |key: &str| {
        let entry = written.and_then(|volume| volume.get(key));
        entry.is_some_and(|entry| !entry.node.is_null())
    };
    let known = [
        ("hostPath", volume.host_path.is_some()),
        ("emptyDir", is_written("emptyDir")),
        ("configMap", volume.config_map.is_some()),
        ("secret", volume.secret.is_some()),
        ("downwardAPI", volume.downward_api.is_some()),
        ("projected", volume.projected.is_some()),
        ("image", volume.image.is_some()),
    ];
    let mut given = known.into_iter().filter(|(_, is_given)| *is_given);
    let first = given.next();
    if let Some((first, _)) = first {
        for (other, _) in given {
            let message = format!("not possible beside {first}: a volume has one source");
            scope.error(&format!("{path}.{other}"), &message);
        }
    } else if volume.empty_dir.is_some() && written.is_some_and(says_more_than_its_name) {
        let message = "has no source that is known; write hostPath, emptyDir, configMap, secret, downwardAPI, projected or image";
        scope.error(&path, message);
    }
}

fn says_more_than_its_name(volume: &Node) -> bool {
    match &volume.value {
        Value::Mapping(entries) => entries
            .iter()
            .any(|entry| entry.key != "name" && !entry.node.is_null()),
        Value::Scalar(_) | Value::Sequence(_) => false,
    }
}

fn volume(volume: &Volume, path: &str, scope: Scope<'_>) {
    if let Some(host) = &volume.host_path {
        host_path(host, &format!("{path}.hostPath"), scope);
    }
    if let Some(dir) = &volume.empty_dir {
        empty_dir(dir, &format!("{path}.emptyDir"), scope);
    }
    if let Some(map) = &volume.config_map {
        let path = format!("{path}.configMap");
        present(&map.name, &format!("{path}.name"), scope);
        mode(map.default_mode, &format!("{path}.defaultMode"), scope);
        keys(map.items.as_deref(), &path, scope);
    }
    if let Some(secret) = &volume.secret {
        let path = format!("{path}.secret");
        let name = secret.secret_name.as_deref().unwrap_or_default();
        present(name, &format!("{path}.secretName"), scope);
        mode(secret.default_mode, &format!("{path}.defaultMode"), scope);
        keys(secret.items.as_deref(), &path, scope);
    }
    if let Some(downward) = &volume.downward_api {
        let path = format!("{path}.downwardAPI");
        mode(downward.default_mode, &format!("{path}.defaultMode"), scope);
        downward_files(downward.items.as_deref(), &path, scope);
    }
    if let Some(projected) = &volume.projected {
        self::projected(projected, &format!("{path}.projected"), scope);
    }
    if let Some(image) = &volume.image {
        self::image(image, &format!("{path}.image"), scope);
    }
}

fn present(name: &str, path: &str, scope: Scope<'_>) {
    if name.is_empty() {
        scope.error(path, "missing");
    }
}

/// S-131, V-26.
fn host_path(host: &HostPathVolumeSource, path: &str, scope: Scope<'_>) {
    let at = format!("{path}.path");
    if host.path.is_empty() {
        scope.error(&at, "missing");
    } else if !host.path.starts_with('/') {
        scope.error(&at, "must be absolute");
    } else if host.path.split('/').any(|part| part == "..") {
        scope.error(&at, "must not contain '..'");
    } else if host.path.starts_with("/dev/") && host.type_.as_deref().is_none_or(str::is_empty) {
        device_without_type(&host.path, &at, scope);
    }
    let types = [
        "",
        "DirectoryOrCreate",
        "Directory",
        "FileOrCreate",
        "File",
        "Socket",
        "CharDevice",
        "BlockDevice",
    ];
    if !host.type_.as_deref().is_none_or(|t| types.contains(&t)) {
        one_of(
            host.type_.as_deref(),
            &types[1..],
            &format!("{path}.type"),
            scope,
        );
    }
}

/// V-20 makes a directory of a stick that is not plugged in, and D-16 grants nothing without a type.
fn device_without_type(host_path: &str, path: &str, scope: Scope<'_>) {
    // Mount points and sockets.
    let others = [
        "/dev/hugepages",
        "/dev/log",
        "/dev/mqueue",
        "/dev/pts",
        "/dev/shm",
    ];
    if !others.contains(&host_path.trim_end_matches('/')) {
        let message = "has no type: a device needs CharDevice or BlockDevice, else only privileged containers may use it, and a directory is made where it is missing";
        scope.warn(path, message);
    }
}

/// S-131, V-13…V-15.
fn empty_dir(dir: &EmptyDirVolumeSource, path: &str, scope: Scope<'_>) {
    let medium = dir.medium.as_deref().unwrap_or_default();
    if medium.starts_with("HugePages") {
        let message = "huge pages are not supported yet; write Memory";
        scope.error(&format!("{path}.medium"), message);
    } else if !matches!(medium, "" | "Memory") {
        scope.error(
            &format!("{path}.medium"),
            "must be Memory, or left out for the disk",
        );
    }
    let Some(limit) = &dir.size_limit else { return };
    let at = format!("{path}.sizeLimit");
    match quantity::nanos(&limit.0) {
        None => {
            let message = format!("{:?} is no quantity, such as 64Mi", limit.0);
            scope.error(&at, &message);
        }
        Some(value) if value < 0 => scope.error(&at, "must not be negative"),
        Some(_) if medium.is_empty() => scope.warn(
            &at,
            "is not enforced on disk, as in kubelet for static pods; medium: Memory enforces it",
        ),
        Some(_) => {}
    }
}

fn mode(mode: Option<i32>, path: &str, scope: Scope<'_>) {
    if !mode.is_none_or(|mode| (0..=0o777).contains(&mode)) {
        let message =
            "must be from 0 to 0777, or 0 to 511 in decimal; octal numbers begin with a 0";
        scope.error(path, message);
    }
}

/// V-33.
fn file_path(text: &str, path: &str, scope: Scope<'_>) {
    if text.is_empty() {
        scope.error(path, "missing");
    } else if !is_file_path(text) {
        let message = "must be relative to the volume, without '..' and not beginning with '..'";
        scope.error(path, message);
    }
}

fn keys(items: Option<&[KeyToPath]>, path: &str, scope: Scope<'_>) {
    for (index, item) in items.unwrap_or_default().iter().enumerate() {
        let path = format!("{path}.items[{index}]");
        present(&item.key, &format!("{path}.key"), scope);
        file_path(&item.path, &format!("{path}.path"), scope);
        mode(item.mode, &format!("{path}.mode"), scope);
    }
}

/// C-11…C-18 and C-20, as far as files can have them.
fn downward_files(items: Option<&[DownwardAPIVolumeFile]>, path: &str, scope: Scope<'_>) {
    for (index, item) in items.unwrap_or_default().iter().enumerate() {
        let path = format!("{path}.items[{index}]");
        file_path(&item.path, &format!("{path}.path"), scope);
        mode(item.mode, &format!("{path}.mode"), scope);
        match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), None) if !is_file_field(&field.field_path) => {
                let message = format!(
                    "{:?} is not one of metadata.name, metadata.namespace, metadata.uid, metadata.labels, metadata.annotations, metadata.labels['…'] and metadata.annotations['…']",
                    field.field_path
                );
                scope.error(&format!("{path}.fieldRef.fieldPath"), &message);
            }
            (Some(_), None) => {}
            (None, Some(field)) => {
                let path = format!("{path}.resourceFieldRef");
                // V-35.
                let name = field.container_name.as_deref().unwrap_or_default();
                present(name, &format!("{path}.containerName"), scope);
                env::resource_ref(field, &path, scope);
            }
            (Some(_), Some(_)) | (None, None) => {
                scope.error(&path, "needs either fieldRef or resourceFieldRef");
            }
        }
    }
}

fn is_file_field(path: &str) -> bool {
    let key = path.strip_suffix("']").and_then(|path| {
        let labels = path.strip_prefix("metadata.labels['");
        labels.or_else(|| path.strip_prefix("metadata.annotations['"))
    });
    match key {
        Some(key) => is_qualified_name(&key.to_ascii_lowercase()),
        None => matches!(
            path,
            "metadata.name"
                | "metadata.namespace"
                | "metadata.uid"
                | "metadata.labels"
                | "metadata.annotations"
        ),
    }
}

/// V-41.
fn projected(projected: &ProjectedVolumeSource, path: &str, scope: Scope<'_>) {
    mode(
        projected.default_mode,
        &format!("{path}.defaultMode"),
        scope,
    );
    for (index, source) in projected.sources.iter().flatten().enumerate() {
        let path = format!("{path}.sources[{index}]");
        if let Some(map) = &source.config_map {
            let path = format!("{path}.configMap");
            present(&map.name, &format!("{path}.name"), scope);
            keys(map.items.as_deref(), &path, scope);
        }
        if let Some(secret) = &source.secret {
            let path = format!("{path}.secret");
            present(&secret.name, &format!("{path}.name"), scope);
            keys(secret.items.as_deref(), &path, scope);
        }
        if let Some(downward) = &source.downward_api {
            downward_files(
                downward.items.as_deref(),
                &format!("{path}.downwardAPI"),
                scope,
            );
        }
    }
}

/// V-57.
fn image(image: &ImageVolumeSource, path: &str, scope: Scope<'_>) {
    let at = format!("{path}.reference");
    let reference = image.reference.as_deref().unwrap_or_default();
    if reference.is_empty() {
        scope.error(&at, "missing");
    } else if let Err(error) = reference.parse::<ImageRef>() {
        scope.error(&at, &error.to_string());
    }
    let policies = ["Always", "IfNotPresent", "Never"];
    let policy = image.pull_policy.as_deref();
    one_of(policy, &policies, &format!("{path}.pullPolicy"), scope);
}
