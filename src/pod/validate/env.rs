//! Variables of containers, and what they are taken from.

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, ObjectFieldSelector, ResourceFieldSelector,
};

use super::SUBDOMAIN;
use super::container::is_bytes;
use crate::pod::names::{is_dns_subdomain, is_env_name, is_qualified_name};
use crate::pod::objects::read::key_problem;
use crate::pod::quantity;
use crate::pod::report::Scope;

const ENV_NAME: &str = "must be printable ASCII without '='";

/// S-115, C-1…C-20. `path` is the container's.
pub(super) fn all(container: &Container, path: &str, scope: Scope<'_>) {
    for (index, source) in container.env_from.iter().flatten().enumerate() {
        env_from(source, &format!("{path}.envFrom[{index}]"), scope);
    }
    for (index, var) in container.env.iter().flatten().enumerate() {
        env(var, &format!("{path}.env[{index}]"), scope);
    }
}

/// With a good prefix every key of an object is a good name.
fn env_from(source: &EnvFromSource, path: &str, scope: Scope<'_>) {
    let prefix = source.prefix.as_deref().unwrap_or_default();
    if !prefix.is_empty() && !is_env_name(prefix) {
        scope.error(&format!("{path}.prefix"), ENV_NAME);
    }
    match (&source.config_map_ref, &source.secret_ref) {
        (Some(map), None) => object_name(&map.name, &format!("{path}.configMapRef"), scope),
        (None, Some(secret)) => object_name(&secret.name, &format!("{path}.secretRef"), scope),
        (Some(_), Some(_)) | (None, None) => {
            scope.error(path, "needs exactly one of configMapRef and secretRef");
        }
    }
}

/// What a ConfigMap or Secret could be called.
fn object_name(name: &str, path: &str, scope: Scope<'_>) {
    let path = format!("{path}.name");
    if name.is_empty() {
        scope.error(&path, "missing");
    } else if !is_dns_subdomain(name) {
        scope.error(&path, SUBDOMAIN);
    }
}

/// S-115.
fn env(var: &EnvVar, path: &str, scope: Scope<'_>) {
    if var.name.is_empty() {
        scope.error(&format!("{path}.name"), "missing");
    } else if !is_env_name(&var.name) {
        scope.error(&format!("{path}.name"), ENV_NAME);
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
    let selectors = [
        from.config_map_key_ref
            .as_ref()
            .map(|r| ("configMapKeyRef", &r.name, &r.key)),
        from.secret_key_ref
            .as_ref()
            .map(|r| ("secretKeyRef", &r.name, &r.key)),
    ];
    for (source, name, key) in selectors.into_iter().flatten() {
        let path = format!("{path}.valueFrom.{source}");
        object_name(name, &path, scope);
        let path = format!("{path}.key");
        if key.is_empty() {
            scope.error(&path, "missing");
        } else if let Some(problem) = key_problem(key) {
            scope.error(&path, problem);
        }
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
    let known = resource == "cpu" || is_bytes(resource);
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
