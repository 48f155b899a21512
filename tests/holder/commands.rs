//! `vetch exec` and `vetch stop` on a real holder, without an agent.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use tempfile::TempDir;

use crate::support::sandbox::Sandbox;
use crate::support::wait::{DEADLINE, can_run, wait_for};
use crate::{LIVES, shell};

/// A run directory in which the CLI finds the holder.
struct RunDir(TempDir);

impl RunDir {
    fn of(sandbox: &Sandbox) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let holders = dir.path().join("holders");
        std::fs::create_dir(&holders).unwrap();
        std::os::unix::fs::symlink(sandbox.paths.dir(), holders.join("web")).unwrap();
        Self(dir)
    }

    fn vetch(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vetch"));
        command
            .arg(args[0])
            .arg("--run-dir")
            .arg(self.0.path())
            .args(&args[1..]);
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.vetch(args).stdin(Stdio::null()).output().unwrap()
    }

    fn holders(&self) -> PathBuf {
        self.0.path().join("holders")
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn exec_passes_both_outputs_and_the_exit_code() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    sandbox.run("c");
    let run = RunDir::of(&sandbox);
    let output = run.output(&[
        "exec",
        "web",
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2; exit 7",
    ]);
    assert_eq!(text(&output.stdout), "out\n");
    assert_eq!(text(&output.stderr), "err\n");
    assert_eq!(output.status.code(), Some(7));
    let missing = run.output(&["exec", "web", "--", "/bin/nothing"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(
        text(&missing.stderr).contains("\"/bin/nothing\": no such file or directory"),
        "{}",
        text(&missing.stderr)
    );
    let unknown = run.output(&["exec", "db", "--", "true"]);
    assert_eq!(text(&unknown.stderr), "vetch: pod \"db\" not found\n");
}

/// Files of the person are copied, never handed over: in the container, the command sees pipes.
#[test]
fn exec_copies_files_and_passes_pipes_on() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    sandbox.run("c");
    let run = RunDir::of(&sandbox);
    let mut input = tempfile::tempfile().unwrap();
    let data = "0123456789abcdef".repeat(20_000);
    input.write_all(data.as_bytes()).unwrap();
    input.rewind().unwrap();
    let mut output = tempfile::tempfile().unwrap();
    let script = "cat; readlink /proc/self/fd/0 >&2; readlink /proc/self/fd/1 >&2";
    let done = run
        .vetch(&["exec", "-i", "web", "--", "sh", "-c", script])
        .stdin(input)
        .stdout(output.try_clone().unwrap())
        .output()
        .unwrap();
    let mut copied = String::new();
    output.rewind().unwrap();
    output.read_to_string(&mut copied).unwrap();
    assert_eq!(copied.len(), data.len());
    assert!(copied == data, "the content differs");
    let ends: Vec<&str> = text(&done.stderr).lines().collect();
    assert_eq!(ends.len(), 2, "{ends:?}");
    assert!(ends.iter().all(|end| end.starts_with("pipe:")), "{ends:?}");

    let mut child = run
        .vetch(&["exec", "-i", "web", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"through").unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), "through");
    // Without -i there is nothing to read.
    assert_eq!(text(&run.output(&["exec", "web", "--", "cat"]).stdout), "");
}

/// A terminal like a person's.
fn terminal() -> (OwnedFd, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (master, slave.into())
}

/// What the person sees until `end` appears.
fn read_until(screen: &mut File, end: &str) -> String {
    let limit = Timespec::try_from(DEADLINE).unwrap();
    let mut seen = String::new();
    while !seen.contains(end) {
        let ready = poll(&mut [PollFd::new(screen, PollFlags::IN)], Some(&limit)).unwrap();
        assert_eq!(ready, 1, "waited for {end:?} in vain, saw {seen:?}");
        let mut chunk = [0; 4096];
        let count = screen.read(&mut chunk).unwrap();
        seen.push_str(&String::from_utf8_lossy(&chunk[..count]));
    }
    seen
}

/// How many processes of the pod sleep; the script of the container is one of them.
fn sleeps(sandbox: &Sandbox) -> usize {
    let pids = sandbox.cgroups.pids(&sandbox.record.sandbox.pod_cgroup);
    pids.iter()
        .filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c == "sleep\n")
        })
        .count()
}

#[test]
fn exec_with_a_terminal_has_its_size_its_keys_and_gives_it_back() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    sandbox.run("c");
    let run = RunDir::of(&sandbox);
    let (master, slave) = terminal();
    let size = Winsize {
        ws_row: 40,
        ws_col: 100,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&master, size).unwrap();
    let before = tcgetattr(&slave).unwrap();
    let mut child = run
        .vetch(&["exec", "-it", "web", "--", "sh"])
        .stdin(slave.try_clone().unwrap())
        .stdout(slave.try_clone().unwrap())
        .stderr(slave.try_clone().unwrap())
        .spawn()
        .unwrap();
    let mut screen = File::from(master.as_fd().try_clone_to_owned().unwrap());
    screen.write_all(b"stty size; tty\n").unwrap();
    let seen = read_until(&mut screen, "/dev/pts/0");
    assert!(seen.contains("40 100"), "{seen}");
    assert_ne!(
        format!("{:?}", tcgetattr(&slave).unwrap().local_modes),
        format!("{:?}", before.local_modes),
        "the terminal is raw meanwhile"
    );
    // Ctrl-C ends what runs in the container, and neither the shell nor us.
    screen.write_all(b"sleep 1000\n").unwrap();
    // Only when it runs has the shell given the terminal back its signal keys.
    wait_for("the second sleep", || (sleeps(&sandbox) == 2).then_some(()));
    screen.write_all(b"\x03").unwrap();
    wait_for("its end", || (sleeps(&sandbox) == 1).then_some(()));
    screen.write_all(b"echo ma''rk; exit 5\n").unwrap();
    read_until(&mut screen, "mark");
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let after = tcgetattr(&slave).unwrap();
    assert_eq!(after.local_modes, before.local_modes);
    assert_eq!(after.input_modes, before.input_modes);
    assert_eq!(after.output_modes, before.output_modes);
}

/// Ended from outside, it still gives the terminal back, and the command ends with it.
#[test]
fn exec_that_is_ended_gives_the_terminal_back_and_ends_the_command() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    sandbox.run("c");
    let run = RunDir::of(&sandbox);
    let (master, slave) = terminal();
    let before = tcgetattr(&slave).unwrap().local_modes;
    let mut child = run
        .vetch(&["exec", "-it", "web", "--", "sleep", "1000"])
        .stdin(slave.try_clone().unwrap())
        .stdout(slave.try_clone().unwrap())
        .spawn()
        .unwrap();
    wait_for("the second sleep", || (sleeps(&sandbox) == 2).then_some(()));
    wait_for("raw mode", || {
        (tcgetattr(&slave).unwrap().local_modes != before).then_some(())
    });
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(tcgetattr(&slave).unwrap().local_modes, before);
    wait_for("its end", || (sleeps(&sandbox) == 1).then_some(()));
    drop(master);
}

#[test]
fn stop_without_an_agent_ends_the_pod_with_its_grace_and_leaves_nothing() {
    if !can_run() {
        return;
    }
    let script = "trap 'echo bye; exit 3' TERM; echo up; sleep 1000 & wait";
    let mut sandbox = Sandbox::start(&shell(script));
    let id = sandbox.run("c");
    wait_for("the trap", || (sandbox.log(&id) == "up\n").then_some(()));
    let log = sandbox.record(&id).unwrap().log;
    let run = RunDir::of(&sandbox);
    let output = run.output(&["stop", "--all"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    assert_eq!(sandbox.holder.wait().unwrap().code(), Some(0));
    let written = std::fs::read_to_string(log).unwrap();
    assert!(written.ends_with(" F bye\n"), "{written}");
    assert_eq!(std::fs::read_dir(run.holders()).unwrap().count(), 0);
    for group in [
        &sandbox.record.sandbox.pod_cgroup,
        &sandbox.record.sandbox.holder_cgroup,
    ] {
        assert!(!sandbox.cgroups.is_populated(group), "{group}");
    }
}

/// A dead holder cannot be asked; its pod is killed.
#[test]
fn stop_kills_what_a_dead_holder_left() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&shell(LIVES));
    sandbox.run("c");
    sandbox.holder.kill().unwrap();
    sandbox.holder.wait().unwrap();
    let run = RunDir::of(&sandbox);
    let output = run.output(&["stop", "--all"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let pod = &sandbox.record.sandbox.pod_cgroup;
    assert!(!sandbox.cgroups.is_populated(pod));
}
