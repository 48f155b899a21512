//! The long loops: an agent that is killed again and again, edits faster than anything can follow, floods of output. Short
//! forms run always, the whole with VETCH_TEST_FULL=1. Real agent, real pods.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus};

use support::agent::{QUICK_BACK_OFF, TestAgent};
use support::manifest::{LIVES, manifest};
use support::wait::{can_run, extent, wait_at_most, wait_for};
use support::watch::container;

/// First processes of the containers: those whose parent is outside of them.
fn inits(agent: &TestAgent) -> BTreeSet<i32> {
    let pids: BTreeSet<i32> = agent.container_pids().into_iter().collect();
    let parent = |pid: &i32| -> Option<i32> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        line.trim().parse().ok()
    };
    let is_first = |pid: &i32| parent(pid).is_some_and(|parent| !pids.contains(&parent));
    pids.iter().copied().filter(is_first).collect()
}

/// The ends that a container's status has told, by container.
#[derive(Default)]
struct Ends(BTreeMap<String, ContainerStateTerminated>);

impl Ends {
    fn note(&mut self, status: &ContainerStatus) {
        for state in [&status.state, &status.last_state] {
            let Some(end) = state.as_ref().and_then(|state| state.terminated.clone()) else {
                continue;
            };
            self.0
                .insert(end.container_id.clone().unwrap_or_default(), end);
        }
    }

    /// From the end of each instance to the start of the next one, in seconds.
    fn pauses(&self) -> Vec<i64> {
        let mut spans: Vec<(i64, i64)> = self
            .0
            .values()
            .map(|end| {
                let second = |time: &Option<
                    k8s_openapi::apimachinery::pkg::apis::meta::v1::Time,
                >| { time.as_ref().map(|time| time.0.as_second()) };
                (
                    second(&end.started_at).expect("a start"),
                    second(&end.finished_at).expect("an end"),
                )
            })
            .collect();
        spans.sort_unstable();
        spans.windows(2).map(|two| two[1].0 - two[0].1).collect()
    }
}

/// Killed whether or not it has begun to answer: same processes, no line lost or doubled, and the pod that fails goes on
/// with its exit codes, its restart count and its back-off.
#[test]
fn an_agent_killed_again_and_again_disturbs_nobody() {
    if !can_run() {
        return;
    }
    let restarts = i32::try_from(extent(3, 2)).expect("small");
    let mut agent = TestAgent::start();
    let count = "i=0; while :; do echo line $i; i=$((i+1)); sleep 0.05; done";
    agent.put("count.yaml", &manifest("count", 2, count));
    agent.put("sleep.yaml", &manifest("sleep", 2, LIVES));
    let counter = agent.wait_until_running("count");
    let sleeper = agent.wait_until_running("sleep");
    let pids = inits(&agent);
    assert_eq!(pids.len(), 2);
    agent.put("fails.yaml", &manifest("fails", 2, "sleep 0.3; exit 3"));
    let mut ends = Ends::default();
    for round in 0..extent(100, 6) {
        agent.kill();
        if round % 2 == 0 {
            agent.launch();
        } else {
            agent.spawn();
            let status = agent.pod("fails").and_then(|pod| container(&pod).cloned());
            status.iter().for_each(|status| ends.note(status));
        }
    }
    agent.kill();
    agent.spawn();
    assert_eq!(agent.wait_until_running("count"), counter);
    assert_eq!(agent.wait_until_running("sleep"), sleeper);
    assert!(pids.is_subset(&inits(&agent)), "the same processes");

    let log = agent.logs("count", "main");
    let numbers: Vec<u32> = log
        .lines()
        .filter_map(|line| line.rsplit_once("line ")?.1.parse().ok())
        .collect();
    let expected: Vec<u32> = (0..).take(numbers.len()).collect();
    assert_eq!(numbers, expected, "no line is lost or doubled");

    let last = agent.wait_for_pod("fails", |pod| {
        let status = container(pod)?;
        ends.note(status);
        let is_over = status.state.as_ref()?.waiting.is_some();
        (is_over && status.restart_count >= restarts).then(|| status.clone())
    });
    let codes: Vec<i32> = ends.0.values().map(|end| end.exit_code).collect();
    assert!(codes.iter().all(|code| *code == 3), "{codes:?}");
    // The first instance may have been replaced while nobody looked.
    let seen = i32::try_from(codes.len()).expect("few");
    assert!(
        (last.restart_count..=last.restart_count + 1).contains(&seen),
        "{} restarts, but {seen} ends",
        last.restart_count
    );
    // From the end: the longest pause is the last. Times in a status are whole seconds.
    let pauses = ends.pauses();
    let due = (0..).map(|n| 10 << (restarts - 2 - n));
    let times = usize::try_from(last.restart_count - 1).expect("a few");
    for (pause, due) in pauses.iter().rev().zip(due).take(times) {
        assert!(*pause >= due - 1, "{pauses:?}");
    }
}

#[test]
fn of_many_quick_edits_the_last_one_ends_up_running() {
    if !can_run() {
        return;
    }
    let edits = extent(300, 40);
    let agent = TestAgent::start();
    for n in 0..edits {
        agent.put(
            "web.yaml",
            &manifest("web", 2, &format!("echo edit {n}; {LIVES}")),
        );
    }
    let last = format!("edit {}\n", edits - 1);
    wait_for("the last edit runs alone", || {
        let pods = agent.client().pods().ok()?;
        let is_last = agent.logs("web", "main").ends_with(&last);
        (pods.len() == 1 && is_last).then_some(())
    });
    agent.wait_until_running("web");
    assert_eq!(inits(&agent).len(), 1, "exactly one copy");
}

/// Files, directories, links and sockets below.
fn inodes(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            // What vanishes meanwhile is not counted.
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            1 + if is_dir { inodes(&entry.path()) } else { 0 }
        })
        .sum()
}

/// Two hundred restarts and more: whatever an instance makes goes with the next but one.
#[test]
fn restarts_leave_no_file_behind() {
    if !can_run() {
        return;
    }
    let restarts = extent(200, 20);
    let agent = TestAgent::start_with(QUICK_BACK_OFF);
    let names: Vec<String> = (0..10).map(|n| format!("fails{n}")).collect();
    for name in &names {
        let text = manifest(name, 2, "echo out; echo x > /root/file; exit 3");
        agent.put(&format!("{name}.yaml"), &text);
    }
    let paths = &agent.paths;
    let count = || {
        let dirs = [&paths.root_dir, &paths.run_dir, &paths.log_dir];
        dirs.into_iter().map(|dir| inodes(dir)).sum::<usize>()
    };
    let are_at = |number: u32| {
        let pods = agent.client().pods().ok()?;
        let number = i32::try_from(number).ok()?;
        let is_at = |pod| container(pod).is_some_and(|c| c.restart_count >= number);
        (pods.len() == names.len() && pods.iter().all(is_at)).then_some(())
    };
    let mut most = 0;
    wait_for("the first restarts", || {
        most = most.max(count());
        are_at(4)
    });
    wait_at_most(Duration::from_secs(600), "many restarts", || {
        are_at(restarts)
    });
    // Instances come and go; a file left by each would make it more at all times.
    wait_for("no more files than in the beginning", || {
        (count() <= most).then_some(())
    });
}

const LOG_CAP: u64 = 5 * 10 * 1024 * 1024;
/// A slow machine that does something else, too.
const FLOOD_LIMIT: Duration = Duration::from_secs(300);
const HOLDER_LIMIT_KIB: u64 = 8 * 1024;

fn size_of(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    // A file that vanishes meanwhile needs no room.
    entries
        .map(|entry| entry.metadata().map_or(0, |data| data.len()))
        .sum()
}

/// Anonymous memory of the biggest holder, in KiB.
fn holder_memory(agent: &TestAgent) -> u64 {
    let anonymous = |pid: i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    };
    let pids = agent.holder_pids();
    pids.into_iter().filter_map(anonymous).max().unwrap_or(0)
}

/// As fast as a container can print, with no agent for a part of the time: the cap holds at every moment, the holder stays
/// small, and what is kept is the end, without a gap.
#[test]
fn a_flood_of_output_is_kept_within_its_cap() {
    if !can_run() {
        return;
    }
    // 100 bytes a line: 500 MB, as 50 MB/s give in 10 s, or 80 MB, which is more than is kept uncompressed.
    let lines = u64::from(extent(5_000_000, 800_000));
    let first = 1_000_000_000;
    let end = first + lines;
    let dashes = "-".repeat(89);
    let script = format!(
        "seq {first} {} | sed 's/$/{dashes}/'; echo end; {LIVES}",
        end - 1
    );
    let mut agent = TestAgent::start();
    agent.put("flood.yaml", &manifest("flood", 2, &script));
    let status = agent.wait_until_running("flood");
    let uid = agent
        .pod("flood")
        .and_then(|pod| pod.metadata.uid)
        .expect("a UID");
    let dir = agent
        .paths
        .log_dir
        .join(format!("pods/default_flood-box_{uid}/main"));
    agent.kill();
    let mut largest = (0, 0);
    let live = dir.join("0.log");
    wait_at_most(FLOOD_LIMIT, "the end of the flood", || {
        largest.0 = largest.0.max(size_of(&dir));
        largest.1 = largest.1.max(holder_memory(&agent));
        ends_with_end(&live).then_some(())
    });
    agent.spawn();
    assert_eq!(agent.wait_until_running("flood"), status);
    assert!(largest.0 <= LOG_CAP, "{largest:?}");
    assert!(largest.1 <= HOLDER_LIMIT_KIB, "{largest:?}");

    let text = agent.text(&["logs", "flood"]);
    let text = text.strip_suffix("end\n").expect("the end");
    let kept: Vec<u64> = text
        .lines()
        .map(|line| {
            let (number, rest) = line.split_once('-').expect("a whole line");
            assert_eq!(rest.len(), 88, "{line:?}");
            number.parse().expect("a number")
        })
        .collect();
    let count = u64::try_from(kept.len()).expect("fits");
    assert!(kept.iter().copied().eq(end - count..end), "a gap");
    // At least the newest file but one is there, whole.
    assert!(count > 70_000, "{count} lines are kept");
}

fn ends_with_end(file: &Path) -> bool {
    use std::os::unix::fs::FileExt;
    let Ok(file) = std::fs::File::open(file) else {
        return false;
    };
    let len = file.metadata().map_or(0, |data| data.len());
    let mut tail = [0; 6];
    let at = len.saturating_sub(6);
    file.read_exact_at(&mut tail, at).is_ok() && &tail == b"F end\n"
}
