//! Manifests of pods in the host's network, so that no test depends on a bridge.

/// A script that lives until it is told to end.
pub const LIVES: &str = "trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done";

/// The same; it says `up` at its start and `bye` at its end.
pub const SAYS_BYE: &str =
    "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 1 & wait $!; done";

/// A pod whose only container, `main`, runs this shell script. `grace_s` are the seconds from SIGTERM to SIGKILL.
pub fn manifest(name: &str, grace_s: u32, script: &str) -> String {
    pod(name, grace_s, &main(script))
}

/// A pod with these lines in its spec (two blanks of indentation), among them its containers.
pub fn pod(name: &str, grace_s: u32, spec: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: {grace_s}
{spec}"
    )
}

/// Lines of a spec: the only container, `main`, which runs this shell script. More lines of the container, with four blanks
/// of indentation, may follow.
pub fn main(script: &str) -> String {
    format!("  containers:\n{}", container("main", script))
}

/// Lines of a spec: one container of a list of containers or init containers.
pub fn container(name: &str, script: &str) -> String {
    format!("  - name: {name}\n    image: busybox\n    command: [sh, -c, {script:?}]\n")
}
