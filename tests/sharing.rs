//! What the containers of a pod share with each other and with their node (P-180…P-182, C-60…C-66), looked at from inside.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail by panic")]

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::collections::BTreeMap;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use support::manifest::LIVES;
use support::sandbox::Sandbox;
use support::wait::{can_run, wait_for};
use vetch::holder::proto::Reply;

/// Fields of the pod's `spec`, and containers that run these scripts, named a, b, …
fn pod(fields: &str, scripts: &[&str]) -> String {
    let mut spec = String::new();
    for field in fields.split("; ").filter(|field| !field.is_empty()) {
        spec.push_str(&format!("  {field}\n"));
    }
    spec.push_str("  containers:\n");
    for (name, script) in ["a", "b", "c"].iter().zip(scripts) {
        spec.push_str(&format!(
            "  - name: {name}\n    image: busybox\n    command: [/bin/sh, -c, {script:?}]\n"
        ));
    }
    spec.trim_end().to_owned()
}

/// What `namespace` of a process is, in the kernel's words.
fn namespace(pid: i32, namespace: &str) -> String {
    let link = std::fs::read_link(format!("/proc/{pid}/ns/{namespace}")).unwrap();
    link.into_os_string().into_string().unwrap()
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap()
}

/// Pids of a process's children.
fn children(pid: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    text.split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

fn name_of(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

/// Pid 1 of a pod that shares its processes.
fn reaper(sandbox: &Sandbox) -> i32 {
    let mut children = children(sandbox.pid()).into_iter();
    children.find(|&pid| name_of(pid) == "pause").unwrap()
}

/// P-180, P-181, P-182
#[test]
fn each_namespace_is_the_nodes_or_the_pods_or_the_containers() {
    if !can_run() {
        return;
    }
    for (fields, of_node) in [
        ("", vec![]),
        ("hostNetwork: true", vec!["net", "uts"]),
        ("hostPID: true", vec!["pid"]),
        ("hostIPC: true", vec!["ipc"]),
        ("hostIPC: true; hostPID: true", vec!["ipc", "pid"]),
        (
            "hostNetwork: true; hostIPC: true; hostPID: true",
            vec!["ipc", "net", "pid", "uts"],
        ),
        (
            "hostNetwork: true; shareProcessNamespace: true",
            vec!["net", "uts"],
        ),
    ] {
        let sandbox = Sandbox::start(&pod(fields, &[LIVES, LIVES]));
        let [a, b] = ["a", "b"].map(|name| sandbox.container_pid(&sandbox.run(name)));
        let same = |kind: &&str| namespace(a, kind) == namespace(own_pid(), kind);
        let kinds = ["ipc", "mnt", "net", "pid", "uts"];
        let found: Vec<&str> = kinds.into_iter().filter(same).collect();
        assert_eq!(found, of_node, "{fields}");
        for kind in ["ipc", "net", "uts"] {
            assert_eq!(namespace(a, kind), namespace(b, kind), "{fields}: {kind}");
        }
        let shares = namespace(a, "pid") == namespace(b, "pid");
        assert_eq!(
            shares,
            fields.contains("PID") || fields.contains("Process"),
            "{fields}"
        );
        assert_ne!(namespace(a, "mnt"), namespace(b, "mnt"), "{fields}");
    }
}

/// P-182: what it sees is the node's, what ends with it is its own.
#[test]
fn a_container_with_the_nodes_processes_ends_alone() {
    if !can_run() {
        return;
    }
    let script = "sleep 1000 & echo $! > /tmp/child; exec sleep 1000";
    let sandbox = Sandbox::start(&pod("hostPID: true", &[script, LIVES]));
    let (a, b) = (sandbox.run("a"), sandbox.run("b"));
    let (code, _, output) = sandbox.exec(&a, &["/bin/cat", "/proc/1/comm"]);
    assert_eq!((code, output.as_str().trim()), (0, name_of(1).as_str()));
    let (_, _, output) = sandbox.exec(&a, &["/bin/cat", "/tmp/child"]);
    let child: i32 = output.trim().parse().unwrap();
    assert_eq!(name_of(child), "sleep");

    assert_eq!(sandbox.stop(&a, 0), Reply::Done);
    assert_eq!(sandbox.exit(&a).code, 143);
    // The exit is told when the last of its processes is gone.
    assert!(!Path::new(&format!("/proc/{child}")).exists());
    assert_eq!(sandbox.exec(&b, &["/bin/true"]).0, 0);
}

/// C-66, P-181
#[test]
fn the_nodes_ipc_comes_with_its_shared_memory() {
    if !can_run() {
        return;
    }
    let name = format!("vetch-test-{}", std::process::id());
    let script = format!("echo hello > /dev/shm/{name}");
    let host = Path::new("/dev/shm").join(&name);
    for (fields, is_shared) in [("hostIPC: true", true), ("hostPID: true", false)] {
        let sandbox = Sandbox::start(&pod(fields, &[&script]));
        let id = sandbox.run("a");
        assert_eq!(sandbox.exit(&id).code, 0, "{}", sandbox.log(&id));
        let text = std::fs::read_to_string(&host).ok();
        let _ = std::fs::remove_file(&host);
        assert_eq!(text.as_deref(), is_shared.then_some("hello\n"), "{fields}");
    }
}

/// P-182
#[test]
fn containers_that_share_their_processes_see_and_signal_each_other() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&pod("shareProcessNamespace: true", &[LIVES, LIVES]));
    let (a, b) = (sandbox.run("a"), sandbox.run("b"));
    let (code, _, output) = sandbox.exec(&a, &["/bin/ps", "-o", "pid,args"]);
    assert_eq!(code, 0, "{output}");
    let first: Vec<&str> = output.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(first, ["1", "pause"], "{output}");
    let shells = output.lines().filter(|line| line.contains("/bin/sh -c"));
    assert_eq!(shells.count(), 2, "{output}");

    // Files of the other, by way of its process: what P-182 is used for.
    let marker = "echo here > /tmp/marker";
    assert_eq!(sandbox.exec(&b, &["/bin/sh", "-c", marker]).0, 0);
    let script = "for root in /proc/[0-9]*/root; do cat $root/tmp/marker 2>&- && break; done";
    let (_, _, output) = sandbox.exec(&a, &["/bin/sh", "-c", script]);
    assert_eq!(output, "here\n");

    // And signals. Pid 1 is nobody's prey.
    let script = "kill -9 1; kill -15 1; for f in /proc/[0-9]*/root/tmp/marker; do pid=${f#/proc/}; kill -9 ${pid%%/*} 2>&-; done; true";
    sandbox.exec(&a, &["/bin/sh", "-c", script]);
    assert_eq!(sandbox.exit(&b).code, 137);
    assert_eq!(sandbox.exec(&a, &["/bin/true"]).0, 0);
    assert_eq!(sandbox.run("b").len(), 64);
}

/// P-182: there is nothing to gain from pid 1, which shares the user of the pod's containers.
#[test]
fn the_first_process_of_a_pod_gives_nothing_away() {
    if !can_run() {
        return;
    }
    let spec = pod("shareProcessNamespace: true", &[LIVES]);
    let spec = format!("{spec}\n    securityContext: {{capabilities: {{add: [SYS_PTRACE]}}}}");
    let sandbox = Sandbox::start(&spec);
    let id = sandbox.run("a");
    let pid = reaper(&sandbox);
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let status: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name, value.trim()))
        .collect();
    for set in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
        assert_eq!(status[set], "0000000000000000", "{set}");
    }
    assert_eq!(status["NoNewPrivs"], "1");
    assert_eq!(status["Seccomp"], "2");
    assert_eq!(status["NSpid"].split_whitespace().last(), Some("1"));
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    assert_eq!(fds.count(), 0);
    let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    assert_eq!(mounts.lines().count(), 1, "{mounts}");
    assert_eq!(
        std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap(),
        sandbox.proc_text("oom_score_adj")
    );
    let cgroups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    assert_eq!(cgroups, sandbox.proc_text("cgroup"));
    // Even who may trace everything finds an empty root.
    let (_, _, output) = sandbox.exec(&id, &["/bin/sh", "-c", "ls -a /proc/1/root/ | cat"]);
    assert_eq!(output, ".\n..\n");
}

/// P-182: orphans are reaped, and die with their container only.
#[test]
fn orphans_of_a_shared_pod_are_reaped_and_end_with_their_container() {
    if !can_run() {
        return;
    }
    // A process whose parent ends at once, and one that ends itself after that.
    let script = "(sleep 1000 & echo $! > /dev/shm/pid); (sh -c 'read x < /dev/shm/go; exit 0' & echo $! > /dev/shm/dead); exec sleep 1000";
    let sandbox = Sandbox::start(&pod("shareProcessNamespace: true", &[script, LIVES]));
    let b = sandbox.run("b");
    let mkfifo = "touch /dev/shm/x; /bin/busybox mkfifo /dev/shm/go";
    assert_eq!(sandbox.exec(&b, &["/bin/sh", "-c", mkfifo]).0, 0);
    let a = sandbox.run("a");
    let look = |script: &str| sandbox.exec(&b, &["/bin/sh", "-c", script]).2;
    wait_for("both orphans", || {
        look("cat /dev/shm/pid /dev/shm/dead 2>&-")
            .lines()
            .nth(1)
            .map(|_| ())
    });
    let parent = look("cat /proc/$(cat /dev/shm/pid)/status");
    assert!(parent.contains("PPid:\t1\n"), "{parent}");
    look("echo > /dev/shm/go");
    wait_for("the reaped orphan", || {
        look("test -e /proc/$(cat /dev/shm/dead) || echo gone")
            .contains("gone")
            .then_some(())
    });
    assert_eq!(
        look("test -e /proc/$(cat /dev/shm/pid) && echo lives").trim(),
        "lives"
    );
    sandbox.stop(&a, 0);
    assert_eq!(sandbox.exit(&a).code, 143);
    assert_eq!(
        look("test -e /proc/$(cat /dev/shm/pid) || echo gone").trim(),
        "gone"
    );
}

/// P-182, as a dead pause container: the holder ends itself with all exits recorded.
#[test]
fn when_the_first_process_dies_the_holder_leaves() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&pod("shareProcessNamespace: true", &[LIVES, LIVES]));
    let (a, b) = (sandbox.run("a"), sandbox.run("b"));
    let pid = Pid::from_raw(reaper(&sandbox)).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    assert_eq!(sandbox.exit(&a).code, 137);
    assert_eq!(sandbox.exit(&b).code, 137);
    wait_for("the holder's end", || sandbox.holder.try_wait().unwrap());
    assert!(!sandbox.cgroups.is_populated(&sandbox.cgroup_root));
}

/// P-182
#[test]
fn the_first_process_dies_with_the_holder() {
    if !can_run() {
        return;
    }
    let mut sandbox = Sandbox::start(&pod("shareProcessNamespace: true", &[LIVES]));
    let a = sandbox.run("a");
    let [reaper, container] = [reaper(&sandbox), sandbox.container_pid(&a)];
    sandbox.holder.kill().unwrap();
    sandbox.holder.wait().unwrap();
    for pid in [reaper, container] {
        wait_for("its end", || {
            (!Path::new(&format!("/proc/{pid}")).exists()).then_some(())
        });
    }
}
