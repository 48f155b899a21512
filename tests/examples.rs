//! The examples: each is short, says what to observe, and has no problem; the first ones really run. Those of
//! `examples/lifecycle` run in `tests/lifecycle`.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

fn examples() -> Vec<PathBuf> {
    let dirs = ["examples", "examples/lifecycle"].map(|dir| {
        let entries = std::fs::read_dir(dir).expect("read examples");
        entries.map(|entry| entry.expect("an entry").path())
    });
    let mut files: Vec<PathBuf> = dirs.into_iter().flatten().collect();
    files.retain(|path| path.is_file());
    files.sort();
    assert!(files.len() >= 14, "{files:?}");
    files
}

#[test]
fn every_example_is_short_and_says_what_to_observe() {
    for file in examples() {
        let text = std::fs::read_to_string(&file).expect("read an example");
        let head: String = text
            .lines()
            .take_while(|line| line.starts_with('#'))
            .collect();
        assert!(head.contains("Observe:"), "{}", file.display());
        assert!(text.lines().count() <= 40, "{}", file.display());
    }
}

#[test]
fn every_example_is_free_of_problems() {
    for file in examples() {
        let name = file.to_string_lossy();
        let content = std::fs::read(&file).expect("read an example");
        let parsed = vetch::pod::manifest::parse(&name, &content, "node");
        assert_eq!(parsed.diagnostics, [], "{name}");
        assert!(!parsed.pods.is_empty(), "{name}");
    }
}

/// Longest that anything here may take: a debug build on a busy machine unpacks slowly.
const DEADLINE: Duration = Duration::from_secs(120);

/// A `vetch run` that is ended with the value.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        // Ended already if the test came to its end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The README's first command: the page is served, the log shown, and nothing is left after SIGTERM.
#[test]
fn hello_runs_serves_ends_gracefully_and_leaves_nothing() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: examples/hello.yaml end to end: needs root");
        return;
    }
    let dir = tempfile::tempdir().expect("make a directory");
    let manifest = dir.path().join("hello.yaml");
    let port = free_port();
    write_hello(&manifest, port);
    let home = dir.path().join("tmp");
    std::fs::create_dir(&home).expect("make a directory");
    let output = dir.path().join("out");
    let stdout = File::create(&output).expect("make a file");
    let child = Command::new(env!("CARGO_BIN_EXE_vetch"))
        .arg("run")
        .arg(&manifest)
        .env("TMPDIR", &home)
        .stdout(stdout)
        .spawn()
        .expect("start vetch");
    let mut run = Run(child);
    let page = wait_for("the page", || get(port));
    assert!(page.contains("Hello from hello-"), "{page}");
    let pid = i32::try_from(run.0.id()).expect("a pid");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("end vetch");
    assert_eq!(run.0.wait().expect("wait for vetch").code(), Some(0));
    let output = std::fs::read_to_string(&output).expect("read the output");
    assert!(output.contains("/hello | hello from hello-"), "{output}");
    assert!(output.contains("/hello | bye\n"), "{output}");
    assert_eq!(std::fs::read_dir(&home).expect("read it").count(), 0);
    let cgroups = vetch::holder::cgroup::Cgroups::discover().expect("cgroups");
    let root = format!("/vetch-run-{}", pid.as_raw_nonzero());
    assert!(!cgroups.is_populated(&root), "{root} lives");
}

/// What is in the ConfigMap arrives, and what is in the Secret is not told.
#[test]
fn settings_come_from_beside_the_pod() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: examples/config.yaml end to end: needs root");
        return;
    }
    let dir = tempfile::tempdir().expect("make a directory");
    let home = dir.path().join("tmp");
    std::fs::create_dir(&home).expect("make a directory");
    let port = free_port();
    let text = std::fs::read_to_string("examples/config.yaml").expect("read the example");
    let manifest = dir.path().join("config.yaml");
    File::create(&manifest)
        .and_then(|mut file| file.write_all(text.replace("8083", &port.to_string()).as_bytes()))
        .expect("write the manifest");
    let talk = dir.path().join("err");
    let child = Command::new(env!("CARGO_BIN_EXE_vetch"))
        .arg("run")
        .arg(&manifest)
        .env("TMPDIR", &home)
        .stderr(File::create(&talk).expect("make a file"))
        .spawn()
        .expect("start vetch");
    let mut run = Run(child);
    let page = wait_for("the page", || get(port));
    assert!(page.contains("Hello from a-configmap"), "{page}");
    let pid = i32::try_from(run.0.id()).expect("a pid");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("end vetch");
    assert_eq!(run.0.wait().expect("wait for vetch").code(), Some(0));
    let told = std::fs::read_to_string(&talk).expect("read what was said");
    assert!(told.contains("others can read this Secret"), "{told}");
    assert!(!told.contains("not-a-good-one"), "{told}");
}

/// Who waits for more is told that nothing will come; and the recommended command works as it stands.
#[test]
fn the_end_of_a_job_is_told() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: examples/job.yaml end to end: needs root");
        return;
    }
    let dir = tempfile::tempdir().expect("make a directory");
    let home = dir.path().join("tmp");
    std::fs::create_dir(&home).expect("make a directory");
    let talk = dir.path().join("err");
    let child = Command::new(env!("CARGO_BIN_EXE_vetch"))
        .args(["run", "examples/job.yaml"])
        .env("TMPDIR", &home)
        .stderr(File::create(&talk).expect("make a file"))
        .spawn()
        .expect("start vetch");
    let mut run = Run(child);
    let told = || std::fs::read_to_string(&talk).expect("read what was said");
    let end = ": Succeeded: all containers have ended\n";
    wait_for("the end of the job", || told().contains(end).then_some(()));
    let told = told();
    let advice = told
        .lines()
        .find_map(|line| line.strip_prefix("running; look at it by: "))
        .expect("the advice");
    let mut words = advice.split(' ');
    let output = Command::new(words.next().expect("a program"))
        .args(words)
        .output()
        .expect("follow the advice");
    let pods = String::from_utf8_lossy(&output.stdout);
    assert!(pods.contains("Completed"), "{pods}");
    let pid = i32::try_from(run.0.id()).expect("a pid");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("end vetch");
    assert_eq!(run.0.wait().expect("wait for vetch").code(), Some(0));
    assert_eq!(std::fs::read_dir(&home).expect("read it").count(), 0);
}

/// The examples run with an agent, too.
#[test]
fn the_built_in_image_can_be_imported_by_its_name() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: import of builtin/hello: needs root");
        return;
    }
    let dir = tempfile::tempdir().expect("make a directory");
    for (args, told) in [
        (
            ["import", "builtin/hello"].as_slice(),
            "(1 of 1 layers new)",
        ),
        (&["import", "builtin/hello"], "(0 of 1 layers new)"),
        (&["ls"], "docker.io/builtin/hello:latest "),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_vetch"))
            .arg("image")
            .args(args)
            .arg("--root-dir")
            .arg(dir.path())
            .output()
            .expect("start vetch");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(told), "{args:?}: {text}");
    }
}

/// The example with another port, since 8080 may be taken here.
fn write_hello(manifest: &Path, port: u16) {
    let text = std::fs::read_to_string("examples/hello.yaml").expect("read the example");
    let with_port = text.replace(
        "      env:\n",
        &format!("      env:\n        - {{name: PORT, value: \"{port}\"}}\n"),
    );
    assert_ne!(text, with_port);
    File::create(manifest)
        .and_then(|mut file| file.write_all(with_port.as_bytes()))
        .expect("write the manifest");
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    listener.local_addr().expect("an address").port()
}

fn get(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.starts_with("HTTP/1.1 200 ").then_some(answer)
}

fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let now = || vetch::sys::clock::now().boot_ms;
    let limit_ms = u64::try_from(DEADLINE.as_millis()).expect("fits");
    let end = now() + limit_ms;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
