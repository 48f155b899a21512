//! Devices by CDI names (D-16), sysctls and host names of real pods, from manifest to container.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail by panic")]
#![expect(clippy::disallowed_methods, reason = "files of a test")]

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::path::PathBuf;

use serde_json::Value;
use support::agent::TestAgent;
use support::wait::{DEADLINE, can_run, look_until};

/// A pod with these lines below `metadata` and `spec`, whose container runs a script once.
fn pod(name: &str, metadata: &str, spec: &str, script: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n{metadata}spec:\n  restartPolicy: Never\n{spec}  containers:\n  - name: c\n    image: busybox\n    command: [/bin/sh, -c, {script:?}]\n    terminationMessagePolicy: FallbackToLogsOnError\n"
    )
}

/// An agent whose CDI files are in a directory of its own.
fn agent(config: &str) -> (TestAgent, PathBuf) {
    let mut agent = TestAgent::prepare();
    agent.import_busybox();
    let dir = agent.manifests.parent().unwrap().join("cdi");
    std::fs::create_dir(&dir).unwrap();
    agent.configure(&format!(
        "{config}\nvetch: {{cdiSpecDirs: [{}]}}\n",
        dir.display()
    ));
    agent.spawn();
    (agent, dir)
}

/// Exit code and last message of a pod's container.
fn end(agent: &TestAgent, name: &str) -> (i64, String) {
    agent.wait_for_status(name, "the container's end", |status| {
        let ended = &status["containerStatuses"][0]["state"]["terminated"];
        let code = ended["exitCode"].as_i64()?;
        Some((
            code,
            ended["message"].as_str().unwrap_or_default().to_owned(),
        ))
    })
}

fn wait_for_event(agent: &TestAgent, words: &str) {
    let mut seen = Vec::new();
    let found = look_until(DEADLINE, || {
        let events = agent.client().events().unwrap();
        seen = events.into_iter().map(|e| e.event.message).collect();
        seen.iter()
            .any(|message: &String| message.contains(words))
            .then_some(())
    });
    assert!(found.is_some(), "no event {words:?} in {seen:#?}");
}

fn waiting(status: &Value) -> Option<(String, String)> {
    let waiting = &status["containerStatuses"][0]["state"]["waiting"];
    let reason = waiting["reason"]
        .as_str()
        .filter(|reason| reason.contains("Error"))?;
    Some((reason.to_owned(), waiting["message"].as_str()?.to_owned()))
}

/// D-16, C-49
#[test]
fn a_device_by_its_name_is_there_and_can_be_used() {
    if !can_run() {
        return;
    }
    let (agent, dir) = agent("");
    let trace = dir.join("trace");
    let shared = dir.join("shared");
    std::fs::write(&shared, "library\n").unwrap();
    std::fs::write(
        dir.join("vendor.yaml"),
        format!(
            r#"
cdiVersion: "0.6.0"
kind: vendor.com/mem
containerEdits:
  env: [VENDOR=yes]
devices:
- name: kmsg
  containerEdits:
    env: [DEVICE=kmsg]
    deviceNodes:
    - {{path: /dev/vendor/log, hostPath: /dev/loop-control, permissions: r, fileMode: 0644}}
    mounts:
    - {{hostPath: {shared}, containerPath: /usr/lib/vendor.so, options: [ro, bind]}}
    additionalGids: [44]
    hooks:
    - {{hookName: prestart, path: /bin/sh, args: [sh, -c, 'echo prestart >> {trace}']}}
    - {{hookName: createRuntime, path: /bin/sh, args: [sh, -c, 'echo createRuntime >> {trace}']}}
    - {{hookName: createContainer, path: /bin/sh, args: [sh, -c, 'cat > /dev/null; echo createContainer $A >> {trace}'], env: [A=b]}}
    - {{hookName: poststart, path: /bin/sh, args: [sh, -c, 'echo poststart >> {trace}']}}
"#,
            shared = shared.display(),
            trace = trace.display(),
        ),
    )
    .unwrap();
    let script = "test $VENDOR$DEVICE = yeskmsg && test -c /dev/vendor/log && head -c 0 /dev/vendor/log && cat /usr/lib/vendor.so && id -G | grep -q 44 && ! (: > /dev/vendor/log) && ! touch /usr/lib/vendor.so; echo ok $?";
    let annotation = "  annotations: {cdi.k8s.io/mem: vendor.com/mem=kmsg}\n";
    let script = format!("{script} >&2; exit 3");
    agent.put(
        "a.yaml",
        &pod("a", annotation, "  hostNetwork: true\n", &script),
    );
    let (code, message) = end(&agent, "a");
    assert_eq!(code, 3);
    assert!(message.contains("ok 0"), "{message}");
    let trace = std::fs::read_to_string(trace).unwrap();
    assert_eq!(
        trace,
        "prestart\ncreateRuntime\ncreateContainer b\npoststart\n"
    );
}

/// D-16: never started without; and started once it is there.
#[test]
fn a_device_that_is_not_defined_keeps_the_container_waiting() {
    if !can_run() {
        return;
    }
    let (agent, dir) = agent("");
    let annotation = "  annotations: {cdi.k8s.io/container.c: vendor.com/mem=x}\n";
    agent.put(
        "a.yaml",
        &pod("a", annotation, "  hostNetwork: true\n", "exit 7"),
    );
    let (reason, message) = agent.wait_for_status("a", "the reason", waiting);
    assert_eq!(reason, "CreateContainerError");
    let words = format!(
        "CDI device vendor.com/mem=x is not defined in {}",
        dir.display()
    );
    assert_eq!(message, words);
}

/// C-60, C-61, C-62, C-63
#[test]
fn sysctls_are_set_in_the_pods_own_namespaces() {
    if !can_run() {
        return;
    }
    let (agent, _) =
        agent("allowedUnsafeSysctls: ['kernel.msg*', fs.mqueue.msg_max, 'net.ipv4.conf.*']");
    let spec = "  securityContext:
    sysctls:
    - {name: net.ipv4.ip_unprivileged_port_start, value: '7'}
    - {name: kernel.shm_rmid_forced, value: '1'}
    - {name: kernel/msgmax, value: '9001'}
    - {name: fs.mqueue.msg_max, value: '11'}
    - {name: net/ipv4/conf/lo/forwarding, value: '1'}
";
    let script = "cd /proc/sys; cat net/ipv4/ip_unprivileged_port_start kernel/shm_rmid_forced kernel/msgmax fs/mqueue/msg_max net/ipv4/conf/lo/forwarding net/ipv4/ping_group_range >&2; exit 3";
    agent.put("a.yaml", &pod("a", "", spec, script));
    let (code, message) = end(&agent, "a");
    assert_eq!(code, 3);
    let values: Vec<&str> = message.split_whitespace().collect();
    assert_eq!(values, ["7", "1", "9001", "11", "1", "0", "2147483647"]);
    let of_host = std::fs::read_to_string("/proc/sys/kernel/msgmax").unwrap();
    assert_ne!(of_host.trim(), "9001");
}

/// C-61: what the kernel does not take fails the sandbox, with name and value.
#[test]
fn a_sysctl_that_the_kernel_refuses_is_told() {
    if !can_run() {
        return;
    }
    let (agent, _) = agent("");
    let spec =
        "  securityContext:\n    sysctls:\n    - {name: net.ipv4.tcp_syncookies, value: many}\n";
    agent.put("a.yaml", &pod("a", "", spec, "exit 0"));
    wait_for_event(
        &agent,
        "set sysctl net.ipv4.tcp_syncookies to \"many\": Invalid argument",
    );
}

/// P-186
#[test]
fn a_full_host_name_that_is_too_long_fails_the_sandbox() {
    if !can_run() {
        return;
    }
    let (agent, _) = agent("");
    let long = "a".repeat(60);
    let spec = format!("  hostname: {long}\n  subdomain: s\n  setHostnameAsFQDN: true\n");
    agent.put("a.yaml", &pod("a", "", &spec, "exit 0"));
    wait_for_event(
        &agent,
        &format!("the name {long}.s.default.svc is too long for a host name"),
    );
}
