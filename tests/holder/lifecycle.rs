//! From create to remove.

use std::path::Path;

use vetch::holder::proto::{CreateContainer, FailureKind, HolderState, Reply, Request};
use vetch::volume::spec::{HostPathKind, Source};

use crate::support::mounts::{Mounts, file_set};
use crate::support::sandbox::Sandbox;
use crate::support::wait::{can_run, is_full, wait_for};
use crate::support::wire::Wire;
use crate::{LIVES, container, shell};

#[test]
fn a_program_runs_prints_and_its_exit_is_recorded() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell("echo hello; echo oops >&2; printf end; exit 42"));
    let id = sandbox.run("c");
    let exit = sandbox.exit(&id);
    assert_eq!((exit.code, exit.signal), (42, None));
    assert_eq!(exit.reason, "Error");
    let started_at = exit.started_at.unwrap();
    assert!(
        started_at.boot_ms <= exit.finished_at.boot_ms && started_at.wall <= exit.finished_at.wall
    );
    let mut lines: Vec<_> = sandbox.log(&id).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["end", "hello", "oops"]);

    let file = std::fs::read(sandbox.paths.state()).unwrap();
    let file: HolderState = serde_json::from_slice(&file).unwrap();
    assert_eq!(Some(&file), sandbox.wire.state.borrow().as_ref());
    assert_eq!(file.process.pid, sandbox.pid());
}

#[test]
fn a_missing_program_is_a_start_error() {
    if !can_run() {
        return;
    }
    for (command, cause) in [
        ("/bin/nosuch", "\"/bin/nosuch\": no such file or directory"),
        ("nosuch", "\"nosuch\": executable file not found in $PATH"),
        ("/etc", "\"/etc\": permission denied"),
    ] {
        let sandbox = Sandbox::start(&format!(
            "  containers:\n  - name: c\n    image: busybox\n    command: [{command:?}]"
        ));
        let (id, reply) = sandbox.create("c");
        let message = format!("exec: {cause}");
        let kind = FailureKind::Start;
        assert_eq!(
            reply,
            Reply::Failed {
                kind,
                message: message.clone()
            }
        );
        let exit = sandbox.exit(&id);
        assert_eq!((exit.code, exit.reason.as_str()), (128, "StartError"));
        assert_eq!((exit.message, exit.started_at), (Some(message), None));
        assert_eq!(sandbox.remove(&id, true), Reply::Done);
    }
}

#[test]
fn removal_leaves_nothing_but_what_was_asked_for() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell("echo x > /root/file; echo out; exit 0"));
    for with_logs in [true, false] {
        let id = sandbox.run("c");
        assert_eq!(sandbox.exit(&id).reason, "Completed");
        let log = sandbox.record(&id).unwrap().log;
        assert_eq!(sandbox.remove(&id, with_logs), Reply::Done);
        assert_eq!(log.exists(), !with_logs);
        assert!(!sandbox.paths.bundle(&id).exists());
        assert!(!sandbox.paths.runtime().join(&id).exists());
        let trash = sandbox.dir.path().join("trash").join(&id);
        assert!(trash.join("upper/root/file").exists());
        assert!(!sandbox.dir.path().join("layer/root/file").exists());
        assert!(matches!(sandbox.remove(&id, true), Reply::Failed { .. }));
    }
    assert!(!sandbox.proc_text("mounts").contains("overlay-of-ours"));
    assert!(!sandbox.proc_text("mountinfo").contains("containers/0"));
}

#[test]
fn create_is_idempotent_by_id() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let request = Request::Create(Box::new(sandbox.prepare("c")));
    let first = sandbox.wire.send(request.clone(), &[]);
    let second = sandbox.wire.send(request.clone(), &[]);
    let (first, second) = (sandbox.wire.reply(first).0, sandbox.wire.reply(second).0);
    assert!(matches!(first, Reply::Started { .. }), "{first:?}");
    assert_eq!(first, second);
    assert_eq!(sandbox.wire.ask(request), first);
    assert_eq!(
        sandbox
            .wire
            .state
            .borrow()
            .as_ref()
            .unwrap()
            .containers
            .len(),
        1
    );
}

#[test]
fn one_instance_of_a_container_at_a_time() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let (first, second) = (sandbox.prepare("c"), sandbox.prepare("c"));
    let (id, again) = (first.id.clone(), second.clone());
    let first = sandbox.wire.send(Request::Create(Box::new(first)), &[]);
    // Another agent may come now and must see it.
    let creating = || {
        let state = sandbox.wire.state.borrow();
        state.as_ref().unwrap().creating.contains("c")
    };
    while !creating() {
        sandbox.wire.receive();
    }
    let is_refused = |reply: Reply| match reply {
        Reply::Failed { kind, .. } => kind == FailureKind::Refused,
        Reply::Done | Reply::Started { .. } => false,
    };
    assert!(is_refused(
        sandbox.wire.ask(Request::Create(Box::new(second)))
    ));
    let (reply, _) = sandbox.wire.reply(first);
    assert!(matches!(reply, Reply::Started { .. }), "{reply:?}");
    assert!(!creating());
    assert!(is_refused(
        sandbox.wire.ask(Request::Create(Box::new(again.clone())))
    ));
    assert_eq!(sandbox.stop(&id, 5000), Reply::Done);
    sandbox.exit(&id);
    let reply = sandbox.wire.ask(Request::Create(Box::new(again)));
    assert!(matches!(reply, Reply::Started { .. }), "{reply:?}");
}

/// Some fail at their volumes, some before libcontainer, some within it, some at execve.
const BREAKS: [fn(&mut CreateContainer); 5] = [
    |request| {
        for volume in &mut request.volumes.volumes {
            if let Source::HostPath { kind, .. } = &mut volume.source {
                *kind = HostPathKind::Socket;
            }
        }
    },
    |request| request.volumes.mounts[3].sub_path = Some("missing/../..".into()),
    |request| request.rootfs.lower = vec!["/nonexistent".into()],
    |request| {
        let config = request.rootfs.writable.join("../../holder/containers");
        let config = config.join(&request.id).join("config.json");
        let text = std::fs::read_to_string(&config).unwrap();
        let text = text.replace("\"cwd\":\"/\"", "\"cwd\":\"/nonexistent\"");
        std::fs::File::create(&config)
            .and_then(|mut f| std::io::Write::write_all(&mut f, text.as_bytes()))
            .unwrap();
    },
    |request| request.rootfs.lower = vec!["/proc/self/fdinfo/../..".into()],
];

#[test]
fn a_hundred_failing_creates_leave_nothing() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&shell("true"));
    sandbox.mounts = Mounts::default()
        .volume("memory", Source::Memory { size_bytes: None })
        .host_path("host", sandbox.dir.path().join("made"), HostPathKind::Unset)
        .files("files", 1, file_set(&[("a", "x", 0o644)]))
        .on("memory", "/memory")
        .sub_path("memory", "new/newer", "/memory/below")
        .on("host", "/host")
        .on("files", "/files");
    // Volumes are made once, and stay.
    let id = sandbox.run("c");
    sandbox.exit(&id);
    assert_eq!(sandbox.remove(&id, true), Reply::Done);
    let fds = || std::fs::read_dir(sandbox.proc("fd")).unwrap().count();
    let (fds_before, mounts_before) = (fds(), sandbox.proc_text("mountinfo"));
    let (status, cwd) = (sandbox.proc_text("oom_score_adj"), sandbox.proc("cwd"));
    let children = format!("task/{}/children", sandbox.pid());
    for round in 0..100 {
        sandbox.adjust = BREAKS[round % BREAKS.len()];
        let (id, reply) = sandbox.create("c");
        let Reply::Failed { kind, message } = reply else {
            panic!("{reply:?}");
        };
        match kind {
            FailureKind::Create | FailureKind::Volume => {
                assert!(sandbox.record(&id).is_none(), "{message}")
            }
            FailureKind::Start => assert_eq!(sandbox.remove(&id, true), Reply::Done),
            FailureKind::NotFound | FailureKind::Refused => panic!("{message}"),
        }
        assert!(!message.is_empty());
    }
    wait_for("clean", || {
        let left = std::fs::read_dir(sandbox.dir.path().join("holder/containers"));
        let bundles = left.unwrap().count();
        let zombies = sandbox.proc_text(&children);
        (bundles == 0 && zombies.is_empty()).then_some(())
    });
    assert_eq!(
        std::fs::read_dir(sandbox.proc("fd")).unwrap().count(),
        fds_before
    );
    assert_eq!(sandbox.proc_text("mountinfo"), mounts_before);
    assert_eq!(sandbox.proc_text("oom_score_adj"), status);
    assert_eq!(std::fs::read_link(cwd).unwrap(), Path::new("/"));
    assert_eq!(
        std::fs::read_dir(sandbox.paths.runtime()).unwrap().count(),
        0
    );
    // And it still works.
    sandbox.adjust = |_| {};
    let id = sandbox.run("c");
    assert_eq!(sandbox.exit(&id).code, 0);
}

/// Takes a minute: only with VETCH_TEST_FULL.
#[test]
fn a_worker_that_hangs_is_killed_and_others_do_not_notice() {
    if !can_run() {
        return;
    }
    if !is_full() {
        println!("SKIPPED: a worker that hangs, which takes a minute: only with tests/run --full");
        return;
    }
    let both = [container("c", LIVES), container("d", LIVES)].concat();
    let sandbox = Sandbox::start(&format!("  containers:\n{both}"));
    let hanging = sandbox.prepare("c");
    let config = sandbox.paths.bundle(&hanging.id).join("config.json");
    std::fs::remove_file(&config).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &config, rustix::fs::Mode::RUSR).unwrap();
    let id = hanging.id.clone();
    let request = sandbox.wire.send(Request::Create(Box::new(hanging)), &[]);
    let other = sandbox.run("d");
    assert_eq!(sandbox.exec(&other, &["true"]).0, 0);
    let reply = wait_for_long(&sandbox.wire, request);
    let Reply::Failed { kind, message } = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(kind, FailureKind::Create);
    assert!(message.contains("60 s"), "{message}");
    wait_for("clean", || {
        (!sandbox.paths.bundle(&id).exists()).then_some(())
    });
}

fn wait_for_long(wire: &Wire, request: u64) -> Reply {
    use std::os::fd::AsFd;
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(
        wire.connection.as_fd(),
        rustix::event::PollFlags::IN,
    )];
    let limit = rustix::event::Timespec {
        tv_sec: 90,
        tv_nsec: 0,
    };
    rustix::event::poll(&mut fds, Some(&limit)).unwrap();
    wire.reply(request).0
}

#[test]
fn garbage_is_refused_and_survived() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    for garbage in [
        &b"{"[..],
        b"null",
        b"\xff\xfe",
        b"{\"id\":7,\"request\":{\"Fly\":{}}}",
    ] {
        let wire = Wire::connect(&sandbox.paths);
        vetch::sys::packet::send(&wire.connection, garbage, &[]).unwrap();
        let id = if garbage.len() > 10 { 7 } else { 0 };
        let (reply, _) = wire.reply(id);
        assert!(
            matches!(
                reply,
                Reply::Failed {
                    kind: FailureKind::Refused,
                    ..
                }
            ),
            "{reply:?}"
        );
    }
    let id = sandbox.run("c");
    assert_eq!(sandbox.stop(&id, 5000), Reply::Done);
    assert_eq!(sandbox.exit(&id).code, 0);
}
