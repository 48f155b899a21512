//! An agent with private directories and its own cgroup root. Everything it started ends with the value.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "test code outside #[test] functions"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use tempfile::TempDir;
use vetch::api::client::Client;
use vetch::config::Paths;
use vetch::holder::cgroup::Cgroups;
use vetch::image::{ImportOptions, Store, import};
use vetch::sys::clock;

use super::images;

/// Longest that any condition may take on a busy machine.
const DEADLINE_MS: u64 = 60_000;
const LOOK_AGAIN: Duration = Duration::from_millis(10);

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// False, with the reason printed, where these tests cannot run.
pub fn can_run() -> bool {
    let lacks = if !rustix::process::geteuid().is_root() {
        "root"
    } else if !Path::new("/bin/busybox").exists() {
        "busybox-static"
    } else {
        return true;
    };
    println!("SKIPPED: tests with a real agent need {lacks}");
    false
}

/// Waits until `look` gives something; panics with `what` after a minute.
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_at_most(DEADLINE_MS, what, look)
}

/// Waits until `look` gives something; panics with `what` after so many milliseconds.
pub fn wait_at_most<T>(limit_ms: u64, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = clock::now().boot_ms + limit_ms;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(clock::now().boot_ms < deadline, "waited in vain: {what}");
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// A running agent and its world.
pub struct TestAgent {
    child: Option<Child>,
    cgroup_root: String,
    /// Where it keeps things.
    pub paths: Paths,
    /// Where its manifests lie.
    pub manifests: PathBuf,
    // Dropped last: the directories of all of the above.
    dir: TempDir,
}

impl TestAgent {
    /// With a busybox image in its store.
    pub fn start() -> Self {
        let mut agent = Self::prepare();
        let archive = images::busybox_archive(agent.dir.path());
        let store = Store::open(&agent.paths.images()).unwrap();
        import(&store, &archive, &ImportOptions::default()).unwrap();
        agent.spawn();
        agent
    }

    /// Directories only.
    pub fn prepare() -> Self {
        let n = COUNTER.fetch_add(1, Ordering::Relaxed);
        let dir = tempfile::Builder::new().prefix("vt").tempdir().unwrap();
        let paths = Paths {
            root_dir: dir.path().join("root"),
            run_dir: dir.path().join("run"),
            log_dir: dir.path().join("log"),
        };
        let manifests = dir.path().join("manifests");
        std::fs::create_dir_all(&manifests).unwrap();
        std::fs::create_dir_all(paths.images_import()).unwrap();
        Self {
            child: None,
            cgroup_root: format!("/vetch-test-{}-{n}", std::process::id()),
            paths,
            manifests,
            dir,
        }
    }

    /// The agent's command line.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vetch"));
        command
            .args(["agent", "--config", "/dev/null"])
            .args(["--hostname-override", "box"])
            .args(["--cgroup-root", &self.cgroup_root])
            .arg("--pod-manifest-path")
            .arg(&self.manifests)
            .arg("--root-dir")
            .arg(&self.paths.root_dir)
            .arg("--run-dir")
            .arg(&self.paths.run_dir)
            .arg("--log-dir")
            .arg(&self.paths.log_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    /// Starts it (again); returns when its API answers.
    pub fn spawn(&mut self) {
        self.launch();
        wait_for("the agent answers", || self.client().status().ok());
    }

    /// Starts it (again) and waits for nothing.
    pub fn launch(&mut self) {
        let words = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.path().join("agent.log"))
            .unwrap();
        self.child = Some(self.command().stderr(words).spawn().unwrap());
    }

    /// What it said on stderr, over all its lives.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("agent.log")).unwrap_or_default()
    }

    /// Its API.
    pub fn client(&self) -> Client {
        Client::new(&self.paths)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// SIGKILL, and reaped.
    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM, and its exit code.
    pub fn terminate(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        wait_for("the agent ends", || child.try_wait().unwrap()).code()
    }

    /// Waits for its end by itself, after a stop request.
    pub fn wait_for_end(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        wait_for("the agent ends", || child.try_wait().unwrap()).code()
    }

    /// Renames a manifest into place.
    pub fn put(&self, name: &str, text: &str) {
        let hidden = self.manifests.join(format!(".{name}"));
        std::fs::write(&hidden, text).unwrap();
        std::fs::rename(hidden, self.manifests.join(name)).unwrap();
    }

    /// Removes a manifest.
    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.manifests.join(name)).unwrap();
    }

    /// The pod of this name (without node suffix), if the agent shows it. One that is on its way out does not count
    /// beside its successor.
    pub fn pod(&self, name: &str) -> Option<Pod> {
        let full = format!("{name}-box");
        let mut pods = self.client().pods().ok()?;
        pods.retain(|pod| pod.metadata.name.as_deref() == Some(&full));
        pods.sort_by_key(|pod| pod.metadata.deletion_timestamp.is_some());
        pods.into_iter().next()
    }

    /// Waits until the pod satisfies `test`.
    pub fn wait_for_pod<T>(&self, name: &str, mut test: impl FnMut(&Pod) -> Option<T>) -> T {
        let what = format!("pod {name}");
        let mut seen = None;
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_for(&what, || {
                seen = self.pod(name);
                seen.as_ref().and_then(&mut test)
            })
        }));
        found.unwrap_or_else(|_| panic!("waited in vain: {what}: {seen:#?}\n{}", self.log()))
    }

    /// Waits until no pod is shown.
    pub fn wait_for_no_pods(&self) {
        wait_for("all pods are gone", || {
            self.client().pods().ok()?.is_empty().then_some(())
        });
    }

    /// Waits until the only container of the pod runs; gives its status.
    pub fn wait_until_running(&self, name: &str) -> ContainerStatus {
        self.wait_for_pod(name, |pod| {
            let status = container(pod)?.clone();
            status.state.as_ref()?.running.is_some().then_some(status)
        })
    }

    /// What a power cut does to processes and to the run directory: all dead, the directory of another boot.
    pub fn reboot(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
        kill_all(&self.cgroup_root);
        std::fs::write(self.paths.boot_id(), "another boot").unwrap();
    }

    /// SIGKILL to every holder; returns when they are dead. The agent, if it runs, makes new ones meanwhile.
    pub fn kill_holders(&self) {
        let cgroups = Cgroups::discover().unwrap();
        let holders = format!("{}/holders", self.cgroup_root);
        let killed = cgroups.pids(&holders);
        cgroups.kill(&holders);
        wait_for("the holders are dead", || {
            cgroups.pids(&holders).is_disjoint(&killed).then_some(())
        });
    }

    /// Pids of its holders.
    pub fn holder_pids(&self) -> Vec<i32> {
        let cgroups = Cgroups::discover().unwrap();
        let pids = cgroups.pids(&format!("{}/holders", self.cgroup_root));
        pids.into_iter().collect()
    }

    /// Pids of everything in its cgroups but holders.
    pub fn container_pids(&self) -> Vec<i32> {
        let cgroups = Cgroups::discover().unwrap();
        let classes = ["besteffort", "burstable", "guaranteed"];
        classes
            .iter()
            .flat_map(|class| cgroups.pids(&format!("{}/{class}", self.cgroup_root)))
            .collect()
    }

    /// Text and time of a pod's durable record.
    pub fn record(&self, pod: &str) -> (String, SystemTime) {
        let uid = self.pod(pod).unwrap().metadata.uid.unwrap();
        let path = self.paths.pods().join(uid).join("record.json");
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        (std::fs::read_to_string(path).unwrap(), modified)
    }

    /// Text of the pod's log directory, all files of one container in order of restarts.
    pub fn logs(&self, pod: &str, container: &str) -> String {
        let mut texts = Vec::new();
        let dirs = std::fs::read_dir(self.paths.log_dir.join("pods")).unwrap();
        for dir in dirs.flatten() {
            let name = dir.file_name().to_string_lossy().into_owned();
            if !name.starts_with(&format!("default_{pod}-box_")) {
                continue;
            }
            for file in std::fs::read_dir(dir.path().join(container))
                .into_iter()
                .flatten()
                .flatten()
            {
                let number: u32 = file
                    .path()
                    .file_stem()
                    .and_then(|stem| stem.to_str()?.parse().ok())
                    .unwrap_or(u32::MAX);
                texts.push((number, std::fs::read_to_string(file.path()).unwrap()));
            }
        }
        texts.sort();
        texts.into_iter().map(|(_, text)| text).collect()
    }
}

/// Status of a pod's first container.
pub fn container(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

impl Drop for TestAgent {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        kill_all(&self.cgroup_root);
        if std::thread::panicking() {
            eprintln!("agent's log:\n{}", self.log());
        }
    }
}

/// Kills and removes everything below our own cgroup root, so that nothing else can be hit.
fn kill_all(cgroup_root: &str) {
    let Ok(cgroups) = Cgroups::discover() else {
        return;
    };
    for _ in 0..200 {
        if !cgroups.is_populated(cgroup_root) {
            break;
        }
        cgroups.kill(cgroup_root);
        std::thread::sleep(LOOK_AGAIN);
    }
    let _ = cgroups.remove(cgroup_root);
}
