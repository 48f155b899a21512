//! Pods that the node does not take, and that start by themselves when it does (S-170…S-175, D-3).

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use serde_json::json;

use support::agent::TestAgent;
use support::manifest::{LIVES, main, pod};
use support::wait::{can_run, wait_for};

/// A pod in the host's network that claims this port, which nobody listens on.
fn with_port(name: &str, port: u16) -> String {
    let ports = format!("    ports: [{{containerPort: {port}}}]\n");
    pod(name, 5, &(main(LIVES) + &ports))
}

fn wait_until_refused(agent: &TestAgent, name: &str, reason: &str) -> String {
    agent.wait_for_status(name, "a refusal", |status| {
        let is_refused = status["reason"] == reason && status["phase"] == "Pending";
        is_refused.then(|| status["message"].as_str().unwrap_or_default().to_owned())
    })
}

/// S-171, S-31: the first by name wins, however often one looks; the other one follows when the port is free.
#[test]
fn of_two_pods_with_one_port_the_second_waits_for_the_first() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::prepare();
    agent.import_busybox();
    agent.put("1.yaml", &with_port("beta", 18_080));
    agent.put("2.yaml", &with_port("alpha", 18_080));
    agent.spawn();
    agent.wait_until_running("alpha");
    let message = wait_until_refused(&agent, "beta", "NodePorts");
    assert!(message.starts_with("Pod was rejected: "), "{message}");
    assert!(
        message.contains("18080 belongs to pod default/alpha-box"),
        "{message}"
    );
    assert_eq!(agent.event_count("beta", "NodePorts"), 1);
    let page = agent.text(&["describe", "pod", "beta"]);
    assert!(page.contains("not taken (NodePorts)"), "{page}");

    let before = agent.wait_until_running("alpha").container_id;
    agent.kill();
    agent.spawn();
    wait_until_refused(&agent, "beta", "NodePorts");
    assert_eq!(agent.wait_until_running("alpha").container_id, before);

    agent.remove("2.yaml");
    agent.wait_until_running("beta");
    assert_eq!(agent.status("beta")["reason"], json!(null));
    agent.put("2.yaml", &with_port("alpha", 18_080));
    wait_until_refused(&agent, "alpha", "NodePorts");
    assert_eq!(agent.status("beta")["phase"], "Running");
}

/// S-171: an edit that moves a port from one pod to another, both in one file, ends with both running.
#[test]
fn a_port_moves_from_pod_to_pod_by_an_edit() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.put("pods.yaml", &with_port("old", 18_081));
    agent.wait_until_running("old");
    agent.put("pods.yaml", &with_port("new", 18_081));
    agent.wait_until_running("new");
    wait_for("the old pod is gone", || {
        agent.pod("old").is_none().then_some(())
    });
}

/// S-172: labels are settings, so another start of the agent may change the answer.
#[test]
fn a_pod_waits_for_a_node_with_its_label() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    let selector = "  nodeSelector: {kubernetes.io/hostname: box, disk: ssd}\n";
    agent.put(
        "web.yaml",
        &pod("web", 5, &(selector.to_owned() + &main(LIVES))),
    );
    wait_until_refused(&agent, "web", "NodeAffinity");
    assert_eq!(agent.holder_pids(), [0; 0]);
    agent.kill();
    agent.configure("vetch: {nodeLabels: {disk: ssd}}");
    agent.spawn();
    agent.wait_until_running("web");
    assert!(agent.text(&["status"]).contains("disk=ssd"));
}

/// S-170.
#[test]
fn requests_and_the_number_of_pods_have_to_fit() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start_with("maxPods: 1");
    let resources = "    resources: {requests: {memory: 1Pi}}\n";
    agent.put("huge.yaml", &pod("huge", 5, &(main(LIVES) + resources)));
    wait_until_refused(&agent, "huge", "OutOfmemory");
    agent.put("a.yaml", &pod("a", 5, &main(LIVES)));
    agent.wait_until_running("a");
    agent.put("b.yaml", &pod("b", 5, &main(LIVES)));
    wait_until_refused(&agent, "b", "OutOfpods");
    agent.remove("a.yaml");
    agent.wait_until_running("b");
}
