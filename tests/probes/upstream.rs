//! The examples of the Kubernetes documentation, with shorter times.

use super::support::agent::TestAgent;
use super::support::wait::{can_run, wait_for};
use super::support::web::{Answer, Web};
use super::*;

/// pods/probe/exec-liveness.yaml: healthy for a while, then killed, then again.
#[test]
fn exec_liveness() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let manifest = "apiVersion: v1
kind: Pod
metadata:
  labels:
    test: liveness
  name: liveness-exec
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 2
  containers:
  - name: liveness
    image: busybox
    args:
    - /bin/sh
    - -c
    - touch /tmp/healthy; sleep 5; rm -f /tmp/healthy; sleep 600
    livenessProbe:
      exec:
        command:
        - cat
        - /tmp/healthy
      initialDelaySeconds: 1
      periodSeconds: 1
";
    agent.put("liveness.yaml", manifest);
    agent.wait_until_running("liveness-exec");
    let last = agent.wait_for_status("liveness-exec", "a restart", |status| {
        let container = container_status(status, "liveness");
        (container["restartCount"] == 1).then(|| container["lastState"]["terminated"].clone())
    });
    // `sleep` as a shell's child does not pass the signal on; pid 1 has no default action for it.
    assert_eq!(last["exitCode"], 137);
    let why = "Liveness probe failed: cat: can't open '/tmp/healthy': No such file or directory";
    let events = messages(&agent, "liveness-exec", "Unhealthy");
    assert_eq!(events, [(why.to_owned(), 3)]);
    let killing = "Container liveness failed liveness probe, will be restarted";
    assert_eq!(times(&agent, ("liveness-exec", "Killing"), killing), 1);
    // The second instance is healthy to begin with.
    agent.wait_for_status("liveness-exec", "the second instance", |status| {
        let container = container_status(status, "liveness");
        (container["ready"] == true).then_some(())
    });
}

/// pods/probe/http-liveness.yaml: a custom header, 200 for a while, then 500.
#[test]
fn http_liveness() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let web = Web::start(Answer::Status(200));
    let handler = format!(
        "initialDelaySeconds: 1, httpGet: {{path: /healthz, port: {}, \
         httpHeaders: [{{name: Custom-Header, value: Awesome}}]}}",
        web.port()
    );
    agent.put(
        "web.yaml",
        &lives("web", &every_second("livenessProbe", &handler)),
    );
    wait_for("some runs", || (web.requests().len() > 2).then_some(()));
    let request = web.requests().pop().unwrap();
    assert!(
        request.contains("\r\nCustom-Header: Awesome\r\n"),
        "{request}"
    );
    let status = agent.status("web");
    assert_eq!(container_status(&status, "main")["restartCount"], 0);
    web.answer(Answer::Status(500));
    wait_for("the kill", || {
        (agent.event_count("web", "Killing") > 0).then_some(())
    });
    web.answer(Answer::Status(200));
    wait_for_restart(&agent, "web");
    let why = "Liveness probe failed: HTTP probe failed with statuscode: 500";
    assert_eq!(messages(&agent, "web", "Unhealthy"), [(why.to_owned(), 3)]);
}
