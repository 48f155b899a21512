//! Hooks, stop signals and restart policies of containers (S-119…S-121, S-132).

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, LifecycleHandler, PodSpec};

use super::{action, one_of, probe};
use crate::pod::lifecycle::Role;
use crate::pod::probe::ProbeKind;
use crate::pod::report::Scope;
use crate::pod::signal;

/// What depends on the part that a container plays; `path` is the container's.
pub(super) fn container(
    spec: &PodSpec,
    (role, container): (Role, &Container),
    path: &str,
    scope: Scope<'_>,
) {
    restart(container, path, scope);
    match role {
        Role::Init => ends(container, path, scope),
        Role::Sidecar | Role::Regular => {
            probe::all(container, path, scope);
            hooks(spec, container, path, scope);
        }
    }
}

/// S-119.
fn ends(container: &Container, path: &str, scope: Scope<'_>) {
    let refuse = |field: &str| {
        let message = "not possible in an init container, unless it is a sidecar; write restartPolicy: Always if it is to keep running";
        scope.error(&format!("{path}.{field}"), message);
    };
    for kind in ProbeKind::ALL {
        if kind.of(container).is_some() {
            refuse(probe::field(kind));
        }
    }
    if container.lifecycle.is_some() {
        refuse("lifecycle");
    }
}

/// S-120.
fn hooks(spec: &PodSpec, container: &Container, path: &str, scope: Scope<'_>) {
    let Some(lifecycle) = &container.lifecycle else {
        return;
    };
    let grace = spec.termination_grace_period_seconds.unwrap_or(30);
    for (field, handler) in [
        ("postStart", &lifecycle.post_start),
        ("preStop", &lifecycle.pre_stop),
    ] {
        if let Some(handler) = handler {
            let path = format!("{path}.lifecycle.{field}");
            hook(container, handler, &path, scope);
            sleep(handler, grace, &path, scope);
        }
    }
    if let Some(signal) = lifecycle.stop_signal.as_deref() {
        let path = format!("{path}.lifecycle.stopSignal");
        stop_signal(spec, signal, &path, scope);
    }
}

/// S-121.
fn stop_signal(spec: &PodSpec, name: &str, path: &str, scope: Scope<'_>) {
    if name.is_empty() {
        return;
    }
    if !signal::is_name(name) {
        let upper = name.to_ascii_uppercase();
        let whole = format!("SIG{}", upper.trim_start_matches("SIG"));
        let hint = if signal::is_name(&whole) {
            format!("did you mean {whole}?")
        } else {
            "write it like SIGTERM, SIGRTMIN+3 or SIGRTMAX-1".to_owned()
        };
        scope.error(path, &format!("no signal's name; {hint}"));
    }
    if spec.os.as_ref().is_none_or(|os| os.name.is_empty()) {
        scope.error(path, "needs the pod's spec.os.name; write linux there");
    }
}

fn hook(container: &Container, handler: &LifecycleHandler, path: &str, scope: Scope<'_>) {
    let written = [
        handler.exec.is_some(),
        handler.http_get.is_some(),
        handler.sleep.is_some(),
        handler.tcp_socket.is_some(),
    ];
    let count = written.into_iter().filter(|is_set| *is_set).count();
    // Not tcpSocket, which is of no use.
    action::exactly_one("exec, httpGet and sleep", count, path, scope);
    if let Some(exec) = &handler.exec {
        action::exec(exec, path, scope);
    }
    if let Some(get) = &handler.http_get {
        action::http_get(container, get, path, scope);
    }
    if let Some(tcp) = &handler.tcp_socket {
        action::tcp(container, tcp, path, scope);
        // P-95.
        let message = "a tcpSocket hook always fails, as in kubelet; use exec, httpGet or sleep";
        scope.warn(&format!("{path}.tcpSocket"), message);
    }
}

/// P-94.
fn sleep(handler: &LifecycleHandler, grace: i64, path: &str, scope: Scope<'_>) {
    let Some(sleep) = &handler.sleep else { return };
    if !(0..=grace).contains(&sleep.seconds) {
        scope.error(
            &format!("{path}.sleep.seconds"),
            &format!("must be from 0 to {grace}, the pod's terminationGracePeriodSeconds"),
        );
    }
}

/// S-132, P-61.
fn restart(container: &Container, path: &str, scope: Scope<'_>) {
    let policy = container.restart_policy.as_deref();
    let policy_path = format!("{path}.restartPolicy");
    let policies = ["Always", "OnFailure", "Never"];
    one_of(policy, &policies, &policy_path, scope);
    let rules = container.restart_policy_rules.as_deref();
    let rules = rules.unwrap_or_default();
    let path = format!("{path}.restartPolicyRules");
    if !rules.is_empty() && policy.is_none() {
        let message = "missing; restartPolicyRules need it, for the exits that match no rule";
        scope.error(&policy_path, message);
    }
    if rules.len() > 20 {
        scope.error(&path, "more than 20");
    }
    for (index, rule) in rules.iter().enumerate() {
        self::rule(rule, &format!("{path}[{index}]"), scope);
    }
}

fn rule(rule: &ContainerRestartRule, path: &str, scope: Scope<'_>) {
    one_of(
        Some(&rule.action),
        &["Restart", "RestartAllContainers"],
        &format!("{path}.action"),
        scope,
    );
    let path = format!("{path}.exitCodes");
    let Some(codes) = &rule.exit_codes else {
        return scope.error(&path, "missing");
    };
    one_of(
        Some(&codes.operator),
        &["In", "NotIn"],
        &format!("{path}.operator"),
        scope,
    );
    let values = codes.values.as_deref().unwrap_or_default();
    if values.len() > 255 {
        scope.error(&format!("{path}.values"), "more than 255");
    }
    for (index, code) in values.iter().enumerate() {
        if !(0..=255).contains(code) {
            let message = "no container exits so; exit codes are from 0 to 255";
            scope.warn(&format!("{path}.values[{index}]"), message);
        }
    }
    if values.is_empty() {
        let message = match codes.operator.as_str() {
            "In" => "empty, so the rule never matches",
            _ => "empty, so the rule matches every exit",
        };
        scope.warn(&format!("{path}.values"), message);
    }
}
