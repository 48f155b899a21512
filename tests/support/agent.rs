//! An agent with private directories and its own cgroup root. Everything it started ends with the value.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "test code outside #[test] functions"
)]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use vetch::api::client::Client;
use vetch::config::Paths;
use vetch::holder::cgroup::Cgroups;
use vetch::image::{ImportOptions, Store, import};

use super::images;
use super::wait::{look_until, wait_for};

/// Longest that killing everything may take when a test is over.
const KILL_LIMIT: Duration = Duration::from_secs(5);

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// Configuration: a container that fails again and again is restarted every second.
pub const QUICK_BACK_OFF: &str = "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
crashLoopBackOff: {maxContainerRestartPeriod: 1s}
";

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
        Self::start_with("")
    }

    /// With a busybox image in its store and this configuration file, such as [`QUICK_BACK_OFF`].
    pub fn start_with(config: &str) -> Self {
        let mut agent = Self::prepare();
        agent.configure(config);
        agent.import_busybox();
        agent.spawn();
        agent
    }

    /// Directories and an empty configuration file only.
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
        let agent = Self {
            child: None,
            cgroup_root: format!("/vetch-test-{}-{n}", std::process::id()),
            paths,
            manifests,
            dir,
        };
        agent.configure("");
        agent
    }

    /// Its configuration file from the next start on. How full the disks of this machine are is no matter of the test,
    /// unless it says so.
    pub fn configure(&self, config: &str) {
        let mut config = config.to_owned();
        if !config.contains("evictionHard") {
            config += "\nevictionHard: {}\n";
        }
        std::fs::write(self.config(), config).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("config.yaml")
    }

    /// Puts a busybox image into its store.
    pub fn import_busybox(&self) {
        let archive = images::busybox_archive(self.dir.path());
        let store = Store::open(&self.paths.images()).unwrap();
        import(&store, &archive, &ImportOptions::default()).unwrap();
    }

    /// The agent's command line.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vetch"));
        command
            .args(["agent", "--config"])
            .arg(self.config())
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

    /// Below which all its cgroups are.
    pub fn cgroup_root(&self) -> &str {
        &self.cgroup_root
    }

    /// Starts it (again); returns when its API answers.
    pub fn spawn(&mut self) {
        self.launch();
        wait_for("the agent answers", || self.client().status().ok());
    }

    /// Starts it (again) and waits for nothing.
    pub fn launch(&mut self) {
        self.launch_as(self.command());
    }

    /// Starts it by this command, which ends up executing [`Self::command`], and waits for nothing.
    pub fn launch_as(&mut self, mut command: Command) {
        let words = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.path().join("agent.log"))
            .unwrap();
        self.child = Some(command.stderr(words).spawn().unwrap());
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
        self.pids_below("")
    }

    /// Directories of its root cgroup, one in each hierarchy.
    pub fn cgroups(&self) -> Vec<PathBuf> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let mounts = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (point, kind) = (words.next()?, words.next()?);
            matches!(kind, "cgroup" | "cgroup2").then(|| format!("{point}{}", self.cgroup_root))
        });
        let dirs = mounts.map(PathBuf::from);
        dirs.filter(|dir| dir.exists()).collect()
    }

    /// The same below a path in each class of pods.
    pub fn pids_below(&self, path: &str) -> Vec<i32> {
        let cgroups = Cgroups::discover().unwrap();
        let classes = ["besteffort", "burstable", "guaranteed"];
        classes
            .iter()
            .flat_map(|class| cgroups.pids(&format!("{}/{class}{path}", self.cgroup_root)))
            .collect()
    }
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
    look_until(KILL_LIMIT, || {
        cgroups.kill(cgroup_root);
        (!cgroups.is_populated(cgroup_root)).then_some(())
    });
    let _ = cgroups.remove(cgroup_root);
}
