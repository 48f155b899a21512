//! What hostile or unlucky users do: kill anything at any moment, stop everything several times at once, fill the
//! manifest directory with rubbish. `VETCH_TEST_FULL=1` goes on for longer.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "test code outside #[test] functions"
)]

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::process::Child;

use support::agent::TestAgent;
use support::manifest::{self, LIVES};
use support::wait::{can_run, extent, wait_for};
use support::watch::container;

/// Whoever does not listen is killed after a second.
fn manifest(name: &str, script: &str) -> String {
    manifest::manifest(name, 1, script)
}

/// What nobody but containers may see, in its `n`th edition.
fn secret(n: impl std::fmt::Display) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: {{k: {HUSH}-{n}, l: {HUSH}-{n}}}\n"
    )
}

const HUSH: &str = "hunter2-correct-horse";

/// Of each kind of volume one, some below others, and limits.
const ENVIRONMENT: &str = "    env: [{name: HUSH, valueFrom: {secretKeyRef: {name: s, key: k}}}]
    resources: {requests: {cpu: 10m}, limits: {cpu: 500m, memory: 64Mi}}
    volumeMounts:
    - {name: disk, mountPath: /disk}
    - {name: disk, mountPath: /deep, subPath: a/b}
    - {name: memory, mountPath: /memory}
    - {name: secret, mountPath: /secret}
    - {name: all, mountPath: /disk/all}
  securityContext: {fsGroup: 1234}
  volumes:
  - {name: disk, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: secret, secret: {secretName: s}}
  - name: all
    projected:
      sources:
      - secret: {name: s}
      - downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
";

/// The same with everything that takes part in a start or an end.
fn whole(name: &str, script: &str) -> String {
    let hooks = "    lifecycle:
      postStart: {exec: {command: [sleep, \"0.1\"]}}
      preStop: {exec: {command: [sleep, \"0.1\"]}}\n";
    let probe = "    startupProbe: {periodSeconds: 1, exec: {command: [\"true\"]}}
    readinessProbe: {periodSeconds: 1, exec: {command: [\"true\"]}}\n";
    let first = manifest::container("first", "sleep 0.1");
    let sidecar = manifest::container("sidecar", LIVES) + "    restartPolicy: Always\n";
    let main = manifest::main(script) + hooks + probe + ENVIRONMENT;
    let spec = format!("  initContainers:\n{first}{sidecar}{hooks}{probe}{main}");
    manifest::pod(name, 1, &spec)
}

/// Numbers that differ from run to run; a failure prints where they began.
struct Chance(u64);

impl Chance {
    fn new() -> Self {
        let seed = vetch::sys::clock::now().boot_ms | 1;
        println!("chance begins at {seed}");
        Self(seed)
    }

    /// Below `limit`.
    fn next(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn pause(&mut self) {
        std::thread::sleep(std::time::Duration::from_millis(self.next(200)));
    }
}

fn stop(agent: &TestAgent) -> Child {
    agent.vetch(&["stop", "--all"]).spawn().unwrap()
}

fn assert_nothing_is_left(agent: &TestAgent) {
    assert!(agent.container_pids().is_empty());
    let holders = std::fs::read_dir(agent.paths.holders()).unwrap();
    assert_eq!(holders.count(), 0);
    let root = agent.paths.root_dir.to_str().unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(root), "{mounts}");
    assert!(!agent.log().contains(HUSH));
}

/// Its files are those of the last edition.
fn follows(agent: &TestAgent, name: &str) -> Option<()> {
    let script = "cat /secret/k /disk/all/l";
    let (_, shown, _) = agent.answer(&["exec", name, "-c", "main", "--", "sh", "-c", script]);
    (shown == format!("{HUSH}-last{HUSH}-last")).then_some(())
}

/// Runs what is wanted, once.
fn is_settled(agent: &TestAgent, name: &str, word: &str) -> Option<()> {
    let mut pods = agent.client().pods().ok()?;
    pods.retain(|pod| pod.metadata.name.as_deref() == Some(&format!("{name}-box")));
    let [pod] = pods.as_slice() else { return None };
    let is_running = container(pod)?.state.as_ref()?.running.is_some();
    let spec = serde_json::to_string(&pod.spec).unwrap();
    (is_running && spec.contains(word)).then_some(())
}

#[test]
fn kills_and_edits_at_any_moment_end_as_the_directory_says() {
    if !can_run() {
        return;
    }
    let mut chance = Chance::new();
    let mut agent = TestAgent::start();
    let names = ["a", "b", "c", "d"];
    agent.put("secret.yaml", &secret(0));
    for round in 0..extent(400, 20) {
        let name = names[usize::try_from(chance.next(4)).unwrap()];
        let file = format!("{name}.yaml");
        match chance.next(12) {
            0..5 => {
                let ends = ["sleep 1000", LIVES, "exit 1", "exit 0"];
                let end = ends[usize::try_from(chance.next(4)).unwrap()];
                let kind = [manifest, whole][usize::try_from(chance.next(2)).unwrap()];
                agent.put(&file, &kind(name, &format!("echo {round}; {end}")));
            }
            5 if agent.manifests.join(&file).exists() => agent.remove(&file),
            5..8 => {
                agent.kill();
                chance.pause();
                agent.spawn();
            }
            8..10 => agent.put("secret.yaml", &secret(round)),
            _ => agent.kill_holders(),
        }
        chance.pause();
    }
    agent.put("secret.yaml", &secret("last"));
    for name in names {
        let script = format!("echo last; {LIVES}");
        agent.put(&format!("{name}.yaml"), &whole(name, &script));
    }
    for name in names {
        wait_for("the last edit runs", || {
            is_settled(&agent, name, "echo last")
        });
        wait_for("its files follow", || follows(&agent, name));
    }
    for name in names {
        agent.remove(&format!("{name}.yaml"));
    }
    agent.remove("secret.yaml");
    agent.wait_for_no_pods();
    let pods: Vec<_> = std::fs::read_dir(agent.paths.pods()).unwrap().collect();
    assert!(pods.is_empty(), "{pods:?}");
    assert_nothing_is_left(&agent);
}

#[test]
fn several_stops_at_once_with_or_without_an_agent_leave_nothing() {
    if !can_run() {
        return;
    }
    let mut chance = Chance::new();
    let mut agent = TestAgent::start();
    for name in ["a", "b", "c", "d", "e"] {
        agent.put(&format!("{name}.yaml"), &manifest(name, LIVES));
    }
    for round in 0..extent(40, 4) {
        chance.pause();
        let mut stops: Vec<Child> = (0..3).map(|_| stop(&agent)).collect();
        if round % 2 == 0 {
            agent.kill();
        }
        for stop in &mut stops {
            assert!(stop.wait().unwrap().success());
        }
        if round % 2 == 1 {
            assert_eq!(agent.wait_for_end(), Some(0));
        }
        assert_nothing_is_left(&agent);
        agent.spawn();
    }
}

#[test]
fn rubbish_in_the_directory_delays_nobody() {
    if !can_run() {
        return;
    }
    let agent = TestAgent::start_with("maxPods: 200");
    let many = |text: &str, count: usize| text.repeat(count);
    let keys = |range: &mut dyn Iterator<Item = u32>| -> String {
        range.map(|i| format!("k{i}:\n")).collect()
    };
    let laughs: String = (1..20).fold("a0: &a0 [ha, ha]\n".to_owned(), |text, i| {
        let last = i - 1;
        format!("{text}a{i}: &a{i} [*a{last}, *a{last}, *a{last}, *a{last}]\n")
    });
    let rubbish = [
        many("[", 100_000),
        many("- ", 100_000),
        many("x", 10 << 20),
        many("\0", 1 << 20),
        many("---\n", 100_000),
        many(&format!("---\n{}", manifest("x", LIVES)), 5000),
        keys(&mut (0..100_000)) + &keys(&mut (0..100_000).rev()),
        laughs,
        "a: *b".to_owned(),
        "kind: [".to_owned(),
        String::new(),
    ];
    for (index, text) in rubbish.iter().enumerate() {
        agent.put(&format!("bad{index}.yaml"), text);
    }
    let bad = agent.manifests.join("bad-fifo.yaml");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &bad,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    std::os::unix::fs::symlink("/dev/zero", agent.manifests.join("bad-zero.yaml")).unwrap();
    std::os::unix::fs::symlink("bad-loop", agent.manifests.join("bad-loop")).unwrap();
    std::fs::create_dir(agent.manifests.join("bad-dir.yaml")).unwrap();
    let good = extent(180, 3);
    for index in 0..good {
        let name = format!("ok{index}");
        agent.put(&format!("{name}.yaml"), &manifest(&name, LIVES));
    }
    for index in 0..good {
        agent.wait_until_running(&format!("ok{index}"));
    }
    let status = agent.client().status().unwrap();
    let remarked = status.files.iter().filter(|f| !f.diagnostics.is_empty());
    assert_eq!(remarked.count(), rubbish.len() + 4);
}
