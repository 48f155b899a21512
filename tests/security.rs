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

/// What a process has of its confinement, line by line. The C library's own signals are not its business.
const PROBE: &str = "grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp|SigBlk|SigIgn):' /proc/self/status; \
                     cat /proc/self/limits /proc/self/oom_score_adj; umask; pwd";

/// What C-30 and those after it ask for, and C-78: commands and hooks are no way round.
#[test]
fn commands_and_hooks_have_the_confinement_of_their_container() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    for (number, context) in [
        "",
        "runAsUser: 1000, runAsGroup: 2000, allowPrivilegeEscalation: false",
        "capabilities: {add: [NET_ADMIN], drop: [CHOWN, KILL]}",
        "privileged: true",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("web{number}");
        let main = format!("({PROBE}) > /tmp/main; while :; do sleep 1; done");
        let hook = format!("({PROBE}) > /tmp/hook");
        let hook =
            format!("    lifecycle: {{postStart: {{exec: {{command: [sh, -c, {hook:?}]}}}}}}\n");
        let groups = "  securityContext: {supplementalGroups: [44], fsGroup: 3000}\n";
        let spec = groups.to_owned() + &container(context, &main) + &hook;
        agent.put(&format!("{name}.yaml"), &pod(&name, 1, &spec));
        agent.wait_until_running(&name);
        let run = |script: &str| agent.answer(&["exec", &name, "--", "sh", "-c", script]).1;
        wait_for("both files", || {
            let lines = run("cat /tmp/main /tmp/hook | grep -c ^/");
            (lines.trim() == "2").then_some(())
        });
        let own = run("cat /tmp/main");
        assert!(own.contains("Groups:") && own.lines().count() > 20, "{own}");
        assert_eq!(run("cat /tmp/hook"), own, "hook of {context}");
        assert_eq!(run(PROBE), own, "command with {context}");
    }
}

/// C-36.
#[test]
fn the_status_says_as_whom_a_container_runs() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let context = "runAsUser: 65534, runAsGroup: 2000";
    for (policy, groups) in [
        ("Merge", json!([44, 100, 2000, 3000])),
        ("Strict", json!([44, 2000, 3000])),
    ] {
        let groups_of = format!(
            "  securityContext: {{supplementalGroups: [44], fsGroup: 3000, supplementalGroupsPolicy: {policy}}}\n"
        );
        let name = policy.to_lowercase();
        let spec = groups_of + &container(context, "id -G; while :; do sleep 1; done");
        agent.put(&format!("{name}.yaml"), &pod(&name, 1, &spec));
        let user = agent.wait_for_status(&name, "a user", |status| {
            let user = &status["containerStatuses"][0]["user"]["linux"];
            (!user.is_null()).then(|| user.clone())
        });
        let expected = json!({"uid": 65534, "gid": 2000, "supplementalGroups": groups});
        assert_eq!(user, expected);
    }
}

/// C-54: without AppArmor in the kernel, a pod that asks for it waits and says so.
#[test]
fn a_pod_that_needs_apparmor_waits_for_a_kernel_that_has_it() {
    if !can_run() {
        return;
    }
    let enabled = std::fs::read_to_string("/sys/module/apparmor/parameters/enabled");
    if enabled.is_ok_and(|text| text.starts_with('Y')) {
        println!("SKIPPED: a kernel without AppArmor: this one has it");
        return;
    }
    let agent = TestAgent::start();
    let context = "appArmorProfile: {type: RuntimeDefault}";
    agent.put(
        "web.yaml",
        &pod("web", 1, &container(context, "sleep 1000")),
    );
    agent.wait_for_status("web", "the refusal", |status| {
        let message =
            "Pod was rejected: Cannot enforce AppArmor: AppArmor is not enabled on the host";
        (status["reason"] == "AppArmor" && status["message"] == message).then_some(())
    });
}
