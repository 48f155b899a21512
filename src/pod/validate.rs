//! The part of the API server's validation that concerns what this version runs (S-110…S-133). Reports everything it
//! finds. Fields that are refused whole ([`super::support`]) are not looked into.

mod action;
mod annotations;
mod container;
mod env;
mod lifecycle;
mod mounts;
mod node;
mod ports;
mod probe;
mod security;
mod sharing;
mod volumes;

use k8s_openapi::api::core::v1::{Pod, PodDNSConfig, PodSpec};

use super::names::{is_dns_label, is_dns_subdomain, is_label_value, is_qualified_name};
use super::report::Scope;

/// What must be known of a pod before it gets its full name.
pub(super) fn before_completion(pod: &Pod, scope: Scope<'_>) {
    if pod.metadata.name.as_deref().unwrap_or_default().is_empty() {
        scope.error("metadata.name", "missing");
    } else if !pod.metadata.name.as_deref().is_some_and(is_dns_subdomain) {
        scope.error("metadata.name", SUBDOMAIN);
    }
}

pub(super) const SUBDOMAIN: &str = "must be lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit, at most 253";
pub(super) const LABEL: &str = "must be lower-case letters, digits and '-', beginning and ending with a letter or digit, at most 63";

/// A pod with its defaults and its full name.
pub(super) fn pod(pod: &Pod, scope: Scope<'_>) {
    metadata(pod, scope);
    let Some(spec) = &pod.spec else { return };
    self::spec(spec, scope);
    security::pod(spec, scope);
    sharing::pod(spec, scope);
    node::all(spec, scope);
    volumes::all(spec, scope);
    container::of_pod(spec, scope);
    container::all(spec, scope);
}

fn metadata(pod: &Pod, scope: Scope<'_>) {
    let metadata = &pod.metadata;
    if metadata
        .name
        .as_deref()
        .is_some_and(|name| name.len() > 253)
    {
        scope.error(
            "metadata.name",
            "longer than 253 characters with the node's name behind it",
        );
    }
    if !metadata.namespace.as_deref().is_none_or(is_dns_label) {
        scope.error("metadata.namespace", LABEL);
    }
    for (key, value) in metadata.labels.iter().flatten() {
        let path = format!("metadata.labels[{key}]");
        if !is_qualified_name(key) {
            scope.error(&path, "not a valid label key");
        }
        if !is_label_value(value) {
            scope.error(
                &path,
                "a label's value is at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit",
            );
        }
    }
    annotations::all(pod, scope);
}

fn spec(spec: &PodSpec, scope: Scope<'_>) {
    one_of(
        spec.restart_policy.as_deref(),
        &["Always", "OnFailure", "Never"],
        "spec.restartPolicy",
        scope,
    );
    one_of(
        spec.dns_policy.as_deref(),
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
        "spec.dnsPolicy",
        scope,
    );
    times(spec, scope);
    dns(spec.dns_policy.as_deref(), spec.dns_config.as_ref(), scope);
    for (path, name) in [
        ("spec.hostname", &spec.hostname),
        ("spec.subdomain", &spec.subdomain),
    ] {
        let name = name.as_deref().unwrap_or_default();
        if !name.is_empty() && !is_dns_label(name) {
            scope.error(path, LABEL);
        }
    }
    hostname_override(spec, scope);
    if spec
        .scheduling_gates
        .as_ref()
        .is_some_and(|g| !g.is_empty())
    {
        scope.error(
            "spec.schedulingGates",
            "not possible for a static pod, whose node is known",
        );
    }
    for (index, alias) in spec.host_aliases.iter().flatten().enumerate() {
        if alias.ip.parse::<core::net::IpAddr>().is_err() {
            scope.error(
                &format!("spec.hostAliases[{index}].ip"),
                "must be an IP address",
            );
        }
        for (at, name) in alias.hostnames.iter().flatten().enumerate() {
            if !is_dns_subdomain(name) {
                scope.error(
                    &format!("spec.hostAliases[{index}].hostnames[{at}]"),
                    SUBDOMAIN,
                );
            }
        }
    }
}

/// S-126, S-133.
fn times(spec: &PodSpec, scope: Scope<'_>) {
    let deadline = spec.active_deadline_seconds;
    if !deadline.is_none_or(|s| (1..=i64::from(i32::MAX)).contains(&s)) {
        let message = "must be from 1 to 2147483647";
        scope.error("spec.activeDeadlineSeconds", message);
    }
    if spec.termination_grace_period_seconds.is_some_and(|s| s < 0) {
        let message = "negative, which counts as 1";
        scope.warn("spec.terminationGracePeriodSeconds", message);
    }
}

/// S-127.
fn hostname_override(spec: &PodSpec, scope: Scope<'_>) {
    let name = spec.hostname_override.as_deref().unwrap_or_default();
    let path = "spec.hostnameOverride";
    if name.is_empty() {
        return;
    }
    if name.len() > 64 || !is_dns_subdomain(name) {
        scope.error(path, "must be a domain name of at most 64 characters");
    }
    if spec.set_hostname_as_fqdn == Some(true) {
        scope.error(path, "not possible together with setHostnameAsFQDN");
    }
    if spec.host_network == Some(true) {
        scope.error(path, "not possible together with hostNetwork");
    }
}

/// S-128.
fn dns(policy: Option<&str>, config: Option<&PodDNSConfig>, scope: Scope<'_>) {
    let nameservers = config.and_then(|c| c.nameservers.as_deref()).unwrap_or(&[]);
    let searches = config.and_then(|c| c.searches.as_deref()).unwrap_or(&[]);
    if policy == Some("None") && nameservers.is_empty() {
        scope.error(
            "spec.dnsConfig.nameservers",
            "dnsPolicy None needs at least one",
        );
    }
    if nameservers.len() > 3 {
        scope.error("spec.dnsConfig.nameservers", "more than 3");
    }
    for (index, server) in nameservers.iter().enumerate() {
        if server.parse::<core::net::IpAddr>().is_err() {
            let path = format!("spec.dnsConfig.nameservers[{index}]");
            scope.error(&path, "must be an IP address");
        }
    }
    if searches.len() > 32 {
        scope.error("spec.dnsConfig.searches", "more than 32");
    }
    if searches.iter().map(|s| s.len() + 1).sum::<usize>() > 2049 {
        scope.error(
            "spec.dnsConfig.searches",
            "more than 2048 characters in all",
        );
    }
    for (index, search) in searches.iter().enumerate() {
        // A single dot, trailing dots and underscores are allowed here.
        let name = search.strip_suffix('.').unwrap_or(search).replace('_', "-");
        if search != "." && !is_dns_subdomain(name.trim_start_matches('-')) {
            scope.error(
                &format!("spec.dnsConfig.searches[{index}]"),
                "must be a domain name",
            );
        }
    }
    for (index, option) in config
        .iter()
        .flat_map(|c| c.options.iter().flatten())
        .enumerate()
    {
        if option.name.as_deref().unwrap_or_default().is_empty() {
            scope.error(&format!("spec.dnsConfig.options[{index}].name"), "missing");
        }
    }
}

/// `must be Always, OnFailure or Never`
fn one_of(value: Option<&str>, allowed: &[&str], path: &str, scope: Scope<'_>) {
    if !value.is_none_or(|v| allowed.contains(&v)) {
        let (last, others) = allowed.split_last().unwrap_or((&"", &[]));
        scope.error(path, &format!("must be {} or {last}", others.join(", ")));
    }
}
