//! A node whose disk runs full (10.1 of the specification).

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::fs::File;
use std::io::Write;
use std::time::Duration;

use serde_json::Value;

use support::agent::TestAgent;
use support::disk::SmallDisk;
use support::images::{busybox_layer, docker_archive};
use support::manifest::{LIVES, manifest};
use support::wait::{can_run, wait_for};
use vetch::image::{ImportOptions, Store, import};
use vetch::plan::ImagePresence;

const QUICK: &str = "fileCheckFrequency: 1s
evictionPressureTransitionPeriod: 1s
evictionHard: {nodefs.available: 40%}
";

const MI: usize = 1 << 20;

/// An agent whose root directory is a disk of 64 MiB.
fn on_a_small_disk(config: &str) -> (TestAgent, SmallDisk) {
    let mut agent = TestAgent::prepare();
    let disk = SmallDisk::mount(&agent.paths.root_dir, "size=64m");
    std::fs::create_dir(agent.paths.images_import()).expect("room");
    agent.configure(config);
    agent.import_busybox();
    agent.spawn();
    (agent, disk)
}

/// Status and reason of `DiskPressure`.
fn disk_pressure(agent: &TestAgent) -> (String, String) {
    let status = agent.json(&["status", "-o", "json"]);
    let conditions = status["node_conditions"].as_array().expect("conditions");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let mut kinds = conditions.iter();
    let disk = kinds.find(|condition| condition["type"] == "DiskPressure");
    let disk = disk.expect("it is there");
    (text(&disk["status"]), text(&disk["reason"]))
}

fn container_id(agent: &TestAgent, pod: &str) -> Value {
    agent.status(pod)["containerStatuses"][0]["containerID"].clone()
}

fn is_short(agent: &TestAgent) -> bool {
    disk_pressure(agent).0 == "True"
}

/// N-1, N-5, N-6, N-8, D-5: the condition comes and goes and tells of unused images; those without a name go, pods stay.
#[test]
fn a_full_disk_costs_no_pod_and_no_image_with_a_name() {
    if !can_run() {
        return;
    }
    let (agent, _disk) = on_a_small_disk(QUICK);
    let store = Store::open(&agent.paths.images()).expect("the store");
    let archive = agent
        .manifests
        .parent()
        .expect("a directory")
        .join("unused.tar");
    let mut imported = Vec::new();
    for command in ["first", "second"] {
        let config = serde_json::json!({"Cmd": [command]});
        docker_archive(&archive, "unused:1", config, &[busybox_layer()]);
        let report = import(&store, &archive, &ImportOptions::default()).expect("import");
        imported.push(report.images[0].id.to_string());
    }
    // Imported long ago.
    for record in std::fs::read_dir(agent.paths.images().join("records")).expect("records") {
        let file = File::open(record.expect("a record").path()).expect("open it");
        let old = file
            .metadata()
            .expect("its times")
            .modified()
            .expect("a time");
        file.set_modified(old - Duration::from_secs(600))
            .expect("make it old");
    }
    agent.put("web.yaml", &manifest("web", 1, LIVES));
    agent.wait_until_running("web");
    let before = container_id(&agent, "web");
    assert_eq!(
        disk_pressure(&agent),
        ("False".to_owned(), "KubeletHasNoDiskPressure".to_owned())
    );

    let filler = agent.paths.root_dir.join("filler");
    let mut file = File::create(&filler).expect("room");
    file.write_all(&vec![7; 45 * MI]).expect("room");
    drop(file);
    wait_for("disk pressure", || is_short(&agent).then_some(()));
    assert_eq!(disk_pressure(&agent).1, "KubeletHasDiskPressure");
    let status = agent.text(&["status"]);
    assert!(
        status.contains("disk pressure: nodefs.available is below 40%"),
        "{status}"
    );
    wait_for("the image without a name is gone", || {
        let old = store.image(&imported[0]).expect("the store");
        old.is_none().then_some(())
    });
    let told = "unused images are docker.io/library/unused:1 (0 B): `vetch image rm NAME`";
    wait_for("the other one is told", || {
        agent.text(&["status"]).contains(told).then_some(())
    });
    for name in ["unused:1", "busybox"] {
        let presence = store.presence(name);
        assert!(matches!(presence, ImagePresence::Present(_)), "{name}");
    }

    std::fs::remove_file(&filler).expect("remove it");
    wait_for("it is over", || (!is_short(&agent)).then_some(()));
    assert_eq!(container_id(&agent, "web"), before, "no pod was touched");
    let events = agent.text(&["get", "events"]);
    assert!(!events.contains("Evicted"), "{events}");
}

/// D-8: the pod that fills the disk ends, its data goes, and it comes back when there is room.
#[test]
fn a_pod_that_fills_the_disk_is_evicted_if_that_is_wished() {
    if !can_run() {
        return;
    }
    let config = format!("{QUICK}vetch: {{evictStaticPods: true}}\n");
    let (agent, _disk) = on_a_small_disk(&config);
    agent.put("quiet.yaml", &manifest("quiet", 1, LIVES));
    agent.wait_until_running("quiet");
    let quiet = container_id(&agent, "quiet");
    let hogs = format!("dd if=/dev/zero of=/data/big bs=1M count=45 2>/dev/null; {LIVES}");
    let hog = manifest("hog", 30, &hogs)
        + "    volumeMounts: [{name: data, mountPath: /data}]\n  volumes: [{name: data, emptyDir: {}}]\n";
    agent.put("hog.yaml", &hog);
    let status = wait_for("the hog is evicted", || {
        let status = agent.status("hog");
        (status["reason"] == "Evicted").then_some(status)
    });
    assert_eq!(status["phase"], "Failed", "{status:#}");
    let message = status["message"].as_str().expect("text");
    let start = "The node was low on resource: ephemeral-storage. Threshold quantity: ";
    assert!(message.starts_with(start), "{message}");
    wait_for("it comes back", || {
        let events = agent.client().events().ok()?;
        let mut started = events
            .iter()
            .filter(|e| e.event.name == "hog-box" && e.event.reason == "Started");
        started.any(|e| e.count > 1).then_some(())
    });
    assert_eq!(agent.status("quiet")["phase"], "Running");
    assert_eq!(container_id(&agent, "quiet"), quiet);
}
