//! The steps of a stop: preStop hook, waiting for others, signal, kill.

use rustix::process::{Pid, Signal, kill_process};
use vetch::holder::proto::{HookState, InstanceState, Reply, Request, StopPhase};
use vetch::pod::hook::Hook;
use vetch::sys::clock;

use crate::hooks::{
    LONG_MS, SAYS_BYE, assert_clean, failure, finished_ms, phase, record_when, run_with, sh, stop,
    stop_request,
};
use crate::support::sandbox::Sandbox;
use crate::support::wait::{can_run, wait_for};
use crate::support::wire::Wire;
use crate::{LIVES, container, shell};

#[test]
fn the_signal_comes_after_the_pre_stop_command() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(SAYS_BYE));
    let id = sandbox.run("c");
    wait_for("trap", || (sandbox.log(&id) == "up\n").then_some(()));
    stop(
        &sandbox,
        &id,
        LONG_MS,
        Some(sh("echo hook > /proc/1/fd/1; exit 4")),
    );
    assert_eq!(sandbox.exit(&id).code, 0);
    assert_eq!(sandbox.log(&id), "up\nhook\nbye\n");
    let record = sandbox.record(&id).unwrap();
    // Failed, and went on.
    assert!(failure(&record.pre_stop).ends_with("exit code 4, message: \"\""));
    assert_clean(&sandbox, 0);
}

#[test]
fn the_stop_signal_is_the_containers_own() {
    if !can_run() {
        return;
    }
    for (signal, name) in [(libc::SIGINT, "INT"), (libc::SIGUSR1, "USR1")] {
        let script = format!("trap 'echo got; exit 5' {name}; echo up; sleep 1000 & wait");
        let mut sandbox = Sandbox::start(&shell(&script));
        sandbox.adjust = match signal {
            libc::SIGINT => |request| request.stop_signal = libc::SIGINT,
            _ => |request| request.stop_signal = libc::SIGUSR1,
        };
        let id = sandbox.run("c");
        assert_eq!(sandbox.record(&id).unwrap().stop_signal, signal);
        wait_for("trap", || (sandbox.log(&id) == "up\n").then_some(()));
        stop(&sandbox, &id, LONG_MS, None);
        assert_eq!(sandbox.exit(&id).code, 5);
        assert_eq!(sandbox.log(&id), "up\ngot\n");
    }
}

#[test]
fn a_hook_longer_than_the_grace_is_given_up_and_two_seconds_remain() {
    if !can_run() {
        return;
    }
    // It does not react to the signal.
    let sandbox = Sandbox::start(&shell(
        "trap 'echo term' TERM; echo up; while true; do sleep 1000 & wait; done",
    ));
    let id = sandbox.run("c");
    wait_for("trap", || (sandbox.log(&id) == "up\n").then_some(()));
    let begin = clock::now().boot_ms;
    // P-77: abandoned, not killed.
    stop(
        &sandbox,
        &id,
        300,
        Some(sh("sleep 1; echo still > /proc/1/fd/1; sleep 1000")),
    );
    let record = record_when(&sandbox, &id, |r| phase(r) == Some(StopPhase::Signalled));
    assert!(failure(&record.pre_stop).contains("end of the grace period"));
    let end = finished_ms(&sandbox, &id);
    assert!(end >= begin + 300 + 2000, "{end} {begin}");
    assert_eq!(sandbox.log(&id), "up\nterm\nstill\n");
    assert_clean(&sandbox, 0);
}

#[test]
fn without_grace_there_is_neither_hook_nor_wait() {
    if !can_run() {
        return;
    }
    let both = [container("c", SAYS_BYE), container("d", LIVES)].concat();
    let sandbox = Sandbox::start(&format!("  containers:\n{both}"));
    let (id, other) = (sandbox.run("c"), sandbox.run("d"));
    wait_for("trap", || (sandbox.log(&id) == "up\n").then_some(()));
    let request = stop_request(&id, 0, Some(sh("echo hook > /proc/1/fd/1")), &["d"]);
    assert_eq!(sandbox.wire.ask(request), Reply::Done);
    assert_eq!(sandbox.exit(&id).code, 0);
    assert_eq!(sandbox.log(&id), "up\nbye\n");
    assert_eq!(sandbox.record(&id).unwrap().pre_stop, HookState::None);
    assert!(matches!(
        sandbox.record(&other).unwrap().state,
        InstanceState::Running { .. }
    ));
}

#[test]
fn a_later_stop_shortens_and_never_lengthens() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(SAYS_BYE));
    let id = sandbox.run("c");
    wait_for("trap", || (sandbox.log(&id) == "up\n").then_some(()));
    stop(&sandbox, &id, LONG_MS, Some(sh("sleep 1000")));
    let before = sandbox.record(&id).unwrap();
    assert_eq!(phase(&before), Some(StopPhase::PreStop));
    stop(
        &sandbox,
        &id,
        LONG_MS * 2,
        Some(sh("echo another > /proc/1/fd/1")),
    );
    assert_eq!(sandbox.record(&id).unwrap(), before);
    stop(&sandbox, &id, 0, None);
    assert_eq!(sandbox.exit(&id).code, 0);
    assert_eq!(sandbox.log(&id), "up\nbye\n");
    assert_clean(&sandbox, 0);
}

#[test]
fn sidecars_end_after_the_main_container_in_reverse_order() {
    if !can_run() {
        return;
    }
    let says = |name: &str| format!("trap 'echo bye; exit 0' TERM; echo {name}; sleep 1000 & wait");
    let names = ["main", "first", "second"];
    let all: String = names.iter().map(|n| container(n, &says(n))).collect();
    let sandbox = Sandbox::start(&format!("  containers:\n{all}"));
    let [main, first, second] = names.map(|name| sandbox.run(name));
    for id in [&main, &first, &second] {
        wait_for("trap", || (!sandbox.log(id).is_empty()).then_some(()));
    }
    // All at once, the first sidecar first.
    let hook = || Some(sh("echo hook > /proc/1/fd/1"));
    for request in [
        stop_request(&first, LONG_MS, hook(), &["main", "second"]),
        stop_request(&second, LONG_MS, hook(), &["main"]),
    ] {
        assert_eq!(sandbox.wire.ask(request), Reply::Done);
    }
    // P-81: its preStop is not delayed.
    for id in [&first, &second] {
        record_when(&sandbox, id, |r| phase(r) == Some(StopPhase::Waiting));
        assert!(sandbox.log(id).ends_with("hook\n"));
    }
    stop(&sandbox, &main, LONG_MS, hook());
    let [main, first, second] = [&main, &first, &second].map(|id| {
        let exit = sandbox.exit(id);
        assert_eq!(exit.code, 0);
        exit.finished_at.boot_ms
    });
    assert!(main <= second && second <= first, "{main} {second} {first}");
}

#[test]
fn who_waits_in_a_circle_waits_no_longer_than_the_grace() {
    if !can_run() {
        return;
    }
    let both = [container("c", SAYS_BYE), container("d", SAYS_BYE)].concat();
    let sandbox = Sandbox::start(&format!("  containers:\n{both}"));
    let (c, d) = (sandbox.run("c"), sandbox.run("d"));
    for id in [&c, &d] {
        wait_for("trap", || (sandbox.log(id) == "up\n").then_some(()));
    }
    let begin = clock::now().boot_ms;
    for (id, after) in [(&c, ["c", "d"]), (&d, ["c", "d"])] {
        let request = stop_request(id, 500, None, &after);
        assert_eq!(sandbox.wire.ask(request), Reply::Done);
    }
    for id in [&c, &d] {
        assert_eq!(sandbox.exit(id).code, 0);
        assert_eq!(sandbox.log(id), "up\nbye\n");
        assert!(finished_ms(&sandbox, id) >= begin + 500);
    }
}

#[test]
fn a_container_that_is_being_made_is_waited_for() {
    if !can_run() {
        return;
    }
    let both = [container("c", SAYS_BYE), container("d", LIVES)].concat();
    let sandbox = Sandbox::start(&format!("  containers:\n{both}"));
    let c = sandbox.run("c");
    wait_for("trap", || (sandbox.log(&c) == "up\n").then_some(()));
    let request = sandbox.prepare("d");
    let d = request.id.clone();
    let created = sandbox.wire.send(Request::Create(Box::new(request)), &[]);
    let stopped = sandbox
        .wire
        .send(stop_request(&c, LONG_MS, None, &["d"]), &[]);
    assert_eq!(sandbox.wire.reply(stopped).0, Reply::Done);
    let (reply, _) = sandbox.wire.reply(created);
    assert!(matches!(reply, Reply::Started { .. }), "{reply:?}");
    assert_eq!(
        phase(&sandbox.record(&c).unwrap()),
        Some(StopPhase::Waiting)
    );
    stop(&sandbox, &d, 3000, None);
    let ended = finished_ms(&sandbox, &d);
    assert!(finished_ms(&sandbox, &c) >= ended);
}

#[test]
fn it_all_goes_on_when_who_asked_is_gone() {
    if !can_run() {
        return;
    }
    let both = [container("c", SAYS_BYE), container("d", LIVES)].concat();
    let sandbox = Sandbox::start(&format!("  containers:\n{both}"));
    let (c, d) = (sandbox.run("c"), sandbox.run("d"));
    wait_for("trap", || (sandbox.log(&c) == "up\n").then_some(()));
    let agent = Wire::connect(&sandbox.paths);
    let hook = sh("until test -e /tmp/go; do sleep 0.02; done; echo hook > /proc/1/fd/1");
    let reply = agent.ask(stop_request(&c, LONG_MS, Some(hook), &["d"]));
    assert_eq!(reply, Reply::Done);
    drop(agent);
    sandbox.exec(&c, &["touch", "/tmp/go"]);
    record_when(&sandbox, &c, |r| phase(r) == Some(StopPhase::Waiting));
    stop(&sandbox, &d, 3000, None);
    assert_eq!(sandbox.exit(&c).code, 0);
    assert_eq!(sandbox.log(&c), "up\nhook\nbye\n");
    assert_eq!(sandbox.record(&c).unwrap().pre_stop, HookState::Done);
}

#[test]
fn an_init_killed_during_its_pre_stop_hook_takes_the_hook_along() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::start(&shell(LIVES));
    let id = sandbox.run("c");
    stop(
        &sandbox,
        &id,
        LONG_MS,
        Some(sh("sleep 1000 & touch /tmp/there; sleep 1000")),
    );
    wait_for("the hook", || {
        (sandbox.exec(&id, &["test", "-e", "/tmp/there"]).0 == 0).then_some(())
    });
    let pid = Pid::from_raw(sandbox.container_pid(&id)).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    assert_eq!(sandbox.exit(&id).signal, Some(9));
    assert!(!failure(&sandbox.record(&id).unwrap().pre_stop).is_empty());
    assert_clean(&sandbox, 0);
}

#[test]
fn a_stop_ends_the_post_start_hook_and_runs_the_other() {
    if !can_run() {
        return;
    }
    for hook in [sh("sleep 1000 & sleep 1000"), Hook::Sleep { ms: LONG_MS }] {
        let sandbox = Sandbox::start(&shell(SAYS_BYE));
        let id = run_with(&sandbox, hook);
        wait_for("trap", || (sandbox.log(&id) == "up\n").then_some(()));
        let count = "ps | grep -c 'sleep 1000' > /tmp/n; cat /tmp/n > /proc/1/fd/1";
        stop(&sandbox, &id, LONG_MS, Some(sh(count)));
        let exit = sandbox.exit(&id);
        assert_eq!(exit.code, 0);
        let record = sandbox.record(&id).unwrap();
        assert!(failure(&record.post_start).contains("was stopped"));
        assert_eq!(record.pre_stop, HookState::Done);
        assert_clean(&sandbox, 0);
    }
}
