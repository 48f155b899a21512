//! Each way to ask, and what follows from good and bad answers.

use super::support::agent::TestAgent;
use super::support::manifest::LIVES;
use super::support::wait::{can_run, wait_for};
use super::support::web::{Answer, Web};
use super::*;

///
#[test]
fn a_command_makes_a_container_ready_and_unready() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let probe = every_second(
        "readinessProbe",
        &format!("failureThreshold: 1, {}", file("/tmp/ok")),
    );
    agent.put("web.yaml", &lives("web", &probe));
    agent.wait_until_running("web");
    let why = "Readiness probe failed: cat: can't open '/tmp/ok': No such file or directory";
    wait_for("an event that is counted", || {
        (times(&agent, ("web", "Unhealthy"), why) > 1).then_some(())
    });
    assert!(is_ready(&agent.status("web"), false));
    for _ in 0..2 {
        inside(&agent, "web", &["touch", "/tmp/ok"]);
        wait_until_ready(&agent, "web");
        inside(&agent, "web", &["rm", "/tmp/ok"]);
        wait_until_unready(&agent, "web");
    }
    let status = agent.status("web");
    assert_eq!(container_status(&status, "main")["restartCount"], 0);
}

/// the manifest's port is a name.
#[test]
fn an_http_server_of_the_host_makes_a_container_ready_and_unready() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let web = Web::start(Answer::Status(500));
    let port = web.port();
    let probe = every_second(
        "readinessProbe",
        "failureThreshold: 1, httpGet: {path: /health?deep=1, port: http}",
    );
    let named = format!("    ports: [{{name: http, containerPort: {port}}}]\n");
    agent.put("web.yaml", &lives("web", &(named + &probe)));
    wait_for("the event", || {
        let text = "Readiness probe failed: HTTP probe failed with statuscode: 500";
        (times(&agent, ("web", "Unhealthy"), text) > 0).then_some(())
    });
    web.answer(Answer::Status(399));
    wait_until_ready(&agent, "web");
    let request = web.requests().pop().unwrap();
    assert!(
        request.starts_with("GET /health?deep=1 HTTP/1.1\r\n"),
        "{request}"
    );
    web.answer(Answer::Status(400));
    wait_until_unready(&agent, "web");
    let elsewhere =
        "HTTP/1.1 302 Found\r\nLocation: http://example.com/\r\nContent-Length: 0\r\n\r\n";
    web.answer(Answer::Bytes(elsewhere.into()));
    wait_until_ready(&agent, "web");
    let warning = "Readiness probe warning: Probe terminated redirects";
    assert!(times(&agent, ("web", "ProbeWarning"), warning) > 0);
}

/// pods of their own network namespaces do not see each other's servers.
#[test]
fn a_pod_with_its_own_network_is_asked_inside_it() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let server =
        "mkdir -p /tmp/www; touch /tmp/www/ok; exec httpd -f -p 127.0.0.1:8080 -h /tmp/www";
    let http = every_second("readinessProbe", "httpGet: {path: /ok, port: 8080}");
    let tcp = every_second("readinessProbe", "tcpSocket: {port: 8080}");
    agent.put("http.yaml", &alone("http", server, &http));
    agent.put("tcp.yaml", &alone("tcp", server, &tcp));
    agent.put("none.yaml", &alone("none", LIVES, &tcp));
    wait_until_ready(&agent, "http");
    wait_until_ready(&agent, "tcp");
    let refused = "Readiness probe failed: dial tcp 127.0.0.1:8080: connect: connection refused";
    wait_for("the event", || {
        (times(&agent, ("none", "Unhealthy"), refused) > 0).then_some(())
    });
    assert!(is_ready(&agent.status("none"), false));
    inside(&agent, "http", &["rm", "/tmp/www/ok"]);
    wait_until_unready(&agent, "http");
}

/// R-35, in the host's network.
#[test]
fn a_tcp_server_of_the_host_makes_a_container_ready() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let web = Web::start(Answer::Silence);
    let handler = format!("tcpSocket: {{port: {}}}", web.port());
    agent.put(
        "web.yaml",
        &lives("web", &every_second("readinessProbe", &handler)),
    );
    wait_until_ready(&agent, "web");
    drop(web);
    wait_until_unready(&agent, "web");
}

///
#[test]
fn a_port_that_nobody_named_never_makes_a_container_ready() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let probe = every_second("readinessProbe", "httpGet: {port: nobody}");
    agent.put("web.yaml", &lives("web", &probe));
    let text = "Readiness probe errored and resulted in unknown state: ";
    wait_for("the events", || {
        (times(&agent, ("web", "Unhealthy"), text) > 2).then_some(())
    });
    let (message, _) = messages(&agent, "web", "Unhealthy").pop().unwrap();
    assert!(message.contains("nobody"), "{message}");
    assert!(is_ready(&agent.status("web"), false));
    let lines = agent.log();
    assert_eq!(lines.matches("probe errored").count(), 1, "{lines}");
}
