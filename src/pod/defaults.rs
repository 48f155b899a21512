//! What the API server would fill in (S-80…S-98).

use k8s_openapi::api::core::v1::{
    Container, HTTPGetAction, Pod, PodSpec, Probe, ResourceRequirements,
};

use super::image_ref::ImageRef;

mod volumes;

/// Fills in what a manifest leaves out.
pub(super) fn apply(pod: &mut Pod) {
    let spec = pod.spec.get_or_insert_default();
    text(&mut spec.restart_policy, "Always");
    text(&mut spec.dns_policy, "ClusterFirst");
    text(&mut spec.scheduler_name, "default-scheduler");
    spec.termination_grace_period_seconds.get_or_insert(30);
    spec.security_context.get_or_insert_default();
    spec.enable_service_links.get_or_insert(true);
    for volume in spec.volumes.iter_mut().flatten() {
        volumes::volume(volume);
    }
    containers(spec);
}

fn containers(spec: &mut PodSpec) {
    let host_network = spec.host_network == Some(true);
    let init = spec.init_containers.iter_mut().flatten();
    for container in init.chain(&mut spec.containers) {
        self::container(container);
        for port in container.ports.iter_mut().flatten() {
            text(&mut port.protocol, "TCP");
            // S-91.
            if host_network && port.host_port.unwrap_or(0) == 0 {
                port.host_port = Some(port.container_port);
            }
        }
    }
}

fn container(container: &mut Container) {
    let image = container.image.as_deref().unwrap_or_default();
    text(&mut container.image_pull_policy, pull_policy(image));
    text(
        &mut container.termination_message_path,
        "/dev/termination-log",
    );
    text(&mut container.termination_message_policy, "File");
    if let Some(resources) = &mut container.resources {
        requests(resources);
    }
    for env in container.env.iter_mut().flatten() {
        if let Some(field) = env.value_from.as_mut().and_then(|v| v.field_ref.as_mut()) {
            text(&mut field.api_version, "v1");
        }
    }
    for probe in [
        &mut container.liveness_probe,
        &mut container.readiness_probe,
        &mut container.startup_probe,
    ] {
        probe.as_mut().map(self::probe);
    }
    if let Some(lifecycle) = &mut container.lifecycle {
        for handler in [&mut lifecycle.post_start, &mut lifecycle.pre_stop] {
            let get = handler.as_mut().and_then(|h| h.http_get.as_mut());
            get.map(http_get);
        }
    }
}

/// S-88.
fn requests(resources: &mut ResourceRequirements) {
    let Some(limits) = &resources.limits else {
        return;
    };
    let requests = resources.requests.get_or_insert_default();
    for (name, limit) in limits {
        requests
            .entry(name.clone())
            .or_insert_with(|| limit.clone());
    }
}

/// S-92, S-94.
fn probe(probe: &mut Probe) {
    number(&mut probe.timeout_seconds, 1);
    number(&mut probe.period_seconds, 10);
    number(&mut probe.success_threshold, 1);
    number(&mut probe.failure_threshold, 3);
    probe.http_get.as_mut().map(http_get);
    if let Some(grpc) = &mut probe.grpc {
        grpc.service.get_or_insert_default();
    }
}

/// S-93.
fn http_get(get: &mut HTTPGetAction) {
    text(&mut get.path, "/");
    text(&mut get.scheme, "HTTP");
}

/// S-86; a name that cannot be read is reported elsewhere and has no tag.
fn pull_policy(image: &str) -> &'static str {
    match image.parse::<ImageRef>() {
        Ok(image) if image.is_latest() => "Always",
        Ok(_) | Err(_) => "IfNotPresent",
    }
}

/// An empty text counts as missing, as it does in Go.
fn text(field: &mut Option<String>, default: &str) {
    if field.as_deref().unwrap_or_default().is_empty() {
        *field = Some(default.to_owned());
    }
}

/// So does zero.
fn number(field: &mut Option<i32>, default: i32) {
    if field.unwrap_or(0) == 0 {
        *field = Some(default);
    }
}

#[cfg(test)]
mod tests;
