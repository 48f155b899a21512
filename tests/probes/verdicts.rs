//! What becomes of verdicts: kills with their reasons, gates, graces.

use std::fs;

use super::support::agent::TestAgent;
use super::support::wait::{can_run, wait_for};
use super::support::web::{Answer, Web};
use super::*;

/// Ends by SIGKILL only.
const DEAF: &str = "trap '' TERM; touch /tmp/ok; while :; do sleep 1; done";

/// P-42, R-5, R-20.
#[test]
fn a_container_that_is_no_longer_alive_is_restarted_and_says_why() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let script = format!("touch /tmp/ok; {LIVES}");
    let probe = every_second(
        "livenessProbe",
        &format!("failureThreshold: 2, {}", file("/tmp/ok")),
    );
    agent.put("web.yaml", &runs("web", &script, &probe));
    let first = agent.wait_until_running("web");
    inside(&agent, "web", &["rm", "/tmp/ok"]);
    let last = wait_for_restart(&agent, "web");
    assert_eq!(last["containerID"], json!(first.container_id));
    // It heard the signal.
    assert_eq!(last["exitCode"], 0);
    let why = "Liveness probe failed: cat: can't open '/tmp/ok': No such file or directory";
    assert_eq!(messages(&agent, "web", "Unhealthy"), [(why.to_owned(), 2)]);
    let killing = "Container main failed liveness probe, will be restarted";
    assert_eq!(
        messages(&agent, "web", "Killing"),
        [(killing.to_owned(), 1)]
    );
    let (code, words, _) = agent.answer(&["describe", "pod", "web"]);
    assert!(code == 0 && words.contains(why), "{words}");
}

///
#[test]
fn until_it_has_started_a_container_is_asked_nothing_else() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let web = Web::start(Answer::Status(500));
    let startup = every_second(
        "startupProbe",
        &format!("failureThreshold: 1000, {}", file("/tmp/up")),
    );
    let get = format!("failureThreshold: 1, httpGet: {{port: {}}}", web.port());
    let liveness = every_second("livenessProbe", &get);
    agent.put("web.yaml", &lives("web", &(startup + &liveness)));
    wait_for("some runs of the startup probe", || {
        (times(&agent, ("web", "Unhealthy"), "Startup probe failed: ") > 3).then_some(())
    });
    let status = agent.status("web");
    let main = container_status(&status, "main");
    assert_eq!(main["started"], json!(false));
    assert_eq!(main["ready"], json!(false));
    assert!(web.requests().is_empty());
    inside(&agent, "web", &["touch", "/tmp/up"]);
    wait_for("the liveness probe", || web.requests().pop());
    wait_for_restart(&agent, "web");
    // Its successor has to start first, too.
    let failures = |kind: &str| {
        times(
            &agent,
            ("web", "Unhealthy"),
            &format!("{kind} probe failed: "),
        )
    };
    assert_eq!(failures("Liveness"), 1);
    let before = failures("Startup");
    wait_for("the startup probe of the second instance", || {
        (failures("Startup") > before).then_some(())
    });
}

/// R-21, and with a readiness probe.
#[test]
fn a_container_that_has_started_is_ready() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let startup = every_second(
        "startupProbe",
        &format!("failureThreshold: 1000, {}", file("/tmp/up")),
    );
    let readiness = every_second("readinessProbe", "exec: {command: ['true']}");
    agent.put("a.yaml", &lives("a", &startup));
    agent.put("b.yaml", &lives("b", &(startup + &readiness)));
    for pod in ["a", "b"] {
        agent.wait_until_running(pod);
        assert!(is_ready(&agent.status(pod), false));
        inside(&agent, pod, &["touch", "/tmp/up"]);
        wait_until_ready(&agent, pod);
    }
}

/// P-42.
#[test]
fn a_container_that_does_not_start_in_time_is_restarted() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let startup = every_second(
        "startupProbe",
        &format!("failureThreshold: 2, {}", file("/tmp/up")),
    );
    agent.put("web.yaml", &lives("web", &startup));
    wait_for_restart(&agent, "web");
    let killing = "Container main failed startup probe, will be restarted";
    assert_eq!(times(&agent, ("web", "Killing"), killing), 1);
    assert_eq!(
        container_status(&agent.status("web"), "main")["started"],
        json!(false)
    );
}

/// with the pod's own grace of ten minutes this test would not end.
#[test]
fn a_probes_own_grace_is_shorter_than_the_pods() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let own = format!(
        "failureThreshold: 1, terminationGracePeriodSeconds: 1, {}",
        file("/tmp/ok")
    );
    let liveness = every_second("livenessProbe", &own);
    agent.put("web.yaml", &pod("web", 600, &(main(DEAF) + &liveness)));
    agent.wait_until_running("web");
    wait_for("its file", || {
        let (code, ..) = agent.answer(&["exec", "web", "--", "rm", "/tmp/ok"]);
        (code == 0).then_some(())
    });
    assert_eq!(wait_for_restart(&agent, "web")["exitCode"], 137);
}

/// whatever the command started goes with it.
#[test]
fn a_command_that_takes_too_long_is_killed_with_all_it_started() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let command = "exec: {command: [sh, -c, 'sleep 1000 & sleep 1000']}";
    let probe = every_second(
        "livenessProbe",
        &format!("failureThreshold: 1000, timeoutSeconds: 1, {command}"),
    );
    agent.put("web.yaml", &lives("web", &probe));
    wait_for("some runs", || {
        (times(&agent, ("web", "Unhealthy"), "timed out") > 2).then_some(())
    });
    let (message, _) = messages(&agent, "web", "Unhealthy").pop().unwrap();
    assert!(
        message.starts_with("Liveness probe failed: command timed out: "),
        "{message}"
    );
    // One run has two sleeps. More would be left over by an earlier one.
    wait_for("the end of a run", || {
        let pids = agent.pids_of("web", "main");
        let sleeps = pids.into_iter().filter(|pid| is_long_sleep(*pid)).count();
        assert!(sleeps <= 2, "{sleeps} sleeps");
        (sleeps == 0).then_some(())
    });
    let zombies = || {
        children(&agent)
            .into_iter()
            .filter(|line| line.contains(") Z "))
    };
    wait_for("no zombie", || (zombies().count() == 0).then_some(()));
}

fn is_long_sleep(pid: i32) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words == b"sleep\x001000\0"
}

/// The stat lines of all children of the agent's holders, dead ones included.
pub fn children(agent: &TestAgent) -> Vec<String> {
    let holders = agent.holder_pids();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter(|stat| {
            let rest = stat.rsplit_once(')').unwrap().1;
            let parent = rest.split_whitespace().nth(1).unwrap().parse();
            holders.contains(&parent.unwrap())
        })
        .collect()
}
