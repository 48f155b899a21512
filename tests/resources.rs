//! Limits, as containers see and feel them, and the values of the cgroups around them.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;
use support::agent::TestAgent;
use support::manifest::{LIVES, main, pod};
use support::wait::{can_run, wait_for};
use support::watch::{container_status, last_end};
use vetch::oci::limits::{shares, weight};

const MEMORY: [&str; 2] = ["memory.limit_in_bytes", "memory.max"];
const SHARES: [&str; 2] = ["cpu.shares", "cpu.weight"];
const QUOTA: [&str; 2] = ["cpu.cfs_quota_us", "cpu.max"];
const PIDS: [&str; 2] = ["pids.max", "pids.max"];

/// Lines of a container's resources.
fn resources(requests: &str, limits: &str) -> String {
    format!("    resources: {{requests: {{{requests}}}, limits: {{{limits}}}}}\n")
}

/// A control file of v1 or v2 of a cgroup below the agent's root.
fn file(agent: &TestAgent, cgroup: &str, [v1, v2]: [&str; 2]) -> PathBuf {
    let mount = Path::new("/sys/fs/cgroup");
    let below = format!("{}{cgroup}", agent.cgroup_root());
    if mount.join("cgroup.controllers").exists() {
        return mount.join(&below[1..]).join(v2);
    }
    let (controller, _) = v1.split_once('.').expect("a name with its controller");
    mount.join(controller).join(&below[1..]).join(v1)
}

fn value(agent: &TestAgent, cgroup: &str, names: [&str; 2]) -> String {
    let file = file(agent, cgroup, names);
    let text = std::fs::read_to_string(&file);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.trim().to_owned()
}

fn wait_for_value(agent: &TestAgent, cgroup: &str, names: [&str; 2], expected: &str) {
    wait_for(&format!("{cgroup} {names:?} is {expected}"), || {
        (value(agent, cgroup, names) == expected).then_some(())
    });
}

/// What a cgroup has that requests so much.
fn has_shares_of(agent: &TestAgent, cgroup: &str, cpu_milli: u64) -> bool {
    let shares = shares(cpu_milli);
    let is_v2 = file(agent, cgroup, SHARES).ends_with("cpu.weight");
    let expected = if is_v2 { weight(shares) } else { shares };
    value(agent, cgroup, SHARES) == expected.to_string()
}

fn wait_for_shares_of(agent: &TestAgent, cgroup: &str, cpu_milli: u64) {
    wait_for(&format!("{cgroup} has shares of {cpu_milli}"), || {
        has_shares_of(agent, cgroup, cpu_milli).then_some(())
    });
}

/// `/burstable/pod<uid>`.
fn cgroup(agent: &TestAgent, class: &str, pod: &str) -> String {
    let uid = agent.pod(pod).and_then(|pod| pod.metadata.uid);
    format!(
        "/{class}/pod{}",
        uid.expect("a pod that is shown has a UID")
    )
}

fn id(agent: &TestAgent, pod: &str) -> String {
    let status = agent.status(pod);
    let id = container_status(&status, "main")["containerID"].as_str();
    id.expect("it runs").replace("vetch://", "")
}

fn conditions(agent: &TestAgent) -> String {
    let status = agent.client().status().expect("the agent answers");
    status.conditions.join("\n")
}

/// With a UID of its own, so that it is edited in place.
fn fixed(manifest: &str) -> String {
    manifest.replace("  name: web\n", "  name: web\n  uid: fixed-1\n")
}

/// C-70, C-72, C-73, C-85…C-89; the container sees the same from inside.
#[test]
fn limits_are_values_of_cgroups() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let look = "cat /sys/fs/cgroup/memory.max || cat /sys/fs/cgroup/memory/memory.limit_in_bytes";
    let limited = main(&format!("{look}; {LIVES}"))
        + &resources("cpu: 100m, memory: 16Mi", "cpu: 500m, memory: 32Mi");
    agent.put("web.yaml", &pod("web", 1, &limited));
    agent.wait_until_running("web");
    let limit = (32 << 20).to_string();
    agent.wait_for_words("web", &limit);
    let of_pod = cgroup(&agent, "burstable", "web");
    for group in [&of_pod, &format!("{of_pod}/{}", id(&agent, "web"))] {
        assert_eq!(value(&agent, group, MEMORY), limit);
        assert_eq!(value(&agent, group, QUOTA).split(' ').next(), Some("50000"));
        assert!(has_shares_of(&agent, group, 100), "{group}");
    }
    wait_for_shares_of(&agent, "/burstable", 100);
    assert!(has_shares_of(&agent, "/besteffort", 0));

    // C-86: they follow the set of pods.
    let more = main(LIVES) + &resources("cpu: 200m", "");
    agent.put("more.yaml", &pod("more", 1, &more));
    wait_for_shares_of(&agent, "/burstable", 300);
    let other = cgroup(&agent, "burstable", "more");
    let quota = value(&agent, &other, QUOTA);
    assert!(quota == "-1" || quota.starts_with("max "), "{quota}");
    agent.remove("web.yaml");
    wait_for_shares_of(&agent, "/burstable", 200);
    wait_for("its cgroups are gone", || {
        (!file(&agent, &of_pod, MEMORY).exists()).then_some(())
    });
    agent.remove("more.yaml");
    wait_for_shares_of(&agent, "/burstable", 0);
}

/// C-88: of a Guaranteed and of a BestEffort pod.
#[test]
fn each_class_has_its_own_limits() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let both = main(LIVES) + &resources("", "cpu: 250m, memory: 24Mi");
    agent.put("sure.yaml", &pod("sure", 1, &both));
    agent.put("any.yaml", &pod("any", 1, &main(LIVES)));
    agent.wait_until_running("sure");
    agent.wait_until_running("any");
    let sure = cgroup(&agent, "guaranteed", "sure");
    assert_eq!(value(&agent, &sure, MEMORY), (24 << 20).to_string());
    assert_eq!(value(&agent, &sure, QUOTA).split(' ').next(), Some("25000"));
    assert!(has_shares_of(&agent, &sure, 250));
    wait_for_shares_of(&agent, "/guaranteed", 250);
    let any = cgroup(&agent, "besteffort", "any");
    assert!(has_shares_of(&agent, &any, 0));
    assert!(has_shares_of(
        &agent,
        &format!("{any}/{}", id(&agent, "any")),
        0
    ));
}

/// C-73, P-162, N-16: whoever goes too far is killed, and nobody else.
#[test]
fn a_memory_hog_is_killed_for_its_own_limit() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.put("calm.yaml", &pod("calm", 1, &main(LIVES)));
    agent.wait_until_running("calm");
    let hog = main("exec dd if=/dev/zero of=/dev/null bs=64M") + &resources("", "memory: 16Mi");
    agent.put(
        "hog.yaml",
        &pod("hog", 1, &format!("  restartPolicy: Never\n{hog}")),
    );
    let end = agent.wait_for_status("hog", "its end", |status| last_end(status, "main"));
    assert_eq!(
        (&end["reason"], &end["exitCode"]),
        (&json!("OOMKilled"), &json!(137))
    );
    let calm = agent.status("calm");
    assert_eq!(container_status(&calm, "main")["restartCount"], json!(0));
}

/// C-77: processes without end stay in their pod.
#[test]
fn a_pod_has_no_more_processes_than_it_may_have() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start_with("podPidsLimit: 24\n");
    agent.put("calm.yaml", &pod("calm", 1, &main(LIVES)));
    // Not without end, should the limit not hold.
    let bomb = "i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done; echo all; wait";
    agent.put("bomb.yaml", &pod("bomb", 1, &main(bomb)));
    agent.wait_until_running("calm");
    agent.wait_for_words("bomb", "can't fork");
    assert!(!agent.logs("bomb", "main").contains("all"));
    assert_eq!(
        value(&agent, &cgroup(&agent, "besteffort", "bomb"), PIDS),
        "24"
    );
    let calm = agent.status("calm");
    assert_eq!(container_status(&calm, "main")["restartCount"], json!(0));
}

/// C-88: of a pod that is edited in place, and of one that an agent finds.
#[test]
fn limits_of_a_running_pod_follow_its_document() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    // It has 24 MB in a variable.
    let script = format!("x=$(head -c 24000000 /dev/zero | tr '\\0' x); echo has it; {LIVES}");
    let limited = |memory: &str| {
        let limits = resources("memory: 1Mi", &format!("memory: {memory}"));
        fixed(&pod("web", 1, &(main(&script) + &limits)))
    };
    agent.put("web.yaml", &limited("96Mi"));
    agent.wait_for_words("web", "has it");
    let of_pod = cgroup(&agent, "burstable", "web");
    let first = id(&agent, "web");
    assert_eq!(value(&agent, &of_pod, MEMORY), (96 << 20).to_string());
    agent.put("web.yaml", &limited("128Mi"));
    wait_for_value(&agent, &of_pod, MEMORY, &(128 << 20).to_string());
    assert_eq!(id(&agent, "web"), first, "nothing was restarted");

    // Nobody is killed for a new limit.
    agent.put("web.yaml", &limited("8Mi"));
    wait_for("it is said that it has more", || {
        conditions(&agent)
            .contains("memory are in use, more than 8388608")
            .then_some(())
    });
    assert_eq!(value(&agent, &of_pod, MEMORY), (128 << 20).to_string());
    agent.put("web.yaml", &limited("64Mi"));
    wait_for_value(&agent, &of_pod, MEMORY, &(64 << 20).to_string());
    wait_for("nothing is said any more", || {
        (!conditions(&agent).contains("in use")).then_some(())
    });

    agent.kill();
    let limit = file(&agent, &of_pod, MEMORY);
    let written = std::fs::File::options().write(true).open(limit);
    let written = written.and_then(|mut file| file.write_all(b"80M"));
    written.expect("write a limit");
    agent.configure("podPidsLimit: 99\n");
    agent.spawn();
    wait_for_value(&agent, &of_pod, MEMORY, &(64 << 20).to_string());
    wait_for_value(&agent, &of_pod, PIDS, "99");
    assert_eq!(id(&agent, "web"), first, "nothing was restarted");
}

/// C-85, N-20.
#[test]
fn what_is_reserved_cannot_be_had_by_all_pods_together() {
    if !can_run() {
        return;
    }
    let memory = std::fs::read_to_string("/proc/meminfo").expect("read /proc/meminfo");
    let kib: u64 = memory
        .lines()
        .find_map(|line| {
            line.strip_prefix("MemTotal:")?
                .trim()
                .strip_suffix(" kB")?
                .parse()
                .ok()
        })
        .expect("the size of memory");
    let agent = TestAgent::start_with("systemReserved: {memory: 64Mi}\n");
    let left = (kib - (64 << 10)) * 1024;
    assert_eq!(value(&agent, "", MEMORY), left.to_string());

    let free = TestAgent::start();
    let unlimited = value(&free, "", MEMORY);
    assert_ne!(unlimited, left.to_string());
    let is_more = |bytes: u64| bytes > kib * 1024;
    assert!(
        unlimited == "max" || unlimited.parse().is_ok_and(is_more),
        "{unlimited}"
    );
}
