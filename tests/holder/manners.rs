//! What a holder does to its host, and what its host can do to it.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vetch::config::HolderPaths;
use vetch::holder::proto::{Reply, Request};

use crate::support::sandbox::Sandbox;
use crate::support::wait::{can_run, wait_for};
use crate::{LIVES, shell};

#[test]
fn nothing_is_seen_in_the_hosts_mount_table() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let id = sandbox.run("c");
    let host = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let dir = sandbox.dir.path().to_str().unwrap();
    assert!(!host.contains(dir));
    assert!(
        sandbox
            .proc_text("mountinfo")
            .contains(&format!("{id}/rootfs"))
    );
}

fn can_lower_oom_score() -> bool {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "echo -998 > /proc/self/oom_score_adj"]);
    shell.stderr(Stdio::null()).status().unwrap().success()
}

/// C-79.
#[test]
fn the_holder_stays_as_it_was() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell("exit 0"));
    let status = || {
        let text = sandbox.proc_text("status");
        let keep = |line: &&str| {
            [
                "Threads:", "SigIgn:", "SigBlk:", "Groups:", "Umask:", "FDSize:",
            ]
            .iter()
            .any(|field| line.starts_with(field))
        };
        let text: Vec<_> = text.lines().filter(keep).map(str::to_owned).collect();
        (
            text,
            sandbox.proc_text("oom_score_adj"),
            // Owned by root of the initial namespace either way; a process that is not dumpable has no readable maps.
            std::fs::metadata(sandbox.proc("environ")).unwrap().uid(),
            std::fs::read_link(sandbox.proc("cwd")).unwrap(),
            std::fs::read_dir(sandbox.proc("fd")).unwrap().count(),
            sandbox.proc_text("limits"),
        )
    };
    let before = status();
    assert!(before.0.contains(&"Threads:\t1".to_owned()), "{before:?}");
    if can_lower_oom_score() {
        assert_eq!(before.1.trim(), "-998");
    } else {
        println!("SKIPPED: the score of the holder: it cannot be lowered here");
    }
    for _ in 0..5 {
        let id = sandbox.run("c");
        sandbox.exit(&id);
        sandbox.remove(&id, true);
    }
    assert_eq!(status(), before);
    let children = format!("task/{}/children", sandbox.pid());
    assert_eq!(sandbox.proc_text(&children), "");
    for fd in 0..3 {
        let target = std::fs::read_link(sandbox.proc(&format!("fd/{fd}"))).unwrap();
        assert_eq!(target.to_str(), Some("/dev/null"));
    }
}

#[test]
fn its_binary_cannot_be_changed() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let mode = std::fs::Permissions::from_mode(0o755);
    let refused = std::fs::set_permissions(sandbox.proc("exe"), mode).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
    assert_eq!(sandbox.proc_text("environ").matches('\0').count(), 1);
}

#[test]
fn signals_that_were_meant_for_others_do_not_end_it() {
    if !can_run() {
        return;
    }
    use rustix::process::{Pid, Signal, kill_process};
    let sandbox = Sandbox::start(&shell("exec sleep 1000"));
    let pid = Pid::from_raw(sandbox.pid()).unwrap();
    for signal in [
        Signal::TERM,
        Signal::HUP,
        Signal::INT,
        Signal::QUIT,
        Signal::PIPE,
    ] {
        kill_process(pid, signal).unwrap();
    }
    let id = sandbox.run("c");
    // And none of it reaches the container.
    let pid = sandbox.container_pid(&id);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let ignored = status.lines().find(|l| l.starts_with("SigIgn:")).unwrap();
    assert_eq!(ignored, "SigIgn:\t0000000000000000");
}

/// C-90.
#[test]
fn it_is_in_a_cgroup_of_its_own_everywhere() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    // It serves already while the kernel still moves it.
    let own = &sandbox.record.sandbox.holder_cgroup;
    wait_for("the holder in its cgroups", || {
        let text = sandbox.proc_text("cgroup");
        text.lines()
            .all(|line| line.ends_with(own.as_str()))
            .then_some(())
    });
    // Containers leave it everywhere, too, or a stop of the agent's unit could end them.
    let id = sandbox.run("c");
    let pid = sandbox.container_pid(&id);
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    for line in text.lines() {
        assert!(line.ends_with(&id), "{line}");
    }
}

#[test]
fn one_that_cannot_be_moved_ends_and_says_why() {
    let threaded = |dir: &Path| {
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(dir.join("cgroup.type"));
        file?.write_all(b"threaded")
    };
    if !can_run() {
        return;
    }
    let Some(unified) = unified() else {
        println!("SKIPPED: there is no cgroup v2");
        return;
    };
    let sandbox = Sandbox::start(&shell(LIVES));
    // No process can be moved into a cgroup below a threaded one.
    let name = format!("{}/threaded", sandbox.cgroup_root);
    let dir = unified.join(name.trim_start_matches('/'));
    std::fs::create_dir_all(&dir).unwrap();
    if let Err(e) = threaded(&dir) {
        println!("SKIPPED: a threaded cgroup cannot be made here: {e}");
        return;
    }
    let mut record = sandbox.record.clone();
    record.sandbox.holder_cgroup = format!("{name}/holder");
    let other = tempfile::tempdir().unwrap();
    let paths = HolderPaths::new(other.path().to_owned());
    let file = std::fs::File::create(paths.pod_record()).unwrap();
    serde_json::to_writer(file, &record).unwrap();
    let err = other.path().join("holder.err");
    let mut holder = Command::new(env!("CARGO_BIN_EXE_vetch"))
        .arg("holder")
        .arg(paths.dir())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let status = wait_for("the holder's end", || holder.try_wait().unwrap());
    assert_eq!(status.signal(), Some(9));
    let words = std::fs::read_to_string(&err).unwrap();
    assert!(words.contains("threaded/holder/cgroup.procs: "), "{words}");
}

/// Where cgroup v2 is mounted.
fn unified() -> Option<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/mounts").unwrap();
    text.lines().find_map(|line| {
        let (_, rest) = line.split_once(' ')?;
        let (target, rest) = rest.split_once(' ')?;
        rest.starts_with("cgroup2 ").then(|| target.into())
    })
}

#[test]
fn a_deep_directory_and_a_strange_umask_are_fine() {
    if !can_run() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let deep = base.path().join("d".repeat(150));
    std::fs::create_dir(&deep).unwrap();
    let dir = tempfile::tempdir_in(&deep).unwrap();
    let sandbox = Sandbox::start_in(dir, &shell(LIVES));
    let mode = std::fs::metadata(sandbox.paths.socket()).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    let id = sandbox.run("c");
    assert_eq!(sandbox.exec(&id, &["true"]).0, 0);
    let wire = crate::support::wire::Wire::connect(&sandbox.paths);
    let mut command = crate::support::wire::exec_request(&id, &["true"]);
    command.tty = true;
    let request = wire.send(Request::Exec(command), &[]);
    // Kept open: a terminal whose master is closed hangs up on its command.
    let (_, master) = wire.reply(request);
    assert_eq!(master.len(), 1);
    assert_eq!(wire.exec_exit(), (0, false));
}

#[test]
fn it_is_small() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let id = sandbox.run("c");
    sandbox.exec(&id, &["true"]);
    let rollup = sandbox.proc_text("smaps_rollup");
    println!("{rollup}");
    let anonymous = rollup
        .lines()
        .find(|l| l.starts_with("Anonymous:"))
        .unwrap();
    let kb: u32 = anonymous
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    assert!(kb < 4096, "{kb} kB of its own");
}

#[test]
fn it_leaves_when_nobody_hears_that_it_is_ready() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&shell(LIVES));
    assert_eq!(sandbox.wire.ask(Request::Shutdown), Reply::Done);
    sandbox.holder.wait().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_vetch"));
    command.arg("holder").arg(sandbox.paths.dir());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    // Dropped with the sandbox's cgroups, whatever comes of it.
    sandbox.holder = command.stdout(writer).spawn().unwrap();
    let ended = wait_for("its end", || sandbox.holder.try_wait().unwrap());
    assert!(!ended.success());
}
