//! Resource figures of real pods: `vetch top` and `/stats/summary`.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use serde_json::Value;

use support::agent::TestAgent;
use support::manifest::{LIVES, container, manifest, pod};
use support::wait::{can_run, wait_for};
use vetch::figures::Depth;

const MI: u64 = 1 << 20;

fn summary(agent: &TestAgent) -> Value {
    agent.client().summary(Depth::Everything).expect("figures")
}

fn pod_of<'a>(summary: &'a Value, name: &str) -> &'a Value {
    let mut pods = summary["pods"].as_array().expect("pods").iter();
    let pod = pods.find(|pod| pod["podRef"]["name"] == name);
    pod.unwrap_or_else(|| panic!("{name} in {summary:#}"))
}

fn number(value: &Value, path: &str) -> u64 {
    let found = value.pointer(path).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("{path} in {value:#}"))
}

/// X-11, H-24, V-61.
#[test]
fn a_pod_that_burns_and_hoards_is_seen_to_do_so() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let hoards = "mkdir /hoard; dd if=/dev/zero of=/big bs=1M count=8; x=$(head -c 30000000 /dev/zero | tr '\\0' x); echo done; while :; do sleep 1; done";
    let spec = format!(
        "  containers:\n{}{}",
        container("burns", "while :; do :; done"),
        container("hoards", hoards)
    );
    agent.put("busy.yaml", &pod("busy", 1, &spec));
    agent.put("idle.yaml", &manifest("idle", 1, LIVES));
    agent.wait_until_running("busy");
    agent.wait_until_running("idle");
    let found = wait_for("memory and disk are full", || {
        let summary = summary(&agent);
        let busy = pod_of(&summary, "busy-box").clone();
        let hoards = busy["containers"].get(1)?;
        let is_full = hoards.pointer("/memory/rssBytes")?.as_u64()? > 25 * MI
            && hoards.pointer("/rootfs/usedBytes")?.as_u64()? >= 8 * MI
            && hoards.pointer("/logs/usedBytes")?.as_u64()? > 0;
        is_full.then_some(summary)
    });
    let (busy, idle) = (pod_of(&found, "busy-box"), pod_of(&found, "idle-box"));
    // One process cannot burn more than one processor, and a machine that does other things leaves it a part.
    let burnt = number(&busy["containers"][0], "/cpu/usageNanoCores");
    assert!((20_000_000..1_500_000_000).contains(&burnt), "{busy:#}");
    assert!(number(idle, "/cpu/usageNanoCores") < burnt, "{found:#}");
    assert!(
        number(busy, "/memory/workingSetBytes") > 25 * MI,
        "{busy:#}"
    );
    assert!(number(busy, "/memory/usageBytes") < 500 * MI, "{busy:#}");
    assert!(number(busy, "/ephemeral-storage/usedBytes") >= 8 * MI);
    assert_eq!(number(idle, "/process_stats/process_count"), 2, "{idle:#}");
    // Of the host's network nothing is told.
    assert_eq!(busy.get("network"), None);

    let node = &found["node"];
    assert_eq!(node["nodeName"], "box");
    let total = number(node, "/memory/workingSetBytes") + number(node, "/memory/availableBytes");
    assert!(total > 100 * MI, "{node:#}");
    for path in [
        "/fs/capacityBytes",
        "/runtime/imageFs/usedBytes",
        "/rlimit/maxpid",
    ] {
        assert!(number(node, path) > 0, "{path}");
    }
    assert!(number(&node["systemContainers"][0], "/memory/usageBytes") > 0);
}

#[test]
fn top_has_kubectls_tables() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    agent.put(
        "burns.yaml",
        &manifest("zz-burns", 1, "while :; do :; done"),
    );
    agent.put("idle.yaml", &manifest("idle", 1, LIVES));
    agent.wait_until_running("zz-burns");
    agent.wait_until_running("idle");
    let rows = |args: &[&str]| -> Vec<Vec<String>> {
        let text = agent.text(&[&["top"], args].concat());
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        text.lines().map(words).collect()
    };
    let names =
        |rows: &[Vec<String>]| -> Vec<String> { rows.iter().map(|row| row[0].clone()).collect() };
    let by_name = rows(&["pods", "--interval", "200ms"]);
    assert_eq!(by_name[0], ["NAME", "CPU(cores)", "MEMORY(bytes)"]);
    assert_eq!(names(&by_name[1..]), ["idle-box", "zz-burns-box"]);
    let by_cpu = rows(&["pod", "--sort-by", "cpu", "--containers"]);
    assert_eq!(by_cpu[0], ["POD", "NAME", "CPU(cores)", "MEMORY(bytes)"]);
    assert_eq!(names(&by_cpu[1..]), ["zz-burns-box", "idle-box"]);
    assert_eq!(rows(&["po", "idle", "--interval", "1ms"]).len(), 2);
    let node = rows(&["node", "--interval", "200ms"]);
    assert_eq!(
        node[0],
        ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"]
    );
    assert!(
        node[1][2].ends_with('%') && node[1][4].ends_with('%'),
        "{node:?}"
    );
    let json = agent.json(&["top", "pods", "-o", "json"]);
    assert_eq!(json[0]["podRef"]["name"], "idle-box");

    agent.kill();
    let alone = agent.text(&["top", "pods", "--interval", "1ms"]);
    assert!(alone.contains("zz-burns-box"), "{alone}");
}
