//! Lifecycle hooks: how they run, fail and end.

use std::os::fd::AsFd;

use vetch::holder::proto::{
    ContainerRecord, HolderState, HookState, InstanceState, Reply, Request, StopPhase,
};
use vetch::pod::hook::Hook;
use vetch::pod::probe::HttpGet;
use vetch::sys::clock;

use crate::support::sandbox::Sandbox;
use crate::support::wait::{can_run, wait_for};
use crate::support::wire::{Wire, exec_request};
use crate::{LIVES, container, shell};

/// Longer than any test.
pub const LONG_MS: u64 = 600_000;
/// Lives until it is told to end, and says so.
pub const SAYS_BYE: &str = "trap 'echo bye; exit 0' TERM; echo up; sleep 1000 & wait";

pub fn sh(script: &str) -> Hook {
    Hook::Exec {
        args: ["sh", "-c", script].map(str::to_owned).to_vec(),
    }
}

/// Starts a container with a postStart hook.
pub fn run_with(sandbox: &Sandbox, hook: Hook) -> String {
    let mut request = sandbox.prepare("c");
    request.post_start = Some(hook);
    let id = request.id.clone();
    let reply = sandbox.wire.ask(Request::Create(Box::new(request)));
    assert!(matches!(reply, Reply::Started { .. }), "{reply:?}");
    id
}

pub fn stop_request(id: &str, grace_ms: u64, pre_stop: Option<Hook>, after: &[&str]) -> Request {
    Request::Stop {
        id: id.to_owned(),
        grace_ms,
        reason: "test".to_owned(),
        pre_stop,
        after: after.iter().map(|&name| name.to_owned()).collect(),
    }
}

pub fn stop(sandbox: &Sandbox, id: &str, grace_ms: u64, pre_stop: Option<Hook>) {
    let request = stop_request(id, grace_ms, pre_stop, &[]);
    assert_eq!(sandbox.wire.ask(request), Reply::Done);
}

/// Waits until the record of a container is as wanted.
pub fn record_when(
    sandbox: &Sandbox,
    id: &str,
    wanted: impl Fn(&ContainerRecord) -> bool,
) -> ContainerRecord {
    loop {
        let record = sandbox.record(id).unwrap();
        if wanted(&record) {
            return record;
        }
        sandbox.wire.receive();
    }
}

pub fn phase(record: &ContainerRecord) -> Option<StopPhase> {
    match &record.state {
        InstanceState::Stopping { phase, .. } => Some(*phase),
        InstanceState::Running { .. } | InstanceState::Exited(_) => None,
    }
}

fn post_start_ended(record: &ContainerRecord) -> bool {
    !matches!(record.post_start, HookState::None | HookState::Running)
}

pub fn failure(state: &HookState) -> &str {
    match state {
        HookState::Failed { message } => message,
        HookState::None | HookState::Running | HookState::Done => panic!("{state:?}"),
    }
}

pub fn finished_ms(sandbox: &Sandbox, id: &str) -> u64 {
    sandbox.exit(id).finished_at.boot_ms
}

/// No child but the containers' own, no cgroup but theirs.
pub fn assert_clean(sandbox: &Sandbox, containers: usize) {
    let children = format!("task/{}/children", sandbox.pid());
    wait_for("no other children", || {
        let count = sandbox.proc_text(&children).split_whitespace().count();
        (count == containers).then_some(())
    });
    wait_for("no cgroup of a command", || {
        exec_cgroups(sandbox).is_empty().then_some(())
    });
}

/// Cgroups of commands, in all hierarchies.
fn exec_cgroups(sandbox: &Sandbox) -> Vec<String> {
    let pod = &sandbox.record.sandbox.pod_cgroup;
    let roots = std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten();
    let mut trees: Vec<_> = roots.map(|entry| entry.path().join(&pod[1..])).collect();
    trees.push(format!("/sys/fs/cgroup{pod}").into());
    let containers = trees.iter().flat_map(std::fs::read_dir).flatten().flatten();
    let below = containers
        .flat_map(|c| std::fs::read_dir(c.path()))
        .flatten();
    below
        .flatten()
        .map(|entry| entry.path().display().to_string())
        .filter(|path| path.contains("/exec-"))
        .collect()
}

#[test]
fn a_post_start_command_runs_in_the_container_and_is_told() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let script = "echo $PPID > /tmp/mark; until test -e /tmp/go; do sleep 0.02; done";
    let id = run_with(&sandbox, sh(script));
    // The state in which the container first appears says so: what follows must not start.
    let first = sandbox.record(&id).unwrap();
    assert_eq!(first.post_start, HookState::Running);
    assert!(matches!(first.state, InstanceState::Running { .. }));
    sandbox.exec(&id, &["touch", "/tmp/go"]);
    let record = record_when(&sandbox, &id, post_start_ended);
    assert_eq!(record.post_start, HookState::Done);
    let file = std::fs::read(sandbox.paths.state()).unwrap();
    let file: HolderState = serde_json::from_slice(&file).unwrap();
    assert_eq!(file.containers[0].post_start, HookState::Done);
    assert_clean(&sandbox, 1);
}

#[test]
fn a_hook_that_fails_says_why() {
    if !can_run() {
        return;
    }
    for (hook, message) in [
        (
            sh("echo to out; echo to err >&2; exit 3"),
            "Exec lifecycle hook ([sh -c echo to out; echo to err >&2; exit 3]) for container \"c\" failed - exit code 3, message: \"to out\\nto err\\n\"",
        ),
        (
            Hook::Exec {
                args: vec!["nosuch".to_owned()],
            },
            "Exec lifecycle hook ([nosuch]) for container \"c\" failed - error: exec: \"nosuch\": executable file not found in $PATH",
        ),
        (
            Hook::Broken {
                why: "tcpSocket is not supported as a lifecycle hook".to_owned(),
            },
            "Lifecycle hook for container \"c\" failed - error: tcpSocket is not supported as a lifecycle hook",
        ),
    ] {
        let sandbox = Sandbox::start(&shell(LIVES));
        let id = run_with(&sandbox, hook);
        let record = record_when(&sandbox, &id, post_start_ended);
        assert_eq!(failure(&record.post_start), message);
        // Ending the container is the agent's decision.
        assert!(matches!(record.state, InstanceState::Running { .. }));
        assert_clean(&sandbox, 1);
    }
}

#[test]
fn only_the_end_of_what_a_hook_says_is_kept() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let id = run_with(&sandbox, sh("yes | head -c 3000000; echo -n END; exit 1"));
    let record = record_when(&sandbox, &id, post_start_ended);
    let message = failure(&record.post_start);
    assert!(message.ends_with("y\\nEND\""), "{message}");
    assert_eq!(message.matches("y\\n").count(), (1024 - 3) / 2);
}

/// What a hook leaves in the background keeps its output: a daemon must not die of SIGPIPE because its starter ended.
#[test]
fn what_a_hook_leaves_in_the_background_lives_and_can_write() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let daemon = "until test -e /tmp/go; do sleep 0.02; done; yes | head -c 200000 && touch /tmp/written; sleep 1000";
    let id = run_with(&sandbox, sh(&format!("({daemon}) &")));
    let record = record_when(&sandbox, &id, post_start_ended);
    assert_eq!(record.post_start, HookState::Done);
    sandbox.exec(&id, &["touch", "/tmp/go"]);
    wait_for("its words", || {
        (sandbox.exec(&id, &["test", "-e", "/tmp/written"]).0 == 0).then_some(())
    });
    stop(&sandbox, &id, 10_000, None);
    assert_eq!(sandbox.exit(&id).code, 0);
    assert_clean(&sandbox, 0);
}

fn get(port: u16) -> Hook {
    Hook::HttpGet(HttpGet {
        tls: false,
        host: None,
        port,
        path: "/hook?x=1".to_owned(),
        headers: Vec::new(),
    })
}

/// Serves one request in the pod's network; what was asked is in /tmp/request.
const SERVES: &str = "(until test -s /tmp/request; do sleep 0.02; done; echo 'HTTP/1.1 500 no'; echo) | nc -l -p 8080 > /tmp/request; sleep 1000";

#[test]
fn a_request_is_made_in_the_pods_network_whatever_the_answer() {
    if !can_run() {
        return;
    }
    let both = [container("c", LIVES), container("server", SERVES)].concat();
    let sandbox = Sandbox::start(&format!("  containers:\n{both}"));
    let server = sandbox.run("server");
    listens(&sandbox, &server);
    let id = run_with(&sandbox, get(8080));
    let record = record_when(&sandbox, &id, post_start_ended);
    assert_eq!(record.post_start, HookState::Done);
    let request = wait_for("the request", || {
        let (code, _, text) = sandbox.exec(&server, &["cat", "/tmp/request"]);
        (code == 0 && text.contains("\r\n\r\n")).then_some(text)
    });
    assert!(
        request.starts_with("GET /hook?x=1 HTTP/1.1\r\n"),
        "{request}"
    );
    assert_clean(&sandbox, 2);
}

fn listens(sandbox: &Sandbox, server: &str) {
    wait_for("a server", || {
        let (_, _, sockets) = sandbox.exec(server, &["cat", "/proc/net/tcp", "/proc/net/tcp6"]);
        sockets.contains(":1F90 ").then_some(())
    });
}

#[test]
fn a_request_that_fails_says_why() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let id = run_with(&sandbox, get(81));
    let record = record_when(&sandbox, &id, post_start_ended);
    let message = failure(&record.post_start);
    let start = "HTTP lifecycle hook (/hook?x=1) for container \"c\" failed - error: ";
    assert!(message.starts_with(start), "{message}");
    assert!(message.ends_with("connection refused"), "{message}");
    assert_clean(&sandbox, 1);
}

/// A server that takes the request and never answers.
#[test]
fn a_request_that_hangs_holds_nobody_up() {
    if !can_run() {
        return;
    }
    let hangs = "trap 'exit 0' TERM; sleep 1000 | nc -l -p 8080 > /tmp/request & sleep 1000 & wait";
    let sandbox = Sandbox::start(&shell(hangs));
    let id = sandbox.run("c");
    listens(&sandbox, &id);
    stop(&sandbox, &id, LONG_MS, Some(get(8080)));
    wait_for("the request", || {
        let (_, _, text) = sandbox.exec(&id, &["cat", "/tmp/request"]);
        text.contains("/hook").then_some(())
    });
    let record = sandbox.record(&id).unwrap();
    assert_eq!(record.pre_stop, HookState::Running);
    stop(&sandbox, &id, 0, None);
    assert_eq!(sandbox.exit(&id).code, 0);
    let record = sandbox.record(&id).unwrap();
    assert!(failure(&record.pre_stop).contains("end of the grace period"));
    assert_clean(&sandbox, 0);
    assert_eq!(sandbox.wire.ask(Request::Shutdown), Reply::Done);
}

#[test]
fn a_sleep_sleeps() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let begin = clock::now().boot_ms;
    let id = run_with(&sandbox, Hook::Sleep { ms: 300 });
    assert_eq!(sandbox.record(&id).unwrap().post_start, HookState::Running);
    let record = record_when(&sandbox, &id, post_start_ended);
    assert_eq!(record.post_start, HookState::Done);
    assert!(clock::now().boot_ms >= begin + 300);
    stop(&sandbox, &id, LONG_MS, Some(Hook::Sleep { ms: 200 }));
    let begin = clock::now().boot_ms;
    let exit = sandbox.exit(&id);
    assert_eq!(exit.code, 0);
    assert!(exit.finished_at.boot_ms + 100 >= begin + 200);
    assert_eq!(sandbox.record(&id).unwrap().pre_stop, HookState::Done);
}

#[test]
fn hooks_and_other_commands_do_not_mix_up() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(SAYS_BYE));
    let hook = sh("until test -e /tmp/go; do sleep 0.02; done; exit 9");
    let id = run_with(&sandbox, hook);
    let null = std::fs::File::open("/dev/null").unwrap();
    let fds = [null.as_fd(), null.as_fd(), null.as_fd()];
    let exec = |n: i32| {
        let wire = Wire::connect(&sandbox.paths);
        let command = exec_request(&id, &["sh", "-c", &format!("exit {n}")]);
        wire.send(Request::Exec(command), &fds);
        wire
    };
    let wires: Vec<Wire> = (0..8).map(exec).collect();
    for (n, wire) in (0..).zip(&wires) {
        assert_eq!(wire.exec_exit(), (n, false));
    }
    let before = sandbox.record(&id).unwrap().post_start;
    assert_eq!(before, HookState::Running);
    sandbox.exec(&id, &["touch", "/tmp/go"]);
    let record = record_when(&sandbox, &id, post_start_ended);
    assert!(failure(&record.post_start).contains("exit code 9"));
    assert_clean(&sandbox, 1);
}

#[test]
fn a_container_that_ends_ends_its_hook() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell("until test -e /tmp/go; do sleep 0.02; done; exit 6"));
    for hook in [
        sh("sleep 1000 & touch /tmp/go; sleep 1000"),
        Hook::Sleep { ms: LONG_MS },
    ] {
        let is_sleep = matches!(hook, Hook::Sleep { .. });
        let id = run_with(&sandbox, hook);
        if is_sleep {
            sandbox.exec(&id, &["touch", "/tmp/go"]);
        }
        assert_eq!(sandbox.exit(&id).code, 6);
        let record = sandbox.record(&id).unwrap();
        assert!(!failure(&record.post_start).is_empty());
        assert_clean(&sandbox, 0);
        assert_eq!(sandbox.remove(&id, true), Reply::Done);
    }
}
