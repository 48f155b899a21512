//! The examples of `examples/lifecycle`, which follow those of the Kubernetes documentation: what they promise happens, in
//! the order in which kubelet does it.

use std::net::TcpListener;

use super::support::agent::TestAgent;
use super::support::wait::{can_run, wait_for};
use super::support::web::{Answer, Web};
use super::*;

/// An agent that runs the example. Each of its ports becomes a free one.
fn run(name: &str, ports: &[(&str, u16)]) -> TestAgent {
    let agent = TestAgent::start();
    let file = format!("examples/lifecycle/{name}.yaml");
    let text = std::fs::read_to_string(file).expect("an example");
    let text = ports.iter().fold(text, |text, (port, free_port)| {
        let changed = text.replace(port, &free_port.to_string());
        assert_ne!(text, changed);
        changed
    });
    agent.put("example.yaml", &text);
    agent
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// What happened to each container, in order, from the agent's log: `container Reason`.
fn course(agent: &TestAgent, pod: &str) -> Vec<String> {
    let about = format!("default/{pod}-box ");
    let log = agent.log();
    let lines = log.lines().filter_map(|line| line.split(&about).nth(1));
    let events = lines.filter_map(|line| {
        let mut parts = line.split(": ");
        Some(format!("{} {}", parts.next()?, parts.next()?))
    });
    events.collect()
}

/// Asserts that these come one after another, with others between them.
fn assert_order(course: &[String], wanted: &[&str]) {
    let mut rest = course.iter();
    for want in wanted {
        assert!(rest.any(|one| one == want), "{want} in {course:?}");
    }
}

fn restarted(agent: &TestAgent, pod: &str, name: &str) -> Value {
    agent.wait_for_status(pod, "a restart", |status| {
        let one = container_status(status, name);
        let is_second = one["restartCount"] == 1 && !one["state"]["running"].is_null();
        is_second.then(|| one.clone())
    })
}

/// P-42, P-76, C5.
#[test]
fn exec_liveness() {
    if !can_run() {
        return;
    }
    let agent = run("exec-liveness", &[]);
    wait_for("the kill", || {
        (agent.event_count("liveness-exec", "Killing") > 0).then_some(())
    });
    assert_eq!(agent.event_count("liveness-exec", "Unhealthy"), 3);
    let container = restarted(&agent, "liveness-exec", "liveness");
    // A shell as pid 1 that traps nothing does not hear SIGTERM.
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 137);
    let steps = ["Started", "Unhealthy", "Killing", "Created", "Started"];
    let steps = steps.map(|step| format!("liveness {step}"));
    assert_order(
        &course(&agent, "liveness-exec"),
        &steps.each_ref().map(String::as_str),
    );
    let page = agent.text(&["describe", "pod", "liveness-exec"]);
    assert!(page.contains("its liveness probe failed: cat:"), "{page}");
}

/// liveness only after startup; a status of 400 and more fails.
#[test]
fn http_liveness() {
    if !can_run() {
        return;
    }
    let agent = run("http-liveness", &[("8085", free_port())]);
    agent.wait_for_status("liveness-http", "the end of startup", |status| {
        let container = container_status(status, "liveness");
        (container["started"] == true).then_some(())
    });
    let container = restarted(&agent, "liveness-http", "liveness");
    assert_eq!(container["restartCount"], 1);
    let events = agent.client().events().unwrap();
    let unhealthy = events.iter().filter(|e| e.event.reason == "Unhealthy");
    let told: Vec<(&str, u32)> = unhealthy
        .map(|e| (e.event.message.as_str(), e.count))
        .collect();
    let liveness = "Liveness probe failed: HTTP probe failed with statuscode: 404";
    assert!(told.contains(&(liveness, 3)), "{told:?}");
    let others = told.iter().filter(|(message, _)| *message != liveness);
    assert!(
        others
            .clone()
            .all(|(message, _)| message.starts_with("Startup probe failed: ")),
        "{told:?}"
    );
    assert!(others.count() > 0, "{told:?}");
}

///
#[test]
fn tcp_liveness_readiness() {
    if !can_run() {
        return;
    }
    let agent = run("tcp-liveness-readiness", &[("8086", free_port())]);
    agent.wait_until_running("goproxy");
    wait_for_condition(&agent, "goproxy", "Ready", "False");
    wait_for("a failure", || {
        (agent.event_count("goproxy", "Unhealthy") > 0).then_some(())
    });
    wait_for_condition(&agent, "goproxy", "Ready", "True");
    let status = agent.status("goproxy");
    assert_eq!(container_status(&status, "goproxy")["restartCount"], 0);
    assert_eq!(columns(&agent, "goproxy")[1..3], ["1/1", "Running"]);
}

/// P-50.
#[test]
fn init_demo() {
    if !can_run() {
        return;
    }
    let [service, db] = [(); 2].map(|()| Web::start(Answer::Status(503)));
    let ports = [("8080", service.port()), ("8081", db.port())];
    let agent = run("init-demo", &ports);
    let says = |container: &str, text: &str| {
        wait_for(text, || {
            let log = agent.logs("myapp-pod", container);
            log.contains(text).then_some(())
        });
    };
    says("init-myservice", "waiting for myservice");
    wait_for_word(&agent, "myapp-pod", "Init:0/2");
    service.answer(Answer::Status(200));
    says("init-mydb", "waiting for mydb");
    wait_for_word(&agent, "myapp-pod", "Init:1/2");
    db.answer(Answer::Status(200));
    says("myapp-container", "The app is running!");
    wait_for_word(&agent, "myapp-pod", "Running");
    let started = [
        "init-myservice Started",
        "init-mydb Started",
        "myapp-container Started",
    ];
    assert_order(&course(&agent, "myapp-pod"), &started);
}

/// P-50, P-82, P-110.
#[test]
fn sidecar_job() {
    if !can_run() {
        return;
    }
    let agent = run("sidecar-job", &[("8089", free_port())]);
    let status = wait_for_phase(&agent, "sidecar-job", "Succeeded");
    let work = &container_status(&status, "work")["state"]["terminated"];
    assert_eq!(work["exitCode"], 0);
    let log = agent.logs("sidecar-job", "work");
    assert!(log.contains("served by the sidecar"), "{log}");
    wait_for("the end of the sandbox", || {
        agent.holder_pids().is_empty().then_some(())
    });
    let order = ["server Started", "work Started", "server Killing"];
    assert_order(&course(&agent, "sidecar-job"), &order);
    assert_eq!(agent.status("sidecar-job")["phase"], "Succeeded");
    assert_eq!(columns(&agent, "sidecar-job")[2], "Completed");
}

/// P-77, P-90.
#[test]
fn lifecycle_events() {
    if !can_run() {
        return;
    }
    let mut agent = run("lifecycle-events", &[]);
    wait_for_condition(&agent, "lifecycle-demo", "Ready", "True");
    let message = wait_for("the first hook", || {
        let (code, out, _) = agent.answer(&["exec", "lifecycle-demo", "--", "cat", "/tmp/message"]);
        (code == 0 && !out.is_empty()).then_some(out)
    });
    assert_eq!(message, "Hello from the postStart handler\n");
    agent.text(&["stop", "--all"]);
    agent.wait_for_end();
    let log = agent.logs("lifecycle-demo", "lifecycle-demo-container");
    let said: Vec<&str> = log
        .lines()
        .filter_map(|line| line.splitn(4, ' ').nth(3))
        .collect();
    assert_eq!(said, ["Goodbye from the preStop handler", "SIGTERM"]);
}

/// P-170…P-172.
#[test]
fn termination_message() {
    if !can_run() {
        return;
    }
    let agent = run("termination-message", &[]);
    let status = wait_for_phase(&agent, "termination-demo", "Failed");
    let message = |name| container_status(&status, name)["state"]["terminated"]["message"].clone();
    assert_eq!(message("termination-demo-container"), "Sleep expired\n");
    assert_eq!(message("fails"), "the database does not answer\n");
    let page = agent.text(&["describe", "pod", "termination-demo"]);
    assert!(page.contains("Sleep expired"), "{page}");
    assert!(page.contains("the database does not answer"), "{page}");
}

/// P-75, P-79.
#[test]
fn graceful_termination() {
    if !can_run() {
        return;
    }
    let mut agent = run("graceful-termination", &[]);
    agent.wait_until_running("graceful");
    let mut stop = agent.vetch(&["stop", "--all"]).spawn().unwrap();
    wait_for_word(&agent, "graceful", "Terminating");
    assert!(stop.wait().unwrap().success());
    agent.wait_for_end();
    let log = agent.logs("graceful", "work");
    let said: Vec<&str> = log
        .lines()
        .filter_map(|line| line.splitn(4, ' ').nth(3))
        .collect();
    assert_eq!(said, ["finishing 1", "finishing 2", "finishing 3", "done"]);
}

/// P-63.
#[test]
fn restart_rules() {
    if !can_run() {
        return;
    }
    let agent = run("restart-rules", &[]);
    wait_for_condition(&agent, "restart-rules", "Ready", "True");
    let touch = [
        "exec",
        "restart-rules",
        "-c",
        "worker",
        "--",
        "touch",
        "/tmp/broken",
    ];
    agent.text(&touch);
    for name in ["worker", "other"] {
        restarted(&agent, "restart-rules", name);
    }
    let status = agent.status("restart-rules");
    assert_eq!(container_status(&status, "prepare")["restartCount"], 1);
    let order = [
        "prepare Started",
        "worker Started",
        "prepare Started",
        "worker Started",
    ];
    assert_order(&course(&agent, "restart-rules"), &order);
}

/// P-98.
#[test]
fn deadline() {
    if !can_run() {
        return;
    }
    let agent = run("deadline", &[]);
    let status = wait_for_phase(&agent, "deadline", "Failed");
    assert_eq!(status["reason"], "DeadlineExceeded");
    wait_for("the end of the sandbox", || {
        agent.holder_pids().is_empty().then_some(())
    });
    let log = agent.logs("deadline", "work");
    assert!(log.contains("out of time"), "{log}");
}
