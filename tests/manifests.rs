//! A manifest directory as people and their tools leave it: many files, broken ones, odd ones, every way of saving. Real
//! agent, real pods.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::collections::BTreeSet;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use vetch::api::types::FileStatus;
use vetch::pod::Severity;

use support::agent::TestAgent;
use support::manifest::{self, LIVES};
use support::wait::{can_run, is_full, wait_for};
use support::watch::container;
use support::witness::Witness;

/// A pod that says this word and lives.
fn manifest(name: &str, word: &str) -> String {
    manifest::manifest(name, 2, &format!("echo {word}; {LIVES}"))
}

/// Names of the pods whose container runs, without the node's.
fn running(agent: &TestAgent) -> BTreeSet<String> {
    let pods = agent.client().pods().unwrap_or_default();
    pods.into_iter()
        .filter(|pod| {
            container(pod).is_some_and(|c| c.state.as_ref().is_some_and(|s| s.running.is_some()))
        })
        .filter_map(|pod| Some(pod.metadata.name?.strip_suffix("-box")?.to_owned()))
        .collect()
}

fn names(prefix: &str, count: usize) -> BTreeSet<String> {
    (0..count).map(|n| format!("{prefix}{n}")).collect()
}

fn problem(agent: &TestAgent, file: &str) -> Option<FileStatus> {
    let files = agent.client().status().ok()?.files;
    let end = format!("/{file}");
    files.into_iter().find(|status| status.file.ends_with(&end))
}

/// Twenty ways of being no manifest, each with a name.
fn broken() -> Vec<(&'static str, String)> {
    let good = manifest("x", "x");
    let without = |line: &str| good.replace(line, "");
    let bomb: String = (1..10)
        .map(|n| {
            format!(
                "a{n}: &a{n} [*a{0},*a{0},*a{0},*a{0},*a{0},*a{0},*a{0},*a{0},*a{0}]\n",
                n - 1
            )
        })
        .collect();
    vec![
        ("garbage", "\u{1}\u{2}\u{fffd}".repeat(100)),
        ("html", "<!DOCTYPE html><html></html>".to_owned()),
        ("text", "just words".to_owned()),
        ("half", good[..good.len() / 2].to_owned() + "\"["),
        ("tab", good.replace("  name", "\tname")),
        ("huge", format!("# {}\n", "x".repeat(10 << 20)) + &good),
        ("deep", "[".repeat(100_000)),
        ("deeper", "{a: ".repeat(50_000)),
        ("bomb", format!("a0: &a0 [1,2]\n{bomb}")),
        ("self", "a: &a [*a]\n".to_owned()),
        ("alias", "kind: *nobody\n".to_owned()),
        ("twice", good.replace("spec:", "spec: {}\nspec:")),
        ("kind", good.replace("kind: Pod", "kind: Deployment")),
        ("nokind", without("kind: Pod\n")),
        ("noname", without("  name: x\n")),
        ("name", good.replace("  name: x\n", "  name: Not_A_Name\n")),
        ("image", without("    image: busybox\n")),
        (
            "policy",
            good.replace("spec:\n", "spec:\n  restartPolicy: Maybe\n"),
        ),
        (
            "type",
            good.replace(
                "terminationGracePeriodSeconds: 2",
                "terminationGracePeriodSeconds: soon",
            ),
        ),
        (
            "init",
            good.replace(
                "  containers:",
                "  initContainers: [{name: main}]\n  containers:",
            ),
        ),
    ]
}

/// Whatever lies beside them, the good ones run, and each bad one is named with its problem.
#[test]
fn good_manifests_run_whatever_lies_beside_them() {
    if !can_run() {
        return;
    }
    let good = if is_full() { 180 } else { 10 };
    let agent = TestAgent::start_with("maxPods: 200");
    for (name, text) in broken() {
        agent.put(&format!("{name}.yaml"), &text);
    }
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        agent.manifests.join("fifo.yaml"),
        rustix::fs::Mode::RUSR,
    )
    .expect("make a fifo");
    let _socket = UnixListener::bind(agent.manifests.join("socket.yaml")).expect("make a socket");
    std::fs::create_dir(agent.manifests.join("dir.yaml")).expect("make a directory");
    std::os::unix::fs::symlink("nowhere", agent.manifests.join("link.yaml")).expect("make a link");
    for name in names("p", good) {
        agent.put(&format!("{name}.yaml"), &manifest(&name, "up"));
    }
    wait_for("all good ones run", || {
        (running(&agent) == names("p", good)).then_some(())
    });
    for (name, _) in broken() {
        let file = wait_for(name, || problem(&agent, &format!("{name}.yaml")));
        let is_bad = file
            .diagnostics
            .iter()
            .any(|d| d.severity == Severity::Error);
        assert!(is_bad && file.pods.is_empty(), "{file:#?}");
    }
    for n in 0..good {
        agent.remove(&format!("p{n}.yaml"));
    }
    agent.wait_for_no_pods();
    assert!(agent.container_pids().is_empty());
}

/// Fifty at once (a dozen in the short form), through a restart of the agent, and all gone at the end.
#[test]
fn many_pods_live_side_by_side() {
    if !can_run() {
        return;
    }
    let count = if is_full() { 50 } else { 12 };
    let mut agent = TestAgent::start();
    for name in names("many", count) {
        agent.put(&format!("{name}.yaml"), &manifest(&name, &name));
    }
    wait_for("all run", || {
        (running(&agent) == names("many", count)).then_some(())
    });
    let pids = agent.container_pids();
    agent.kill();
    agent.spawn();
    wait_for("all are known again", || {
        (running(&agent) == names("many", count)).then_some(())
    });
    let is_there = |pid: &i32| Path::new(&format!("/proc/{pid}/root")).exists();
    assert!(
        agent
            .client()
            .pods()
            .expect("pods")
            .iter()
            .all(|pod| { container(pod).is_some_and(|status| status.restart_count == 0) })
    );
    // The shells' `sleep 1` come and go; the shells themselves stay.
    assert!(pids.iter().filter(|pid| is_there(pid)).count() >= count);
    for name in names("many", count) {
        wait_for("its own output", || {
            let log = agent.logs(&name, "main");
            log.ends_with(&format!("{name}\n")).then_some(())
        });
    }
    agent.client().stop().expect("stop");
    assert_eq!(agent.wait_for_end(), Some(0));
    assert!(agent.container_pids().is_empty());
}

/// Several pods in one file, and JSON.
#[test]
fn a_file_may_hold_many_pods() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let items = |kind: &str, names: [&str; 2]| {
        let indented = |name| manifest(name, "up").replace('\n', "\n  ");
        let [one, two] = names.map(indented);
        format!("apiVersion: v1\nkind: {kind}\nitems:\n- {one}\n- {two}\n")
    };
    agent.put(
        "documents.yaml",
        &format!("{}---\n{}", manifest("d0", "up"), manifest("d1", "up")),
    );
    agent.put("list.yaml", &items("List", ["l0", "l1"]));
    agent.put("podlist.yaml", &items("PodList", ["pl0", "pl1"]));
    let value: serde_json::Value = serde_yaml::from_str(&manifest("json", "up")).expect("YAML");
    agent.put("pod.json", &value.to_string());
    let all = ["d0", "d1", "json", "l0", "l1", "pl0", "pl1"].map(str::to_owned);
    wait_for("all run", || {
        (running(&agent) == BTreeSet::from(all.clone())).then_some(())
    });
    // One document less is one pod less, and the other one stays as it is.
    let before = agent.wait_until_running("d1");
    agent.put("documents.yaml", &manifest("d1", "up"));
    wait_for("d0 is gone", || agent.pod("d0").is_none().then_some(()));
    assert_eq!(agent.wait_until_running("d1"), before);
}

/// Runs a shell script in the manifest directory.
fn sh(agent: &TestAgent, script: &str) {
    let status = Command::new("sh")
        .args(["-ec", script])
        .current_dir(&agent.manifests)
        .status()
        .expect("start sh");
    assert!(status.success(), "{script}");
}

/// Each way of saving gives exactly one new container with the new content, and what did not change the content none.
#[test]
fn every_way_of_saving_counts_once() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.put("web.yaml", &manifest("web", "word0"));
    let mut ids = vec![agent.wait_until_running("web").container_id];
    for (n, way) in [
        ("in place", "sed -i s/OLD/NEW/ web.yaml"),
        ("copied over", "sed s/OLD/NEW/ web.yaml > ../new; cp ../new web.yaml"),
        ("moved over", "sed s/OLD/NEW/ web.yaml > ../new; mv ../new web.yaml"),
        (
            "vim",
            "sed s/OLD/NEW/ web.yaml > ../new; : > 4913; rm 4913; echo b0VIM > .web.yaml.swp; mv web.yaml web.yaml~; \
             cat ../new > web.yaml; rm web.yaml~ .web.yaml.swp",
        ),
        (
            "in two halves",
            "sed s/OLD/NEW/ web.yaml > ../new; exec 3> web.yaml; head -c 100 ../new >&3; sleep 0.2; tail -c +101 ../new >&3",
        ),
        ("removed and written", "sed s/OLD/NEW/ web.yaml > ../new; rm web.yaml; cat ../new > web.yaml"),
        (
            "as a ConfigMap volume",
            "mkdir ..one ..two; mv web.yaml ..one/; sed s/OLD/NEW/ ..one/web.yaml > ..two/web.yaml; \
             ln -s ..two ..data_tmp; ln -s ..data/web.yaml web.yaml; mv -T ..data_tmp ..data",
        ),
    ]
    .into_iter()
    .enumerate()
    .map(|(n, (_, way))| (n, way))
    {
        let script = way
            .replace("OLD", &format!("word{n}"))
            .replace("NEW", &format!("word{}", n + 1));
        sh(&agent, &script);
        let last = format!("word{}\n", n + 1);
        wait_for(&script, || {
            let pods = agent.client().pods().ok()?;
            (pods.len() == 1 && agent.logs("web", "main").ends_with(&last)).then_some(())
        });
        ids.push(agent.wait_until_running("web").container_id);
    }
    assert_eq!(
        agent.event_count("web", "Created"),
        8,
        "one container for each content"
    );
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 8);
    // Comments, order and backups are no change.
    let last = agent.wait_until_running("web");
    sh(
        &agent,
        "cp ..data/web.yaml web.yaml-bak; cp ..data/web.yaml web.yaml~; echo x > .x.swp",
    );
    sh(
        &agent,
        "{ cat ..data/web.yaml; echo '# a comment'; } > ..n; mv ..n ..data/web.yaml; touch web.yaml",
    );
    // Two files with one pod: the one that runs stays, and the other one is named.
    let other = wait_for("the second file is refused", || {
        problem(&agent, "web.yaml-bak").filter(|file| !file.diagnostics.is_empty())
    });
    let said: Vec<String> = other.diagnostics.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|s| s.contains("web.yaml")), "{said:?}");
    assert_eq!(agent.wait_until_running("web"), last);
    assert_eq!(
        agent.event_count("web", "Created"),
        8,
        "nothing was made anew"
    );
}

/// Deleted, and put back as it was: it runs again.
#[test]
fn a_manifest_that_comes_back_runs_again() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let text = manifest("web", "up");
    agent.put("web.yaml", &text);
    let first = agent.wait_until_running("web");
    agent.remove("web.yaml");
    agent.wait_for_no_pods();
    agent.put("web.yaml", &text);
    let second = agent.wait_until_running("web");
    assert_ne!(first.container_id, second.container_id);
}

/// What is missing at the start of an agent may only be gone for a moment, so nothing is ended at once. But nothing of it
/// is started either.
#[test]
fn what_was_deleted_while_no_agent_ran_does_not_start_once_more() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    let witness = Witness::start();
    let script = format!("{}; {LIVES}", witness.tell("started"));
    agent.put("gone.yaml", &manifest::manifest("gone", 2, &script));
    witness.wait_for("started");
    agent.reboot();
    agent.remove("gone.yaml");
    agent.put("stays.yaml", &manifest("stays", "here"));
    agent.spawn();
    wait_for("the other pod", || {
        (running(&agent) == BTreeSet::from(["stays".to_owned()])).then_some(())
    });
    assert_eq!(witness.count("started"), 1);
}
