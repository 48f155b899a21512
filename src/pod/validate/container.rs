//! Containers: names, images, ports, environment, resources.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    Container, EnvVar, ObjectFieldSelector, PodSpec, ResourceFieldSelector, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{LABEL, lifecycle, mounts, one_of, ports, security};
use crate::pod::image_ref::ImageRef;
use crate::pod::lifecycle::{Role, init_role};
use crate::pod::names::{is_dns_label, is_env_name, is_qualified_name};
use crate::pod::quantity;
use crate::pod::report::Scope;

/// S-111.
pub(super) fn all(spec: &PodSpec, scope: Scope<'_>) {
    if spec.containers.is_empty() {
        scope.error("spec.containers", "a pod needs at least one container");
    }
    let mut names = BTreeSet::new();
    for (list, containers, role) in lists(spec) {
        for (index, container) in containers.iter().enumerate() {
            let path = format!("{list}[{index}]");
            let name_path = format!("{path}.name");
            if container.name.is_empty() {
                scope.error(&name_path, "missing");
            } else if !is_dns_label(&container.name) {
                scope.error(&name_path, LABEL);
            } else if !names.insert(&container.name) {
                scope.error(&name_path, "another container has this name");
            }
            self::container(container, &path, scope);
            let role = role(container);
            lifecycle::container(spec, (role, container), &path, scope);
            mounts::all(spec, container, &path, scope);
        }
    }
    ports::all(spec, scope);
}

/// A list's path, its containers, and how their part is told.
type List<'a> = (&'static str, &'a [Container], fn(&Container) -> Role);

fn lists(spec: &PodSpec) -> [List<'_>; 2] {
    let init = spec.init_containers.as_deref().unwrap_or_default();
    [
        ("spec.containers", &spec.containers, |_| Role::Regular),
        ("spec.initContainers", init, init_role),
    ]
}

/// What the pod as a whole requests and costs.
pub(super) fn of_pod(spec: &PodSpec, scope: Scope<'_>) {
    if let Some(requirements) = &spec.resources {
        resources(requirements, "spec.resources", scope);
    }
    quantities(spec.overhead.as_ref(), "spec.overhead", scope);
}

fn container(container: &Container, path: &str, scope: Scope<'_>) {
    image(container, &format!("{path}.image"), scope);
    one_of(
        container.image_pull_policy.as_deref(),
        &["Always", "IfNotPresent", "Never"],
        &format!("{path}.imagePullPolicy"),
        scope,
    );
    one_of(
        container.termination_message_policy.as_deref(),
        &["File", "FallbackToLogsOnError"],
        &format!("{path}.terminationMessagePolicy"),
        scope,
    );
    for (index, var) in container.env.iter().flatten().enumerate() {
        env(var, &format!("{path}.env[{index}]"), scope);
    }
    if let Some(requirements) = &container.resources {
        resources(requirements, &format!("{path}.resources"), scope);
    }
    if let Some(context) = &container.security_context {
        security::container(context, &format!("{path}.securityContext"), scope);
    }
}

/// S-112. A name that cannot be read is only warned of, as it becomes the waiting reason `InvalidImageName` (I-3).
fn image(container: &Container, path: &str, scope: Scope<'_>) {
    let image = container.image.as_deref().unwrap_or_default();
    if image.is_empty() {
        scope.error(path, "missing");
    } else if let Err(error) = image.parse::<ImageRef>() {
        scope.warn(path, &error.to_string());
    }
}

/// S-115.
fn env(var: &EnvVar, path: &str, scope: Scope<'_>) {
    if var.name.is_empty() {
        scope.error(&format!("{path}.name"), "missing");
    } else if !is_env_name(&var.name) {
        scope.error(
            &format!("{path}.name"),
            "must be printable ASCII without '='",
        );
    }
    let Some(from) = &var.value_from else { return };
    if var.value.as_deref().is_some_and(|v| !v.is_empty()) {
        scope.error(&format!("{path}.valueFrom"), "not possible beside value");
    }
    let sources = [
        from.field_ref.is_some(),
        from.resource_field_ref.is_some(),
        from.config_map_key_ref.is_some(),
        from.secret_key_ref.is_some(),
        from.file_key_ref.is_some(),
    ];
    if sources.into_iter().filter(|s| *s).count() != 1 {
        scope.error(&format!("{path}.valueFrom"), "needs exactly one source");
    }
    if let Some(field) = &from.field_ref {
        field_ref(field, &format!("{path}.valueFrom.fieldRef"), scope);
    }
    if let Some(field) = &from.resource_field_ref {
        resource_ref(field, &format!("{path}.valueFrom.resourceFieldRef"), scope);
    }
}

/// C-11…C-17.
fn field_ref(field: &ObjectFieldSelector, path: &str, scope: Scope<'_>) {
    if field.api_version.as_deref() != Some("v1") {
        scope.error(&format!("{path}.apiVersion"), "must be v1");
    }
    if !is_env_field(&field.field_path) {
        let message = format!(
            "{:?} is not one of metadata.name, metadata.namespace, metadata.uid, metadata.labels['…'], metadata.annotations['…'], spec.nodeName, spec.serviceAccountName, status.hostIP, status.hostIPs, status.podIP and status.podIPs",
            field.field_path
        );
        scope.error(&format!("{path}.fieldPath"), &message);
    }
}

/// C-18.
pub(super) fn resource_ref(field: &ResourceFieldSelector, path: &str, scope: Scope<'_>) {
    let (list, resource) = field.resource.split_once('.').unwrap_or_default();
    let known = matches!(resource, "cpu" | "memory" | "ephemeral-storage")
        || resource.starts_with("hugepages-");
    if !known || !matches!(list, "limits" | "requests") {
        scope.error(
            &format!("{path}.resource"),
            "must be limits. or requests. with cpu, memory, ephemeral-storage or hugepages-<size>",
        );
    }
    let divisor = field.divisor.as_ref().map_or("1", |d| d.0.as_str());
    let allowed: &[&str] = if resource == "cpu" {
        &["0", "1", "1m"]
    } else {
        &[
            "0", "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
        ]
    };
    let same = |other: &&str| quantity::nanos(other) == quantity::nanos(divisor);
    if quantity::nanos(divisor).is_none() || !allowed.iter().any(same) {
        let message = if resource == "cpu" {
            "must be 1 or 1m"
        } else {
            "must be 1, or 1 with one of the units k to E and Ki to Ei"
        };
        scope.error(&format!("{path}.divisor"), message);
    }
}

fn is_env_field(path: &str) -> bool {
    let subscript = |prefix: &str| {
        path.strip_prefix(prefix)
            .and_then(|rest| rest.strip_prefix("['"))
            .and_then(|rest| rest.strip_suffix("']"))
            .is_some_and(|key| is_qualified_name(&key.to_ascii_lowercase()))
    };
    matches!(
        path,
        "metadata.name"
            | "metadata.namespace"
            | "metadata.uid"
            | "spec.nodeName"
            | "spec.serviceAccountName"
            | "status.hostIP"
            | "status.hostIPs"
            | "status.podIP"
            | "status.podIPs"
    ) || subscript("metadata.labels")
        || subscript("metadata.annotations")
}

fn quantities(amounts: Option<&BTreeMap<String, Quantity>>, path: &str, scope: Scope<'_>) {
    for (name, Quantity(text)) in amounts.into_iter().flatten() {
        let at = format!("{path}[{name}]");
        match quantity::nanos(text) {
            None => {
                let message = format!("{text:?} is no quantity, such as 500m or 64Mi");
                scope.error(&at, &message);
            }
            Some(value) if value < 0 => scope.error(&at, "must not be negative"),
            Some(_) => {}
        }
    }
}

/// S-123.
fn resources(requirements: &ResourceRequirements, path: &str, scope: Scope<'_>) {
    let empty = BTreeMap::new();
    let limits = requirements.limits.as_ref().unwrap_or(&empty);
    let requests = requirements.requests.as_ref().unwrap_or(&empty);
    quantities(Some(limits), &format!("{path}.limits"), scope);
    quantities(Some(requests), &format!("{path}.requests"), scope);
    for (name, Quantity(request)) in requests {
        let at = format!("{path}.requests[{name}]");
        let exact = !matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage");
        let Some(Quantity(limit)) = limits.get(name) else {
            if exact {
                scope.error(&at, "needs an equal limit");
            }
            continue;
        };
        let (Some(request), Some(limit)) = (quantity::nanos(request), quantity::nanos(limit))
        else {
            continue;
        };
        if request > limit {
            scope.error(&at, "more than the limit");
        } else if exact && request != limit {
            scope.error(&at, "must equal the limit");
        }
    }
    let huge = |name: &String| name.starts_with("hugepages-");
    if limits.keys().any(huge) && !limits.keys().any(|n| n == "cpu" || n == "memory") {
        scope.error(
            &format!("{path}.limits"),
            "huge pages need cpu or memory beside them",
        );
    }
}
