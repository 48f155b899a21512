//! Security contexts (S-124, S-125, S-129).

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Capabilities, PodSpec, SeccompProfile, SecurityContext,
};

use super::one_of;
use crate::pod::capability;
use crate::pod::report::Scope;

/// The pod's own.
pub(super) fn pod(spec: &PodSpec, scope: Scope<'_>) {
    let Some(context) = &spec.security_context else {
        return;
    };
    let at = |field: &str| format!("spec.securityContext.{field}");
    id(context.run_as_user, &at("runAsUser"), scope);
    id(context.run_as_group, &at("runAsGroup"), scope);
    id(context.fs_group, &at("fsGroup"), scope);
    for (index, group) in context.supplemental_groups.iter().flatten().enumerate() {
        id(
            Some(*group),
            &at(&format!("supplementalGroups[{index}]")),
            scope,
        );
    }
    one_of(
        context.supplemental_groups_policy.as_deref(),
        &["Merge", "Strict"],
        &at("supplementalGroupsPolicy"),
        scope,
    );
    one_of(
        context.fs_group_change_policy.as_deref(),
        &["Always", "OnRootMismatch"],
        &at("fsGroupChangePolicy"),
        scope,
    );
    seccomp(
        context.seccomp_profile.as_ref(),
        &at("seccompProfile"),
        scope,
    );
    let profile = context.app_armor_profile.as_ref();
    apparmor(profile, &at("appArmorProfile"), scope);
}

/// A container's.
pub(super) fn container(context: &SecurityContext, path: &str, scope: Scope<'_>) {
    id(context.run_as_user, &format!("{path}.runAsUser"), scope);
    id(context.run_as_group, &format!("{path}.runAsGroup"), scope);
    seccomp(
        context.seccomp_profile.as_ref(),
        &format!("{path}.seccompProfile"),
        scope,
    );
    let profile = context.app_armor_profile.as_ref();
    apparmor(profile, &format!("{path}.appArmorProfile"), scope);
    capabilities(context.capabilities.as_ref(), path, scope);
    proc_mount(context.proc_mount.as_deref(), path, scope);
    if context.allow_privilege_escalation != Some(false) {
        return;
    }
    let at = format!("{path}.allowPrivilegeEscalation");
    if context.privileged == Some(true) {
        scope.error(&at, "cannot be false in a privileged container");
    }
    let added = context
        .capabilities
        .iter()
        .flat_map(|c| c.add.iter().flatten());
    if added.into_iter().any(|name| name == "CAP_SYS_ADMIN") {
        scope.error(&at, "cannot be false with CAP_SYS_ADMIN added");
    }
}

/// C-48, S-125. A pod with users of its own is refused by [`crate::pod::support`].
fn proc_mount(value: Option<&str>, path: &str, scope: Scope<'_>) {
    let path = format!("{path}.procMount");
    one_of(value, &["Default", "Unmasked"], &path, scope);
    if value == Some("Unmasked") {
        scope.error(
            &path,
            "Unmasked needs hostUsers: false, which this version does not support",
        );
    }
}

/// C-41. kubelet lets them pass, and the container then never starts.
fn capabilities(capabilities: Option<&Capabilities>, path: &str, scope: Scope<'_>) {
    let Some(Capabilities { add, drop }) = capabilities else {
        return;
    };
    for (field, names) in [("add", add), ("drop", drop)] {
        for (index, name) in names.iter().flatten().enumerate() {
            if !capability::is_known(name) {
                let path = format!("{path}.capabilities.{field}[{index}]");
                let message = format!("{}, so it cannot work", capability::unknown(name));
                scope.warn(&path, &message);
            }
        }
    }
}

fn id(value: Option<i64>, path: &str, scope: Scope<'_>) {
    if !value.is_none_or(|v| (0..=i64::from(i32::MAX)).contains(&v)) {
        scope.error(path, "must be from 0 to 2147483647");
    }
}

fn seccomp(profile: Option<&SeccompProfile>, path: &str, scope: Scope<'_>) {
    let Some(profile) = profile else { return };
    profile_type(&profile.type_, path, scope);
    let name = profile.localhost_profile.as_deref();
    localhost_profile((&profile.type_, name), path, scope);
    let at = format!("{path}.localhostProfile");
    let name = name.unwrap_or_default();
    if name.starts_with('/') {
        scope.error(&at, "must be a relative path");
    }
    if name.split('/').any(|part| part == "..") {
        scope.error(&at, "must not contain ..");
    }
}

fn apparmor(profile: Option<&AppArmorProfile>, path: &str, scope: Scope<'_>) {
    let Some(profile) = profile else { return };
    profile_type(&profile.type_, path, scope);
    let name = profile.localhost_profile.as_deref();
    localhost_profile((&profile.type_, name), path, scope);
}

fn profile_type(typ: &str, path: &str, scope: Scope<'_>) {
    let at = format!("{path}.type");
    if typ.is_empty() {
        scope.error(&at, "missing");
    } else {
        one_of(
            Some(typ),
            &["Localhost", "RuntimeDefault", "Unconfined"],
            &at,
            scope,
        );
    }
}

/// S-129.
fn localhost_profile((typ, name): (&str, Option<&str>), path: &str, scope: Scope<'_>) {
    let at = format!("{path}.localhostProfile");
    match (typ, name) {
        ("Localhost", None | Some("")) => scope.error(&at, "missing"),
        ("Localhost", Some(_)) | (_, None) => {}
        (_, Some(_)) => scope.error(&at, "only possible with type Localhost"),
    }
}
