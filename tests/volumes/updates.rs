//! Files in volumes of running pods follow their ConfigMaps, Secrets and labels (V-31, V-34).

use serde_json::json;

use crate::support::agent::TestAgent;
use crate::support::manifest::{LIVES, main, pod};
use crate::support::wait::{can_run, wait_for};

/// A ConfigMap or Secret of these values (as `stringData` of a Secret).
fn object(kind: &str, name: &str, values: &[(&str, &str)]) -> String {
    let field = if kind == "Secret" {
        "stringData"
    } else {
        "data"
    };
    let lines: String = values
        .iter()
        .map(|(key, value)| format!("  {key}: {value:?}\n"))
        .collect();
    format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}}}\n{field}:\n{lines}")
}

/// The ConfigMap of the pod `reader`.
fn put_app(agent: &TestAgent, values: &[(&str, &str)]) {
    agent.put("app.yaml", &object("ConfigMap", "app", values));
}

/// Its Secret.
fn put_key(agent: &TestAgent, value: &str) {
    agent.put("key.yaml", &object("Secret", "key", &[("k", value)]));
}

/// The output of a shell script in the pod's container.
fn shell(agent: &TestAgent, pod: &str, script: &str) -> String {
    agent.text(&["exec", pod, "--", "sh", "-c", script])
}

/// Waits until a script in the pod's container prints this.
fn wait_for_output(agent: &TestAgent, pod: &str, script: &str, expected: &str) {
    let what = format!("{script} prints {expected:?}");
    wait_for(&what, || {
        (shell(agent, pod, script).trim_end() == expected).then_some(())
    });
}

/// How often the pod's container was started.
fn restarts(agent: &TestAgent, pod: &str) -> serde_json::Value {
    agent.status(pod)["containerStatuses"][0]["restartCount"].clone()
}

const VOLUMES: &str = "    volumeMounts:
    - {name: all, mountPath: /all}
    - {name: map, mountPath: /map}
    - {name: map, mountPath: /one, subPath: a}
  volumes:
  - name: map
    configMap: {name: app}
  - name: all
    projected:
      sources:
      - configMap: {name: app, items: [{key: b, path: deep/b}]}
      - secret: {name: key, items: [{key: k, path: k, mode: 0400}]}
      - secret: {name: later, optional: true}
      - downwardAPI:
          items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]
";

/// A pod that keeps its identity when it is edited, with this label.
fn reader(label: &str, script: &str) -> String {
    let text = pod("reader", 1, &(main(script) + VOLUMES));
    text.replace(
        "  name: reader\n",
        &format!("  name: reader\n  uid: reader-1\n  labels: {{colour: {label}}}\n"),
    )
}

/// V-31, V-34, V-42, and what does not follow: subPath mounts, and the container itself.
#[test]
fn files_follow_their_sources_and_sub_paths_do_not() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    put_app(&agent, &[("a", "1"), ("b", "2")]);
    put_key(&agent, "hush");
    agent.put("reader.yaml", &reader("red", LIVES));
    agent.wait_until_running("reader");
    let all = shell(
        &agent,
        "reader",
        "cd /all && cat deep/b k labels && stat -Lc %a k",
    );
    assert_eq!(all, "2hushcolour=\"red\"400\n");
    assert_eq!(shell(&agent, "reader", "cat /one"), "1");

    put_app(&agent, &[("a", "10"), ("b", "20"), ("c", "30")]);
    wait_for_output(
        &agent,
        "reader",
        "cat /map/a /map/b /map/c /all/deep/b",
        "10203020",
    );
    assert_eq!(
        shell(&agent, "reader", "cat /one"),
        "1",
        "a subPath mount does not follow"
    );

    put_key(&agent, "new");
    wait_for_output(&agent, "reader", "cat /all/k", "new");

    agent.put(
        "later.yaml",
        &object("Secret", "later", &[("appeared", "yes")]),
    );
    wait_for_output(&agent, "reader", "cat /all/appeared 2>&1", "yes");

    agent.put("reader.yaml", &reader("blue", LIVES));
    wait_for_output(&agent, "reader", "cat /all/labels", "colour=\"blue\"");
    assert_eq!(restarts(&agent, "reader"), json!(0));
    assert!(!agent.log().contains("hush"), "{}", agent.log());
}

/// V-31: who opens all files of a set through `..data` never sees two sets mixed.
#[test]
fn a_reader_never_sees_two_contents_mixed() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    let put_content = |n: u32| {
        let text = n.to_string();
        put_app(&agent, &[("a", &text), ("b", &text)]);
    };
    put_content(0);
    put_key(&agent, "x");
    // A directory that was opened stays as it was, whatever `..data` leads to afterwards, until it is removed.
    let script = "while [ ! -e /tmp/stop ]; do
  cd -P /map/..data 2>/dev/null || continue
  a=$(cat a 2>/dev/null) && b=$(cat b 2>/dev/null) || continue
  [ \"$a\" = \"$b\" ] || echo mixed $a $b
  echo $a > /tmp/seen
done; sleep 1000";
    agent.put("reader.yaml", &reader("red", script));
    agent.wait_until_running("reader");
    for n in 1..=10 {
        put_content(n);
        wait_for_output(&agent, "reader", "cat /tmp/seen", &n.to_string());
    }
    shell(&agent, "reader", "touch /tmp/stop");
    assert!(!agent.logs("reader", "main").contains("mixed"));
    // Old generations do not pile up.
    let dirs = shell(&agent, "reader", "ls -A /map | grep -c '^\\.\\.[^d]'");
    assert_eq!(dirs.trim(), "1");
}

/// A change while no agent runs is made good by the next one.
#[test]
fn an_update_that_was_due_is_made_by_the_next_agent() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    put_app(&agent, &[("a", "1"), ("b", "2")]);
    put_key(&agent, "x");
    agent.put("reader.yaml", &reader("red", LIVES));
    agent.wait_until_running("reader");
    agent.kill();
    put_app(&agent, &[("a", "3"), ("b", "4")]);
    assert_eq!(shell(&agent, "reader", "cat /map/a"), "1");
    agent.spawn();
    wait_for_output(&agent, "reader", "cat /map/a /all/deep/b", "34");
    assert_eq!(restarts(&agent, "reader"), json!(0));
}

/// What disappears under a running pod leaves its files, and is told; a new pod waits for it, and says what is missing.
#[test]
fn a_missing_document_keeps_files_and_holds_new_pods() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start();
    put_app(&agent, &[("a", "1"), ("b", "2")]);
    agent.put("reader.yaml", &reader("red", LIVES));
    let missing = agent.wait_for_waiting("reader", "CreateContainerConfigError");
    let dir = agent.manifests.display();
    assert_eq!(
        missing,
        format!(
            "volume \"all\": secret \"key\" not found in namespace \"default\": no document of that name in {dir}"
        )
    );

    put_key(&agent, "x");
    agent.wait_until_running("reader");

    agent.remove("app.yaml");
    wait_for("an event", || {
        (agent.event_count("reader", "FailedMount") > 0).then_some(())
    });
    assert_eq!(shell(&agent, "reader", "cat /map/a /all/deep/b"), "12");
    let page = agent.text(&["describe", "pod", "reader"]);
    let words = "volume map keeps its old files: configmap \"app\" not found";
    assert!(page.contains(words), "{page}");

    put_app(&agent, &[("a", "5"), ("b", "6")]);
    wait_for_output(&agent, "reader", "cat /map/a /all/deep/b", "56");
    let page = agent.text(&["describe", "pod", "reader"]);
    assert!(!page.contains("keeps its old files"), "{page}");
}
