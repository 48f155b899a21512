//! Hooks: what waits for them, what follows from their failure, and that each runs exactly once, whoever lives meanwhile.

use std::process::Child;

use super::support::agent::{QUICK_BACK_OFF, TestAgent};
use super::support::manifest::container;
use super::support::wait::{can_run, wait_for};
use super::*;

/// Lines of a container: a hook that runs this script.
fn hook(kind: &str, script: &str) -> String {
    format!("    lifecycle: {{{kind}: {{exec: {{command: [sh, -c, {script:?}]}}}}}}\n")
}

/// A pod whose container tells `main` and, after SIGTERM, `main-end`; before that, its preStop hook tells `hook` and waits
/// at its gate.
fn hooked(witness: &Witness, mark: &str) -> String {
    let pre_stop = hook("preStop", &tells_and_holds(witness, "hook"));
    let main = container("main", &tells_its_end(witness, "main", 0)) + &pre_stop;
    staged("web", "", &[], &[main]).replace(
        "metadata:\n",
        &format!("metadata:\n  labels: {{mark: {mark}}}\n"),
    )
}

/// A pod whose container `two` tells `two` when it is started, after the postStart hook of `one`, which tells `hook`, waits
/// at its gate and tells `hook-end`.
fn held(witness: &Witness) -> String {
    let hold = tells_and_holds(witness, "hook");
    let post_start = hook(
        "postStart",
        &format!("{hold}; {}", witness.tell("hook-end")),
    );
    let one = container("one", LIVES) + &post_start;
    let two = container("two", &tells_and_lives(witness, "two"));
    staged("web", "", &[], &[one, two])
}

/// Removes the manifest when the container `main` has told its word and is shown as running.
fn remove_once_it_runs(agent: &TestAgent, witness: &Witness) {
    witness.wait_for("main");
    agent.wait_until_running("web");
    agent.remove("web.yaml");
}

/// Kills the agent three times while the pod ends; it stays dead.
fn dies_thrice_meanwhile(agent: &mut TestAgent) {
    for _ in 0..2 {
        agent.kill();
        agent.spawn();
        wait_for_word(agent, "web", "Terminating");
    }
    agent.kill();
}

/// P-43, P-90.
#[test]
fn what_follows_waits_for_a_post_start_hook() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    agent.put("web.yaml", &held(&witness));
    witness.wait_for("hook");
    let status = agent.wait_for_status("web", "the first", |status| {
        let is_running = !container_status(status, "one")["state"]["running"].is_null();
        is_running.then(|| status.clone())
    });
    assert_eq!(waiting_reason(&status, "two"), "ContainerCreating");
    let plan = agent.text(&["plan"]);
    let why = "waits for the postStart hook of container one";
    assert!(plan.contains(why), "{plan}");
    witness.pass("hook");
    witness.wait_for("two");
    assert_eq!(witness.told(), ["hook", "hook-end", "two"]);
}

/// P-43, P-90, P-156: its container is ended with its grace and restarted with back-off; the others go on.
#[test]
fn a_container_whose_post_start_hook_fails_is_restarted() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start_with(QUICK_BACK_OFF);
    let witness = Witness::start();
    let post_start = format!("echo no luck today; {} || exit 7", witness.attempt("well"));
    let one =
        container("one", &tells_its_end(&witness, "one", 0)) + &hook("postStart", &post_start);
    let two = container("two", &tells_and_lives(&witness, "two"));
    agent.put("web.yaml", &staged("web", "", &[], &[one, two]));
    witness.wait_for("two");
    wait_for_word(&agent, "web", "PostStartHookError");
    agent.wait_for_status("web", "the back-off", |status| {
        let waiting = &container_status(status, "one")["state"]["waiting"];
        let message = waiting["message"].as_str()?;
        (message.contains("no luck today") && message.contains("back-off 1s")).then_some(())
    });
    let events = agent.client().events().unwrap();
    let mut told = events
        .iter()
        .map(|e| &e.event)
        .filter(|e| e.reason == "FailedPostStartHook");
    let message = &told.next().unwrap().message;
    for part in ["PostStartHook failed", "exit code 7", "no luck today"] {
        assert!(message.contains(part), "{message}");
    }
    let page = agent.text(&["describe", "pod", "web"]);
    assert!(page.contains("its postStart hook failed"), "{page}");
    witness.open("well");
    agent.wait_for_status("web", "the end of it", |status| {
        let one = container_status(status, "one");
        let tries = witness.count("one");
        let is_well = one["ready"] == true && one["restartCount"] == tries - 1;
        is_well.then_some(())
    });
    assert_eq!(witness.count("two"), 1);
    assert_eq!(witness.count("one-end"), witness.count("one") - 1);
}

/// C12, P-77, P-79: on removal and edit, and by `vetch stop` with and without an agent.
#[test]
fn a_pre_stop_hook_comes_before_the_signal() {
    if !can_run() {
        return;
    }
    let ways: [fn(&mut TestAgent, &Witness) -> Option<Child>; 4] = [
        |agent, _| {
            agent.remove("web.yaml");
            None
        },
        |agent, witness| {
            agent.put("web.yaml", &hooked(witness, "other"));
            None
        },
        |agent, _| agent.vetch(&["stop", "--all"]).spawn().ok(),
        |agent, _| {
            agent.kill();
            agent.vetch(&["stop", "--all"]).spawn().ok()
        },
    ];
    for end in ways {
        let (mut agent, witness) = (TestAgent::start(), Witness::start());
        agent.put("web.yaml", &hooked(&witness, "one"));
        witness.wait_for("main");
        agent.wait_until_running("web");
        let old = agent.container_pids();
        let stop = end(&mut agent, &witness);
        witness.wait_for("hook");
        assert_eq!(witness.told(), ["main", "hook"]);
        witness.pass("hook");
        witness.wait_for("main-end");
        wait_for("the end of the container", || {
            let left = agent.container_pids();
            (!left.iter().any(|pid| old.contains(pid))).then_some(())
        });
        if let Some(mut stop) = stop {
            assert!(stop.wait().unwrap().success());
        }
        assert_eq!(witness.told()[..3], ["main", "hook", "main-end"]);
        assert_eq!(witness.count("hook"), 1);
    }
}

/// P-92: in the host's network.
#[test]
fn a_pre_stop_hook_may_be_a_request() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    let port = witness.port();
    let hook = format!(
        "    lifecycle: {{preStop: {{httpGet: {{host: 127.0.0.1, port: {port}, path: /tell/hook}}}}}}\n"
    );
    let main = container("main", &tells_its_end(&witness, "main", 0)) + &hook;
    agent.put("web.yaml", &staged("web", "", &[], &[main]));
    remove_once_it_runs(&agent, &witness);
    agent.wait_for_no_pods();
    assert_eq!(witness.told(), ["main", "hook", "main-end"]);
    assert_eq!(agent.event_count("web", "FailedPreStopHook"), 0);
}

/// P-92: without the host's network the request is made inside the pod, by the name of a port.
#[test]
fn a_request_stays_in_the_network_of_its_pod() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    let server = "trap 'exit 0' TERM; httpd -f -vv -p 127.0.0.1:8080 & wait $!";
    let more = "    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {periodSeconds: 1, tcpSocket: {port: http}}
    lifecycle: {preStop: {httpGet: {port: http, path: /bye}}}\n";
    let main = container("main", server) + more;
    let manifest = staged("web", "", &[], &[main]);
    agent.put("web.yaml", &manifest.replace("  hostNetwork: true\n", ""));
    wait_for_condition(&agent, "web", "Ready", "True");
    agent.text(&["stop", "--all"]);
    agent.wait_for_end();
    let log = agent.logs("web", "main");
    assert!(log.contains("/bye"), "{log}");
    // A status other than 200 fails no hook.
    assert!(!agent.log().contains("FailedPreStopHook"));
}

/// P-94: the other container, which has none, is signalled and ends meanwhile.
#[test]
fn a_pre_stop_hook_may_be_a_pause() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    let pause = "    lifecycle: {preStop: {sleep: {seconds: 5}}}\n";
    let slow = container("slow", &tells_its_end(&witness, "slow", 0)) + pause;
    let quick = container("quick", &tells_its_end(&witness, "quick", 0));
    agent.put("web.yaml", &staged("web", "", &[], &[slow, quick]));
    witness.wait_for("quick");
    agent.remove("web.yaml");
    agent.wait_for_no_pods();
    assert_eq!(witness.told(), ["slow", "quick", "quick-end", "slow-end"]);
    assert_eq!(agent.event_count("web", "FailedPreStopHook"), 0);
}

/// P-77, P-78: a hook that takes longer than the grace is abandoned; the signal comes all the same, and two seconds for it.
#[test]
fn a_pre_stop_hook_without_end_does_not_outlast_the_grace() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    let manifest = hooked(&witness, "one");
    let short = manifest.replace("GracePeriodSeconds: 30", "GracePeriodSeconds: 1");
    assert_ne!(manifest, short);
    agent.put("web.yaml", &short);
    remove_once_it_runs(&agent, &witness);
    agent.wait_for_no_pods();
    assert_eq!(witness.told(), ["main", "hook", "main-end"]);
    assert_eq!(agent.event_count("web", "FailedPreStopHook"), 1);
}

/// P-79.
#[test]
fn a_container_gets_the_signal_of_its_manifest() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    let script = tells_its_end(&witness, "main", 0).replace(" TERM;", " USR1;");
    let script = format!("trap '{}' TERM; {script}", witness.tell("other-signal"));
    let main = container("main", &script) + "    lifecycle: {stopSignal: SIGUSR1}\n";
    agent.put(
        "web.yaml",
        &staged("web", "  os: {name: linux}\n", &[], &[main]),
    );
    remove_once_it_runs(&agent, &witness);
    agent.wait_for_no_pods();
    assert_eq!(witness.told(), ["main", "main-end"]);
}

/// P-90: the hook goes on without an agent, and what waits for it goes on with the next one.
#[test]
fn an_agent_that_dies_during_a_post_start_hook_is_not_missed() {
    if !can_run() {
        return;
    }
    let (mut agent, witness) = (TestAgent::start(), Witness::start());
    agent.put("web.yaml", &held(&witness));
    witness.wait_for("hook");
    agent.kill();
    agent.spawn();
    agent.wait_for_status("web", "the first container", |status| {
        (!container_status(status, "one")["state"]["running"].is_null()).then_some(())
    });
    agent.kill();
    witness.pass("hook");
    witness.wait_for("hook-end");
    agent.spawn();
    witness.wait_for("two");
    wait_for_condition(&agent, "web", "Ready", "True");
    assert_eq!(witness.told(), ["hook", "hook-end", "two"]);
}

/// P-77: everything that was begun ends without an agent, once.
#[test]
fn an_agent_that_dies_during_a_pre_stop_hook_is_not_missed() {
    if !can_run() {
        return;
    }
    let (mut agent, witness) = (TestAgent::start(), Witness::start());
    agent.put("web.yaml", &hooked(&witness, "one"));
    remove_once_it_runs(&agent, &witness);
    witness.wait_for("hook");
    dies_thrice_meanwhile(&mut agent);
    witness.pass("hook");
    witness.wait_for("main-end");
    wait_for("the end of the container", || {
        agent.container_pids().is_empty().then_some(())
    });
    agent.spawn();
    agent.wait_for_no_pods();
    assert_eq!(witness.told(), ["main", "hook", "main-end"]);
}

/// P-81: the sidecar's hook has ended, its signal waits for the other container.
#[test]
fn an_agent_that_dies_between_a_hook_and_the_signal_is_not_missed() {
    if !can_run() {
        return;
    }
    let (mut agent, witness) = (TestAgent::start(), Witness::start());
    let pre_stop = hook("preStop", &witness.tell("hook"));
    let proxy = sidecar("proxy", &tells_its_end(&witness, "proxy", 0)) + &pre_stop;
    let (gate, end) = (witness.hold("main"), witness.tell("main-end"));
    let main = tells_its_end(&witness, "main", 0).replace(&end, &format!("{gate}; {end}"));
    let main = container("main", &main);
    agent.put("web.yaml", &staged("web", "", &[proxy], &[main]));
    witness.wait_for("main");
    agent.remove("web.yaml");
    witness.wait_for("hook");
    dies_thrice_meanwhile(&mut agent);
    assert_eq!(witness.told(), ["proxy", "main", "hook"]);
    witness.pass("main");
    witness.wait_for("proxy-end");
    agent.spawn();
    agent.wait_for_no_pods();
    let all = ["proxy", "main", "hook", "main-end", "proxy-end"];
    assert_eq!(witness.told(), all);
}

/// P-42, P-77: also before a container is restarted for its probe, and the agent may die meanwhile.
#[test]
fn a_pre_stop_hook_runs_before_a_restart() {
    if !can_run() {
        return;
    }
    let (mut agent, witness) = (TestAgent::start(), Witness::start());
    let script = format!("touch /tmp/ok; {}", tells_its_end(&witness, "main", 0));
    let probe = "    livenessProbe: {periodSeconds: 1, failureThreshold: 1, \
         exec: {command: [cat, /tmp/ok]}}\n";
    let pre_stop = hook("preStop", &tells_and_holds(&witness, "hook"));
    let main = container("main", &script) + probe + &pre_stop;
    agent.put("web.yaml", &staged("web", "", &[], &[main]));
    witness.wait_for("main");
    agent.wait_until_running("web");
    agent.text(&["exec", "web", "--", "rm", "/tmp/ok"]);
    witness.wait_for("hook");
    let page = agent.text(&["describe", "pod", "web"]);
    assert!(page.contains("its preStop hook runs"), "{page}");
    agent.kill();
    agent.spawn();
    witness.pass("hook");
    witness.wait_for_times("main", 2);
    let last = agent.wait_for_status("web", "the restart", |status| {
        let main = container_status(status, "main");
        (main["restartCount"] == 1).then(|| main["lastState"]["terminated"].clone())
    });
    assert_eq!(last["exitCode"], 0);
    assert_eq!(witness.told(), ["main", "hook", "main-end", "main"]);
    let page = agent.text(&["describe", "pod", "web"]);
    assert!(page.contains("its liveness probe failed"), "{page}");
}
