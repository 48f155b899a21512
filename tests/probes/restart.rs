//! An agent that is killed and starts again: nobody notices by a probe's verdict.

use super::support::agent::TestAgent;
use super::support::manifest::LIVES;
use super::support::wait::{can_run, wait_for};
use super::support::web::{Answer, Web};
use super::*;

/// The time of the last transition tells also a flap that was too short to be seen.
#[test]
fn a_ready_container_stays_ready() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    let web = Web::start(Answer::Status(200));
    let handler = format!("httpGet: {{port: {}}}", web.port());
    let readiness = every_second("readinessProbe", &handler);
    let startup = every_second("startupProbe", &handler);
    agent.put("web.yaml", &lives("web", &(startup + &readiness)));
    wait_until_ready(&agent, "web");
    // A flap within the second of the transition would not show.
    wait_for("another second", || {
        let (before, after) = (&agent.status("web"), web.requests().len());
        (ready_condition(before)["status"] == "True" && after > 3).then_some(())
    });
    let before = ready_condition(&agent.status("web"));
    for _ in 0..3 {
        agent.kill();
        let asked = web.requests().len();
        agent.spawn();
        wait_for("some runs", || {
            let status = agent.status("web");
            assert!(is_ready(&status, true), "{status:#}");
            (web.requests().len() > asked + 2).then_some(())
        });
        assert_eq!(ready_condition(&agent.status("web")), before);
    }
    assert_eq!(agent.event_count("web", "Unhealthy"), 0);
}

fn ready_condition(status: &Value) -> Value {
    let conditions = status["conditions"].as_array().unwrap();
    let mut ready = conditions.iter().filter(|one| one["type"] == "Ready");
    ready.next().unwrap().clone()
}

/// What fails while no agent looks is found by the next one.
#[test]
fn a_container_that_died_inwardly_meanwhile_is_restarted() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    let script = format!("touch /tmp/ok; {LIVES}");
    let liveness = every_second(
        "livenessProbe",
        &format!("failureThreshold: 2, {}", file("/tmp/ok")),
    );
    let readiness = every_second(
        "readinessProbe",
        &format!("failureThreshold: 1, {}", file("/tmp/ok")),
    );
    agent.put("web.yaml", &runs("web", &script, &(liveness + &readiness)));
    wait_until_ready(&agent, "web");
    agent.kill();
    // Needs no agent.
    inside(&agent, "web", &["rm", "/tmp/ok"]);
    agent.spawn();
    wait_for_restart(&agent, "web");
    wait_until_ready(&agent, "web");
}

/// The kill is over only when the next instance runs, whoever began it.
#[test]
fn a_kill_that_an_agent_began_is_finished_by_the_next() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    let script = "trap 'sleep 3; exit 3' TERM; while :; do sleep 1 & wait $!; done";
    let liveness = every_second(
        "livenessProbe",
        &format!("failureThreshold: 1, {}", file("/tmp/ok")),
    );
    agent.put("web.yaml", &pod("web", 30, &(main(script) + &liveness)));
    wait_for("the kill", || {
        (agent.event_count("web", "Killing") > 0).then_some(())
    });
    agent.kill();
    agent.spawn();
    assert_eq!(wait_for_restart(&agent, "web")["exitCode"], 3);
}
