//! What the commands answer about pods in all sorts of states, and about images: each promise of their help.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use serde_json::Value;

use support::agent::TestAgent;
use support::images;
use support::wait::{can_run, wait_for};

/// Two containers, one of which ends with last words that would clear a screen; fields without effect; a misspelled one.
const ODD: &str = "apiVersion: v1
kind: Pod
metadata:
  name: odd
  labels: {app: shop}
spec:
  hostNetwork: true
  schedulerName: mine
  restartPolcy: Never
  containers:
  - name: first
    image: busybox
    command: [sh, -c, 'echo one; echo two; echo three >&2; exec sleep 1000']
    env:
    - {name: WHO, value: me}
  - name: second
    image: busybox
    command: [sh, -c, 'echo lost; printf \"a\\033[2J\\nReady: True\" > /dev/termination-log; exit 9']
  - name: third
    image: example.org/not/here:1
  terminationGracePeriodSeconds: 2
";

fn odd_agent() -> TestAgent {
    let agent = TestAgent::start();
    agent.put("odd.yaml", ODD);
    agent.wait_for_pod("odd", |pod| {
        let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
        let second = statuses.iter().find(|status| status.name == "second")?;
        let waiting = second.state.as_ref()?.waiting.as_ref()?;
        let is_over = waiting.reason.as_deref() == Some("CrashLoopBackOff");
        (is_over && second.restart_count > 0).then_some(())
    });
    agent
}

#[test]
fn logs_are_chosen_by_container_instance_number_and_age() {
    if !can_run() {
        return;
    }
    let agent = odd_agent();
    wait_for("all lines", || {
        agent.text(&["logs", "odd"]).contains("three").then_some(())
    });
    let logs = |args: &[&str]| {
        let mut all = vec!["logs", "odd"];
        all.extend(args);
        agent.text(&all)
    };
    let mut lines: Vec<String> = logs(&[]).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["one", "three", "two"]);
    assert_eq!(logs(&["-c", "second"]), "lost\n");
    assert_eq!(logs(&["-c", "second", "-p"]), "lost\n");
    assert_eq!(logs(&["--tail", "2", "--tail", "1"]).lines().count(), 1);
    assert_eq!(logs(&["--tail", "0"]), "");
    assert_eq!(logs(&["--since", "1h"]).lines().count(), 3);
    assert_eq!(logs(&["--since", "0s"]), "");
    for line in logs(&["--timestamps"]).lines() {
        let (stamp, _) = line.split_once(' ').expect("two columns");
        assert!(stamp.parse::<jiff::Timestamp>().is_ok(), "{line}");
    }
    for (args, message) in [
        (["-c", "third"], "has not started yet"),
        (["-c", "fourth"], "has no container"),
        (["-c", "first"], "has no instance before this one"),
    ] {
        let mut all = vec!["logs", "odd", "-p"];
        all.extend(args);
        let all = if message.contains("not started") {
            [&all[..2], &all[3..]].concat()
        } else {
            all
        };
        let (code, stdout, stderr) = agent.answer(&all);
        assert_eq!((code, stdout.as_str()), (1, ""), "{args:?}");
        assert!(stderr.contains(message), "{args:?}: {stderr}");
    }
}

#[test]
fn a_description_has_everything_and_cannot_be_forged() {
    if !can_run() {
        return;
    }
    let agent = odd_agent();
    let page = agent.text(&["describe", "pod", "odd"]);
    for part in [
        "Labels:           app=shop\n",
        "Restart Policy:   Always\n",
        "WHO: me\n",
        "State:          Running\n",
        "Last State:     Terminated\n",
        "Reason:       CrashLoopBackOff\n",
        "Message:      a^[[2J\n                    Ready: True\n",
        "Exit Code:    9\n",
        "Restart Count:  1\n",
        "Next Restart:   in ",
        "Reason:       ErrImagePull\n",
        "vetch image import",
        "ContainersNotReady",
        "odd.yaml:8: spec.schedulerName: ",
        "odd.yaml:9: spec.restartPolcy: unknown field, did you mean restartPolicy?",
        "  first: running\n",
        "  second: restarts in ",
        "BackOff",
    ] {
        assert!(page.contains(part), "{part:?} in {page}");
    }
    assert!(!page.contains('\u{1b}'), "{page:?}");
    let plan = agent.text(&["plan"]);
    for part in [
        "odd-box/second: restarts in ",
        "odd-box/third: ",
        "Looks again in ",
    ] {
        assert!(plan.contains(part), "{part:?} in {plan}");
    }
    let status = agent.text(&["status"]);
    assert!(
        status.contains("odd.yaml:8: spec.schedulerName"),
        "{status}"
    );
}

#[test]
fn a_pod_is_found_under_every_name_and_what_is_not_there_is_said() {
    if !can_run() {
        return;
    }
    let agent = odd_agent();
    let one: Value = agent.json(&["get", "pods", "odd", "-o", "json"]);
    assert_eq!(one["metadata"]["name"], "odd-box");
    for name in ["odd-box", "default/odd"] {
        assert!(
            agent.text(&["get", "pod", name]).contains("odd-box"),
            "{name}"
        );
    }
    assert!(agent.text(&["get", "pod/odd"]).contains("odd-box"));
    let wide = agent.text(&["get", "pods", "-o", "wide"]);
    assert!(
        wide.starts_with("NAME ") && wide.contains("NODE\n"),
        "{wide}"
    );
    assert!(
        wide.lines().nth(1).is_some_and(|row| row.ends_with(" box")),
        "{wide}"
    );
    for (args, code, message) in [
        (&["get", "pod", "nobody"][..], 1, "pod \"nobody\" not found"),
        (&["get", "pod/odd", "odd"], 64, "one name is enough"),
        (&["get", "deployments"], 64, "possible values: pods, events"),
        (
            &["exec", "odd", "-c", "second", "--", "true"],
            1,
            "does not run",
        ),
        (
            &["exec", "nobody", "--", "true"],
            1,
            "pod \"nobody\" not found",
        ),
        (
            &["wait", "--for=condition=Ready", "pod/odd", "--timeout", "0"],
            1,
            "timed out waiting for pod/odd",
        ),
    ] {
        let (found, stdout, stderr) = agent.answer(args);
        assert_eq!((found, stdout.as_str()), (code, ""), "{args:?}");
        assert!(stderr.contains(message), "{args:?}: {stderr}");
    }
    // A command in a container needs no agent.
    let mut agent = agent;
    agent.kill();
    let inside = agent.text(&["exec", "odd", "-c", "first", "--", "cat", "/proc/1/comm"]);
    assert_eq!(inside, "sleep\n");
    let elsewhere = TestAgent::prepare();
    let (code, _, stderr) = elsewhere.answer(&["exec", "odd", "--", "true"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("no agent answers"), "{stderr}");
}

#[test]
fn an_exec_that_cannot_be_executed_says_so_by_its_code() {
    if !can_run() {
        return;
    }
    let agent = odd_agent();
    let exec = |command: &[&str]| {
        let args = [&["exec", "odd", "-c", "first", "--"], command].concat();
        agent.answer(&args)
    };
    for (command, code, message) in [
        (
            "nosuch",
            127,
            "\"nosuch\": executable file not found in $PATH",
        ),
        (
            "/bin/nosuch",
            127,
            "\"/bin/nosuch\": no such file or directory",
        ),
        ("/etc/passwd", 126, "\"/etc/passwd\": permission denied"),
    ] {
        let (found, stdout, stderr) = exec(&[command]);
        assert_eq!((found, stdout.as_str()), (code, ""), "{command}: {stderr}");
        assert_eq!(stderr, format!("vetch: exec: {message}\n"));
    }
    // The command's own codes are passed on, whatever they mean.
    assert_eq!(
        exec(&["sh", "-c", "exit 126"]),
        (126, String::new(), String::new())
    );
}

#[test]
fn an_exec_whose_output_is_lost_has_failed() {
    if !can_run() {
        return;
    }
    let agent = odd_agent();
    let exec = |script: &str| {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let args = ["exec", "odd", "-c", "first", "--", "sh", "-c", script];
        let mut command = agent.vetch(&args);
        command.stdout(full.expect("open /dev/full"));
        let output = command.output().expect("start vetch");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    // `yes` ends only because nobody takes its output.
    for script in ["echo lost", "yes"] {
        let (code, said) = exec(script);
        assert_eq!(code, Some(1), "{script}: {said}");
        let expected = "vetch: write the output: No space left on device (os error 28)\n";
        assert!(said.ends_with(expected), "{script}: {said}");
    }
    assert_eq!(exec("exit 3"), (Some(3), String::new()));
}

#[test]
fn images_are_imported_listed_pinned_and_removed() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::prepare();
    agent.spawn();
    let elsewhere = tempfile::tempdir().expect("make a directory");
    let archive = images::busybox_archive(elsewhere.path());
    let archive = archive.to_str().expect("text");
    assert!(
        agent
            .text(&["image", "import", archive])
            .contains("docker.io/library/busybox:latest")
    );
    // The agent sees it at once, as its waiting pods do.
    agent.put(
        "web.yaml",
        &ODD.replace("name: odd", "name: web")
            .replace("restartPolcy", "restartPolicy"),
    );
    agent.wait_until_running("web");
    let pinned = |agent: &TestAgent| {
        let row = agent.text(&["image", "ls"]);
        let row = row
            .lines()
            .find(|line| line.contains("busybox"))?
            .to_owned();
        Some(row.ends_with("yes"))
    };
    assert_eq!(pinned(&agent), Some(false));
    let dropped = agent.paths.images_import().join("busybox.tar");
    std::fs::copy(archive, &dropped).expect("copy the archive");
    wait_for("it is pinned", || {
        (pinned(&agent) == Some(true)).then_some(())
    });
    std::fs::remove_file(&dropped).expect("remove the archive");
    wait_for("it is not pinned", || {
        (pinned(&agent) == Some(false)).then_some(())
    });

    let all: Value = agent.json(&["image", "inspect", "busybox"]);
    assert_eq!(all[0]["config"]["config"]["Cmd"][0], "sh");
    let (code, _, stderr) = agent.answer(&["image", "rm", "busybox"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("used by a container"), "{stderr}");
    agent.remove("web.yaml");
    agent.wait_for_no_pods();
    assert!(
        agent
            .text(&["image", "rm", "busybox"])
            .contains("removed sha256:")
    );
    let (code, _, stderr) = agent.answer(&["image", "inspect", "busybox"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("no image"), "{stderr}");
}
