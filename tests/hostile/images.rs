//! Images whose directories are links to the host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;
use vetch::image::{ImportOptions, Store, import};

use crate::support::agent::TestAgent;
use crate::support::images::{busybox_layer, docker_archive};
use crate::support::manifest::{LIVES, container, manifest, pod};
use crate::support::wait::{can_run, wait_for};

/// A directory of the host with files of names that runtimes make and remove.
fn victim(dir: &Path) -> PathBuf {
    let victim = dir.join("victim");
    std::fs::create_dir_all(victim.join("pts")).unwrap();
    for name in ["ptmx", "null", "hosts", "pts/ptmx", "log"] {
        std::fs::write(victim.join(name), "untouched").unwrap();
    }
    victim
}

/// All that is in a directory, links as where they lead to.
fn content(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        if kind.is_dir() {
            all.append(&mut content(&path));
            all.insert(path, "a directory".to_owned());
        } else if kind.is_file() {
            let text = std::fs::read_to_string(&path).unwrap();
            all.insert(path, text);
        } else {
            all.insert(path, format!("{kind:?}"));
        }
    }
    all
}

/// A layer with a link at `place`, and with what it leads to in the image, too.
fn layer(place: &str, target: &str, inside: &Path) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_mode(0o755);
    header.set_size(0);
    let inside = inside.strip_prefix("/").unwrap();
    tar.append_data(&mut header, inside, std::io::empty())
        .unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_mode(0o777);
    header.set_size(0);
    tar.append_link(&mut header, place, target).unwrap();
    tar.into_inner().unwrap()
}

/// Mounts, a working directory and a termination message on every place that is a link in some image.
fn attacked(name: &str) -> String {
    let main = container("main", &format!("echo up; {LIVES}")).replace("busybox", name);
    let spec = format!(
        "  containers:
{main}    workingDir: /work/deep
    terminationMessagePath: /tmp/log
    volumeMounts:
    - {{name: empty, mountPath: /data}}
    - {{name: empty, mountPath: /run/sub}}
    - {{name: files, mountPath: /etc/labels}}
  volumes:
  - {{name: empty, emptyDir: {{}}}}
  - name: files
    downwardAPI: {{items: [{{path: name, fieldRef: {{fieldPath: metadata.name}}}}]}}
"
    );
    pod(name, 1, &spec)
}

/// Runs, or says why not.
fn is_settled(agent: &TestAgent, name: &str) -> Option<String> {
    let status = agent.status(name);
    let waiting = &status["containerStatuses"][0]["state"]["waiting"];
    if agent.logs(name, "main").contains("up\n") {
        return Some("up".to_owned());
    }
    let is_failure = waiting["reason"].as_str()?.ends_with("Error");
    is_failure.then(|| waiting["message"].to_string())
}

#[test]
fn links_of_an_image_lead_nowhere_else() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let victim = victim(dir.path());
    let before = content(&victim);
    let agent = TestAgent::start_with("maxPods: 200");
    agent.put("good.yaml", &manifest("good", 1, LIVES));
    let good = agent.wait_until_running("good");
    let out = victim.to_str().unwrap();
    let targets = [
        out.to_owned(),
        format!("/proc/self/root{out}"),
        format!("../../../..{out}"),
        format!("/proc/1/cwd/{out}"),
        "/".to_owned(),
    ];
    let places = ["dev", "proc", "sys", "etc", "tmp", "data", "work", "run"];
    let store = Store::open(&agent.paths.images()).unwrap();
    let archive = dir.path().join("image.tar");
    let base = busybox_layer();
    let mut names = Vec::new();
    for place in places {
        for (number, target) in targets.iter().enumerate() {
            let name = format!("{place}{number}");
            let layers = [base.clone(), layer(place, target, &victim)];
            let config = json!({"Env": ["PATH=/bin"]});
            docker_archive(&archive, &format!("{name}:latest"), config, &layers);
            import(&store, &archive, &ImportOptions::default()).unwrap();
            agent.put(&format!("{name}.yaml"), &attacked(&name));
            names.push(name);
        }
    }
    for name in &names {
        let outcome = wait_for(name, || is_settled(&agent, name));
        println!("{name}: {outcome}");
        // These are replaced. Who hides its own files goes without.
        let replaced = ["dev", "proc", "sys", "data"];
        let is_replaced = replaced.iter().any(|place| name.starts_with(place));
        assert!(outcome == "up" || !is_replaced, "{name}: {outcome}");
    }
    assert_eq!(content(&victim), before);
    for name in &names {
        agent.remove(&format!("{name}.yaml"));
    }
    agent.wait_for_pod_count(1);
    assert_eq!(content(&victim), before);
    assert_eq!(agent.wait_until_running("good"), good);
}
