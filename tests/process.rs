//! What a container's process finds, and what is told of its end: manifest in, real agent, real container.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus};
use serde_json::json;

use support::agent::TestAgent;
use support::images;
use support::manifest::{container, pod};
use support::wait::{can_run, wait_for};
use support::witness::Witness;

/// Lines that a container printed, without the log's own columns.
fn printed(agent: &TestAgent, pod: &str, container: &str) -> Vec<String> {
    agent
        .logs(pod, container)
        .lines()
        .map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned())
        .collect()
}

/// Waits until the pod has ended; gives what its container printed.
fn output_of(agent: &TestAgent, pod: &str) -> Vec<String> {
    agent.wait_for_pod(pod, |pod| {
        let phase = pod.status.as_ref()?.phase.as_deref()?;
        ["Succeeded", "Failed"].contains(&phase).then_some(())
    });
    printed(agent, pod, "main")
}

/// Status of the named container.
fn status(agent: &TestAgent, pod: &str, container: &str) -> Option<ContainerStatus> {
    let mut all = agent.pod(pod)?.status?.container_statuses?;
    all.retain(|status| status.name == container);
    all.pop()
}

/// How the named container's last instance ended, once one has.
fn end_of(agent: &TestAgent, pod: &str, container: &str) -> ContainerStateTerminated {
    wait_for("the container's end", || {
        let status = status(agent, pod, container)?;
        let last = status.last_state.and_then(|state| state.terminated);
        last.or(status.state?.terminated)
    })
}

const EVERYTHING: &str = "apiVersion: v1
kind: Pod
metadata:
  name: all
  labels: {app: shop}
spec:
  hostname: till
  hostAliases:
  - {ip: 10.1.1.1, hostnames: [alias.example]}
  dnsPolicy: None
  dnsConfig: {nameservers: [192.0.2.53], searches: [example.org], options: [{name: ndots, value: \"3\"}]}
  restartPolicy: Never
  containers:
  - name: main
    image: busybox
    imagePullPolicy: Never
    workingDir: /not/in/the/image
    command: [sh, -c, 'shift; for word; do echo \"$word\"; done; echo \"$FROM_NAME $FROM_NODE $FROM_LABEL\";
      pwd; hostname; cat /etc/hostname; grep alias /etc/hosts; cat /etc/resolv.conf; echo \"$PATH\"; echo \"$HOME\"; id -u', sh]
    args: [skipped, $(BOTH), $$(ONE), $(NONE), plain]
    env:
    - {name: ONE, value: first}
    - {name: BOTH, value: $(ONE) and $$(ONE)}
    - {name: FROM_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: FROM_NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: FROM_LABEL, valueFrom: {fieldRef: {fieldPath: 'metadata.labels[''app'']'}}}
";

/// P-187, P-193, P-208, and the fields of a process.
#[test]
fn a_process_finds_what_its_manifest_says() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.put("all.yaml", EVERYTHING);
    assert_eq!(
        output_of(&agent, "all"),
        [
            "first and $(ONE)",
            "$(ONE)",
            "$(NONE)",
            "plain",
            "all-box box shop",
            "/not/in/the/image",
            "till",
            "till",
            "10.1.1.1\talias.example",
            "search example.org",
            "nameserver 192.0.2.53",
            "options ndots:3",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "/root",
            "0",
        ]
    );
}

/// Entrypoint, cmd, environment, directory, user and stop signal, all from the image.
#[test]
fn what_the_manifest_leaves_out_comes_from_the_image() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let elsewhere = tempfile::tempdir().expect("make a directory");
    let archive = elsewhere.path().join("image.tar");
    let wait = "trap 'echo usr1; exit 0' USR1; trap 'echo term; exit 1' TERM; while :; do sleep 1 & wait $!; done";
    let config = json!({
        "Entrypoint": ["sh", "-c"],
        "Cmd": [format!("echo \"$KIND $(pwd) $(id -u)\"; {wait}")],
        "Env": ["PATH=/bin:/usr/bin", "KIND=image"],
        "WorkingDir": "/made/for/it",
        "User": "nobody",
        "StopSignal": "SIGUSR1",
    });
    images::docker_archive(
        &archive,
        "example.org/stops:1",
        config,
        &[images::busybox_layer()],
    );
    std::fs::rename(
        archive,
        agent.paths.images_import().join("stops-from-elsewhere.tar"),
    )
    .expect("rename on one file system");
    agent.put(
        "web.yaml",
        "apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  hostNetwork: true
  containers:
  - {name: main, image: 'example.org/stops:1'}
",
    );
    wait_for("its first line", || {
        printed(&agent, "web", "main")
            .contains(&"image /made/for/it 65534".to_owned())
            .then_some(())
    });
    let words = agent
        .vetch(&["logs", "-f", "web", "--tail", "0"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("start vetch");
    wait_for("the follower is there", || {
        std::fs::read_dir(format!("/proc/{}/fd", words.id()))
            .ok()?
            .flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .any(|target| target.ends_with("main/0.log"))
            .then_some(())
    });
    agent.remove("web.yaml");
    let words = words.wait_with_output().expect("wait for vetch");
    assert_eq!(String::from_utf8_lossy(&words.stdout), "usr1\n");
}

/// Everything that can be said about an end: a program that is not there, a message file, the log's end instead.
#[test]
fn every_end_is_told_with_its_cause() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.put(
        "ends.yaml",
        "apiVersion: v1
kind: Pod
metadata: {name: ends}
spec:
  hostNetwork: true
  restartPolicy: Never
  containers:
  - {name: missing, image: busybox, command: [/bin/foo]}
  - {name: nopath, image: busybox, command: [foo]}
  - {name: nox, image: busybox, command: [/etc/passwd]}
  - {name: says, image: busybox, command: [sh, -c, 'echo -n why > /dev/termination-log; exit 7']}
  - {name: elsewhere, image: busybox, terminationMessagePath: /tmp/last, command: [sh, -c, 'echo -n there > /tmp/last']}
  - {name: prints, image: busybox, terminationMessagePolicy: FallbackToLogsOnError, command: [sh, -c, 'echo last words; exit 4']}
  - {name: silent, image: busybox, terminationMessagePolicy: FallbackToLogsOnError, command: [sh, -c, 'echo all well']}
",
    );
    let told = |name: &str| {
        let end = end_of(&agent, "ends", name);
        let text = |value: Option<String>| value.unwrap_or_default();
        (end.exit_code, text(end.reason), text(end.message))
    };
    for (name, code, reason, message) in [
        (
            "missing",
            128,
            "StartError",
            "exec: \"/bin/foo\": no such file or directory",
        ),
        (
            "nopath",
            128,
            "StartError",
            "exec: \"foo\": executable file not found in $PATH",
        ),
        (
            "nox",
            128,
            "StartError",
            "exec: \"/etc/passwd\": permission denied",
        ),
        ("says", 7, "Error", "why"),
        ("elsewhere", 0, "Completed", "there"),
        ("prints", 4, "Error", "last words\n"),
        ("silent", 0, "Completed", ""),
    ] {
        let expected = (code, reason.to_owned(), message.to_owned());
        assert_eq!(told(name), expected, "{name}");
    }
    agent.wait_for_pod("ends", |pod| {
        (pod.status.as_ref()?.phase.as_deref() == Some("Failed")).then_some(())
    });
}

/// P-40, S-155: with a UID of its own a pod is the same pod after an edit, and what did not change runs on.
#[test]
fn with_a_fixed_uid_only_the_changed_container_is_replaced() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let text = |image: &str| {
        format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: fixed, uid: 11111111-2222-3333-4444-555555555555}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 2
  containers:
  - {{name: stays, image: busybox, imagePullPolicy: Never, command: [sleep, '1000']}}
  - {{name: changes, image: {image}, imagePullPolicy: Never, command: [sleep, '1000']}}
"
        )
    };
    let running = |name: &str| {
        let status = status(&agent, "fixed", name)?;
        let is_running = status.state.as_ref()?.running.is_some();
        is_running.then_some(status)
    };
    agent.put("fixed.yaml", &text("busybox"));
    let stays = wait_for("the first container", || running("stays"));
    let changes = wait_for("the second container", || running("changes"));
    agent.put("fixed.yaml", &text("docker.io/library/busybox"));
    let replaced = wait_for("the new container", || {
        running("changes").filter(|now| now.container_id != changes.container_id)
    });
    assert_eq!(replaced.restart_count, 1);
    assert_eq!(running("stays"), Some(stays));
    let uid = agent.pod("fixed").and_then(|pod| pod.metadata.uid);
    assert_eq!(uid.as_deref(), Some("11111111-2222-3333-4444-555555555555"));
}

/// S-155: hooks, grace and order are those of the newest manifest, also for whom the first one did not know.
#[test]
fn with_a_fixed_uid_a_pod_ends_as_its_newest_manifest_says() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let witness = Witness::start();
    let member = |name: &str, more: &str| {
        let tell = |what| witness.tell(&format!("{name}-{what}"));
        let (begun, end) = (tell("begun"), tell("end"));
        let script =
            format!("trap '{end}; exit 0' TERM; {begun}; while :; do sleep 1 & wait $!; done");
        container(name, &script) + more
    };
    let hook = |word: &str| {
        let script = witness.tell(word);
        format!("    lifecycle: {{preStop: {{exec: {{command: [sh, -c, {script:?}]}}}}}}\n")
    };
    let text = |init: &str, regular: &str| {
        let spec = format!("  initContainers:{init}\n  containers:\n{regular}");
        let uid = "  name: web\n  uid: 21111111-2222-3333-4444-555555555555\n";
        pod("web", 20, &spec).replace("  name: web\n", uid)
    };
    agent.put("web.yaml", &text(" []", &member("main", &hook("former"))));
    witness.wait_for("main-begun");
    let sidecar = member("proxy", "    restartPolicy: Always\n");
    let regular = member("main", &hook("present")) + &member("added", &hook("added"));
    agent.put("web.yaml", &text(&format!("\n{sidecar}"), &regular));
    witness.wait_for("added-begun");
    witness.wait_for("proxy-begun");
    agent.remove("web.yaml");
    agent.wait_for_no_pods();
    let mut told = witness.told();
    assert_eq!(told.last().map(String::as_str), Some("proxy-end"));
    told.retain(|word| !word.ends_with("-begun"));
    told.sort();
    let expected = ["added", "added-end", "main-end", "present", "proxy-end"];
    assert_eq!(told, expected);
}
