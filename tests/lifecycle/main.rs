//! The lifecycle of pods from start to end, with a real agent and real containers that tell a witness what they do.

mod changes;
mod deadline;
mod examples;
mod full_disk;
mod hooks;
mod init;
mod kills;
mod restart_rules;
mod sidecars;
#[expect(dead_code, reason = "the harness has more than is needed here")]
#[path = "../support/mod.rs"]
mod support;

use serde_json::Value;

use support::agent::TestAgent;
use support::manifest::{LIVES, container, pod};
use support::wait::{DEADLINE, look_until};
use support::watch::container_status;
use support::witness::Witness;

/// A pod with these init containers and regular containers, in the host's network. `lines` are more of its spec.
fn staged(name: &str, lines: &str, init: &[String], regular: &[String]) -> String {
    let init = match init.concat() {
        none if none.is_empty() => none,
        init => format!("  initContainers:\n{init}"),
    };
    let regular = regular.concat();
    pod(name, 30, &format!("{lines}{init}  containers:\n{regular}"))
}

/// A script that tells a word and lives until it is told to end.
fn tells_and_lives(witness: &Witness, word: &str) -> String {
    format!("{}; {LIVES}", witness.tell(word))
}

/// A script that tells a word, waits at the gate of this name, and succeeds.
fn tells_and_holds(witness: &Witness, word: &str) -> String {
    format!("{}; {}", witness.tell(word), witness.hold(word))
}

/// A script that tells WORD, lives until it is told to end, and tells WORD-end before it does, with this exit code.
fn tells_its_end(witness: &Witness, word: &str, code: i32) -> String {
    let told = witness.tell(word);
    let end = witness.tell(&format!("{word}-end"));
    format!("trap '{end}; exit {code}' TERM; {told}; while :; do sleep 1 & wait $!; done")
}

/// A sidecar of an init containers' list.
fn sidecar(name: &str, script: &str) -> String {
    container(name, script) + "    restartPolicy: Always\n"
}

/// The line of this pod in `vetch get pods`, as its columns.
fn columns(agent: &TestAgent, pod: &str) -> Vec<String> {
    let table = agent.text(&["get", "pods"]);
    let name = format!("{pod}-box");
    let line = table.lines().find(|line| line.contains(&name));
    let words = line.unwrap_or_default().split_whitespace();
    words.map(ToOwned::to_owned).collect()
}

/// Waits until `vetch get pods` shows this STATUS.
fn wait_for_word(agent: &TestAgent, pod: &str, word: &str) {
    let mut seen = Vec::new();
    let found = look_until(DEADLINE, || {
        seen = columns(agent, pod);
        seen.iter().any(|column| column == word).then_some(())
    });
    assert!(found.is_some(), "waited in vain for {word}: {seen:?}");
}

/// The reason why a container waits.
fn waiting_reason(status: &Value, name: &str) -> Value {
    container_status(status, name)["state"]["waiting"]["reason"].clone()
}

/// A condition of a pod's status.
fn condition(status: &Value, kind: &str) -> Value {
    let all = status["conditions"].as_array().into_iter().flatten();
    let mut found = all.filter(|one| one["type"] == kind);
    found.next().cloned().unwrap_or_default()
}

/// Waits until this condition of the pod is so; gives the pod's status.
fn wait_for_condition(agent: &TestAgent, pod: &str, kind: &str, wanted: &str) -> Value {
    agent.wait_for_status(pod, kind, |status| {
        (condition(status, kind)["status"] == wanted).then(|| status.clone())
    })
}

/// Waits until the pod has this phase; gives its status.
fn wait_for_phase(agent: &TestAgent, pod: &str, phase: &str) -> Value {
    agent.wait_for_status(pod, phase, |status| {
        (status["phase"] == phase).then(|| status.clone())
    })
}
