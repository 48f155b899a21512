//! Containers: names, images, ports, resources.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{LABEL, env, lifecycle, mounts, one_of, ports, security};
use crate::pod::image_ref::ImageRef;
use crate::pod::lifecycle::{Role, init_role};
use crate::pod::names::is_dns_label;
use crate::pod::quantity;
use crate::pod::report::Scope;
use crate::pod::requests::HUGE_PAGES;

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
    env::all(container, path, scope);
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

/// An amount that is surely not what was meant.
fn doubtful(name: &str, text: &str, (path, scope): (&str, Scope<'_>)) {
    let at = format!("{path}[{name}]");
    let is_whole = |nanos| nanos % quantity::NANOS == 0;
    if is_bytes(name) && !quantity::nanos(text).is_none_or(is_whole) {
        let message =
            format!("{text:?} is no whole number of bytes: m means thousandths, write Mi or M");
        scope.warn(&at, &message);
    }
}

/// All but `cpu` that there is.
pub(super) fn is_bytes(resource: &str) -> bool {
    matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with(HUGE_PAGES)
}

/// S-123.
fn resources(requirements: &ResourceRequirements, path: &str, scope: Scope<'_>) {
    let empty = BTreeMap::new();
    let limits = requirements.limits.as_ref().unwrap_or(&empty);
    let requests = requirements.requests.as_ref().unwrap_or(&empty);
    quantities(Some(limits), &format!("{path}.limits"), scope);
    quantities(Some(requests), &format!("{path}.requests"), scope);
    for (name, Quantity(limit)) in limits {
        doubtful(name, limit, (&format!("{path}.limits"), scope));
    }
    // A request that is left out is its limit.
    for (name, Quantity(request)) in requests.iter().filter(|r| !limits.contains_key(r.0)) {
        doubtful(name, request, (&format!("{path}.requests"), scope));
    }
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
    let huge = |name: &String| name.starts_with(HUGE_PAGES);
    if limits.keys().any(huge) && !limits.keys().any(|n| n == "cpu" || n == "memory") {
        scope.error(
            &format!("{path}.limits"),
            "huge pages need cpu or memory beside them",
        );
    }
}
