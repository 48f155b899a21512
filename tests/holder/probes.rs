//! Checks of a real pod: commands in its container, and connections into its network namespace.

use std::time::Duration;

use vetch::pod::probe::Check;
use vetch::probe::{Network, Outcome, Target};

use crate::support::sandbox::Sandbox;
use crate::support::wait::{can_run, wait_for};
use crate::{LIVES, shell};

/// For what must not take its time.
const LONG: Duration = Duration::from_secs(60);

fn target(sandbox: &Sandbox, id: &str) -> Target {
    Target {
        network: Network::Pod(vetch::sys::process::of(sandbox.pid()).unwrap()),
        holder: sandbox.paths.clone(),
        container_id: id.to_owned(),
    }
}

fn exec(target: &Target, args: &[&str], timeout: Duration) -> Outcome {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    smol::block_on(vetch::probe::run(&Check::Exec { args }, target, timeout))
}

#[test]
fn a_command_succeeds_fails_or_cannot_be_run() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let target = target(&sandbox, &sandbox.run("c"));
    assert_eq!(exec(&target, &["true"], LONG), Outcome::Success);
    let script = "echo out; echo err >&2; exit 3";
    assert_eq!(
        exec(&target, &["sh", "-c", script], LONG),
        Outcome::Failure("out\nerr".to_owned())
    );
    // More than a pipe holds: it must be read, or the command would never end.
    let script = "head -c 300000 /dev/zero | tr '\\0' x; exit 1";
    assert_eq!(
        exec(&target, &["sh", "-c", script], LONG),
        Outcome::Failure("x".repeat(10 * 1024))
    );
    // It has no input to wait for, and what it leaves behind is not waited for.
    assert_eq!(exec(&target, &["cat"], LONG), Outcome::Success);
    let script = "sleep 1000 & exit 0";
    assert_eq!(exec(&target, &["sh", "-c", script], LONG), Outcome::Success);
    let missing = exec(&target, &["/missing"], LONG);
    assert!(matches!(&missing, Outcome::Errored(_)), "{missing:?}");
    let mut other = target;
    other.container_id = "f".repeat(64);
    let gone = exec(&other, &["true"], LONG);
    assert!(matches!(&gone, Outcome::Errored(_)), "{gone:?}");
}

#[test]
fn a_command_that_takes_too_long_is_killed_with_all_it_started() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let target = target(&sandbox, &sandbox.run("c"));
    let tree = || {
        sandbox
            .cgroups
            .pids(&sandbox.record.sandbox.pod_cgroup)
            .len()
    };
    let before = tree();
    let script = "sleep 1000 & sleep 1000";
    let outcome = exec(&target, &["sh", "-c", script], Duration::from_millis(200));
    let text = format!("command timed out: \"sh -c {script}\" timed out after 200ms");
    assert_eq!(outcome, Outcome::Failure(text));
    wait_for("the command's tree is gone", || {
        (tree() == before).then_some(())
    });
}

#[test]
fn the_pod_is_reached_in_its_network_namespace() {
    if !can_run() {
        return;
    }
    let serves = "mkdir /w; echo ok > /w/index.html; httpd -f -p 127.0.0.1:8099 -h /w";
    let sandbox = Sandbox::start(&shell(serves));
    let mut target = target(&sandbox, &sandbox.run("c"));
    let tcp = Check::TcpSocket {
        host: None,
        port: 8099,
    };
    let run = |target: &Target| smol::block_on(vetch::probe::run(&tcp, target, LONG));
    wait_for("the server listens", || {
        (run(&target) == Outcome::Success).then_some(())
    });
    let get = Check::HttpGet(vetch::pod::probe::HttpGet {
        tls: false,
        host: None,
        port: 8099,
        path: "/index.html".to_owned(),
        headers: Vec::new(),
    });
    let answer = smol::block_on(vetch::probe::run(&get, &target, LONG));
    assert_eq!(answer, Outcome::Success);
    // Nobody listens in ours.
    target.network = Network::Host;
    let text = "dial tcp 127.0.0.1:8099: connect: connection refused";
    assert_eq!(run(&target), Outcome::Failure(text.to_owned()));
}
