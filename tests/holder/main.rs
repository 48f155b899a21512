//! The holder as a process of its own: the built binary, real namespaces, cgroups, overlays and libcontainer.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test's helpers fail by panic, and a skip is printed"
)]

mod commands;
mod ends;
mod exec;
mod hierarchies;
mod hooks;
mod lifecycle;
mod manners;
mod pod;
mod probes;
mod propagation;
mod stops;
#[expect(dead_code, reason = "the harness has more than is needed here")]
#[path = "../support/mod.rs"]
mod support;
mod volume_attacks;
mod volumes;

/// YAML of a pod's only container, which runs a shell script.
fn shell(script: &str) -> String {
    format!("  containers:\n{}", container("c", script))
}

/// YAML of one container.
fn container(name: &str, script: &str) -> String {
    format!(
        "  - name: {name}\n    image: busybox\n    command: [\"/bin/sh\", \"-c\", {script:?}]\n"
    )
}

/// A script that lives until it is told to end.
const LIVES: &str = "trap 'exit 0' TERM; sleep 1000 & wait";
