//! What runs: command line, working directory, limits, stop signal.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use oci_spec::image::ImageConfiguration;
use oci_spec::runtime::{Process, ProcessBuilder};

use super::env::Variables;
use super::security::Rights;
use super::user::Identity;
use super::{ConfigError, ContainerInput, env, resources, security};
use crate::pod::env::expand;
use crate::pod::signal;

/// The specification's process; `own_env` is the pod's own part of its environment.
pub fn process(
    input: &ContainerInput<'_>,
    identity: &Identity,
    rights: &Rights,
    own_env: &Variables,
) -> Result<Process, ConfigError> {
    let args = command(input, |name| own_env.get(name))?;
    let environment = env::process_env(input, own_env, &identity.home)?;
    let mut process = ProcessBuilder::default()
        // C-27: a container's own terminal would have to be a pty kept by the holder; there is none yet.
        .terminal(false)
        .user(identity.to_oci())
        .args(args)
        .env(environment)
        .cwd(working_dir(input))
        .capabilities(security::spec_capabilities(rights))
        // C-29: the worker that calls libcontainer has set them.
        .rlimits(Vec::new())
        .oom_score_adj(oom_score_adj(input))
        .build()
        .expect("every field has a default");
    // Never `false`: libcontainer tells "must not" from "not set" only by presence.
    process.set_no_new_privileges(rights.confinement.no_new_privileges.then_some(true));
    Ok(process)
}

/// The program as the manifest has it, if that is not what is executed: a variable of it may have the value of a Secret.
pub fn program_as_written(input: &ContainerInput<'_>, process: &Process) -> Option<String> {
    let written = words(input, str::to_owned).into_iter().next()?;
    let executed = process.args().as_ref()?.first()?;
    (written != *executed).then_some(written)
}

/// C-25 and C-4.
fn command(
    input: &ContainerInput<'_>,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Vec<String>, ConfigError> {
    let words = words(input, |word| expand(word, &lookup));
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        Some(_) | None => Err(ConfigError::NoCommand),
    }
}

/// Those of the image, and what becomes of those of the manifest.
fn words(input: &ContainerInput<'_>, own_word: impl Fn(&str) -> String) -> Vec<String> {
    let image = input.image.config().as_ref();
    let from_image =
        |part: Option<&Option<Vec<String>>>| part.cloned().flatten().unwrap_or_default();
    let entrypoint = || from_image(image.map(|config| config.entrypoint()));
    let cmd = || from_image(image.map(|config| config.cmd()));
    let own = |part: &Option<Vec<String>>| -> Vec<String> {
        let words = part.iter().flatten();
        words.map(|word| own_word(word)).collect()
    };

    let command = own(&input.container.command);
    let args = own(&input.container.args);
    match (command.is_empty(), args.is_empty()) {
        (false, _) => [command, args].concat(),
        (true, false) => [entrypoint(), args].concat(),
        (true, true) => [entrypoint(), cmd()].concat(),
    }
}

/// C-26. Always absolute.
fn working_dir(input: &ContainerInput<'_>) -> PathBuf {
    let own = input.container.working_dir.as_deref();
    let image = input.image.config().as_ref();
    let image = image.and_then(|config| config.working_dir().as_deref());
    let chosen = [own, image]
        .into_iter()
        .flatten()
        .find(|dir| !dir.is_empty());
    Path::new("/").join(chosen.unwrap_or_default())
}

/// C-78. Always explicit: otherwise the holder's own, very low value would be inherited.
fn oom_score_adj(input: &ContainerInput<'_>) -> i32 {
    let wanted = resources::oom_score_adj(&input.pod.pod, input.container, input.node.memory_bytes);
    if input.node.can_lower_oom_score {
        wanted
    } else {
        wanted.max(0)
    }
}

/// P-79: the signal that asks a container to end: its own, else its image's; SIGTERM when there is none or it is unknown.
pub fn stop_signal(container: &Container, image: &ImageConfiguration) -> i32 {
    let own = container.lifecycle.as_ref();
    let own = own.and_then(|lifecycle| lifecycle.stop_signal.as_deref());
    let config = image.config().as_ref();
    let images = config.and_then(|config| config.stop_signal().as_deref());
    let known = own.and_then(signal::parse);
    known
        .or_else(|| images.and_then(signal::parse))
        .unwrap_or(signal::SIGTERM)
}

#[cfg(test)]
mod tests;
