//! The agent as a process: manifests in, containers out, and crashes that nobody notices. Real holders, real
//! libcontainer, real cgroups.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use support::agent::TestAgent;
use support::disk::SmallDisk;
use support::manifest::{self, LIVES};
use support::wait::{can_run, wait_for};
use support::watch::container;

/// Whoever does not listen is killed after two seconds.
fn manifest(name: &str, script: &str) -> String {
    manifest::manifest(name, 2, script)
}

/// Never started again.
fn job(name: &str, script: &str) -> String {
    let policy = "  restartPolicy: Never\n".to_owned();
    manifest::pod(name, 2, &(policy + &manifest::main(script)))
}

#[test]
fn a_manifest_becomes_a_container_that_is_replaced_and_removed() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    agent.put("web.yaml", &manifest("web", &format!("echo one; {LIVES}")));
    let first = agent.wait_until_running("web");
    agent.wait_for_words("web", "one");

    agent.put("web.yaml", &manifest("web", &format!("echo two; {LIVES}")));
    wait_for("the new container", || {
        let status = agent.pod("web").and_then(|pod| container(&pod).cloned())?;
        let is_new = status.container_id != first.container_id;
        (is_new && status.state?.running.is_some()).then_some(())
    });
    agent.wait_for_words("web", "two");

    agent.remove("web.yaml");
    agent.wait_for_no_pods();
    assert!(agent.container_pids().is_empty());
    agent.client().stop().unwrap();
    assert_eq!(agent.wait_for_end(), Some(0));
    assert!(!agent.paths.api_socket().exists());
}

#[test]
fn an_exit_without_an_agent_is_accounted_for() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    let script = format!("{LIVES}; exit 3");
    agent.put(
        "web.yaml",
        &manifest("web", &script.replace("exit 0", "exit 3")),
    );
    agent.wait_until_running("web");
    let pids = agent.container_pids();
    agent.kill();
    let init = pids.iter().copied().min().unwrap();
    let pid = rustix::process::Pid::from_raw(init).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    wait_for("the container ended", || {
        agent.container_pids().is_empty().then_some(())
    });
    agent.spawn();
    let status = agent.wait_for_pod("web", |pod| {
        let status = container(pod)?.clone();
        (status.restart_count == 1).then_some(status)
    });
    let last = status.last_state.unwrap().terminated.unwrap();
    assert_eq!((last.exit_code, last.reason.as_deref()), (3, Some("Error")));
}

#[test]
fn what_changed_while_the_agent_was_away_is_done_when_it_comes_back() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    agent.put("gone.yaml", &manifest("gone", LIVES));
    agent.put("edited.yaml", &manifest("edited", LIVES));
    agent.wait_until_running("gone");
    let old = agent.wait_until_running("edited");
    agent.kill();
    agent.remove("gone.yaml");
    agent.put(
        "edited.yaml",
        &manifest("edited", &format!("echo new; {LIVES}")),
    );
    agent.spawn();
    wait_for("one pod is gone, one is new", || {
        let status = agent
            .pod("edited")
            .and_then(|pod| container(&pod).cloned())?;
        let is_new = status.container_id != old.container_id;
        let is_done = is_new && status.state?.running.is_some() && agent.pod("gone").is_none();
        is_done.then_some(())
    });
    let pods = agent.client().pods().unwrap();
    assert_eq!(pods.len(), 1, "exactly one copy: {pods:#?}");
}

#[test]
fn after_a_reboot_everything_starts_but_finished_jobs() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    agent.put("web.yaml", &manifest("web", LIVES));
    agent.put("job.yaml", &job("job", "echo done"));
    let before = agent.wait_until_running("web");
    let is_finished = |pod: &k8s_openapi::api::core::v1::Pod| {
        let phase = pod.status.as_ref()?.phase.clone()?;
        (phase == "Succeeded").then_some(())
    };
    agent.wait_for_pod("job", is_finished);
    agent.reboot();
    agent.spawn();
    let after = wait_for("the pod is back", || {
        let status = agent.pod("web").and_then(|pod| container(&pod).cloned())?;
        let is_new = status.container_id != before.container_id;
        (is_new && status.state.as_ref()?.running.is_some()).then_some(status)
    });
    assert_eq!(after.restart_count, 1, "counts go on");
    agent.wait_for_pod("job", is_finished);
    assert_eq!(agent.logs("job", "main").matches("done").count(), 1);
}

#[test]
fn a_job_that_finished_unseen_before_a_reboot_is_not_run_again() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    let script = format!("echo once; {LIVES}");
    agent.put("job.yaml", &job("job", &script));
    agent.wait_until_running("job");
    let uid = agent.pod("job").unwrap().metadata.uid.unwrap();
    agent.wait_for_words("job", "once");
    agent.kill();
    let init = agent.container_pids().into_iter().min().unwrap();
    let pid = rustix::process::Pid::from_raw(init).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let state = agent.paths.holders().join(uid).join("state.json");
    wait_for("its exit is recorded", || {
        let text = std::fs::read_to_string(&state).ok()?;
        text.contains("Exited").then_some(())
    });
    agent.reboot();
    agent.spawn();
    let phase = agent.wait_for_pod("job", |pod| {
        let phase = pod.status.as_ref()?.phase.clone()?;
        (phase != "Pending" && phase != "Running").then_some(phase)
    });
    assert_eq!(phase, "Succeeded");
    wait_for("nothing is left of its holder", || {
        (!state.exists()).then_some(())
    });
    assert_eq!(agent.logs("job", "main").matches("once").count(), 1);
}

#[test]
fn a_dead_holder_makes_the_pod_anew() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    agent.put("web.yaml", &manifest("web", LIVES));
    let mut before = agent.wait_until_running("web");
    for is_away in [true, false] {
        if is_away {
            agent.kill();
        }
        agent.kill_holders();
        if is_away {
            agent.spawn();
        }
        before = wait_for("a new container", || {
            let status = agent.pod("web").and_then(|pod| container(&pod).cloned())?;
            let is_new = status.container_id != before.container_id;
            (is_new && status.state.as_ref()?.running.is_some()).then_some(status)
        });
    }
    assert_ne!(agent.event_count("web", "SandboxChanged"), 0);
}

#[test]
fn a_second_agent_names_the_first() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let second = agent.command().output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let words = String::from_utf8(second.stderr).unwrap();
    assert!(words.contains(&agent.pid().to_string()), "{words}");
    assert!(agent.client().status().is_ok());
}

#[test]
fn an_agent_that_is_told_to_end_leaves_its_pods() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    agent.put("web.yaml", &manifest("web", LIVES));
    agent.wait_until_running("web");
    let pids = agent.container_pids();
    assert_eq!(agent.terminate(), Some(0));
    assert_eq!(agent.container_pids(), pids);
}

#[test]
fn a_broken_manifest_keeps_its_last_good_pod_over_a_restart() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    agent.put("web.yaml", &manifest("web", LIVES));
    let before = agent.wait_until_running("web");
    agent.put(
        "web.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: [\n",
    );
    wait_for("the problem is known", || {
        let status = agent.client().status().ok()?;
        status.files.iter().any(|file| file.held).then_some(())
    });
    agent.kill();
    agent.spawn();
    wait_for("it is known again", || {
        let status = agent.client().status().ok()?;
        status.files.iter().any(|file| file.held).then_some(())
    });
    assert_eq!(agent.wait_until_running("web"), before);
}

#[test]
fn an_image_that_comes_later_wakes_the_pod() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::prepare();
    agent.spawn();
    agent.put("web.yaml", &manifest("web", LIVES));
    agent.wait_for_pod("web", |pod| {
        let waiting = container(pod)?.state.as_ref()?.waiting.as_ref()?;
        waiting
            .reason
            .as_deref()?
            .starts_with("ErrImage")
            .then_some(())
    });
    let elsewhere = tempfile::tempdir().unwrap();
    let archive = support::images::busybox_archive(elsewhere.path());
    std::fs::copy(archive, agent.paths.images_import().join("busybox.tar")).unwrap();
    agent.wait_until_running("web");
}

#[test]
fn a_restart_of_the_agent_changes_no_status_and_no_record() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    agent.put("web.yaml", &manifest("web", LIVES));
    agent.wait_until_running("web");
    let before = (agent.pod("web"), agent.record("web"));
    agent.terminate();
    agent.spawn();
    wait_for("it is shown again", || agent.pod("web"));
    assert_eq!((agent.pod("web"), agent.record("web")), before);
}

#[test]
fn a_remark_about_a_manifest_is_logged_once() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.put(
        "web.yaml",
        &format!("{}  colour: green\n", manifest("web", LIVES)),
    );
    agent.wait_until_running("web");
    let log = agent.log();
    assert_eq!(log.matches("colour").count(), 1, "{log}");
}

/// Pods are restarted although nothing can be written down, it is said, and it heals.
#[test]
fn a_full_disk_ends_no_supervision() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::prepare();
    std::fs::create_dir_all(agent.paths.images()).expect("make a directory");
    let disk = SmallDisk::mount(&agent.paths.root_dir, "size=16m");
    agent.import_busybox();
    agent.spawn();
    agent.put("web.yaml", &manifest("web", LIVES));
    agent.put("late.yaml", &manifest("late", LIVES));
    agent.wait_until_running("web");
    agent.wait_until_running("late");
    let fill = disk.fill();
    for pid in agent.container_pids() {
        let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
        // Some of them are sleeps that end by themselves.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    let restarted = |agent: &TestAgent, name: &str| {
        agent.wait_for_pod(name, |pod| {
            let status = container(pod)?;
            let is_running = status.state.as_ref()?.running.is_some();
            (is_running && status.restart_count == 1).then_some(())
        });
    };
    restarted(&agent, "web");
    restarted(&agent, "late");
    let is_told = |agent: &TestAgent| {
        let conditions = agent.client().status().ok()?.conditions;
        let is_full = |text: &String| text.contains("No space left on device");
        Some(conditions.iter().any(is_full))
    };
    wait_for("it is told", || is_told(&agent)?.then_some(()));
    std::fs::remove_file(fill).expect("remove the filler");
    // Whatever changes next is written down, and all that was missed.
    agent.remove("late.yaml");
    wait_for("it is over", || (!is_told(&agent)?).then_some(()));
    agent.kill();
    agent.spawn();
    restarted(&agent, "web");
    agent.client().stop().expect("stop");
    assert_eq!(agent.wait_for_end(), Some(0));
}
