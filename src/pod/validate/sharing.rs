//! What a pod shares with its node, and its containers with each other (S-125, S-130).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodSpec, Sysctl};

use crate::pod::report::Scope;
use crate::pod::sysctl::{self, Namespace};

/// Of a pod.
pub(super) fn pod(spec: &PodSpec, scope: Scope<'_>) {
    if spec.host_pid == Some(true) && spec.share_process_namespace == Some(true) {
        scope.error(
            "spec.shareProcessNamespace",
            "not possible together with hostPID",
        );
    }
    let context = spec.security_context.as_ref();
    let sysctls = context.and_then(|context| context.sysctls.as_deref());
    names(sysctls.unwrap_or_default(), spec, scope);
}

/// S-130, C-62.
fn names(sysctls: &[Sysctl], spec: &PodSpec, scope: Scope<'_>) {
    let mut seen = BTreeSet::new();
    for (index, sysctl) in sysctls.iter().enumerate() {
        let path = format!("spec.securityContext.sysctls[{index}].name");
        let name = sysctl::normalise(&sysctl.name);
        if name.is_empty() {
            scope.error(&path, "missing");
        } else if !sysctl::is_valid_name(&sysctl.name) {
            scope.error(
                &path,
                "must be parts of lower-case letters, digits, '-' and '_', with '.' or '/' between, at most 253",
            );
        } else if let Some(with) = belongs_to_node(&name, spec) {
            let message =
                format!("not possible together with {with}: it would change the node's own");
            scope.error(&path, &message);
        } else if !seen.insert(name) {
            scope.error(&path, "set twice");
        }
    }
}

fn belongs_to_node(name: &str, spec: &PodSpec) -> Option<&'static str> {
    match sysctl::namespace(name)? {
        Namespace::Network => (spec.host_network == Some(true)).then_some("hostNetwork"),
        Namespace::Ipc => (spec.host_ipc == Some(true)).then_some("hostIPC"),
    }
}
