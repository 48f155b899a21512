//! Probes that run for long leave nothing behind.

use std::fs;
use std::path::Path;

use super::support::agent::TestAgent;
use super::support::manifest::{LIVES, container};
use super::support::wait::{can_run, extent, wait_at_most, wait_for};
use super::verdicts::children;
use super::*;

/// What could grow.
#[derive(Debug, PartialEq, Eq)]
struct Burden {
    descriptors: usize,
    inodes: usize,
    cgroups: usize,
    zombies: usize,
}

/// At rest: what one run needs comes and goes.
fn burden(agent: &TestAgent) -> Burden {
    let pids = agent.holder_pids().into_iter();
    let own = i32::try_from(agent.pid()).unwrap();
    let descriptors = |pid| entries(Path::new(&format!("/proc/{pid}/fd")));
    let dirs = [
        &agent.paths.root_dir,
        &agent.paths.run_dir,
        &agent.paths.log_dir,
    ];
    let children = children(agent);
    Burden {
        descriptors: pids.chain([own]).map(descriptors).sum(),
        inodes: dirs.into_iter().map(|dir| inodes(dir)).sum(),
        cgroups: cgroups(agent),
        zombies: children.iter().filter(|line| line.contains(") Z ")).count(),
    }
}

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).map_or(0, Iterator::count)
}

fn inodes(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            1 + if is_dir { inodes(&entry.path()) } else { 0 }
        })
        .sum()
}

/// Files below the agent's cgroup root, in every hierarchy.
fn cgroups(agent: &TestAgent) -> usize {
    // A worker of the holder looks like it, and may be gone by now.
    let pids = agent.holder_pids();
    let mut texts = pids
        .iter()
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/cgroup")).ok());
    let text = texts.next().unwrap();
    let root = text.split('/').find(|name| name.starts_with("vetch-test-"));
    let hierarchies = fs::read_dir("/sys/fs/cgroup").unwrap().flatten();
    let roots = hierarchies.map(|entry| entry.path().join(root.unwrap()));
    let unified = Path::new("/sys/fs/cgroup").join(root.unwrap());
    roots.chain([unified]).map(|dir| inodes(&dir)).sum()
}

/// The least of each figure that is seen while this many runs go by.
fn rest(agent: &TestAgent, runs: usize) -> Burden {
    let end = run_count(agent) + runs;
    let mut least = burden(agent);
    wait_at_most(std::time::Duration::from_secs(1200), "runs", || {
        let now = burden(agent);
        least = Burden {
            descriptors: least.descriptors.min(now.descriptors),
            inodes: least.inodes.min(now.inodes),
            cgroups: least.cgroups.min(now.cgroups),
            zombies: least.zombies.min(now.zombies),
        };
        (run_count(agent) >= end).then_some(())
    });
    least
}

/// Each run writes a byte.
fn run_count(agent: &TestAgent) -> usize {
    let counts = ["a", "b", "c"].map(|name| {
        let text = agent.text(&["exec", "web", "-c", name, "--", "wc", "-c", "/tmp/runs"]);
        let count = text.split_whitespace().next().unwrap();
        count.parse::<usize>().unwrap()
    });
    counts.iter().sum()
}

#[test]
fn hundreds_of_commands_leave_nothing_behind() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let handler = "exec: {command: [sh, -c, 'echo -n x >> /tmp/runs']}";
    let probes = every_second("livenessProbe", handler) + &every_second("readinessProbe", handler);
    let containers = ["a", "b", "c"].map(|name| container(name, LIVES) + &probes);
    let spec = format!("  containers:\n{}", containers.concat());
    agent.put("web.yaml", &pod("web", 2, &spec));
    wait_for("readiness of all", || {
        let status = agent.status("web");
        let all = status["containerStatuses"].as_array()?;
        all.iter().all(|one| one["ready"] == true).then_some(())
    });
    let before = rest(&agent, 30);
    rest(&agent, usize::try_from(extent(1000, 90)).unwrap());
    assert_eq!(rest(&agent, 30), before);
    assert_eq!(before.zombies, 0);
    assert_eq!(agent.event_count("web", "Unhealthy"), 0);
}
