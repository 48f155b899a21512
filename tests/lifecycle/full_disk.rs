//! Probes and hooks of a pod whose run directory is full: what runs goes on, it is told what is full, and it heals.

use super::support::agent::TestAgent;
use super::support::disk::SmallDisk;
use super::support::manifest::container;
use super::support::wait::{can_run, wait_for};
use super::*;

/// A disk with room for few files.
const FEW_FILES: &str = "size=16m,nr_inodes=500";

fn manifest(witness: &Witness) -> String {
    let command = |script: String| format!("exec: {{command: [sh, -c, {script:?}]}}");
    let main = format!(
        "    livenessProbe: {{periodSeconds: 1, failureThreshold: 1, {}}}
    lifecycle: {{postStart: {{{}}}, preStop: {{{}}}}}\n",
        command(witness.tell("probe")),
        command(witness.tell("begun")),
        command(witness.tell("hook")),
    );
    let main = container("main", &tells_its_end(witness, "main", 0)) + &main;
    staged("web", "", &[], &[main])
}

/// A command needs a socket in the run directory. One that cannot be run is no verdict, whatever agent asks.
#[test]
fn probes_and_hooks_outlast_a_run_directory_that_is_full() {
    if !can_run() {
        return;
    }
    let witness = Witness::start();
    let mut agent = TestAgent::prepare();
    let disk = SmallDisk::mount(&agent.paths.run_dir, FEW_FILES);
    agent.import_busybox();
    agent.spawn();
    agent.put("web.yaml", &manifest(&witness));
    witness.wait_for("begun");
    witness.wait_for("probe");

    let filler = disk.fill_with_files();
    let is_told_twice = |agent: &TestAgent| {
        // One event for all of them, which says what is full.
        let events = agent.client().events().ok()?;
        let mut unwell = events.iter().filter(|e| e.event.reason == "Unhealthy");
        let one = unwell.next()?;
        assert_eq!(unwell.next(), None);
        let run_dir = agent.paths.run_dir.display().to_string();
        let text = &one.event.message;
        let says_all = text.contains("No space left on device") && text.contains(&run_dir);
        assert!(says_all, "{text}");
        (one.count > 1).then_some(())
    };
    wait_for("it is told", || is_told_twice(&agent));
    agent.kill();
    agent.spawn();
    wait_for("it is told again", || is_told_twice(&agent));

    vetch::sys::remove::tree(&filler).unwrap();
    let before = witness.count("probe");
    witness.wait_for_times("probe", before + 1);
    agent.remove("web.yaml");
    agent.wait_for_no_pods();
    for word in ["main", "begun", "hook", "main-end"] {
        assert_eq!(witness.count(word), 1, "{word}");
    }
}

/// Nothing more has to happen in the pod for its records to be right again.
#[test]
fn what_could_not_be_written_down_is_written_when_there_is_room() {
    if !can_run() {
        return;
    }
    let witness = Witness::start();
    let mut agent = TestAgent::prepare();
    let disks = [&agent.paths.run_dir, &agent.paths.root_dir];
    let disks = disks.map(|dir| SmallDisk::mount(dir, FEW_FILES));
    agent.configure(
        "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
fileCheckFrequency: 1s
",
    );
    agent.import_busybox();
    agent.spawn();
    let short = format!("{}; exit 3", tells_and_holds(&witness, "short"));
    let regular = [container("main", LIVES), container("short", &short)];
    let manifest = staged("web", "  restartPolicy: Never\n", &[], &regular);
    agent.put("web.yaml", &manifest);
    witness.wait_for("short");

    let fillers = disks.each_ref().map(SmallDisk::fill_with_files);
    witness.pass("short");
    let troubles = |agent: &TestAgent| {
        let conditions = agent.client().status().ok()?.conditions;
        let is_full = |text: &&String| text.contains("No space left on device");
        Some(conditions.iter().filter(is_full).count())
    };
    wait_for("both are told", || (troubles(&agent)? == 2).then_some(()));
    for filler in fillers {
        vetch::sys::remove::tree(&filler).unwrap();
    }
    wait_for("both are over", || (troubles(&agent)? == 0).then_some(()));

    agent.kill();
    agent.kill_holders();
    agent.spawn();
    let status = agent.status("web");
    let ended = &container_status(&status, "short")["state"]["terminated"];
    assert_eq!(ended["exitCode"], 3, "{status:#}");
}
