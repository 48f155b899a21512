//! What this version does not do with a valid manifest, as data. The one table to edit when a feature lands.

use super::report::Scope;
use super::yaml::{Node, Value};

/// When a field counts.
#[derive(Debug, Clone, Copy)]
enum When {
    /// Present, and neither null, empty, `""` nor false.
    Set,
    /// Present and false.
    False,
    /// Present with a value other than these (or null).
    NoneOf(&'static [&'static str]),
}

use When::{False, NoneOf, Set};

/// Running the pod without it would lose data, skip a check or weaken a confinement that is asked for: refused.
/// As in the other tables, `spec.containers[]` stands for init containers too.
const NOT_YET: &[(&str, When)] = &[
    ("spec.ephemeralContainers", Set),
    ("spec.volumes", Set),
    ("spec.hostPID", Set),
    ("spec.hostIPC", Set),
    ("spec.shareProcessNamespace", Set),
    ("spec.hostUsers", False),
    ("spec.runtimeClassName", Set),
    (
        "spec.securityContext.appArmorProfile.type",
        NoneOf(APPARMOR),
    ),
    ("spec.securityContext.seLinuxOptions", Set),
    ("spec.securityContext.sysctls", Set),
    ("spec.securityContext.seccompProfile.type", NoneOf(SECCOMP)),
    ("spec.containers[].volumeMounts", Set),
    ("spec.containers[].volumeDevices", Set),
    ("spec.containers[].env[].valueFrom.fileKeyRef", Set),
    (
        "spec.containers[].livenessProbe.httpGet.protocol",
        NoneOf(HTTP_1),
    ),
    (
        "spec.containers[].readinessProbe.httpGet.protocol",
        NoneOf(HTTP_1),
    ),
    (
        "spec.containers[].startupProbe.httpGet.protocol",
        NoneOf(HTTP_1),
    ),
    (
        "spec.containers[].livenessProbe.grpc.mode",
        NoneOf(PLAINTEXT),
    ),
    (
        "spec.containers[].readinessProbe.grpc.mode",
        NoneOf(PLAINTEXT),
    ),
    (
        "spec.containers[].startupProbe.grpc.mode",
        NoneOf(PLAINTEXT),
    ),
    (
        "spec.containers[].securityContext.appArmorProfile.type",
        NoneOf(APPARMOR),
    ),
    ("spec.containers[].securityContext.seLinuxOptions", Set),
    (
        "spec.containers[].securityContext.procMount",
        NoneOf(&["Default"]),
    ),
    (
        "spec.containers[].securityContext.seccompProfile.type",
        NoneOf(SECCOMP),
    ),
];

const SECCOMP: &[&str] = &["RuntimeDefault", "Unconfined"];
///
const HTTP_1: &[&str] = &["", "HTTP1"];
const PLAINTEXT: &[&str] = &["", "Plaintext"];
const APPARMOR: &[&str] = &["Unconfined"];

/// Prefixes of annotations that asked for confinement before there were fields for it.
const OLD_APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const OLD_SECCOMP: [&str; 2] = [
    "seccomp.security.alpha.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
];

/// Accepted, and said to do nothing.
const NO_EFFECT: &[(&str, When)] = &[
    ("metadata.generateName", Set),
    (
        "spec.priorityClassName",
        NoneOf(&["", "system-node-critical"]),
    ),
    ("spec.readinessGates", Set),
    ("spec.automountServiceAccountToken", Set),
    ("spec.securityContext.fsGroupChangePolicy", Set),
    ("spec.securityContext.seLinuxChangePolicy", Set),
    ("spec.securityContext.windowsOptions", Set),
    ("spec.containers[].resizePolicy", Set),
    ("spec.containers[].securityContext.windowsOptions", Set),
    ("spec.containers[].stdin", Set),
    ("spec.containers[].stdinOnce", Set),
];

/// Accepted, and said to do nothing: they tell a scheduler which node to choose, and a static pod has its node.
const FOR_SCHEDULERS: &[(&str, When)] = &[
    (
        "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution",
        Set,
    ),
    ("spec.affinity.podAffinity", Set),
    ("spec.affinity.podAntiAffinity", Set),
    ("spec.preemptionPolicy", Set),
    ("spec.schedulerName", NoneOf(&["default-scheduler"])),
    ("spec.schedulingGroup", Set),
    ("spec.tolerations", Set),
    ("spec.topologySpreadConstraints", Set),
];

const CONTAINERS: &str = "spec.containers[].";

const NOT_YET_MESSAGE: &str = "not supported by this version yet";
const NO_EFFECT_MESSAGE: &str = "has no effect in this version";
const FOR_SCHEDULERS_MESSAGE: &str =
    "has no effect: it helps a scheduler to choose a node, and a static pod runs where its file is";

/// Accepted, with an effect that is not the whole.
const PARTLY: &[(&str, &str)] = &[
    (
        "spec.overhead",
        "only decides whether the pod fits on this node, in this version",
    ),
    (
        "spec.resources",
        "limits are not enforced in this version, they only decide whether the pod fits on this node, and its QoS class",
    ),
    (
        "spec.containers[].resources",
        "limits are not enforced in this version, they only decide whether the pod fits on this node, and who is killed first when memory runs out",
    ),
    (
        "spec.containers[].tty",
        "sets only TERM in this version, there is no terminal",
    ),
];

/// S-140…S-145: what only an API server could give, and the resource that is named in the message.
const REFERENCES: &[(&str, &str)] = &[
    ("spec.serviceAccountName", "serviceaccounts"),
    ("spec.serviceAccount", "serviceaccounts"),
    ("spec.imagePullSecrets", "secrets"),
    ("spec.resourceClaims", "resourceclaims"),
    ("spec.containers[].resources.claims", "resourceclaims"),
    ("spec.containers[].envFrom[].secretRef", "secrets"),
    ("spec.containers[].envFrom[].configMapRef", "configmaps"),
    ("spec.containers[].env[].valueFrom.secretKeyRef", "secrets"),
    (
        "spec.containers[].env[].valueFrom.configMapKeyRef",
        "configmaps",
    ),
    ("spec.volumes[].configMap", "configmaps"),
    ("spec.volumes[].secret", "secrets"),
    ("spec.volumes[].csi", "csidrivers"),
    ("spec.volumes[].glusterfs", "endpoints"),
    (
        "spec.volumes[].persistentVolumeClaim",
        "persistentvolumeclaims",
    ),
    ("spec.volumes[].ephemeral", "persistentvolumeclaims"),
    ("spec.volumes[].azureFile", "secrets"),
    ("spec.volumes[].cephfs.secretRef", "secrets"),
    ("spec.volumes[].flexVolume.secretRef", "secrets"),
    ("spec.volumes[].iscsi.secretRef", "secrets"),
    ("spec.volumes[].rbd.secretRef", "secrets"),
    ("spec.volumes[].scaleIO.secretRef", "secrets"),
    ("spec.volumes[].storageos.secretRef", "secrets"),
    ("spec.volumes[].projected.sources[].configMap", "configmaps"),
    ("spec.volumes[].projected.sources[].secret", "secrets"),
    (
        "spec.volumes[].projected.sources[].serviceAccountToken",
        "serviceaccounts",
    ),
    (
        "spec.volumes[].projected.sources[].clusterTrustBundle",
        "clustertrustbundles",
    ),
    (
        "spec.volumes[].projected.sources[].podCertificate",
        "podcertificaterequests",
    ),
];

/// Applies the tables to a pod as it is written.
pub(super) fn check(scope: Scope<'_>) {
    for &(pattern, when) in NOT_YET {
        each(scope.node, pattern, &mut |path, node| {
            if counts(node, when) {
                scope.error(path, NOT_YET_MESSAGE);
            }
        });
    }
    for &(pattern, resource) in REFERENCES {
        each(scope.node, pattern, &mut |path, node| {
            if present(node) {
                scope.error(path, &format!("static pods may not reference {resource}"));
            }
        });
    }
    for &(pattern, when) in NO_EFFECT {
        each(scope.node, pattern, &mut |path, node| {
            if counts(node, when) {
                scope.warn(path, NO_EFFECT_MESSAGE);
            }
        });
    }
    for &(pattern, when) in FOR_SCHEDULERS {
        each(scope.node, pattern, &mut |path, node| {
            if counts(node, when) {
                scope.warn(path, FOR_SCHEDULERS_MESSAGE);
            }
        });
    }
    for &(pattern, message) in PARTLY {
        each(scope.node, pattern, &mut |path, node| {
            if counts(node, Set) {
                scope.warn(path, message);
            }
        });
    }
    check_network(scope);
    check_annotations(scope);
}

/// S-129: kubelet still obeys the one and ignores the other.
fn check_annotations(scope: Scope<'_>) {
    each(scope.node, "metadata.annotations", &mut |path, node| {
        let Value::Mapping(entries) = &node.value else {
            return;
        };
        for entry in entries {
            let path = format!("{path}[{}]", entry.key);
            let asks = entry.node.text().is_some_and(|text| text != "unconfined");
            if entry.key.starts_with(OLD_APPARMOR) && asks {
                scope.error(&path, NOT_YET_MESSAGE);
            } else if OLD_SECCOMP.iter().any(|old| entry.key.starts_with(old)) {
                scope.warn(&path, "has no effect; write securityContext.seccompProfile");
            }
        }
    });
}

/// No pod network beyond loopback yet.
fn check_network(scope: Scope<'_>) {
    let Some(spec) = scope.node.get("spec") else {
        return;
    };
    let host = spec.node.get("hostNetwork");
    if host.is_some_and(|e| counts(&e.node, Set)) {
        return;
    }
    scope.warn(
        "spec.hostNetwork",
        "not true, and pods without the host's network have only loopback in this version",
    );
    each(
        scope.node,
        "spec.containers[].ports[].hostPort",
        &mut |path, node| {
            if counts(node, NoneOf(&["0"])) {
                scope.warn(path, "is not forwarded in this version without hostNetwork, it only keeps other pods from claiming the same");
            }
        },
    );
}

fn counts(node: &Node, when: When) -> bool {
    let is_false = node.text().and_then(super::scalar::boolean) == Some(false);
    match when {
        Set => !node.is_empty() && node.text() != Some("") && !is_false,
        False => is_false,
        NoneOf(values) => !node.is_null() && !node.text().is_some_and(|t| values.contains(&t)),
    }
}

/// A reference counts even when it is an empty object.
fn present(node: &Node) -> bool {
    match &node.value {
        Value::Scalar(scalar) => !node.is_null() && !scalar.text.is_empty(),
        Value::Sequence(items) => !items.is_empty(),
        Value::Mapping(_) => true,
    }
}

/// Calls `found` for each value that `pattern` (`a.b[].c`) names; what names one of the containers names one of the init
/// containers too.
fn each(root: &Node, pattern: &str, found: &mut dyn FnMut(&str, &Node)) {
    if let Some(rest) = pattern.strip_prefix(CONTAINERS) {
        each(root, &format!("spec.initContainers[].{rest}"), found);
    }
    let (step, rest) = match pattern.split_once('.') {
        Some((step, rest)) => (step, Some(rest)),
        None => (pattern, None),
    };
    descend(root, (step, rest), "", found);
}

fn descend(
    node: &Node,
    (step, rest): (&str, Option<&str>),
    path: &str,
    found: &mut dyn FnMut(&str, &Node),
) {
    let key = step.trim_end_matches("[]");
    let Some(entry) = node.get(key) else { return };
    let dot = if path.is_empty() { "" } else { "." };
    let path = format!("{path}{dot}{key}");
    let mut go = |path: &str, node: &Node| match rest {
        Some(rest) => match rest.split_once('.') {
            Some((step, rest)) => descend(node, (step, Some(rest)), path, found),
            None => descend(node, (rest, None), path, found),
        },
        None => found(path, node),
    };
    if key.len() == step.len() {
        return go(&path, &entry.node);
    }
    for (index, item) in entry.node.items().iter().enumerate() {
        go(&format!("{path}[{index}]"), item);
    }
}

#[cfg(test)]
mod tests;
