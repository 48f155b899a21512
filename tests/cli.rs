//! The built binary, as a person calls it: exit codes, streams, help and completion. No root, no agent.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn vetch(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vetch"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("start vetch")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("text")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("text")
}

#[test]
fn wrong_usage_is_64_and_goes_to_stderr() {
    for args in [
        &[][..],
        &["frobnicate"],
        &["get"],
        &["get", "nodes"],
        &["get", "pods", "--frob"],
        &["describe", "node", "x"],
        &["wait", "--for=rain", "pod/web"],
        &["wait", "--for=delete"],
        &["wait", "--for=jsonpath={.status.phase}=Done", "pod/web"],
        &["check"],
    ] {
        let output = vetch(args);
        assert_eq!(code(&output), 64, "{args:?}");
        assert_eq!(stdout(&output), "", "{args:?}");
        assert_ne!(stderr(&output), "", "{args:?}");
    }
}

#[test]
fn help_is_data_and_names_every_verb() {
    let output = vetch(&["--help"]);
    assert_eq!(code(&output), 0);
    assert_eq!(stderr(&output), "");
    let verbs: Vec<&str> = stdout(&output)
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(
        verbs,
        [
            "run",
            "agent",
            "get",
            "describe",
            "logs",
            "exec",
            "wait",
            "stop",
            "drain",
            "plan",
            "check",
            "image",
            "status",
            "top",
            "completion",
            "version",
            "help"
        ]
    );
}

#[test]
fn a_wrong_verb_suggests_the_right_one() {
    let output = vetch(&["descibe", "pod", "web"]);
    assert!(
        stderr(&output).contains("'describe'"),
        "{}",
        stderr(&output)
    );
}

/// Who comes from another tool is told what does it here, not which verb is spelled alike.
#[test]
fn a_verb_of_another_tool_is_answered_with_ours() {
    for (verb, ours) in [
        ("apply", "vetch run FILE"),
        ("start", "vetch run FILE"),
        ("delete", "remove its manifest"),
        ("ps", "vetch get pods"),
        ("images", "vetch image ls"),
        ("pull", "vetch image import FILE"),
    ] {
        let output = vetch(&[verb, "web"]);
        assert_eq!(code(&output), 64, "{verb}");
        let told = stderr(&output);
        let tips = told.lines().filter(|line| line.contains("tip:")).count();
        assert!(told.contains(ours) && tips == 1, "{told}");
    }
}

#[test]
fn a_repeated_flag_is_taken_from_its_last_place() {
    let output = vetch(&["get", "pods", "--run-dir", "/first", "--run-dir", "/last"]);
    assert_eq!(code(&output), 1);
    assert!(
        stderr(&output).contains("/last/agent.sock"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn without_an_agent_one_line_says_so() {
    for args in [
        &["get", "pods"][..],
        &["describe", "pod", "web"],
        &["plan"],
        &["status"],
        &["exec", "web"],
    ] {
        let mut args = [args, &["--run-dir", "/nowhere"]].concat();
        if args[0] == "exec" {
            args.extend(["--", "ls"]);
        }
        let output = vetch(&args);
        assert_eq!(code(&output), 1, "{args:?}");
        assert_eq!(
            stderr(&output),
            "vetch: no agent answers on /nowhere/agent.sock; is `vetch agent` running?\n",
            "{args:?}"
        );
    }
}

#[test]
fn waiting_for_an_agent_that_never_comes_ends_with_the_timeout() {
    let output = vetch(&[
        "wait",
        "--for=condition=Ready",
        "--all",
        "--timeout",
        "0",
        "--run-dir",
        "/nowhere",
    ]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("timed out"), "{}", stderr(&output));
}

#[test]
fn a_closed_pipe_ends_the_output_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vetch"))
        .args(["completion", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start vetch");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("wait for vetch");
    assert_eq!(stderr(&output), "");
    assert_eq!(code(&output), 0);
}

#[test]
fn completion_is_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let output = vetch(&["completion", shell]);
        assert_eq!(code(&output), 0, "{shell}");
        assert!(stdout(&output).contains("describe"), "{shell}");
        // What vetch starts of itself is nobody's to type.
        assert!(!stdout(&output).contains("import-dir"), "{shell}");
    }
}

#[test]
fn the_version_is_one_line_or_json() {
    let text = vetch(&["version"]);
    assert!(
        stdout(&text).starts_with(concat!("vetch ", env!("CARGO_PKG_VERSION"), " (linux/")),
        "{}",
        stdout(&text)
    );
    let json: serde_json::Value =
        serde_json::from_slice(&vetch(&["version", "-o", "json"]).stdout).expect("JSON");
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_node_name_that_is_none_is_refused_before_anything_is_touched() {
    let output = vetch(&[
        "agent",
        "--config",
        "/dev/null",
        "--hostname-override",
        "my_box",
    ]);
    assert_eq!(code(&output), 1);
    assert!(
        stderr(&output).contains("--hostname-override: must be a host name"),
        "{}",
        stderr(&output)
    );
}

/// No interpreter and no library: the test build is made the way the release is.
#[test]
fn the_binary_is_static() {
    let elf = std::fs::read(env!("CARGO_BIN_EXE_vetch")).expect("read the binary");
    let headers = program_header_types(&elf);
    assert!(headers.contains(&1), "no PT_LOAD in {headers:?}");
    assert!(!headers.contains(&3), "PT_INTERP in {headers:?}");
}

/// `p_type` of every program header of a little-endian ELF file.
fn program_header_types(elf: &[u8]) -> Vec<u32> {
    let number = |at: usize, bytes: usize| {
        elf[at..at + bytes]
            .iter()
            .rev()
            .fold(0usize, |n, byte| (n << 8) | usize::from(*byte))
    };
    assert_eq!(&elf[..4], b"\x7fELF");
    let wide = elf[4] == 2;
    let (start, size, count) = if wide {
        (number(32, 8), number(54, 2), number(56, 2))
    } else {
        (number(28, 4), number(42, 2), number(44, 2))
    };
    (0..count)
        .map(|index| u32::try_from(number(start + index * size, 4)).expect("32 bits"))
        .collect()
}

/// Nothing runs, so there is nothing to end. It is said: another run directory may have been meant.
#[test]
fn stop_without_agent_and_holders_is_done_at_once() {
    let output = vetch(&["stop", "--all", "--run-dir", "/nowhere"]);
    let told = "vetch: nothing to stop: no agent and no pods in /nowhere\n";
    assert_eq!((code(&output), stderr(&output)), (0, told));
    assert_eq!(code(&vetch(&["stop"])), 64);
}

fn write(file: &Path, text: &str) {
    std::fs::File::create(file)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .expect("write a file");
}

/// Manifests and everything that `vetch check` has to say about them.
fn check(name: &str, manifest: &str) -> (Output, String) {
    let dir = tempfile::tempdir().expect("make a directory");
    let file = dir.path().join(name);
    write(&file, manifest);
    let output = vetch(&["check", dir.path().to_str().expect("a plain path")]);
    let prefix = format!("{}/", dir.path().display());
    let text = stdout(&output).replace(&prefix, "");
    (output, text)
}

#[test]
fn check_accepts_a_good_manifest_silently() {
    let (output, text) = check(
        "web.yaml",
        "apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  hostNetwork: true
  containers:
    - name: web
      image: busybox
",
    );
    assert_eq!((code(&output), text.as_str()), (0, ""));
    assert_eq!(stderr(&output), "1 file, 1 pod, 0 errors, 0 warnings\n");
}

/// A field in the wrong place is not silently ignored, and the manifest still runs.
#[test]
fn check_warns_of_a_misplaced_field_and_says_where_it_belongs() {
    let (output, text) = check(
        "web.yaml",
        "apiVersion: v1
kind: Pod
metadata:
  name: web
  restartPolicy: Never
spec:
  hostNetwork: true
  containers:
    - name: web
      image: busybox
      imagePullPolicies: Never
",
    );
    assert_eq!(
        text,
        "warning: web.yaml:5: metadata.restartPolicy: unknown field, it belongs in spec
warning: web.yaml:11: spec.containers[0].imagePullPolicies: unknown field, did you mean imagePullPolicy?
"
    );
    assert_eq!(code(&output), 0);
}

#[test]
fn check_refuses_with_65_and_tells_every_mistake_at_once() {
    let (output, text) = check(
        "bad.yaml",
        "apiVersion: v1
kind: Pod
metadata:
  name: Web
spec:
  hostNetwork: true
  containers: []
",
    );
    assert_eq!(code(&output), 65);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0].starts_with("error: bad.yaml:4: metadata.name: "),
        "{text}"
    );
    assert!(
        lines[1].starts_with("error: bad.yaml:7: spec.containers: "),
        "{text}"
    );
}

#[test]
fn check_can_print_json() {
    let output = vetch(&["check", "-o", "json", "examples/hello.yaml"]);
    assert_eq!((code(&output), stdout(&output)), (0, "[]\n"));
    assert_eq!(stderr(&output), "");
}

#[test]
fn check_of_a_path_that_is_not_there_fails() {
    let output = vetch(&["check", "/nowhere/web.yaml"]);
    assert_eq!(code(&output), 1);
    assert!(
        stderr(&output).contains("/nowhere/web.yaml"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn run_refuses_a_bad_manifest_before_it_touches_anything() {
    let dir = tempfile::tempdir().expect("make a directory");
    let file = dir.path().join("bad.yaml");
    write(&file, "kind: Pod\n");
    let output = vetch(&["run", file.to_str().expect("a plain path")]);
    assert_eq!(code(&output), 65);
    assert!(stderr(&output).contains("error: "), "{}", stderr(&output));
}

#[test]
fn a_damaged_record_hides_one_image_and_is_named() {
    let dir = tempfile::tempdir().expect("make a directory");
    let records = dir.path().join("images/records");
    std::fs::create_dir_all(&records).expect("make a directory");
    write(&records.join("bad"), "{");
    let root = dir.path().to_str().expect("a plain path");
    let output = vetch(&["image", "--root-dir", root, "ls"]);
    assert_eq!(code(&output), 0);
    let said = stderr(&output);
    assert!(said.starts_with("warning: image store: "), "{said}");
    assert!(said.contains("records/bad"), "{said}");
}
