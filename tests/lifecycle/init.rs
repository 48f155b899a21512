//! Init containers: their order, their failures, and when they run again.

use rustix::process::{Pid, Signal, kill_process};

use super::support::agent::{QUICK_BACK_OFF, TestAgent};
use super::support::images::{busybox_layer, docker_archive};
use super::support::manifest::container;
use super::support::wait::{can_run, wait_for};
use super::*;

/// P-50, P-101, P-121, P-131, P-135.
#[test]
fn init_containers_run_one_after_another_before_the_others() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    let init = ["a", "b"].map(|name| container(name, &tells_and_holds(&witness, name)));
    let main = container("main", &tells_and_lives(&witness, "main"));
    agent.put("web.yaml", &staged("web", "", &init, &[main]));
    witness.wait_for("a");
    wait_for_word(&agent, "web", "Init:0/2");
    let status = agent.wait_for_status("web", "the first", |status| {
        let is_running = !container_status(status, "a")["state"]["running"].is_null();
        is_running.then(|| status.clone())
    });
    assert_eq!(status["phase"], "Pending");
    for name in ["b", "main"] {
        assert_eq!(waiting_reason(&status, name), "PodInitializing");
    }
    let initialized = condition(&status, "Initialized");
    assert_eq!(initialized["reason"], "ContainersNotInitialized");
    let why = "containers with incomplete status: [a b]";
    assert_eq!(initialized["message"], why);
    let plan = agent.text(&["plan"]);
    assert!(
        plan.contains("waits for init container a to succeed"),
        "{plan}"
    );
    witness.pass("a");
    witness.wait_for("b");
    wait_for_word(&agent, "web", "Init:1/2");
    let status = agent.status("web");
    let first = container_status(&status, "a");
    assert_eq!(first["state"]["terminated"]["reason"], "Completed");
    assert_eq!(first["ready"], true);
    witness.pass("b");
    witness.wait_for("main");
    let status = wait_for_phase(&agent, "web", "Running");
    assert_eq!(condition(&status, "Initialized")["status"], "True");
    wait_for_word(&agent, "web", "Running");
    assert_eq!(witness.told(), ["a", "b", "main"]);
}

/// P-53, P-64, P-71: until it succeeds, with back-off.
#[test]
fn an_init_container_that_fails_is_tried_again() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start_with(QUICK_BACK_OFF);
    let witness = Witness::start();
    let script = format!("{}; {}", witness.tell("a"), witness.attempt("well"));
    let main = container("main", &tells_and_lives(&witness, "main"));
    let init = [container("a", &script)];
    agent.put("web.yaml", &staged("web", "", &init, &[main]));
    wait_for_word(&agent, "web", "Init:CrashLoopBackOff");
    let status = agent.status("web");
    assert_eq!(status["phase"], "Pending");
    witness.wait_for_times("a", 4);
    let told = wait_for("the event", || {
        let events = agent.client().events().ok()?.into_iter();
        let mut texts = events.filter(|e| e.event.reason == "BackOff");
        texts.next().map(|e| e.event.message)
    });
    let text = "Back-off restarting failed container a in pod web-box_default(";
    assert!(told.starts_with(text), "{told}");
    assert_eq!(witness.count("main"), 0);
    witness.open("well");
    witness.wait_for("main");
    let status = wait_for_phase(&agent, "web", "Running");
    let tries = u64::try_from(witness.count("a")).unwrap();
    assert_eq!(container_status(&status, "a")["restartCount"], tries - 1);
    assert_eq!(container_status(&status, "main")["restartCount"], 0);
}

/// P-53, P-100, P-111, P-114.
#[test]
fn an_init_container_that_fails_for_good_fails_its_pod() {
    if !can_run() {
        return;
    }
    let (mut agent, witness) = (TestAgent::start(), Witness::start());
    let init = [
        container("a", &format!("{}; exit 3", witness.tell("a"))),
        container("b", &witness.tell("b")),
    ];
    let main = container("main", &tells_and_lives(&witness, "main"));
    let lines = "  restartPolicy: Never\n";
    agent.put("job.yaml", &staged("job", lines, &init, &[main]));
    let status = wait_for_phase(&agent, "job", "Failed");
    let ended = &container_status(&status, "a")["state"]["terminated"];
    assert_eq!(ended["exitCode"], 3);
    wait_for_word(&agent, "job", "Init:Error");
    wait_for("the end of the sandbox", || {
        agent.holder_pids().is_empty().then_some(())
    });
    agent.kill();
    agent.spawn();
    wait_for_phase(&agent, "job", "Failed");
    assert_eq!(witness.told(), ["a"]);
    assert!(agent.holder_pids().is_empty());
}

/// P-52, C10: neither an exit nor a failed liveness probe runs them again.
#[test]
fn a_restart_of_a_container_runs_no_init_container() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start_with(QUICK_BACK_OFF);
    let witness = Witness::start();
    let init = [container("a", &witness.tell("a"))];
    let script = format!("touch /tmp/ok; {}", tells_and_lives(&witness, "main"));
    let probe = "    livenessProbe: {periodSeconds: 1, failureThreshold: 1, \
         exec: {command: [cat, /tmp/ok]}}\n";
    let main = container("main", &script) + probe;
    agent.put("web.yaml", &staged("web", "", &init, &[main]));
    agent.wait_until_running("web");
    witness.wait_for("main");
    agent.text(&["exec", "web", "--", "rm", "/tmp/ok"]);
    witness.wait_for_times("main", 2);
    let pid = wait_for("the second instance", || {
        let status = agent.status("web");
        let is_second = container_status(&status, "main")["restartCount"] == 1;
        let first = agent.pids_of("web", "main").into_iter().min();
        is_second.then_some(first).flatten()
    });
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    witness.wait_for_times("main", 3);
    assert_eq!(witness.told(), ["a", "main", "main", "main"]);
}

/// P-33, P-36, C9: a new sandbox is a new start, whether its holder died or the machine.
#[test]
fn a_new_sandbox_runs_them_again() {
    if !can_run() {
        return;
    }
    let (mut agent, witness) = (TestAgent::start(), Witness::start());
    let init = [container("a", &tells_and_holds(&witness, "a"))];
    let main = container("main", &tells_and_lives(&witness, "main"));
    agent.put("web.yaml", &staged("web", "", &init, &[main]));
    witness.pass("a");
    witness.wait_for("main");
    agent.kill_holders();
    witness.wait_for_times("a", 2);
    wait_for_word(&agent, "web", "Init:0/1");
    witness.pass("a");
    witness.wait_for_times("main", 2);
    agent.reboot();
    agent.spawn();
    witness.wait_for_times("a", 3);
    wait_for_word(&agent, "web", "Init:0/1");
    witness.pass("a");
    witness.wait_for_times("main", 3);
    assert_eq!(witness.told(), ["a", "main", "a", "main", "a", "main"]);
}

/// P-131, P-152: it waits for its image, and everybody else for it.
#[test]
fn an_init_container_without_image_holds_everything_up() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    let late = container("a", &witness.tell("a")).replace("busybox", "late:1");
    let main = container("main", &tells_and_lives(&witness, "main"));
    let init = [late + "    imagePullPolicy: Never\n"];
    agent.put("web.yaml", &staged("web", "", &init, &[main]));
    wait_for_word(&agent, "web", "Init:ErrImageNeverPull");
    let status = agent.status("web");
    assert_eq!(waiting_reason(&status, "main"), "PodInitializing");
    let archive = agent.paths.root_dir.join("late.tar");
    let config = serde_json::json!({"Env": ["PATH=/bin:/usr/bin"]});
    docker_archive(&archive, "late:1", config, &[busybox_layer()]);
    agent.text(&["image", "import", archive.to_str().unwrap()]);
    witness.wait_for("main");
    assert_eq!(witness.told(), ["a", "main"]);
}

/// P-53, P-60: an init container has its own policy, and its own rules before that.
#[test]
fn the_policy_of_an_init_container_counts_more_than_the_pods() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start_with(QUICK_BACK_OFF);
    let witness = Witness::start();
    let rule = "    restartPolicy: Never\n    restartPolicyRules: \
         [{action: Restart, exitCodes: {operator: In, values: [5]}}]\n";
    let script = format!(
        "{}; {} && exit 5; exit 6",
        tells_and_holds(&witness, "a"),
        witness.attempt("again")
    );
    let main = container("main", &witness.tell("main"));
    let init = [container("a", &script) + rule];
    agent.put("web.yaml", &staged("web", "", &init, &[main]));
    witness.pass("again");
    witness.pass("a");
    witness.wait_for_times("a", 2);
    witness.pass("a");
    let status = wait_for_phase(&agent, "web", "Failed");
    let ended = container_status(&status, "a");
    assert_eq!(ended["restartCount"], 1);
    assert_eq!(ended["state"]["terminated"]["exitCode"], 6);
    assert_eq!(witness.told(), ["a", "a"]);
}

/// C7: who follows the table sees each stage, in order.
#[test]
fn a_watch_shows_each_stage() {
    if !can_run() {
        return;
    }
    let (agent, witness) = (TestAgent::start(), Witness::start());
    let file = agent.paths.root_dir.join("watch");
    let out = std::fs::File::create(&file).unwrap();
    let mut watch = agent
        .vetch(&["get", "pods", "-w"])
        .stdout(out)
        .spawn()
        .unwrap();
    let init = ["a", "b"].map(|name| container(name, &tells_and_holds(&witness, name)));
    let main = container("main", &tells_and_lives(&witness, "main"));
    agent.put("web.yaml", &staged("web", "", &init, &[main]));
    for stage in ["Init:0/2", "Init:1/2", "Running"] {
        wait_for(stage, || {
            let text = std::fs::read_to_string(&file).ok()?;
            let last = text.lines().last()?;
            last.split_whitespace()
                .any(|word| word == stage)
                .then_some(())
        });
        match stage {
            "Init:0/2" => witness.pass("a"),
            _ => witness.pass("b"),
        }
    }
    agent.text(&["wait", "--for=condition=Initialized", "pod/web"]);
    watch.kill().unwrap();
    watch.wait().unwrap();
}
