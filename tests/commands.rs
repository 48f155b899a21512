//! What a person asks a running agent: `get`, `describe`, `logs`, `exec`, `wait`, `plan`, `status`, `stop`; and `run`, which
//! brings its own agent. Real pods.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use support::agent::TestAgent;
use support::images;
use support::manifest::{SAYS_BYE, main, pod};
use support::wait::{can_run, wait_for};
use support::watch::container;

fn manifest(name: &str, policy: &str, script: &str) -> String {
    let policy = format!("  restartPolicy: {policy}\n");
    pod(name, 5, &(policy + &main(script)))
}

/// Waits, as a person does, until the pod `web` is ready.
fn wait_until_ready(agent: &TestAgent) {
    let ready = "--for=condition=Ready";
    agent.text(&["wait", ready, "pod/web", "--timeout", "60s"]);
}

#[test]
fn a_running_pod_is_shown_from_every_side() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.put("web.yaml", &manifest("web", "Always", SAYS_BYE));
    wait_until_ready(&agent);

    let table = agent.text(&["get", "pods"]);
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    assert_eq!(lines[1][..4], ["web-box", "1/1", "Running", "0"]);
    assert_eq!(lines.len(), 2, "{table}");

    let list = agent.json(&["get", "pods", "-o", "json"]);
    assert_eq!(list["kind"], "PodList");
    assert_eq!(list["items"][0]["status"]["phase"], "Running");
    let one = agent.json(&["get", "pod", "web", "-o", "json"]);
    assert_eq!(
        (&one["kind"], &one["apiVersion"]),
        (&"Pod".into(), &"v1".into())
    );
    assert_eq!(one, list["items"][0]);
    let bytes = agent.text(&["get", "pod", "web", "-o", "json"]);
    assert!(
        bytes.starts_with(
            "{\n    \"apiVersion\": \"v1\",\n    \"kind\": \"Pod\",\n    \"metadata\": {\n"
        ),
        "{bytes}"
    );
    let yaml = agent.text(&["get", "po", "web-box", "-o", "yaml"]);
    let same: Value = serde_yaml::from_str(&yaml).expect("YAML");
    assert_eq!(same, one);

    let page = agent.text(&["describe", "pod", "web"]);
    for part in [
        "Name:             web-box\n",
        "Status:           Running\n",
        "main: running\n",
    ] {
        assert!(page.contains(part), "{part:?} in {page}");
    }
    assert!(agent.text(&["plan"]).contains("web-box/main: running"));
    assert!(agent.text(&["status"]).contains("default/web-box"));
    assert!(agent.text(&["get", "events"]).contains("Started"));
    assert_eq!(agent.text(&["logs", "web"]), "up\n");
    let done = agent.answer(&["exec", "web", "--", "sh", "-c", "echo in; exit 3"]);
    assert_eq!((done.0, done.1.as_str()), (3, "in\n"));
}

/// The advice of `run` leads into its own store, and following it starts the pod.
#[test]
fn run_says_how_to_give_it_a_missing_image() {
    if !can_run() {
        return;
    }
    let mut run = Run::start_with("echo here; exec sleep 1000", |_, _| {});
    run.says("or by: ");
    let output = run.output();
    let advice = output.split("or by: ").nth(1).expect("the advice");
    let advice = advice.lines().next().expect("a line");
    let archive = images::busybox_archive(run.dir.path());
    let words = advice.split(' ').map(|word| match word {
        "FILE" => archive.to_str().expect("a plain path"),
        word => word,
    });
    let mut command = Command::new("env");
    command.args(words).stdout(Stdio::null());
    assert!(command.status().expect("follow the advice").success());
    run.says("/main | here");
    run.interrupt();
    run.interrupt();
    assert_eq!(run.ends(), Some(0));
}

/// It goes on with what was good, and `describe` says so and why.
#[test]
fn a_mistake_in_the_manifest_of_a_running_pod_is_described() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.put("web.yaml", &manifest("web", "Always", SAYS_BYE));
    let ready = ["wait", "--for=condition=Ready", "pod", "web"];
    agent.text(&ready);
    agent.put("web.yaml", "apiVersion: v1\nkind: Pod\nmetadata: [\n");
    wait_for("the mistake", || {
        let page = agent.text(&["describe", "pod", "web"]);
        let says = page.contains("web.yaml:1 (last good content)")
            && page.contains("Remarks about the manifest:\n  error: ")
            && page.contains("Running");
        says.then_some(())
    });
    agent.put("web.yaml", &manifest("web", "Always", SAYS_BYE));
    wait_for("the good content", || {
        let page = agent.text(&["describe", "pod", "web"]);
        (!page.contains("last good") && !page.contains("Remarks")).then_some(())
    });
}

/// "Why was my container restarted?" is answered by its last state, the events and the log of the instance before.
#[test]
fn a_restart_is_explained() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.put(
        "bad.yaml",
        &manifest("bad", "Always", "echo reason; exit 9"),
    );
    agent.wait_for_pod("bad", |pod| {
        let waiting = container(pod)?.state.as_ref()?.waiting.as_ref()?;
        (waiting.reason.as_deref() == Some("CrashLoopBackOff")).then_some(())
    });
    assert!(agent.text(&["get", "pods"]).contains("CrashLoopBackOff"));
    let page = agent.text(&["describe", "pod/bad"]);
    for part in [
        "Last State:",
        "Exit Code:    9\n",
        "Next Restart:",
        "BackOff",
    ] {
        assert!(page.contains(part), "{part:?} in {page}");
    }
    assert_eq!(agent.text(&["logs", "-p", "bad"]), "reason\n");
    assert_eq!(agent.answer(&["exec", "bad", "--", "true"]).0, 1);
    let events = agent.json(&["get", "events", "-o", "json"]);
    let reasons: Vec<&Value> = events["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|event| &event["event"]["reason"])
        .collect();
    assert!(reasons.contains(&&"BackOff".into()), "{reasons:?}");
}

#[test]
fn a_followed_log_ends_with_its_container_and_wait_sees_it_go() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.put("web.yaml", &manifest("web", "Always", SAYS_BYE));
    agent.put("job.yaml", &manifest("job", "Never", "echo done"));
    wait_until_ready(&agent);
    let phase = "--for=jsonpath={.status.phase}=Succeeded";
    agent.text(&["wait", phase, "pod/job", "--timeout", "60s"]);
    let late = agent.answer(&["wait", "--for=delete", "pod/web", "--timeout", "0"]);
    assert_eq!(late.0, 1);

    let mut follower = agent
        .vetch(&["logs", "-f", "web"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("start vetch");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let mut line = || lines.next().map(|line| line.expect("text"));
    assert_eq!(line().as_deref(), Some("up"));
    agent.remove("web.yaml");
    assert_eq!(line().as_deref(), Some("bye"));
    assert_eq!(line(), None);
    assert_eq!(follower.wait().expect("wait").code(), Some(0));
    agent.text(&["wait", "--for=delete", "pod/web", "--timeout", "60s"]);
    assert!(!agent.text(&["get", "pods"]).contains("web-box"));
}

#[test]
fn stop_ends_the_pods_then_the_agent_and_returns_when_all_are_gone() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    agent.put("web.yaml", &manifest("web", "Always", SAYS_BYE));
    let met = agent.answer(&["wait", "--for=condition=Ready", "--all", "--timeout", "60s"]);
    assert_eq!(met.0, 0, "{}", met.2);
    assert!(met.2.starts_with("default/web-"), "{}", met.2);
    agent.text(&["stop", "--all"]);
    assert!(agent.container_pids().is_empty());
    assert_eq!(agent.wait_for_end(), Some(0));
}

/// `vetch run` with a busybox image; ended with the value.
struct Run {
    child: Child,
    dir: tempfile::TempDir,
}

impl Run {
    fn start(script: &str) -> Self {
        Self::start_with(script, |command, dir| {
            command.arg("--image").arg(images::busybox_archive(dir));
        })
    }

    fn start_with(script: &str, complete: impl FnOnce(&mut Command, &Path)) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("vr")
            .tempdir()
            .expect("make a directory");
        let file = dir.path().join("pod.yaml");
        File::create(&file)
            .and_then(|mut file| file.write_all(manifest("web", "Always", script).as_bytes()))
            .expect("write the manifest");
        std::fs::create_dir(dir.path().join("tmp")).expect("make a directory");
        let output = File::create(dir.path().join("out")).expect("make a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_vetch"));
        command.arg("run").arg(&file);
        complete(&mut command, dir.path());
        let child = command
            .env("TMPDIR", dir.path().join("tmp"))
            .stdin(Stdio::null())
            .stderr(output.try_clone().expect("clone a file"))
            .stdout(output)
            .spawn()
            .expect("start vetch");
        Self { child, dir }
    }

    /// Waits until it has said this.
    fn says(&self, what: &str) {
        wait_for(what, || self.output().contains(what).then_some(()));
    }

    fn output(&self) -> String {
        let output = std::fs::read(self.dir.path().join("out")).unwrap_or_default();
        String::from_utf8_lossy(&output).into_owned()
    }

    fn interrupt(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).expect("interrupt vetch");
    }

    fn run_dir(&self) -> std::path::PathBuf {
        let name = format!("vetch-{}", self.child.id());
        self.dir.path().join("tmp").join(name).join("run")
    }

    /// Waits for its end; nothing may be left in its directory.
    fn ends(&mut self) -> Option<i32> {
        let status = wait_for("the end of vetch run", || {
            self.child.try_wait().expect("wait")
        });
        assert_eq!(entries(&self.dir.path().join("tmp")), 0);
        status.code()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn entries(dir: &Path) -> usize {
    std::fs::read_dir(dir).expect("read a directory").count()
}

/// The pod ignores SIGTERM and has a grace of 5 s; the second Ctrl-C does not wait for it.
#[test]
fn a_second_interrupt_of_run_cuts_the_grace_short() {
    if !can_run() {
        return;
    }
    let script = "trap '' TERM; echo up; while :; do sleep 1; done";
    let mut run = Run::start(script);
    run.says("/main | up");
    run.interrupt();
    run.says("ending all pods");
    run.interrupt();
    assert_eq!(run.ends(), Some(0));
}

#[test]
fn run_ends_well_when_it_is_stopped_from_outside() {
    if !can_run() {
        return;
    }
    let mut run = Run::start(SAYS_BYE);
    run.says("/main | up");
    let stopped = Command::new(env!("CARGO_BIN_EXE_vetch"))
        .args(["stop", "--all", "--run-dir"])
        .arg(run.run_dir())
        .status()
        .expect("start vetch");
    assert_eq!(stopped.code(), Some(0));
    assert_eq!(run.ends(), Some(0));
    assert!(run.output().contains("/main | bye"), "{}", run.output());
}
