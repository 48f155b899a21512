//! Mounts of volumes in containers (S-116, S-117).

use std::collections::BTreeSet;
use std::path::{Component, Path};

use k8s_openapi::api::core::v1::{Container, PodSpec, VolumeMount};

use super::one_of;
use crate::pod::names::{PROC_FILES, is_descending_path};
use crate::pod::report::Scope;
use crate::pod::suggest;

/// S-116; `path` is the container's.
pub(super) fn all(spec: &PodSpec, container: &Container, path: &str, scope: Scope<'_>) {
    let mut targets = BTreeSet::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        name(spec, &mount.name, &format!("{path}.name"), scope);
        target(container, mount, &path, scope);
        if !mount.mount_path.is_empty() && !targets.insert(parts(&mount.mount_path)) {
            let message = format!("{:?} is mounted to twice", mount.mount_path);
            scope.error(&format!("{path}.mountPath"), &message);
        }
        sub_paths(mount, &path, scope);
        propagation(container, mount, &path, scope);
        read_only(mount, &path, scope);
    }
}

fn name(spec: &PodSpec, name: &str, path: &str, scope: Scope<'_>) {
    let volumes = spec.volumes.iter().flatten();
    let names: Vec<&str> = volumes.map(|volume| volume.name.as_str()).collect();
    if name.is_empty() {
        scope.error(path, "missing");
    } else if !names.contains(&name) {
        let hint = suggest::nearest(name, &names)
            .map(|near| format!(", did you mean {near}?"))
            .unwrap_or_default();
        scope.error(path, &format!("spec.volumes has no {name:?}{hint}"));
    }
}

/// V-56: the names on the way; a relative path begins at the root as well.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => parts.push(name.to_str().unwrap_or_default()),
            Component::ParentDir => {
                parts.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    parts
}

fn target(container: &Container, mount: &VolumeMount, path: &str, scope: Scope<'_>) {
    let path = format!("{path}.mountPath");
    if mount.mount_path.is_empty() {
        return scope.error(&path, "missing");
    }
    match parts(&mount.mount_path).as_slice() {
        [] => scope.error(&path, "must not be the root; mount below it"),
        ["dev"] => dev(container, mount, &path, scope),
        ["proc", rest @ ..] if !PROC_FILES.contains(&rest.join("/").as_str()) => {
            let message = format!(
                "nothing can be mounted over /proc, and below it only over {}",
                PROC_FILES.join(", ")
            );
            scope.error(&path, &message);
        }
        _ => {}
    }
}

/// Nothing is made in a volume that is the node's own /dev, most often.
fn dev(container: &Container, mount: &VolumeMount, path: &str, scope: Scope<'_>) {
    if mount.mount_propagation.as_deref() == Some("Bidirectional") {
        let message = "cannot be Bidirectional: this container's /dev/shm would become the node's";
        scope.error(path, message);
    }
    let messages = container.termination_message_path.as_deref();
    if parts(messages.unwrap_or("/dev/termination-log")).first() == Some(&"dev") {
        let message = "termination messages are not read from a volume at /dev; set terminationMessagePath to another place, such as /tmp/termination-log";
        scope.warn(path, message);
    }
}

fn sub_paths(mount: &VolumeMount, path: &str, scope: Scope<'_>) {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (sub_path, expression) = (given(&mount.sub_path), given(&mount.sub_path_expr));
    if sub_path.is_some() && expression.is_some() {
        let message = "not possible beside subPath";
        scope.error(&format!("{path}.subPathExpr"), message);
    }
    for (field, text) in [("subPath", sub_path), ("subPathExpr", expression)] {
        if !text.is_none_or(|text| is_descending_path(&text)) {
            let message = "must be relative to the volume, without '..'";
            scope.error(&format!("{path}.{field}"), message);
        }
    }
}

/// S-117.
fn propagation(container: &Container, mount: &VolumeMount, path: &str, scope: Scope<'_>) {
    let path = format!("{path}.mountPropagation");
    let wanted = mount.mount_propagation.as_deref();
    let allowed = ["None", "HostToContainer", "Bidirectional"];
    one_of(wanted, &allowed, &path, scope);
    let context = container.security_context.as_ref();
    let is_privileged = context.and_then(|context| context.privileged) == Some(true);
    if wanted == Some("Bidirectional") && !is_privileged {
        let message =
            "Bidirectional needs securityContext.privileged: true; did you mean HostToContainer?";
        scope.error(&path, message);
    }
}

/// S-117.
fn read_only(mount: &VolumeMount, path: &str, scope: Scope<'_>) {
    let path = format!("{path}.recursiveReadOnly");
    let wanted = mount.recursive_read_only.as_deref();
    let allowed = ["Disabled", "IfPossible", "Enabled"];
    one_of(wanted, &allowed, &path, scope);
    if !matches!(wanted, Some("IfPossible" | "Enabled")) {
        return;
    }
    if mount.read_only != Some(true) {
        scope.error(&path, "needs readOnly: true");
    }
    if !matches!(mount.mount_propagation.as_deref(), None | Some("None")) {
        scope.error(&path, "not possible together with mountPropagation");
    }
}
