//! Limits, as containers see and feel them, and the values of the cgroups around them.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::path::{Path, PathBuf};

use serde_json::json;
use support::agent::TestAgent;
use support::manifest::{LIVES, container, main, pod};
use support::wait::{can_run, wait_for};
use support::watch::container_status;

/// Lines of a container's resources.
fn resources(requests: &str, limits: &str) -> String {
    format!("    resources: {{requests: {{{requests}}}, limits: {{{limits}}}}}\n")
}

/// The value of a control file of v1 or v2 in a cgroup below the agent's root.
fn value(agent: &TestAgent, cgroup: &str, [v1, v2]: [&str; 2]) -> String {
    let mount = Path::new("/sys/fs/cgroup");
    let file = if mount.join("cgroup.controllers").exists() {
        mount.join(format!("{}{cgroup}/{v2}", &agent.cgroup_root()[1..]))
    } else {
        let (controller, _) = v1.split_once('.').unwrap();
        mount.join(format!("{controller}{}{cgroup}/{v1}", agent.cgroup_root()))
    };
    let text = std::fs::read_to_string(&file);
    text.unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        .trim()
        .to_owned()
}

const SHARES: [&str; 2] = ["cpu.shares", "cpu.weight"];
const MEMORY: [&str; 2] = ["memory.limit_in_bytes", "memory.max"];
const PIDS: [&str; 2] = ["pids.max", "pids.max"];

/// `/burstable/pod<uid>`.
fn cgroup(agent: &TestAgent, class: &str, pod: &str) -> String {
    let uid = agent.pod(pod).and_then(|pod| pod.metadata.uid).unwrap();
    format!("/{class}/pod{uid}")
}

fn id(agent: &TestAgent, pod: &str) -> String {
    let status = agent.status(pod);
    let id = container_status(&status, "main")["containerID"].as_str();
    id.unwrap().replace("vetch://", "")
}

/// C-70, C-72, C-73, C-85…C-89.
#[test]
fn limits_are_values_of_cgroups() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let limited = main(LIVES) + &resources("cpu: 100m, memory: 16Mi", "cpu: 500m, memory: 32Mi");
    agent.put("web.yaml", &pod("web", 1, &limited));
    agent.wait_until_running("web");
    let of_pod = cgroup(&agent, "burstable", "web");
    for group in [&of_pod, &format!("{of_pod}/{}", id(&agent, "web"))] {
        assert_eq!(value(&agent, group, MEMORY), (32 << 20).to_string());
        let quota = value(&agent, group, ["cpu.cfs_quota_us", "cpu.max"]);
        assert_eq!(quota.split(' ').next(), Some("50000"));
        let shares = value(&agent, group, SHARES);
        assert!(["102", "17"].contains(&shares.as_str()), "{shares}");
    }
    wait_for("the class has the shares of its pods", || {
        let shares = value(&agent, "/burstable", SHARES);
        ["102", "17"].contains(&shares.as_str()).then_some(())
    });
}
