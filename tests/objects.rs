//! ConfigMaps and Secrets beside the pods, with a real agent and real containers: what becomes of them in containers,
//! what happens when they are missing, and that nothing but a container is told what is in a Secret.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use support::agent::TestAgent;
use support::manifest::{self, LIVES};
use support::wait::{can_run, wait_for};

/// What nobody else may see, as text and as it is stored.
const HUSH: &str = "hunter2-correct-horse";
const HUSH_BASE64: &str = "aHVudGVyMi1jb3JyZWN0LWhvcnNl";

fn config_map(name: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{{data}}}\n")
}

fn secret(name: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{{data}}}\n")
}

/// A pod whose container has these lines, with four blanks of indentation.
fn pod(name: &str, script: &str, lines: &str) -> String {
    manifest::pod(name, 2, &(manifest::main(script) + lines))
}

const FROM_APP: &str = "    envFrom: [{configMapRef: {name: app}}]\n";

/// Waits until the container waits; gives the message.
fn wait_for_config_error(agent: &TestAgent, pod: &str) -> String {
    agent.wait_for_waiting(pod, "CreateContainerConfigError")
}

/// C-1, S-141, S-142: from the same file and from another one.
#[test]
fn variables_come_from_config_maps_and_secrets() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.put("zz.yaml", &secret("db", "password: s3cret"));
    let script = format!("echo \"$MODE $PASSWORD $X_MODE [$NONE]\"; {LIVES}");
    let lines = "    envFrom:
    - {configMapRef: {name: app}}
    - {prefix: X_, configMapRef: {name: app}}
    - {secretRef: {name: nowhere, optional: true}}
    env:
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: db, key: password}}}
    - {name: NONE, valueFrom: {configMapKeyRef: {name: app, key: none, optional: true}}}
";
    let text = config_map("app", "MODE: fast") + "---\n" + &pod("web", &script, lines);
    agent.put("web.yaml", &text);
    agent.wait_for_words("web", "fast s3cret fast []");
}

/// P-153: named with the place, and cured by a document, without a word to the others.
#[test]
fn a_pod_waits_for_what_is_missing_and_others_run_on() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    agent.put("other.yaml", &pod("other", LIVES, ""));
    let other = agent.wait_until_running("other");
    let script = format!("echo \"mode $MODE\"; {LIVES}");
    agent.put("web.yaml", &pod("web", &script, FROM_APP));
    assert_eq!(
        wait_for_config_error(&agent, "web"),
        format!(
            "configmap \"app\" not found in namespace \"default\": no document of that name in {}",
            agent.manifests.display()
        )
    );
    agent.put("app.yaml", &config_map("app", "MODE: there"));
    agent.wait_for_words("web", "mode there");

    // A change of an object restarts nothing, and env does not follow it.
    let web = agent.wait_until_running("web");
    agent.put("app.yaml", &config_map("app", "MODE: changed"));
    wait_for("the change", || {
        let shown = agent.json(&["get", "cm", "app", "-o", "json"]);
        (shown["data"]["MODE"] == "changed").then_some(())
    });
    for (name, before) in [("web", &web), ("other", &other)] {
        let now = agent.wait_until_running(name);
        assert_eq!(now.container_id, before.container_id, "{name}");
        assert_eq!(now.restart_count, 0, "{name}");
    }
}

/// D-1, with the reboot in between; what was deleted meanwhile is gone.
#[test]
fn a_bad_file_and_a_reboot_stop_no_pod() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    agent.put("app.yaml", &config_map("app", "MODE: kept"));
    let script = format!("echo \"mode $MODE\"; {LIVES}");
    agent.put("web.yaml", &pod("web", &script, FROM_APP));
    agent.wait_for_words("web", "mode kept");

    agent.put(
        "app.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [\n",
    );
    wait_for("the mistake", || {
        let status = agent.client().status().ok()?;
        status.files.iter().any(|file| file.held).then_some(())
    });
    agent.put("late.yaml", &pod("late", &script, FROM_APP));
    agent.wait_for_words("late", "mode kept");

    agent.reboot();
    agent.spawn();
    let twice = |name: &str| agent.logs(name, "main").matches("mode kept").count() == 2;
    wait_for("both, once more", || {
        (twice("web") && twice("late")).then_some(())
    });
    let copy = std::fs::metadata(agent.paths.objects()).unwrap();
    assert_eq!(copy.permissions().mode() & 0o777, 0o600);

    agent.reboot();
    agent.remove("app.yaml");
    agent.spawn();
    wait_for_config_error(&agent, "web");
    wait_for("the copy is gone", || {
        (!agent.paths.objects().exists()).then_some(())
    });
}

#[test]
fn objects_are_shown_with_their_files() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let elsewhere = secret("key", "a: b").replace("{name: key}", "{name: key, namespace: shop}");
    agent.put(
        "all.yaml",
        &(config_map("app", "A: x, B: y") + "---\n" + &elsewhere),
    );
    wait_for("both", || {
        (agent.client().objects().ok()?.len() == 2).then_some(())
    });
    let file = agent.manifests.join("all.yaml");
    let table = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        table(agent.text(&["get", "configmaps"])),
        format!("NAME DATA FILE app 2 {}:1", file.display())
    );
    assert_eq!(
        table(agent.text(&["get", "secret"])),
        format!(
            "NAMESPACE NAME TYPE DATA FILE shop key Opaque 1 {}:6",
            file.display()
        )
    );
    assert_eq!(
        agent.text(&["get", "cm/app", "-o", "name"]),
        "configmap/app\n"
    );
    assert_eq!(
        agent.json(&["get", "configmap", "app", "-o", "json"]),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"A": "x", "B": "y"},
               "metadata": {"name": "app", "namespace": "default"}})
    );
    let list = agent.json(&["get", "secrets", "-n", "shop", "-o", "json"]);
    assert_eq!(list["items"][0]["data"], json!({"a": "<1 bytes>"}));
    let (code, _, words) = agent.answer(&["get", "cm", "nope"]);
    assert_eq!(
        (code, words.as_str()),
        (1, "vetch: configmap \"nope\" not found\n")
    );
    let status = agent.text(&["status"]);
    let named = format!("{}: configmap default/app, secret shop/key", file.display());
    assert!(status.contains(&named), "{status}");
}

/// Warnings only: the documents may come later.
#[test]
fn check_tells_references_that_lead_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let lines = "    envFrom: [{configMapRef: {name: app}}, {secretRef: {name: x, optional: true}}]
    env: [{name: A, valueFrom: {configMapKeyRef: {name: app, key: a}}}]
";
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::io::Write::write_all(&mut std::fs::File::create(&path).unwrap(), text.as_bytes())
            .unwrap();
    };
    let check = || {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_vetch"))
            .arg("check")
            .arg(dir.path())
            .output()
            .unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{told}");
        told.replace(&format!("{}/", dir.path().display()), "")
    };
    write("web.yaml", &pod("web", LIVES, lines));
    let missing = "configmap \"app\" not found in namespace \"default\": no document of that name in the files that were checked";
    assert_eq!(
        check(),
        format!(
            "warning: web.yaml:1: spec.containers[0].envFrom[0].configMapRef: {missing}\nwarning: web.yaml:1: spec.containers[0].env[0].valueFrom.configMapKeyRef: {missing}\n"
        )
    );
    write("app.yaml", &config_map("app", "b: x"));
    assert_eq!(
        check(),
        format!(
            "warning: web.yaml:1: spec.containers[0].env[0].valueFrom.configMapKeyRef: configmap \"app\" in namespace \"default\" has no key \"a\" ({}/app.yaml:1)\n",
            dir.path().display()
        )
        .replace(&format!("{}/", dir.path().display()), "")
    );
    write("app.yaml", &config_map("app", "a: x"));
    assert_eq!(check(), "");
}

/// Every file below, but for those that `is_known` names.
fn files(dir: &Path, is_known: &dyn Fn(&Path) -> bool, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let kind = entry.file_type();
        if is_known(&path) {
            continue;
        }
        match kind {
            Ok(kind) if kind.is_dir() => files(&path, is_known, found),
            Ok(kind) if kind.is_file() => found.push(path),
            // It has gone, or is no file.
            Ok(_) | Err(_) => {}
        }
    }
}

/// In no answer, no log and no file, but for two: the copy, which is as private as the manifest, and the bundle's
/// config.json, by which the runtime learns the environment, on the run directory's tmpfs.
#[test]
fn the_value_of_a_secret_is_shown_nowhere() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let lines = "    envFrom: [{secretRef: {name: db}}]
    env:
    - {name: TOKEN, valueFrom: {secretKeyRef: {name: db, key: token}}}
    - {name: PLAIN, valueFrom: {secretKeyRef: {name: bytes, key: token, optional: true}}}
";
    let text = secret("db", &format!("token: {HUSH}")) + "---\n" + &pod("web", LIVES, lines);
    agent.put("web.yaml", &text);
    // One whose value no variable can hold, and one that waits for a key.
    // Its length is a multiple of three, so that its base64 can be continued: by a byte that is no text.
    let odd = format!("data: {{raw: {HUSH_BASE64}/w==}}\n");
    agent.put(
        "odd.yaml",
        &format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: odd}}\n{odd}"),
    );
    agent.put(
        "stuck.yaml",
        &pod("stuck", LIVES, "    envFrom: [{secretRef: {name: odd}}]\n"),
    );
    agent.wait_until_running("web");
    let message = wait_for_config_error(&agent, "stuck");
    assert!(message.contains("is not UTF-8 text"), "{message}");
    // A mistake right beside the value.
    agent.put(
        "web.yaml",
        &text
            .replace("stringData", "stringdata")
            .replace("kind: Pod", "kind: Pot"),
    );
    wait_for("the mistake", || {
        let status = agent.client().status().ok()?;
        status.files.iter().any(|file| file.held).then_some(())
    });
    agent.put("data.yaml", &text.replace("stringData", "data"));
    wait_for("another mistake", || {
        agent.log().contains("must be base64").then_some(())
    });

    assert_eq!(
        agent.json(&["get", "secret", "db", "-o", "json"])["data"],
        json!({"token": format!("<{} bytes>", HUSH.len())})
    );
    let described = agent.text(&["describe", "pod", "web"]);
    assert!(
        described.contains("TOKEN: <set to the key 'token' in secret 'db'>  Optional: false"),
        "{described}"
    );
    no_answer_has_it(&agent);
    no_file_has_it(&agent);
}

fn no_answer_has_it(agent: &TestAgent) {
    let mut shown = vec![agent.log()];
    for args in [
        ["describe", "pod", "web"].as_slice(),
        &["describe", "pod", "stuck"],
        &["get", "pods", "-o", "yaml"],
        &["get", "secrets"],
        &["get", "secrets", "-o", "yaml"],
        &["get", "secret", "db", "-o", "json"],
        &["get", "events"],
        &["get", "events", "-o", "json"],
        &["status"],
        &["status", "-o", "json"],
        &["plan"],
    ] {
        shown.push(agent.text(args));
    }
    for text in shown {
        assert!(
            !text.contains(HUSH) && !text.contains(HUSH_BASE64),
            "{text}"
        );
    }
}

fn no_file_has_it(agent: &TestAgent) {
    let copy = agent.paths.objects();
    let is_known = |path: &Path| *path == copy || path.ends_with("config.json");
    let mut found = Vec::new();
    for dir in [
        &agent.paths.root_dir,
        &agent.paths.run_dir,
        &agent.paths.log_dir,
    ] {
        files(dir, &is_known, &mut found);
    }
    assert!(found.len() > 10, "{found:?}");
    for path in found {
        let content = std::fs::read(&path).unwrap_or_default();
        let content = String::from_utf8_lossy(&content);
        let is_clean = !content.contains(HUSH) && !content.contains(HUSH_BASE64);
        assert!(is_clean, "{}", path.display());
    }
}
