//! How a container ends, and what is told of it.

use std::path::Path;

use vetch::holder::proto::{InstanceState, Reply, Request};
use vetch::sys::clock;

use crate::support::sandbox::Sandbox;
use crate::support::wait::{can_run, wait_for};
use crate::{LIVES, shell};

#[test]
fn a_signal_is_told_from_an_exit_code() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell("exec sleep 1000"));
    let id = sandbox.run("c");
    let pid = rustix::process::Pid::from_raw(sandbox.container_pid(&id)).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let exit = sandbox.exit(&id);
    assert_eq!((exit.code, exit.signal), (137, Some(9)));
    assert_eq!(exit.reason, "Error");
}

#[test]
fn stop_gives_grace_to_who_takes_it() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(
        "trap 'echo bye; exit 3' TERM; sleep 1000 & echo up; wait",
    ));
    let id = sandbox.run("c");
    wait_for("trap", || sandbox.log(&id).contains("up").then_some(()));
    assert_eq!(sandbox.stop(&id, 600_000), Reply::Done);
    let exit = sandbox.exit(&id);
    assert_eq!((exit.code, exit.signal), (3, None));
    assert_eq!(sandbox.log(&id), "up\nbye\n");
}

#[test]
fn stop_kills_everything_at_the_deadline_and_not_before_two_seconds() {
    if !can_run() {
        return;
    }
    // Its pid 1 has no handler, so the kernel does not even deliver SIGTERM.
    let sandbox = Sandbox::start(&shell("sleep 1000 & sleep 1000 & echo up; wait; wait"));
    let id = sandbox.run("c");
    wait_for("start", || sandbox.log(&id).contains("up").then_some(()));
    let begin = clock::now().boot_ms;
    assert_eq!(sandbox.stop(&id, 600_000), Reply::Done);
    assert_eq!(sandbox.stop(&id, 0), Reply::Done);
    // Later requests only shorten.
    assert_eq!(sandbox.stop(&id, 900_000), Reply::Done);
    let Some(InstanceState::Stopping {
        kill_at_boot_ms, ..
    }) = sandbox.record(&id).map(|r| r.state)
    else {
        panic!("not stopping");
    };
    assert!(kill_at_boot_ms >= begin + 2000);
    let exit = sandbox.exit(&id);
    assert_eq!((exit.code, exit.signal), (137, Some(9)));
    assert!(exit.finished_at.boot_ms >= kill_at_boot_ms);
    assert!(
        !sandbox
            .cgroups
            .is_populated(&sandbox.record.sandbox.pod_cgroup)
    );
}

#[test]
fn shutdown_waits_for_nobody_and_leaves_nothing() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&shell(LIVES));
    let id = sandbox.run("c");
    assert!(matches!(
        sandbox.wire.ask(Request::Shutdown),
        Reply::Failed { .. }
    ));
    assert_eq!(sandbox.stop(&id, 10_000), Reply::Done);
    sandbox.exit(&id);
    let log = sandbox.record(&id).unwrap().log;
    assert_eq!(sandbox.wire.ask(Request::Shutdown), Reply::Done);
    assert!(sandbox.holder.wait().unwrap().success());
    assert!(log.exists());
    assert!(!sandbox.paths.bundle(&id).exists());
    assert!(!sandbox.paths.socket().exists());
}

#[test]
fn the_termination_message_is_read_and_falls_back_to_the_log() {
    if !can_run() {
        return;
    }
    let script = "if test -e /tmp/quiet; then echo last words; exit 1; fi; yes | head -c 5000 > /dev/termination-log; echo -n END >> /dev/termination-log";
    let mut sandbox = Sandbox::start(&shell(script));
    let id = sandbox.run("c");
    let message = sandbox.exit(&id).message.unwrap();
    assert_eq!(message.len(), 4096);
    assert!(message.ends_with("y\nEND"));

    std::fs::File::create(sandbox.dir.path().join("layer/tmp/quiet")).unwrap();
    let id = sandbox.run("c");
    assert_eq!(sandbox.exit(&id).message, None);
    sandbox.adjust = |request| request.termination_message_from_logs = true;
    let id = sandbox.run("c");
    let message = sandbox.exit(&id).message.unwrap();
    assert!(message.contains("last words"), "{message:?}");
}

/// P-172: 80 lines, 2048 bytes, both streams, and only of what failed.
#[test]
fn the_log_speaks_for_a_container_that_failed() {
    if !can_run() {
        return;
    }
    let numbers: String = (21..=100).map(|n| format!("{n}\n")).collect();
    let line = "0123456789".repeat(6);
    let lines = format!("{line}\n").repeat(60);
    let both = "for i in $(seq 1 30); do echo o$i; echo e$i >&2; done; exit 1";
    for (script, message) in [
        ("seq 1 100; exit 1".to_owned(), Some(numbers.as_str())),
        (
            format!("yes {line} | head -n 60; exit 1"),
            Some(&lines[lines.len() - 2048..]),
        ),
        ("echo fine".to_owned(), None),
        ("exit 1".to_owned(), None),
        (both.to_owned(), Some("e30")),
        (
            "echo log; echo -n file > /dev/termination-log; exit 1".to_owned(),
            Some("file"),
        ),
    ] {
        let mut sandbox = Sandbox::start(&shell(&script));
        sandbox.adjust = |request| request.termination_message_from_logs = true;
        let id = sandbox.run("c");
        let got = sandbox.exit(&id).message;
        if message == Some("e30") {
            let got = got.unwrap();
            let mut words: Vec<&str> = got.lines().collect();
            words.sort_unstable();
            words.dedup();
            assert_eq!(words.len(), 60, "{got}");
        } else {
            assert_eq!(got.as_deref(), message, "{script}");
        }
    }
}

/// P-173.
#[test]
fn a_termination_message_that_cannot_be_read_is_told() {
    if !can_run() {
        return;
    }
    let script = "until test -e /tmp/go; do sleep 0.02; done; echo log; exit 1";
    let mut sandbox = Sandbox::start(&shell(script));
    sandbox.adjust = |request| request.termination_message_from_logs = true;
    let id = sandbox.run("c");
    let file = sandbox.dir.path().join(format!("message-{id}"));
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    // The container may end, and its namespace with it, before the command has.
    sandbox.exec(&id, &["touch", "/tmp/go"]);
    let message = sandbox.exit(&id).message.unwrap();
    assert!(
        message.starts_with("read the termination message: "),
        "{message}"
    );
}

#[test]
fn want_of_memory_is_told() {
    if !can_run() {
        return;
    }
    let script = "while ! test -e /tmp/go; do sleep 0.02; done; exec dd if=/dev/zero of=/dev/null bs=200M count=1";
    let sandbox = Sandbox::start(&shell(script));
    let id = sandbox.run("c");
    let cgroup = format!("{}/{id}", sandbox.record.sandbox.pod_cgroup);
    let files = [
        format!("/sys/fs/cgroup/memory{cgroup}/memory.limit_in_bytes"),
        format!("/sys/fs/cgroup{cgroup}/memory.max"),
    ];
    let Some(file) = files.iter().find(|f| Path::new(f).exists()) else {
        println!("SKIPPED: a kill for want of memory: this machine has no memory controller");
        return;
    };
    std::fs::OpenOptions::new()
        .write(true)
        .open(file)
        .and_then(|mut f| std::io::Write::write_all(&mut f, b"33554432"))
        .unwrap();
    sandbox.exec(&id, &["touch", "/tmp/go"]);
    let exit = sandbox.exit(&id);
    assert_eq!((exit.code, exit.reason.as_str()), (137, "OOMKilled"));
}

#[test]
fn all_output_is_in_the_log_when_the_exit_is_told() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell("seq 1 200000; sleep 1000 & exit 0"));
    let id = sandbox.run("c");
    assert_eq!(sandbox.exit(&id).code, 0);
    let log = sandbox.log(&id);
    assert_eq!(log.lines().count(), 200_000);
    assert!(
        log.lines()
            .zip(1..)
            .all(|(line, n): (&str, u32)| line == n.to_string())
    );
}
