//! What this version does not do with a valid manifest, as data. The one table to edit when a feature lands.

use super::report::Scope;
use super::requests::HUGE_PAGES;
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
    ("spec.hostUsers", False),
    ("spec.runtimeClassName", Set),
    ("spec.securityContext.seLinuxOptions", Set),
    ("spec.containers[].volumeMounts[].bindMountOptions", Set),
    ("spec.containers[].env[].valueFrom.fileKeyRef", Set),
    ("spec.volumes[].emptyDir.mode", Set),
    ("spec.volumes[].configMap.defaultUser", Set),
    ("spec.volumes[].configMap.items[].user", Set),
    ("spec.volumes[].secret.defaultUser", Set),
    ("spec.volumes[].secret.items[].user", Set),
    ("spec.volumes[].downwardAPI.defaultUser", Set),
    ("spec.volumes[].downwardAPI.items[].user", Set),
    ("spec.volumes[].projected.defaultUser", Set),
    (
        "spec.volumes[].projected.sources[].configMap.items[].user",
        Set,
    ),
    (
        "spec.volumes[].projected.sources[].secret.items[].user",
        Set,
    ),
    (
        "spec.volumes[].projected.sources[].downwardAPI.items[].user",
        Set,
    ),
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
    ("spec.containers[].securityContext.seLinuxOptions", Set),
];

/// What the message adds.
const BECAUSE: &[(&str, &str)] = &[
    (
        "spec.hostUsers",
        ": user ids of its own need volumes and an image that are mounted with other owners; without the field, or with true, the pod runs with the node's user ids",
    ),
    ("spec.securityContext.seLinuxOptions", NO_SELINUX),
    (
        "spec.containers[].securityContext.seLinuxOptions",
        NO_SELINUX,
    ),
];
const NO_SELINUX: &str = "; leave it out where SELinux is off";

///
const HTTP_1: &[&str] = &["", "HTTP1"];
const PLAINTEXT: &[&str] = &["", "Plaintext"];

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

/// C-80.
const NO_EVICTION: &str =
    "is not enforced: that would be to evict the pod, and static pods are not evicted";

/// Accepted, with an effect that is not the whole.
const PARTLY: &[(&str, &str)] = &[
    (
        "spec.containers[].resources.limits.ephemeral-storage",
        NO_EVICTION,
    ),
    (
        "spec.containers[].tty",
        "sets only TERM in this version, there is no terminal",
    ),
];

const NOT_COUNTED: &str = "holds, but does not decide whether the pod fits: see to it that the node has enough huge pages";
const NO_RESOURCE: &str = "has no effect: there is cpu, memory, ephemeral-storage and hugepages-<size>; devices are given by volumes or CDI names";

/// S-140…S-145: what only an API server could give, and the resource that is named in the message. ConfigMaps and Secrets
/// are read beside the pods ([`super::objects`]).
const REFERENCES: &[(&str, &str)] = &[
    ("spec.serviceAccountName", "serviceaccounts"),
    ("spec.serviceAccount", "serviceaccounts"),
    ("spec.resourceClaims", "resourceclaims"),
    ("spec.containers[].resources.claims", "resourceclaims"),
];

/// What only an API server could give, or a driver of the node's: refused, with what to write instead.
const STORAGE: &[(&str, &str)] = &[
    ("spec.containers[].volumeDevices", RAW_DEVICE),
    ("spec.volumes[].persistentVolumeClaim", CLAIM),
    ("spec.volumes[].ephemeral", CLAIM),
    ("spec.volumes[].csi", CLAIM),
    ("spec.volumes[].nfs", REMOTE),
    ("spec.volumes[].iscsi", REMOTE),
    ("spec.volumes[].fc", REMOTE),
    ("spec.volumes[].rbd", REMOTE),
    ("spec.volumes[].cephfs", REMOTE),
    ("spec.volumes[].glusterfs", REMOTE),
    ("spec.volumes[].flexVolume", REMOTE),
    ("spec.volumes[].flocker", REMOTE),
    ("spec.volumes[].quobyte", REMOTE),
    ("spec.volumes[].storageos", REMOTE),
    ("spec.volumes[].scaleIO", REMOTE),
    ("spec.volumes[].portworxVolume", REMOTE),
    ("spec.volumes[].cinder", REMOTE),
    ("spec.volumes[].azureDisk", REMOTE),
    ("spec.volumes[].azureFile", REMOTE),
    ("spec.volumes[].awsElasticBlockStore", REMOTE),
    ("spec.volumes[].gcePersistentDisk", REMOTE),
    ("spec.volumes[].photonPersistentDisk", REMOTE),
    ("spec.volumes[].vsphereVolume", REMOTE),
    (
        "spec.volumes[].gitRepo",
        "not supported; let an init container clone it into an emptyDir",
    ),
    (
        "spec.volumes[].projected.sources[].serviceAccountToken",
        "static pods may not reference serviceaccounts; leave the token out, there is no API server that would take it",
    ),
    (
        "spec.volumes[].projected.sources[].clusterTrustBundle",
        "static pods may not reference clustertrustbundles; put the certificates into a ConfigMap",
    ),
    (
        "spec.volumes[].projected.sources[].podCertificate",
        "static pods may not reference podcertificaterequests; put certificate and key into a Secret",
    ),
];

const RAW_DEVICE: &str =
    "not supported; mount a hostPath of type BlockDevice, which lets the container use the device";
const CLAIM: &str = "static pods may not reference persistentvolumeclaims or drivers; write hostPath for data that stays on this node, or emptyDir for scratch space";
const REMOTE: &str = "not supported; mount it on the node, and write hostPath with its directory";

/// Applies the tables to a pod as it is written.
pub(super) fn check(scope: Scope<'_>) {
    for &(pattern, when) in NOT_YET {
        let because = BECAUSE.iter().find(|(of, _)| *of == pattern);
        let because = because.map_or("", |(_, why)| why);
        each(scope.node, pattern, &mut |path, node| {
            if counts(node, when) {
                scope.error(path, &format!("{NOT_YET_MESSAGE}{because}"));
            }
        });
    }
    for &(pattern, resource) in REFERENCES {
        each(scope.node, pattern, &mut |path, node| {
            if present(node) {
                let message = format!("static pods may not reference {resource}; leave it out");
                scope.error(path, &message);
            }
        });
    }
    for &(pattern, message) in STORAGE {
        each(scope.node, pattern, &mut |path, node| {
            if present(node) {
                scope.error(path, message);
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
    check_limits(scope);
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

/// S-170: what the node does not count when it takes a pod, and what it does not have. Of these no request is without a
/// limit.
fn check_limits(scope: Scope<'_>) {
    each(
        scope.node,
        "spec.containers[].resources.limits",
        &mut |path, node| {
            let Value::Mapping(entries) = &node.value else {
                return;
            };
            for entry in entries {
                let message = match entry.key.as_str() {
                    "cpu" | "memory" | "ephemeral-storage" => continue,
                    key if key.starts_with(HUGE_PAGES) => NOT_COUNTED,
                    _ => NO_RESOURCE,
                };
                scope.warn(&format!("{path}[{}]", entry.key), message);
            }
        },
    );
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
