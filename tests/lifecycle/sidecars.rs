//! Sidecars: started before the others, kept running beside them, ended after them.

use super::support::agent::{QUICK_BACK_OFF, TestAgent};
use super::support::manifest::container;
use super::support::wait::{can_run, wait_for};
use super::*;

/// P-50, P-102, P-136, C8: the next one waits for the startup probe, not only for the process.
#[test]
fn what_follows_a_sidecar_waits_for_its_startup_probe() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    let script = format!(
        "{}; touch /tmp/up; {}",
        tells_and_holds(&witness, "proxy"),
        tells_and_lives(&witness, "up")
    );
    let probe = "    startupProbe: {periodSeconds: 1, failureThreshold: 1000, \
         exec: {command: [cat, /tmp/up]}}\n";
    let init = [
        sidecar("proxy", &script) + probe,
        container("b", &tells_and_holds(&witness, "b")),
    ];
    let main = container("main", &tells_and_lives(&witness, "main"));
    agent.put("web.yaml", &staged("web", "", &init, &[main]));
    wait_for("some runs of the probe", || {
        (agent.event_count("web", "Unhealthy") > 1).then_some(())
    });
    wait_for_word(&agent, "web", "Init:0/2");
    let status = agent.status("web");
    let proxy = container_status(&status, "proxy");
    assert!(!proxy["state"]["running"].is_null(), "{proxy}");
    assert_eq!(proxy["started"], false);
    assert_eq!(status["phase"], "Pending");
    assert_eq!(waiting_reason(&status, "b"), "PodInitializing");
    assert_eq!(witness.told(), ["proxy"]);
    witness.pass("proxy");
    witness.wait_for("b");
    wait_for_word(&agent, "web", "Init:1/2");
    assert_eq!(columns(&agent, "web")[1], "1/2");
    witness.pass("b");
    witness.wait_for("main");
    wait_for_phase(&agent, "web", "Running");
    assert_eq!(witness.told(), ["proxy", "up", "b", "main"]);
}

/// P-54, P-64: also after exit 0, and in a pod that restarts nothing else; nobody else notices.
#[test]
fn a_sidecar_is_restarted_whatever_its_exit() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start_with(QUICK_BACK_OFF);
    let witness = Witness::start();
    let init = [
        container("a", &witness.tell("a")),
        sidecar("proxy", &tells_and_holds(&witness, "proxy")),
    ];
    let main = container("main", &tells_and_lives(&witness, "main"));
    let lines = "  restartPolicy: Never\n";
    agent.put("web.yaml", &staged("web", lines, &init, &[main]));
    witness.wait_for("main");
    for restarts in 1..=2 {
        witness.pass("proxy");
        witness.wait_for_times("proxy", restarts + 1);
        agent.wait_for_status("web", "the restart", |status| {
            let proxy = container_status(status, "proxy");
            let last = &proxy["lastState"]["terminated"]["reason"];
            (proxy["restartCount"] == restarts && last == "Completed").then_some(())
        });
    }
    let status = wait_for_phase(&agent, "web", "Running");
    assert_eq!(container_status(&status, "main")["restartCount"], 0);
    let mut told = witness.told();
    assert_eq!(told.remove(0), "a");
    // A sidecar without startup probe has started before its script comes to speak.
    told.sort();
    assert_eq!(told, ["main", "proxy", "proxy", "proxy"]);
}

/// P-80, P-81: their preStop hooks at once, their signals after everybody else, the last started first.
#[test]
fn sidecars_end_after_the_others_in_reverse_order() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    let hook = format!(
        "    lifecycle: {{preStop: {{exec: {{command: [sh, -c, {:?}]}}}}}}\n",
        witness.tell("first-hook")
    );
    let init = [
        sidecar("first", &tells_its_end(&witness, "first", 0)) + &hook,
        sidecar("second", &tells_its_end(&witness, "second", 0)),
        container("b", &witness.tell("b")),
    ];
    let (end, gate) = (witness.tell("main-end"), witness.hold("main"));
    let script = format!(
        "trap '{gate}; {end}; exit 0' TERM; {}",
        witness.tell("main")
    );
    let script = format!("{script}; while :; do sleep 1 & wait $!; done");
    let main = container("main", &script);
    let other = container("other", &tells_its_end(&witness, "other", 0));
    agent.put("web.yaml", &staged("web", "", &init, &[main, other]));
    witness.wait_for("other");
    agent.remove("web.yaml");
    // All regular containers end at once, and so do the hooks; the signals of sidecars wait for the slowest.
    witness.wait_for("first-hook");
    witness.wait_for("other-end");
    wait_for_word(&agent, "web", "Terminating");
    witness.pass("main");
    agent.wait_for_no_pods();
    let told = witness.told();
    assert_eq!(told[..5], ["first", "second", "b", "main", "other"]);
    assert_eq!(told[7..], ["main-end", "second-end", "first-end"]);
}

/// P-44, P-82, P-106, P-110, J-57: the job is done when its regular containers are, however its sidecars end.
#[test]
fn a_job_with_a_sidecar_that_ends_badly_succeeds() {
    if !can_run() {
        return;
    }
    for policy in ["Never", "OnFailure"] {
        let (agent, witness) = (TestAgent::start(), Witness::start());
        let init = [sidecar("proxy", &tells_its_end(&witness, "proxy", 7))];
        let work = container("work", &tells_and_holds(&witness, "work"));
        let lines = format!("  restartPolicy: {policy}\n");
        agent.put("job.yaml", &staged("job", &lines, &init, &[work]));
        witness.wait_for("work");
        wait_for_phase(&agent, "job", "Running");
        witness.pass("work");
        let status = wait_for_phase(&agent, "job", "Succeeded");
        // J-57: the phase is final only when nothing runs any more.
        let ended = &container_status(&status, "proxy")["state"]["terminated"];
        assert_eq!(ended["exitCode"], 7, "{status:#}");
        wait_for_word(&agent, "job", "Completed");
        wait_for("the end of the sandbox", || {
            agent.holder_pids().is_empty().then_some(())
        });
        assert_eq!(agent.status("job")["phase"], "Succeeded");
        assert_eq!(witness.told(), ["proxy", "work", "proxy-end"]);
    }
}

/// P-50, P-90.
#[test]
fn what_follows_a_sidecar_waits_for_its_post_start_hook() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    let script = tells_and_holds(&witness, "hook");
    let hook =
        format!("    lifecycle: {{postStart: {{exec: {{command: [sh, -c, {script:?}]}}}}}}\n");
    let init = [
        sidecar("proxy", LIVES) + &hook,
        container("b", &witness.tell("b")),
    ];
    let main = container("main", &tells_and_lives(&witness, "main"));
    agent.put("web.yaml", &staged("web", "", &init, &[main]));
    witness.wait_for("hook");
    agent.wait_for_status("web", "the sidecar", |status| {
        (container_status(status, "proxy")["started"] == true).then_some(())
    });
    let plan = agent.text(&["plan"]);
    let why = "waits for the postStart hook of container proxy";
    assert!(plan.contains(why), "{plan}");
    witness.pass("hook");
    witness.wait_for("main");
    assert_eq!(witness.told(), ["hook", "b", "main"]);
}
