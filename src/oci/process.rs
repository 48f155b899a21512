//! What runs: command line, working directory, limits, stop signal.

use std::path::{Path, PathBuf};

use oci_spec::image::ImageConfiguration;
use oci_spec::runtime::{Process, ProcessBuilder};

use super::security::Rights;
use super::user::Identity;
use super::{ConfigError, ContainerInput, env, resources, security};
use crate::pod::env::expand;

const SIGTERM: i32 = 15;
/// The first real-time signal as the C libraries number it.
const SIGRTMIN: i32 = 34;
const SIGRTMAX: i32 = 64;

/// The specification's process.
pub fn process(
    input: &ContainerInput<'_>,
    identity: &Identity,
    rights: &Rights,
) -> Result<Process, ConfigError> {
    let own_env = env::pod_env(input)?;
    let args = command(input, |name| own_env.get(name))?;
    let environment = env::process_env(input, &own_env, &identity.home);
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

/// C-25 and C-4.
fn command(
    input: &ContainerInput<'_>,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Vec<String>, ConfigError> {
    let image = input.image.config().as_ref();
    let from_image =
        |part: Option<&Option<Vec<String>>>| part.cloned().flatten().unwrap_or_default();
    let entrypoint = || from_image(image.map(|config| config.entrypoint()));
    let cmd = || from_image(image.map(|config| config.cmd()));
    let own = |part: &Option<Vec<String>>| -> Vec<String> {
        let words = part.iter().flatten();
        words.map(|word| expand(word, &lookup)).collect()
    };

    let command = own(&input.container.command);
    let args = own(&input.container.args);
    let words = match (command.is_empty(), args.is_empty()) {
        (false, _) => [command, args].concat(),
        (true, false) => [entrypoint(), args].concat(),
        (true, true) => [entrypoint(), cmd()].concat(),
    };
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        Some(_) | None => Err(ConfigError::NoCommand),
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

/// P-76: the signal that asks a container of this image to end; SIGTERM when there is none or it is unknown.
pub fn stop_signal(image: &ImageConfiguration) -> i32 {
    let config = image.config().as_ref();
    let text = config.and_then(|config| config.stop_signal().as_deref());
    text.and_then(parse_signal).unwrap_or(SIGTERM)
}

/// `SIGTERM`, `TERM`, `15`, `SIGRTMIN+3`, `RTMAX-1`, in any case.
fn parse_signal(text: &str) -> Option<i32> {
    let upper = text.trim().to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let number = if let Some(offset) = name.strip_prefix("RTMIN") {
        SIGRTMIN.checked_add(parse_offset(offset, '+')?)?
    } else if let Some(offset) = name.strip_prefix("RTMAX") {
        SIGRTMAX.checked_sub(parse_offset(offset, '-')?)?
    } else if let Some((_, number)) = SIGNALS.iter().find(|(known, _)| *known == name) {
        *number
    } else {
        parse_number(name)?
    };
    (1..=SIGRTMAX).contains(&number).then_some(number)
}

/// `""` is 0, `"+3"` is 3.
fn parse_offset(text: &str, sign: char) -> Option<i32> {
    if text.is_empty() {
        return Some(0);
    }
    parse_number(text.strip_prefix(sign)?)
}

/// Digits only.
fn parse_number(text: &str) -> Option<i32> {
    let number: u8 = text.parse().ok()?;
    text.starts_with(|c: char| c.is_ascii_digit())
        .then_some(i32::from(number))
}

/// Signal numbers of the architectures we run on (x86, ARM, RISC-V share them).
const SIGNALS: [(&str, i32); 33] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("IOT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", SIGTERM),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("POLL", 29),
    ("PWR", 30),
    ("SYS", 31),
];

#[cfg(test)]
mod tests;
