//! A node on which nothing happens writes nothing.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use support::agent::TestAgent;
use support::manifest::{LIVES, manifest};
use support::wait::{can_run, look_until, wait_for};

/// So long nothing may happen.
const IDLE: Duration = Duration::from_secs(10);

/// All that tells a write: what the kernel counted for each process, number and change time of each file.
#[derive(PartialEq, Debug)]
struct Traces {
    written: BTreeMap<i32, String>,
    files: BTreeMap<PathBuf, (u64, i64, i64)>,
}

fn traces(agent: &TestAgent) -> Traces {
    let pids = agent.holder_pids().into_iter();
    let agent_pid = i32::try_from(agent.pid()).expect("a pid");
    let mut files = BTreeMap::new();
    for dir in [
        &agent.paths.root_dir,
        &agent.paths.run_dir,
        &agent.paths.log_dir,
    ] {
        walk(dir, &mut files);
    }
    Traces {
        written: pids
            .chain([agent_pid])
            .map(|pid| (pid, written(pid)))
            .collect(),
        files,
    }
}

/// Bytes that a process made the kernel write to disks.
fn written(pid: i32) -> String {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).expect("read its figures");
    let mut lines = io.lines();
    let line = lines.find(|line| line.starts_with("write_bytes"));
    line.expect("the figure").to_owned()
}

fn walk(path: &Path, files: &mut BTreeMap<PathBuf, (u64, i64, i64)>) {
    let Ok(data) = std::fs::symlink_metadata(path) else {
        return;
    };
    let trace = (data.ino(), data.ctime(), data.ctime_nsec());
    files.insert(path.to_owned(), trace);
    if data.is_dir() {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| walk(&entry.path(), files));
    }
}

/// Invariant 5.
#[test]
fn an_idle_node_writes_nothing() {
    if !can_run() {
        return;
    }
    let agent =
        TestAgent::start_with("evictionHard: {memory.available: 1Mi, pid.available: \"1\"}");
    let names = ["a", "b", "c"];
    for name in names {
        agent.put(&format!("{name}.yaml"), &manifest(name, 2, LIVES));
    }
    for name in names {
        agent.wait_until_running(name);
    }
    // The last writes about the start may still come; after them there is silence.
    wait_for("a while without a write", || {
        let before = traces(&agent);
        assert_eq!(before.written.len(), 1 + names.len());
        let change = look_until(IDLE, || (traces(&agent) != before).then_some(()));
        change.is_none().then_some(())
    });
}
