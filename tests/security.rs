//! Confinement that needs an agent: profiles of the administrator, users of the image, what the status says of them.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "test code")]

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use serde_json::{Value, json};
use support::agent::{QUICK_BACK_OFF, TestAgent};
use support::manifest::pod;
use support::wait::{can_run, wait_for};

/// Forbids one call that a shell can make on a user's behalf, and counts on nothing else.
const NO_CHMOD: &str = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
    {"names": ["chmod", "fchmodat", "fchmodat2"], "action": "SCMP_ACT_ERRNO", "errnoRet": 122}]}"#;

fn localhost(agent: &TestAgent, name: &str, profile: &str) {
    let dir = agent.paths.seccomp_profiles();
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(name), profile).unwrap();
}

/// A container with this security context and script.
fn container(context: &str, script: &str) -> String {
    format!(
        "  containers:\n  - name: main\n    image: busybox\n    command: [sh, -c, {script:?}]\n    securityContext: {{{context}}}\n"
    )
}

/// What a command in the pod `web` says.
fn exec(agent: &TestAgent, command: &[&str]) -> String {
    let args = [&["exec", "web", "--"], command].concat();
    let (_, stdout, stderr) = agent.answer(&args);
    stdout + &stderr
}

fn waiting(status: &Value) -> (&str, &str) {
    let waiting = &status["containerStatuses"][0]["state"]["waiting"];
    let text = |field: &str| waiting[field].as_str().unwrap_or_default();
    (text("reason"), text("message"))
}

const PROFILE: &str = "seccompProfile: {type: Localhost, localhostProfile: no-chmod.json}";

/// C-51: for the container, for commands in it, and for its hooks.
#[test]
fn an_administrators_seccomp_profile_holds() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    localhost(&agent, "no-chmod.json", NO_CHMOD);
    let script = "chmod 700 /tmp; grep Seccomp: /proc/self/status; \
                  trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done";
    let hook = "    lifecycle: {postStart: {exec: {command: [sh, -c, 'chmod 700 /tmp > /said 2>&1; true']}}}\n";
    let spec = container(PROFILE, script) + hook;
    agent.put("web.yaml", &pod("web", 2, &spec));
    let log = wait_for("both lines", || {
        let log = agent.logs("web", "main");
        (log.lines().count() >= 2).then_some(log)
    });
    assert!(log.contains("Disk quota exceeded"), "{log}");
    assert!(log.contains("Seccomp:\t2"), "{log}");
    let said = exec(&agent, &["chmod", "700", "/tmp"]);
    assert!(said.contains("Disk quota exceeded"), "{said}");
    wait_for("the hook's words", || {
        let said = exec(&agent, &["cat", "/said"]);
        said.contains("Disk quota exceeded").then_some(())
    });
    assert!(!exec(&agent, &["touch", "/tmp/x"]).contains("exceeded"));
}

/// C-51: a profile that comes later is found; until then the status names the file.
#[test]
fn a_missing_seccomp_profile_is_waited_for() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start_with(QUICK_BACK_OFF);
    agent.put(
        "web.yaml",
        &pod("web", 2, &container(PROFILE, "sleep 1000")),
    );
    let path = agent.paths.seccomp_profiles().join("no-chmod.json");
    agent.wait_for_status("web", "why it waits", |status| {
        let (reason, message) = waiting(status);
        let told = format!("load seccomp profile {}: No such file", path.display());
        (reason == "CreateContainerError" && message.starts_with(&told)).then_some(())
    });
    localhost(
        &agent,
        "no-chmod.json",
        "{\n  \"defaultAction\": \"SCMP_ACT_ALOW\"\n}",
    );
    agent.wait_for_status("web", "the mistake", |status| {
        let (_, message) = waiting(status);
        (message.contains("unknown variant `SCMP_ACT_ALOW`") && message.contains("at line 2"))
            .then_some(())
    });
    localhost(&agent, "no-chmod.json", NO_CHMOD);
    agent.wait_for_status("web", "it runs", |status| {
        (status["containerStatuses"][0]["ready"] == json!(true)).then_some(())
    });
}
