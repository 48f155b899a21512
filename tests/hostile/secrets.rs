//! Values of Secrets in places where a message could tell them.

use std::path::Path;

use crate::support::agent::TestAgent;
use crate::support::manifest::{LIVES, main, pod};
use crate::support::wait::{can_run, wait_for};

const HUSH: &str = "hunter2-correct-horse";

const SECRET: &str = "apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {word: hunter2-correct-horse, path: /hunter2-correct-horse, up: ../hunter2-correct-horse}
";

const ENV: &str = "    env:
    - {name: WORD, valueFrom: {secretKeyRef: {name: s, key: word}}}
    - {name: ROOTED, valueFrom: {secretKeyRef: {name: s, key: path}}}
    - {name: UP, valueFrom: {secretKeyRef: {name: s, key: up}}}
";

/// A pod whose program has this name.
fn runs(name: &str, program: &str) -> String {
    let spec = main("x").replace("[sh, -c, \"x\"]", &format!("[{program:?}]"));
    pod(name, 1, &(spec + ENV))
}

/// A pod that mounts this part of its Secret.
fn mounts(name: &str, expression: &str) -> String {
    let volume = format!(
        "    volumeMounts: [{{name: v, mountPath: /v, subPathExpr: {expression}}}]
  volumes: [{{name: v, secret: {{secretName: s}}}}]\n"
    );
    pod(name, 1, &(main(LIVES) + ENV + &volume))
}

/// What of a container says why it does not run.
fn problem(agent: &TestAgent, name: &str) -> Option<String> {
    let status = &agent.status(name)["containerStatuses"][0];
    let waiting = &status["state"]["waiting"];
    let ends = [
        &status["state"]["terminated"]["message"],
        &status["lastState"]["terminated"]["message"],
    ];
    let end = ends.into_iter().find_map(|message| message.as_str());
    let message = end.or(waiting["message"].as_str())?;
    Some(message.to_owned())
}

fn assert_is_not_in_files(dir: &Path, except: &[&Path]) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if except.contains(&path.as_path()) {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            assert_is_not_in_files(&path, except);
        } else if let Ok(bytes) = std::fs::read(&path) {
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(HUSH), "{}", path.display());
        }
    }
}

/// Programs and paths that are named by a Secret, and are not there.
#[test]
fn what_fails_by_a_secret_does_not_tell_it() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.put("s.yaml", SECRET);
    let pods = [
        ("word", runs("word", "$(WORD)"), "exec: \"$(WORD)\": "),
        ("path", runs("path", "$(ROOTED)"), "exec: \"$(ROOTED)\": "),
        ("rooted", mounts("rooted", "$(ROOTED)"), "\"$(ROOTED)\""),
        ("up", mounts("up", "$(UP)"), "\"$(UP)\""),
        ("below", mounts("below", "word/$(WORD)"), "\"word/$(WORD)\""),
    ];
    for (name, manifest, _) in &pods {
        agent.put(&format!("{name}.yaml"), manifest);
    }
    let mut shown = String::new();
    for (name, _, words) in &pods {
        let message = wait_for(name, || problem(&agent, name));
        assert!(message.contains(words), "{name}: {message}");
        shown += &agent.text(&["describe", "pod", name]);
        shown += &agent.text(&["get", "pod", name, "-o", "yaml"]);
    }
    for command in [&["get", "events"][..], &["plan"]] {
        shown += &agent.text(command);
    }
    assert!(!(shown + &agent.log()).contains(HUSH));
    // Its own copy is root's alone, and so is where a container's specification is.
    let (copy, run_dir) = (agent.paths.objects(), &agent.paths.run_dir);
    assert_is_not_in_files(&agent.paths.root_dir, &[&copy]);
    assert_is_not_in_files(&agent.paths.log_dir, &[]);
    let holders = agent.paths.holders();
    for holder in std::fs::read_dir(&holders).unwrap().flatten() {
        let containers = holder.path().join("containers");
        assert_is_not_in_files(&holder.path(), &[&containers]);
    }
    let mode = std::os::unix::fs::MetadataExt::mode(&run_dir.metadata().unwrap());
    assert_eq!(mode & 0o7777, 0o700);
}
