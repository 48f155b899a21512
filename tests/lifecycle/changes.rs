//! What changes in the middle: edits, removals and deaths while something is under way.

use super::support::agent::TestAgent;
use super::support::images::{busybox_layer, docker_archive};
use super::support::manifest::container;
use super::support::wait::{can_run, wait_for};
use super::*;

fn hooks(hooks: &[(&str, String)]) -> String {
    let lines = hooks.iter().map(|(kind, script)| {
        format!("      {kind}: {{exec: {{command: [sh, -c, {script:?}]}}}}\n")
    });
    format!("    lifecycle:\n{}", lines.collect::<String>())
}

/// A second name of busybox.
fn import(agent: &TestAgent, name: &str) {
    let archive = agent.paths.root_dir.join("other.tar");
    let config = serde_json::json!({"Env": ["PATH=/bin:/usr/bin"]});
    docker_archive(&archive, name, config, &[busybox_layer()]);
    agent.text(&["image", "import", archive.to_str().expect("a path")]);
}

/// S-160: what was begun is brought to its end; then the new one starts from nothing.
#[test]
fn an_edit_while_an_init_container_runs_starts_the_new_pod_only() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    let manifest = |mark: &str| {
        let script = format!("trap 'exit 0' TERM; {} & wait $!", witness.hold("never"));
        let script = format!("{}; {script}", witness.tell(&format!("{mark}-init")));
        let init = match mark {
            "old" => script,
            _ => witness.tell("new-init"),
        };
        let main = container("main", &tells_and_lives(&witness, &format!("{mark}-main")));
        staged("web", "", &[container("a", &init)], &[main])
    };
    agent.put("web.yaml", &manifest("old"));
    witness.wait_for("old-init");
    agent.put("web.yaml", &manifest("new"));
    witness.wait_for("new-main");
    wait_for_word(&agent, "web", "Running");
    assert_eq!(witness.told(), ["old-init", "new-init", "new-main"]);
    assert_eq!(agent.holder_pids().len(), 1);
}

/// P-77, P-90: a postStart hook does not keep its container alive, and what waited for it never starts.
#[test]
fn a_removal_while_a_post_start_hook_runs_ends_the_pod_in_order() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    let one = container("one", &tells_its_end(&witness, "one", 0))
        + &hooks(&[
            ("postStart", tells_and_holds(&witness, "begun")),
            ("preStop", witness.tell("hook")),
        ]);
    let two = container("two", &tells_and_lives(&witness, "two"));
    agent.put("web.yaml", &staged("web", "", &[], &[one, two]));
    witness.wait_for("begun");
    witness.wait_for("one");
    agent.remove("web.yaml");
    agent.wait_for_no_pods();
    assert!(agent.container_pids().is_empty());
    let told = witness.told();
    assert_eq!(told[2..], ["hook", "one-end"], "{told:?}");
}

/// S-160: back to what it was, in the middle of its end.
#[test]
fn a_pod_that_comes_back_while_it_ends_starts_anew_after_its_end() {
    if !can_run() {
        return;
    }
    let (mut agent, witness) = (TestAgent::start(), Witness::start());
    let main = container("main", &tells_its_end(&witness, "main", 0))
        + &hooks(&[("preStop", tells_and_holds(&witness, "hook"))]);
    let manifest = staged("web", "", &[], &[main]);
    agent.put("web.yaml", &manifest);
    witness.wait_for("main");
    agent.remove("web.yaml");
    witness.wait_for("hook");
    agent.put("web.yaml", &manifest);
    agent.kill();
    agent.spawn();
    witness.pass("hook");
    witness.wait_for_times("main", 2);
    wait_for_word(&agent, "web", "Running");
    assert_eq!(witness.told(), ["main", "hook", "main-end", "main"]);
    let status = agent.status("web");
    assert_eq!(container_status(&status, "main")["restartCount"], 0);
}

/// P-40, P-56, P-57: with a UID of its own the pod stays, and only who has a new image is replaced.
#[test]
fn a_new_image_replaces_its_container_only() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    import(&agent, "other:1");
    let manifest = |changed: &[&str]| {
        let image = |name: &str, lines: String| match changed.contains(&name) {
            true => lines.replace("image: busybox", "image: other:1"),
            false => lines,
        };
        let lives = |name: &str| container(name, &tells_its_end(&witness, name, 0));
        let init = [
            image("a", container("a", &witness.tell("a"))),
            image("proxy", lives("proxy") + "    restartPolicy: Always\n"),
        ];
        let hook = hooks(&[("preStop", witness.tell("hook"))]);
        let regular = [
            image("one", lives("one") + &hook),
            image("two", lives("two")),
        ];
        let text = staged("web", "", &init, &regular);
        text.replace("metadata:\n", "metadata:\n  uid: mine\n")
    };
    agent.put("web.yaml", &manifest(&[]));
    witness.wait_for("two");
    let holders = agent.holder_pids();
    agent.put("web.yaml", &manifest(&["a"]));
    agent.put("web.yaml", &manifest(&["a", "one"]));
    witness.wait_for_times("one", 2);
    agent.put("web.yaml", &manifest(&["a", "one", "proxy"]));
    witness.wait_for_times("proxy", 2);
    wait_for_condition(&agent, "web", "Ready", "True");
    assert_eq!(agent.holder_pids(), holders);
    let wanted = ["hook", "one-end", "one", "proxy-end", "proxy"];
    assert_eq!(witness.told()[4..], wanted);
}

/// P-44, P-111, P-114: the job was done while nobody looked; its sidecar is ended by the next agent.
#[test]
fn a_job_that_ends_without_an_agent_is_done() {
    if !can_run() {
        return;
    }
    let (mut agent, witness) = (TestAgent::start(), Witness::start());
    let init = [sidecar("proxy", &tells_its_end(&witness, "proxy", 3))];
    let work = container("work", &tells_and_holds(&witness, "work"));
    let lines = "  restartPolicy: OnFailure\n";
    agent.put("job.yaml", &staged("job", lines, &init, &[work]));
    witness.wait_for("work");
    let old = agent.pids_of("job", "work");
    agent.kill();
    witness.pass("work");
    wait_for("the end of the work", || {
        let left = agent.container_pids();
        (!left.iter().any(|pid| old.contains(pid))).then_some(())
    });
    agent.spawn();
    wait_for_phase(&agent, "job", "Succeeded");
    witness.wait_for("proxy-end");
    agent.kill();
    agent.spawn();
    wait_for("the end of the sandbox", || {
        agent.holder_pids().is_empty().then_some(())
    });
    wait_for_phase(&agent, "job", "Succeeded");
    assert_eq!(witness.told(), ["proxy", "work", "proxy-end"]);
}

/// P-63: each agent finds out how far it is.
#[test]
fn a_restart_of_the_whole_pod_goes_on_with_the_next_agent() {
    if !can_run() {
        return;
    }
    let words = ["a", "main", "other", "hook"];
    let dies: [fn(&Witness) -> bool; 4] = [
        |witness| witness.count("go") > 0,
        |witness| witness.count("other-end") > 0,
        |witness| witness.count("a") > 1,
        |witness| witness.count("hook") > 1,
    ];
    for die in dies {
        let (mut agent, witness) = (TestAgent::start(), Witness::start());
        let rule = "    restartPolicy: OnFailure\n    restartPolicyRules: \
             [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]\n";
        let script = format!(
            "{}; {}; exit 42",
            tells_and_holds(&witness, "main"),
            witness.tell("go")
        );
        let regular = [
            container("main", &script) + rule,
            container("other", &tells_its_end(&witness, "other", 0))
                + &hooks(&[("postStart", witness.tell("hook"))]),
        ];
        let init = [container("a", &witness.tell("a"))];
        agent.put("web.yaml", &staged("web", "", &init, &regular));
        for word in words {
            witness.wait_for(word);
        }
        wait_for_word(&agent, "web", "Running");
        let holders = agent.holder_pids();
        witness.pass("main");
        wait_for("the moment", || die(&witness).then_some(()));
        agent.kill();
        agent.spawn();
        for word in words {
            witness.wait_for_times(word, 2);
        }
        let status = agent.wait_for_status("web", "everything runs again", |status| {
            let is_ready = condition(status, "Ready")["status"] == "True";
            let is_second = container_status(status, "main")["restartCount"] == 1;
            (is_ready && is_second).then(|| status.clone())
        });
        for word in words {
            assert_eq!(witness.count(word), 2, "{word}: {:?}", witness.told());
        }
        assert_eq!(container_status(&status, "other")["restartCount"], 1);
        assert_eq!(agent.holder_pids(), holders);
    }
}

/// N-26, N-28, C12: with hooks and sidecars in order; the next agent starts everything from nothing.
#[test]
fn a_drained_pod_ends_in_order_and_starts_with_the_next_agent() {
    if !can_run() {
        return;
    }
    for lives in [true, false] {
        let (mut agent, witness) = (TestAgent::start(), Witness::start());
        let init = [
            container("a", &witness.tell("a")),
            sidecar("proxy", &tells_its_end(&witness, "proxy", 0)),
        ];
        let main = container("main", &tells_its_end(&witness, "main", 0))
            + &hooks(&[("preStop", witness.tell("hook"))]);
        agent.put("web.yaml", &staged("web", "", &init, &[main]));
        witness.wait_for("main");
        wait_for_word(&agent, "web", "Running");
        if !lives {
            agent.kill();
        }
        agent.text(&["drain"]);
        let first = ["a", "proxy", "main", "hook", "main-end", "proxy-end"];
        assert_eq!(witness.told(), first);
        assert!(agent.container_pids().is_empty());
        if lives {
            assert_eq!(agent.status("web")["phase"], "Failed");
            assert_eq!(agent.status("web")["reason"], "Terminated");
            agent.kill();
        }
        agent.spawn();
        witness.wait_for_times("main", 2);
        wait_for_word(&agent, "web", "Running");
        assert_eq!(witness.told()[6..], ["a", "proxy", "main"]);
    }
}
