//! The holder as a process of its own: the built binary, real namespaces, cgroups, overlays and libcontainer.

mod sandbox;

use sandbox::{Sandbox, can_run};
use vetch::holder::proto::{FailureKind, Reply};

/// YAML of a container that runs a shell script.
fn shell(script: &str) -> String {
    format!(
        "  containers:\n  - name: c\n    image: busybox\n    command: [\"/bin/sh\", \"-c\", {script:?}]"
    )
}

#[test]
fn a_program_runs_prints_and_its_exit_is_recorded() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell("echo hello; exit 42"));
    let id = sandbox.run("c");
    let exit = sandbox.exit(&id);
    assert_eq!((exit.code, exit.signal), (42, None));
    assert_eq!(exit.reason, "Error");
    assert!(exit.started_at.is_some());
    assert_eq!(sandbox.log(&id), "hello\n");
}

#[test]
fn a_missing_program_is_a_start_error() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(
        "  containers:\n  - name: c\n    image: busybox\n    command: [\"/bin/nosuch\"]",
    );
    let (id, reply) = sandbox.create("c");
    let message = "exec: \"/bin/nosuch\": no such file or directory".to_owned();
    assert_eq!(
        reply,
        Reply::Failed {
            kind: FailureKind::Start,
            message: message.clone()
        }
    );
    let exit = sandbox.exit(&id);
    assert_eq!((exit.code, exit.reason.as_str()), (128, "StartError"));
    assert_eq!(exit.message, Some(message));
    assert_eq!(exit.started_at, None);
}
