//! Commands in running containers.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use vetch::holder::proto::{FailureKind, Reply, Request};

use crate::support::sandbox::Sandbox;
use crate::support::wait::{can_run, extent, wait_for};
use crate::support::wire::{Wire, exec_request};
use crate::{LIVES, container, shell};

/// Pids in the pod's cgroup.
fn tree(sandbox: &Sandbox) -> usize {
    let pod = &sandbox.record.sandbox.pod_cgroup;
    sandbox.cgroups.pids(pod).len()
}

#[test]
fn the_exit_code_and_the_output_come_back() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let id = sandbox.run("c");
    let (code, timed_out, output) = sandbox.exec(&id, &["sh", "-c", "echo hi; exit 7"]);
    assert_eq!((code, timed_out, output.as_str()), (7, false, "hi\n"));
    let (code, _, _) = sandbox.exec(&id, &["sh", "-c", "kill -9 $$"]);
    assert_eq!(code, 137);
    // The container's namespaces, cgroup and confinement, not the holder's.
    let (_, _, init) = sandbox.exec(&id, &["cat", "/proc/1/status"]);
    let (_, _, own) = sandbox.exec(&id, &["cat", "/proc/self/status"]);
    for field in [
        "Seccomp:",
        "CapBnd:",
        "CapEff:",
        "NoNewPrivs:",
        "Groups:",
        "SigBlk:",
    ] {
        let line = |text: &str| {
            text.lines()
                .find(|l| l.starts_with(field))
                .unwrap()
                .to_owned()
        };
        assert_eq!(line(&init), line(&own));
    }
    assert!(own.contains("Seccomp:\t2"), "{own}");
    assert_eq!(
        std::fs::read_dir(sandbox.paths.bundle(&id))
            .unwrap()
            .count(),
        2
    );
    let leftovers = std::fs::read_dir(sandbox.paths.runtime().join(&id)).unwrap();
    let sockets = leftovers
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().starts_with("tenant"));
    assert_eq!(sockets.count(), 0);
}

#[test]
fn a_missing_program_is_told_and_does_not_keep_the_container_from_ending() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let id = sandbox.run("c");
    let fds_of_holder = || std::fs::read_dir(sandbox.proc("fd")).unwrap().count();
    let before = fds_of_holder();
    for _ in 0..20 {
        let wire = Wire::connect(&sandbox.paths);
        let null = std::fs::File::open("/dev/null").unwrap();
        let fds = [null.as_fd(), null.as_fd(), null.as_fd()];
        let request = wire.send(Request::Exec(exec_request(&id, &["nosuch"])), &fds);
        let (reply, _) = wire.reply(request);
        let kind = FailureKind::NotFound;
        let message = "exec: \"nosuch\": executable file not found in $PATH".to_owned();
        assert_eq!(reply, Reply::Failed { kind, message });
    }
    let children = format!("task/{}/children", sandbox.pid());
    wait_for("nothing left", || {
        let children = sandbox.proc_text(&children).split_whitespace().count();
        (children == 1 && fds_of_holder() == before).then_some(())
    });
    assert_eq!(sandbox.stop(&id, 5000), Reply::Done);
    assert_eq!(sandbox.exit(&id).code, 0);
}

#[test]
fn a_terminal_is_made_in_the_container() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let id = sandbox.run("c");
    let wire = Wire::connect(&sandbox.paths);
    let mut command = exec_request(&id, &["sh"]);
    command.tty = true;
    let request = wire.send(Request::Exec(command), &[]);
    let (reply, fds) = wire.reply(request);
    assert!(matches!(reply, Reply::Started { .. }), "{reply:?}");
    let mut master = std::fs::File::from(fds.into_iter().next().unwrap());
    let size = rustix::termios::Winsize {
        ws_row: 33,
        ws_col: 77,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&master, size).unwrap();
    master.write_all(b"tty; stty size; exit 5\n").unwrap();
    let mut text = Vec::new();
    // The end of a master is EIO.
    let _ = master.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("/dev/pts/0"), "{text}");
    assert!(text.contains("33 77"), "{text}");
    assert_eq!(wire.exec_exit(), (5, false));
    assert_eq!(
        std::fs::read_dir(sandbox.paths.bundle(&id))
            .unwrap()
            .count(),
        2
    );
}

#[test]
fn a_timeout_kills_the_whole_tree_and_only_that() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let id = sandbox.run("c");
    wait_for("the container's own", || {
        (tree(&sandbox) == 2).then_some(())
    });
    let wire = Wire::connect(&sandbox.paths);
    let null = std::fs::File::open("/dev/null").unwrap();
    let mut command = exec_request(&id, &["sh", "-c", "(sleep 1000 & sleep 1000) & sleep 1000"]);
    command.timeout_ms = Some(1000);
    let fds = [null.as_fd(), null.as_fd(), null.as_fd()];
    wire.send(Request::Exec(command), &fds);
    wait_for("its tree", || (tree(&sandbox) >= 5).then_some(()));
    assert_eq!(wire.exec_exit(), (137, true));
    wait_for("its end", || (tree(&sandbox) == 2).then_some(()));
    assert!(sandbox.record(&id).is_some());
}

#[test]
fn a_closed_connection_kills_the_whole_tree() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let id = sandbox.run("c");
    wait_for("the container's own", || {
        (tree(&sandbox) == 2).then_some(())
    });
    for wait_for_start in [true, false] {
        let wire = Wire::connect(&sandbox.paths);
        let null = std::fs::File::open("/dev/null").unwrap();
        let command = exec_request(&id, &["sh", "-c", "sleep 1000 & sleep 1000"]);
        let fds = [null.as_fd(), null.as_fd(), null.as_fd()];
        let request = wire.send(Request::Exec(command), &fds);
        if wait_for_start {
            wire.reply(request);
            wait_for("its tree", || (tree(&sandbox) >= 4).then_some(()));
        }
        drop(wire);
        wait_for("its end", || {
            let children = format!("task/{}/children", sandbox.pid());
            let children = sandbox.proc_text(&children).split_whitespace().count();
            (tree(&sandbox) == 2 && children == 1).then_some(())
        });
    }
    assert_eq!(sandbox.exec(&id, &["true"]).0, 0);
}

#[test]
fn what_does_not_run_takes_no_command() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell("exit 0"));
    let id = sandbox.run("c");
    sandbox.exit(&id);
    let null = std::fs::File::open("/dev/null").unwrap();
    for (container, fds) in [(id.as_str(), 3), ("unknown", 3), (&id, 1)] {
        let wire = Wire::connect(&sandbox.paths);
        let fds: Vec<_> = (0..fds).map(|_| null.as_fd()).collect();
        let request = wire.send(Request::Exec(exec_request(container, &["true"])), &fds);
        let (reply, _) = wire.reply(request);
        let refused = FailureKind::Refused;
        assert!(matches!(reply, Reply::Failed { kind, .. } if kind == refused));
    }
}

#[test]
fn many_at_once_get_along_and_leave_nothing() {
    if !can_run() {
        return;
    }
    let names: Vec<String> = (0..8).map(|n| format!("c{n}")).collect();
    let containers: String = names.iter().map(|n| container(n, LIVES)).collect();
    let sandbox = Sandbox::start(&format!("  containers:\n{containers}"));
    let requests: Vec<_> = names.iter().map(|n| sandbox.prepare(n)).collect();
    let ids: Vec<_> = requests.iter().map(|r| r.id.clone()).collect();
    let create = |request| sandbox.wire.send(Request::Create(Box::new(request)), &[]);
    let sent: Vec<u64> = requests.into_iter().map(create).collect();
    for id in sent {
        let (reply, _) = sandbox.wire.reply(id);
        assert!(matches!(reply, Reply::Started { .. }), "{reply:?}");
    }
    let null = std::fs::File::open("/dev/null").unwrap();
    let fds = [null.as_fd(), null.as_fd(), null.as_fd()];
    let exec = |n: usize| {
        let wire = Wire::connect(&sandbox.paths);
        let script = format!("exit {n}");
        let command = exec_request(&ids[n % ids.len()], &["sh", "-c", &script]);
        wire.send(Request::Exec(command), &fds);
        wire
    };
    let wires: Vec<Wire> = (0..24).map(exec).collect();
    for (n, wire) in (0..).zip(wires) {
        assert_eq!(wire.exec_exit(), (n, false));
    }
    for id in &ids {
        assert_eq!(sandbox.stop(id, 10_000), Reply::Done);
    }
    for id in &ids {
        assert_eq!(sandbox.exit(id).code, 0);
        assert_eq!(sandbox.remove(id, true), Reply::Done);
    }
    let children = format!("task/{}/children", sandbox.pid());
    assert_eq!(sandbox.proc_text(&children), "");
    let runtime = std::fs::read_dir(sandbox.paths.runtime()).unwrap();
    assert_eq!(runtime.count(), 0);
    assert!(!sandbox.proc_text("mountinfo").contains("rootfs"));
}

/// Files below a directory, mount points not entered.
fn count_below(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let count = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => 1 + count_below(&entry.path()),
        Ok(_) | Err(_) => 1,
    };
    entries.map(count).sum()
}

/// What a holder could leave behind: descriptors, children, heap, files, cgroups.
fn remains(sandbox: &Sandbox) -> [usize; 5] {
    let children = format!("task/{}/children", sandbox.pid());
    let status = sandbox.proc_text("status");
    let heap = status.lines().find_map(|l| l.strip_prefix("VmData:"));
    let heap = heap.unwrap().trim().trim_end_matches(" kB");
    [
        std::fs::read_dir(sandbox.proc("fd")).unwrap().count(),
        sandbox.proc_text(&children).split_whitespace().count(),
        heap.parse().unwrap(),
        count_below(sandbox.paths.dir()),
        cgroups(sandbox),
    ]
}

/// Directories of the pod's cgroup in all hierarchies.
fn cgroups(sandbox: &Sandbox) -> usize {
    fn dirs(path: &Path) -> usize {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| 1 + dirs(&entry.path()))
            .sum()
    }
    let pod = &sandbox.record.sandbox.pod_cgroup[1..];
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten();
    let below: usize = hierarchies.map(|h| dirs(&h.path().join(pod))).sum();
    below + dirs(&Path::new("/sys/fs/cgroup").join(pod))
}

/// A probe every second for years: whatever its command does, nothing stays.
#[test]
fn hundreds_of_commands_leave_nothing() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let id = sandbox.run("c");
    let null = std::fs::File::open("/dev/null").unwrap();
    let fds = [null.as_fd(), null.as_fd(), null.as_fd()];
    let run = |args: &[&str], timeout_ms: Option<u64>| {
        let wire = Wire::connect(&sandbox.paths);
        let mut command = exec_request(&id, args);
        command.timeout_ms = timeout_ms;
        let request = wire.send(Request::Exec(command), &fds);
        match wire.reply(request).0 {
            Reply::Started { .. } => Some(wire.exec_exit()),
            Reply::Done | Reply::Failed { .. } => None,
        }
    };
    let round = || {
        for _ in 0..4 {
            assert_eq!(run(&["true"], None), Some((0, false)));
        }
        assert_eq!(run(&["sh", "-c", "exit 3"], Some(60_000)), Some((3, false)));
        // Its cgroup cannot be removed when the command ends.
        assert_eq!(run(&["sh", "-c", "sleep 0.05 &"], None), Some((0, false)));
        assert_eq!(run(&["nosuch"], None), None);
        let hangs = ["sh", "-c", "sleep 1000 & sleep 1000"];
        assert_eq!(run(&hangs, Some(20)), Some((137, true)));
    };
    let settled = |wanted: Option<[usize; 5]>| {
        wait_for("nothing left", || {
            // What could not be removed at once is tried again when another command ends.
            run(&["true"], None);
            let now = remains(&sandbox);
            let is_settled = match wanted {
                Some(wanted) => now == wanted,
                None => tree(&sandbox) == 2,
            };
            is_settled.then_some(now)
        })
    };
    for _ in 0..5 {
        round();
    }
    let before = settled(None);
    for _ in 0..extent(200, 40) {
        round();
    }
    settled(Some(before));
}
