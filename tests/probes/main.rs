//! Probes and hooks as a person sees them: a real agent, real containers, statuses and events.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail by panic")]

mod burden;
mod handlers;
mod hooks;
mod restart;
mod servers;
#[expect(dead_code, reason = "the harness has more than is needed here")]
#[path = "../support/mod.rs"]
mod support;
mod upstream;
mod verdicts;

use serde_json::{Value, json};

use support::agent::TestAgent;
use support::manifest::{LIVES, main, pod};
use support::watch::container_status;

/// A pod in the host's network whose container `main` lives until it is told to end, with these lines (four blanks).
fn lives(name: &str, lines: &str) -> String {
    runs(name, LIVES, lines)
}

/// The same with a script of its own.
fn runs(name: &str, script: &str, lines: &str) -> String {
    pod(name, 2, &(main(script) + lines))
}

/// The same, with a network namespace of its own.
fn alone(name: &str, script: &str, lines: &str) -> String {
    runs(name, script, lines).replace("  hostNetwork: true\n", "")
}

/// Lines of a container: a probe every second.
fn every_second(kind: &str, handler: &str) -> String {
    format!("    {kind}: {{periodSeconds: 1, {handler}}}\n")
}

/// A probe that is well as long as this file is in the container.
fn file(path: &str) -> String {
    format!("exec: {{command: [cat, {path}]}}")
}

/// Runs a command in the pod's container; it must succeed.
fn inside(agent: &TestAgent, pod: &str, command: &[&str]) -> String {
    let args: Vec<&str> = [&["exec", pod, "--"], command].concat();
    agent.text(&args)
}

/// Whether the pod's condition `Ready` and its container's `ready` are both so.
fn is_ready(status: &Value, ready: bool) -> bool {
    let wanted = if ready { "True" } else { "False" };
    let conditions = status["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    container_status(status, "main")["ready"] == json!(ready)
        && conditions.any(|one| one["type"] == "Ready" && one["status"] == wanted)
}

fn wait_until_ready(agent: &TestAgent, pod: &str) {
    agent.wait_for_status(pod, "readiness", |status| {
        is_ready(status, true).then_some(())
    });
}

fn wait_until_unready(agent: &TestAgent, pod: &str) {
    agent.wait_for_status(pod, "the loss of readiness", |status| {
        is_ready(status, false).then_some(())
    });
}

/// Waits for the container's restart; gives how its first instance ended.
fn wait_for_restart(agent: &TestAgent, pod: &str) -> Value {
    agent.wait_for_status(pod, "a restart", |status| {
        let main = container_status(status, "main");
        let is_second = main["restartCount"] == 1 && !main["state"]["running"].is_null();
        is_second.then(|| main["lastState"]["terminated"].clone())
    })
}

/// Messages of the events of this reason about this pod, with their counts; oldest first.
fn messages(agent: &TestAgent, pod: &str, reason: &str) -> Vec<(String, u32)> {
    let name = format!("{pod}-box");
    let events = agent.client().events().unwrap().into_iter();
    let of_pod = events.filter(|e| e.event.name == name && e.event.reason == reason);
    of_pod.map(|e| (e.event.message, e.count)).collect()
}

/// How often an event with this text came.
fn times(agent: &TestAgent, (pod, reason): (&str, &str), text: &str) -> u32 {
    let all = messages(agent, pod, reason).into_iter();
    let alike = all.filter(|(message, _)| message.contains(text));
    alike.map(|(_, count)| count).sum()
}
