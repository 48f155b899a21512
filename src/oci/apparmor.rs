//! Which AppArmor profile a container runs under (C-54, C-55). The profiles are the administrator's: this program brings
//! none along, since loading one takes a compiler of its own.

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, Pod};

use super::{ConfigError, ContainerInput};

/// What RuntimeDefault is, the first that is loaded: one for this program, then those that other runtimes leave behind.
const DEFAULTS: [&str; 3] = [
    "vetch-default",
    "cri-containerd.apparmor.d",
    "docker-default",
];

/// The name of the profile, or none to run without. A privileged container has none unless it names one.
pub fn profile(input: &ContainerInput<'_>) -> Result<Option<String>, ConfigError> {
    let wanted = wanted(&input.pod.pod, input.container);
    match wanted.map(|profile| profile.type_.as_str()) {
        None if !input.node.apparmor => Ok(None),
        Some("Unconfined") => Ok(None),
        Some(_) if !input.node.apparmor => Err(ConfigError::NoAppArmor),
        Some("Localhost") => {
            let name = wanted.and_then(|profile| profile.localhost_profile.clone());
            let name = name.unwrap_or_default();
            // What cannot be read may be right: the kernel has the last word.
            if input.apparmor.is_none_or(|loaded| is_loaded(loaded, &name)) {
                Ok(Some(name))
            } else {
                Err(ConfigError::NoAppArmorProfile(name))
            }
        }
        Some(_) | None if is_privileged(input.container) => Ok(None),
        Some(_) | None => Ok(input.apparmor.and_then(default)),
    }
}

/// What there is to say about a container that asks for RuntimeDefault where nothing is loaded that could be it.
pub fn note(input: &ContainerInput<'_>, profile: Option<&str>) -> Option<String> {
    let wanted = wanted(&input.pod.pod, input.container)?;
    let is_default = wanted.type_ == "RuntimeDefault" && !is_privileged(input.container);
    (is_default && profile.is_none()).then(|| {
        let names = DEFAULTS.join(", ");
        format!("runs without AppArmor: RuntimeDefault is the first of {names} that is loaded, and none is")
    })
}

/// The container's before the pod's.
fn wanted<'a>(pod: &'a Pod, container: &'a Container) -> Option<&'a AppArmorProfile> {
    let own = container.security_context.as_ref();
    let pod = pod.spec.as_ref()?.security_context.as_ref();
    own.and_then(|own| own.app_armor_profile.as_ref())
        .or_else(|| pod.and_then(|pod| pod.app_armor_profile.as_ref()))
}

fn is_privileged(container: &Container) -> bool {
    let own = container.security_context.as_ref();
    own.and_then(|own| own.privileged) == Some(true)
}

fn default(loaded: &str) -> Option<String> {
    let mut names = DEFAULTS.into_iter();
    names
        .find(|name| is_loaded(loaded, name))
        .map(str::to_owned)
}

/// Lines are `name (mode)`; names may have blanks in them.
fn is_loaded(loaded: &str, name: &str) -> bool {
    let mut names = loaded.lines().filter_map(|line| line.rsplit_once(" ("));
    names.any(|(known, _)| known == name)
}

#[cfg(test)]
mod tests;
