//! What an exit leads to: the rules of a container, its own policy, the pod's, and the delays.

use super::support::agent::{QUICK_BACK_OFF, TestAgent};
use super::support::manifest::container;
use super::support::wait::{can_run, wait_for};
use super::*;

/// A script that tells a word, waits at the gate of that name, and exits so.
fn holds_and_exits(witness: &Witness, word: &str, code: i32) -> String {
    format!("{}; exit {code}", tells_and_holds(witness, word))
}

/// A script that tells a word and exits with a code that the test lets through: each is a gate `WORD-CODE`.
fn exits_by_order(witness: &Witness, word: &str, codes: &[i32]) -> String {
    let tries = codes.iter().map(|code| {
        let gate = format!("{word}-{code}");
        format!("{} 2> /dev/null && exit {code}", witness.attempt(&gate))
    });
    let tries: Vec<String> = tries.collect();
    format!(
        "{}; while :; do {}; done",
        witness.tell(word),
        tries.join("; ")
    )
}

fn restart_count(status: &Value, name: &str) -> Value {
    container_status(status, name)["restartCount"].clone()
}

/// Waits until a container has ended for good; gives its exit code.
fn wait_for_end_of(agent: &TestAgent, pod: &str, name: &str) -> Value {
    let wanted = format!("{name} has ended for good");
    let code = agent.wait_for_status(pod, &wanted, |status| {
        let ended = &container_status(status, name)["state"]["terminated"];
        (!ended.is_null()).then(|| ended["exitCode"].clone())
    });
    let plan = agent.text(&["plan"]);
    assert!(plan.contains("; not restarted"), "{plan}");
    code
}

/// P-60, P-62.
#[test]
fn a_policy_of_its_own_counts_more_than_the_pods() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start_with(QUICK_BACK_OFF);
    let witness = Witness::start();
    let own = |name: &str, code, policy: &str| {
        container(name, &holds_and_exits(&witness, name, code))
            + &format!("    restartPolicy: {policy}\n")
    };
    let regular = [
        own("never", 1, "Never"),
        own("failure", 0, "OnFailure"),
        own("again", 1, "OnFailure"),
        container("pods", &holds_and_exits(&witness, "pods", 0)),
    ];
    agent.put("web.yaml", &staged("web", "", &[], &regular));
    for name in ["never", "failure", "again", "pods"] {
        witness.pass(name);
    }
    witness.wait_for_times("again", 2);
    witness.wait_for_times("pods", 2);
    assert_eq!(wait_for_end_of(&agent, "web", "never"), 1);
    assert_eq!(wait_for_end_of(&agent, "web", "failure"), 0);
    let status = wait_for_phase(&agent, "web", "Running");
    assert_eq!(restart_count(&status, "never"), 0);
    assert_eq!(restart_count(&status, "failure"), 0);
    let regular = [own("always", 0, "Always"), own("job", 0, "Never")];
    let lines = "  restartPolicy: Never\n";
    agent.put("job.yaml", &staged("job", lines, &[], &regular));
    witness.pass("always");
    witness.pass("job");
    witness.wait_for_times("always", 2);
    assert_eq!(wait_for_end_of(&agent, "job", "job"), 0);
    wait_for_phase(&agent, "job", "Running");
    assert_eq!(witness.count("job"), 1);
}

/// P-60, P-61: the first rule that matches, before any policy.
#[test]
fn rules_count_more_than_policies() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start_with(QUICK_BACK_OFF);
    let witness = Witness::start();
    let ruled = |name: &str, operator: &str| {
        let script = exits_by_order(&witness, name, &[0, 1, 42]);
        let rule =
            format!("{{action: Restart, exitCodes: {{operator: {operator}, values: [1, 42]}}}}");
        container(name, &script)
            + &format!("    restartPolicy: Never\n    restartPolicyRules: [{rule}]\n")
    };
    let regular = [ruled("in", "In"), ruled("not", "NotIn")];
    let lines = "  restartPolicy: Never\n";
    agent.put("job.yaml", &staged("job", lines, &[], &regular));
    for (times, code) in [(2, 42), (3, 1)] {
        witness.pass(&format!("in-{code}"));
        witness.wait_for_times("in", times);
    }
    witness.pass("not-0");
    witness.wait_for_times("not", 2);
    witness.pass("in-0");
    assert_eq!(wait_for_end_of(&agent, "job", "in"), 0);
    witness.pass("not-42");
    let status = wait_for_phase(&agent, "job", "Failed");
    let ended = &container_status(&status, "not")["state"]["terminated"];
    assert_eq!(ended["exitCode"], 42);
    assert_eq!(restart_count(&status, "in"), 2);
    assert_eq!(restart_count(&status, "not"), 1);
    assert_eq!((witness.count("in"), witness.count("not")), (3, 2));
}

/// P-63: everything starts anew in the same sandbox, init containers first; also what was done already.
#[test]
fn one_exit_may_restart_the_whole_pod() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    let init = [
        container("a", &witness.tell("a")),
        sidecar("proxy", &tells_and_lives(&witness, "proxy")),
    ];
    let rule = "    restartPolicy: OnFailure\n    restartPolicyRules: \
         [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]\n";
    let regular = [
        container("done", &witness.tell("done")) + "    restartPolicy: Never\n",
        container("other", &tells_and_lives(&witness, "other")),
        container("main", &holds_and_exits(&witness, "main", 42)) + rule,
    ];
    agent.put("web.yaml", &staged("web", "", &init, &regular));
    witness.wait_for("main");
    wait_for_phase(&agent, "web", "Running");
    let holders = agent.holder_pids();
    let once = ["a", "proxy", "done", "other", "main"];
    for name in once {
        witness.wait_for(name);
    }
    witness.pass("main");
    witness.wait_for_times("main", 2);
    witness.wait_for_times("done", 2);
    let status = agent.wait_for_status("web", "everything runs again", |status| {
        let all = ["main", "other", "proxy"].map(|name| container_status(status, name));
        let runs = |one: &&Value| one["restartCount"] == 1 && one["ready"] == true;
        all.iter().all(runs).then(|| status.clone())
    });
    assert_eq!(agent.holder_pids(), holders);
    assert_eq!(restart_count(&status, "a"), 1);
    let last = |name| container_status(&status, name)["lastState"]["terminated"].clone();
    assert_eq!(last("other")["reason"], "RestartingAllContainers");
    assert_eq!(last("main")["exitCode"], 42);
    let told = witness.told();
    let place = |word, nth| {
        let mut places = told.iter().enumerate().filter(|(_, told)| *told == word);
        places.nth(nth).unwrap().0
    };
    assert!(place("a", 1) < place("proxy", 1), "{told:?}");
    assert!(place("proxy", 1) < place("other", 1), "{told:?}");
    for name in once {
        assert_eq!(witness.count(name), 2, "{name}: {told:?}");
    }
    let page = agent.text(&["describe", "pod", "web"]);
    assert!(
        page.contains("all containers of its pod were restarted"),
        "{page}"
    );
}

/// P-64, P-71, and the annotations of the pod.
#[test]
fn a_pod_may_have_delays_of_its_own() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    let main = container("main", &format!("{}; exit 1", witness.tell("main")));
    let notes = "  annotations: {vetch.io/backoff-start: 1s, vetch.io/backoff-max: 2s}\n";
    let manifest = staged("web", "", &[], &[main]);
    let manifest = manifest.replace("metadata:\n", &format!("metadata:\n{notes}"));
    agent.put("web.yaml", &manifest);
    for delay in ["1s", "2s"] {
        agent.wait_for_status("web", delay, |status| {
            let waiting = &container_status(status, "main")["state"]["waiting"];
            let message = waiting["message"].as_str()?;
            let text = format!("back-off {delay} restarting failed container=main pod=web-box");
            (waiting["reason"] == "CrashLoopBackOff" && message.starts_with(&text)).then_some(())
        });
    }
    let before = witness.count("main");
    witness.wait_for_times("main", before + 2);
    let message = wait_for("the longest delay again", || {
        let status = agent.status("web");
        let waiting = &container_status(&status, "main")["state"]["waiting"];
        waiting["message"].as_str().map(ToOwned::to_owned)
    });
    assert!(message.starts_with("back-off 2s "), "{message}");
}
