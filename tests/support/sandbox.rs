//! A real holder with a busybox image, in private directories and its own cgroup root; everything ends with the value.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail by panic")]

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::PodSpec;
use tempfile::TempDir;
use vetch::config::HolderPaths;
use vetch::holder::cgroup::Cgroups;
use vetch::holder::proto::{
    ContainerRecord, CreateContainer, Exit, InstanceState, LogSpec, PROTO_VERSION, PidNamespace,
    PodRecord, Reply, Request, Rootfs, SandboxSpec,
};
use vetch::oci::{ContainerInput, ManagedFiles, NodeFacts};
use vetch::pod::StaticPod;

use super::mounts::Mounts;
use super::wait::wait_for;
use super::wire::{Wire, exec_request};

static COUNTER: AtomicU32 = AtomicU32::new(0);

pub struct Sandbox {
    pub dir: TempDir,
    pub paths: HolderPaths,
    pub cgroups: Cgroups,
    pub cgroup_root: String,
    pub holder: Child,
    pub wire: Wire,
    pub record: PodRecord,
    next_id: Cell<u32>,
    /// What containers mount.
    pub mounts: Mounts,
    /// Changes to a create request before it is sent.
    pub adjust: fn(&mut CreateContainer),
}

impl Sandbox {
    /// Starts a holder for a pod. `spec` is the YAML of `spec:` with two blanks of indentation.
    pub fn start(spec: &str) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), spec)
    }

    pub fn start_in(dir: TempDir, spec: &str) -> Self {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let cgroup_root = format!("/vetch-test-{}-holder-{number}", std::process::id());
        make_layer(&dir.path().join("layer"));
        let paths = HolderPaths::new(dir.path().join("holder"));
        std::fs::create_dir(paths.dir()).unwrap();
        let pod = parse(spec);
        let has = |field: fn(&PodSpec) -> Option<bool>| {
            pod.pod.spec.as_ref().and_then(field).unwrap_or(false)
        };
        let pid = match (has(|s| s.host_pid), has(|s| s.share_process_namespace)) {
            (true, _) => PidNamespace::Host,
            (false, true) => PidNamespace::Pod,
            (false, false) => PidNamespace::Container,
        };
        let record = PodRecord {
            version: PROTO_VERSION,
            attempt: 0,
            sandbox: SandboxSpec {
                holder_cgroup: format!("{cgroup_root}/holders/{}", pod.uid),
                pod_cgroup: format!("{cgroup_root}/besteffort/pod{}", pod.uid),
                host_network: has(|s| s.host_network),
                hostname: "web-1".into(),
                host_ipc: has(|s| s.host_ipc),
                pid,
                sysctls: vetch::pod::sysctl::of_pod(&pod.pod),
                trash: dir.path().join("trash"),
            },
            pod,
        };
        std::fs::File::create(paths.pod_record())
            .map(|file| serde_json::to_writer(file, &record).unwrap())
            .unwrap();
        let holder = spawn(&paths);
        let wire = Wire::connect(&paths);
        // From here on the connection is one of the holder's descriptors.
        wire.receive();
        Self {
            wire,
            cgroups: Cgroups::discover().unwrap(),
            dir,
            paths,
            cgroup_root,
            holder,
            record,
            next_id: Cell::new(0),
            mounts: Mounts::default(),
            adjust: |_| {},
        }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.holder.id()).unwrap()
    }

    pub fn proc(&self, file: &str) -> PathBuf {
        Path::new("/proc").join(self.pid().to_string()).join(file)
    }

    pub fn proc_text(&self, file: &str) -> String {
        std::fs::read_to_string(self.proc(file)).unwrap()
    }

    pub fn new_id(&self) -> String {
        let number = self.next_id.replace(self.next_id.get() + 1);
        format!("{number:064x}")
    }

    /// Prepares the bundle of a container of the pod and the request for it.
    pub fn prepare(&self, name: &str) -> CreateContainer {
        let id = self.new_id();
        let spec = self.record.pod.pod.spec.as_ref().unwrap();
        let container = spec.containers.iter().find(|c| c.name == name).unwrap();
        let termination = self.dir.path().join(format!("message-{id}"));
        std::fs::File::create(&termination).unwrap();
        let cgroup = format!("{}/{id}", self.record.sandbox.pod_cgroup);
        let mut launch = vetch::oci::launch(ContainerInput {
            pod: &self.record.pod,
            container,
            image: &Default::default(),
            passwd: "root:x:0:0:root:/root:/bin/sh\n",
            group: "root:x:0:\n",
            cgroup_path: Path::new(&cgroup),
            node: &node_facts(&self.cgroups, &self.cgroup_root),
            files: &ManagedFiles {
                shm: self.paths.shm(),
                termination_message: Some(termination.clone()),
                ..ManagedFiles::default()
            },
            seccomp: None,
            apparmor: None,
            objects: &Default::default(),
            places: &Default::default(),
        })
        .unwrap();
        let bundle = self.paths.bundle(&id);
        std::fs::create_dir_all(&bundle).unwrap();
        self.mounts.add_to(&mut launch.spec, &self.paths, &id);
        launch.spec.save(bundle.join("config.json")).unwrap();
        let writable = self.dir.path().join("layers").join(&id);
        std::fs::create_dir_all(writable.join("upper")).unwrap();
        std::fs::create_dir_all(writable.join("work")).unwrap();
        let mut request = CreateContainer {
            user: None,
            program: None,
            id: id.clone(),
            name: name.into(),
            restart_count: 0,
            hash: "h".into(),
            image: "busybox".into(),
            image_id: "sha256:0".into(),
            rootfs: Rootfs {
                lower: vec![self.dir.path().join("layer")],
                writable,
                cwd: launch.spec.process().as_ref().unwrap().cwd().clone(),
                uid: 0,
                gid: 0,
            },
            confinement: launch.confinement,
            log: LogSpec {
                file: self.dir.path().join(format!("logs/{name}/{id}.log")),
                link: self.dir.path().join(format!("links/{id}.log")),
                max_size: 10 << 20,
                max_files: 5,
            },
            termination_message: Some(termination),
            termination_message_from_logs: false,
            stop_signal: libc::SIGTERM,
            resources: Default::default(),
            volumes: self.mounts.order.clone(),
            post_start: None,
        };
        (self.adjust)(&mut request);
        request
    }

    /// Creates a container; gives its id and the reply.
    pub fn create(&self, name: &str) -> (String, Reply) {
        let request = self.prepare(name);
        let id = request.id.clone();
        let payload = self.mounts.payload_file();
        let fds: Vec<_> = payload.iter().map(AsFd::as_fd).collect();
        let number = self.wire.send(Request::Create(Box::new(request)), &fds);
        (id, self.wire.reply(number).0)
    }

    /// Creates a container that must start; gives its id.
    pub fn run(&self, name: &str) -> String {
        let (id, reply) = self.create(name);
        assert!(matches!(reply, Reply::Started { .. }), "{reply:?}");
        id
    }

    /// The record of a container in the newest state.
    pub fn record(&self, id: &str) -> Option<ContainerRecord> {
        let state = self.wire.state.borrow();
        let mut containers = state.as_ref()?.containers.iter();
        containers.find(|c| c.id == id).cloned()
    }

    /// Waits for a container's exit.
    pub fn exit(&self, id: &str) -> Exit {
        loop {
            if let Some(InstanceState::Exited(exit)) = self.record(id).map(|r| r.state) {
                return exit;
            }
            self.wire.receive();
        }
    }

    /// Host pid of a running container.
    pub fn container_pid(&self, id: &str) -> i32 {
        match self.record(id).map(|r| r.state) {
            Some(
                InstanceState::Running { process, .. } | InstanceState::Stopping { process, .. },
            ) => process.pid,
            other => panic!("{other:?}"),
        }
    }

    /// Text that a container printed so far, without the CRI prefixes.
    pub fn log(&self, id: &str) -> String {
        let file = self.record(id).unwrap().log;
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let mut lines = String::new();
        for line in text.lines() {
            lines.push_str(line.splitn(4, ' ').nth(3).unwrap());
            lines.push('\n');
        }
        lines
    }

    /// Runs a command in a container with a connection of its own: (exit code, timed out, output).
    pub fn exec(&self, container: &str, args: &[&str]) -> (i32, bool, String) {
        let wire = Wire::connect(&self.paths);
        let output = tempfile::tempfile().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let request = exec_request(container, args);
        let fds = [null.as_fd(), output.as_fd(), output.as_fd()];
        let id = wire.send(Request::Exec(request), &fds);
        let (reply, _) = wire.reply(id);
        assert!(matches!(reply, Reply::Started { .. }), "{reply:?}");
        let (code, timed_out) = wire.exec_exit();
        (code, timed_out, read_back(output))
    }

    pub fn stop(&self, id: &str, grace_ms: u64) -> Reply {
        self.wire.ask(Request::Stop {
            id: id.into(),
            grace_ms,
            reason: "test".into(),
            pre_stop: None,
            after: Vec::new(),
        })
    }

    pub fn remove(&self, id: &str, with_logs: bool) -> Reply {
        self.wire.ask(Request::Remove {
            id: id.into(),
            with_logs,
        })
    }
}

/// What this machine lets us do.
fn node_facts(cgroups: &Cgroups, root: &str) -> NodeFacts {
    use rustix::thread::{CapabilitySet, capability_is_in_bounding_set};
    let withheld = CapabilitySet::all()
        .iter_names()
        .filter(|&(_, capability)| !capability_is_in_bounding_set(capability).unwrap_or(false))
        .map(|(name, _)| format!("CAP_{name}"));
    let withheld_capabilities: Vec<String> = withheld.collect();
    NodeFacts {
        unified_cgroups: cgroups.is_unified(),
        device_rules_enforced: cgroups.is_unified() || Path::new("/sys/fs/cgroup/devices").is_dir(),
        v1_controllers: ["cpu", "cpuacct", "cpuset", "memory", "pids"]
            .into_iter()
            .filter(|name| Path::new("/sys/fs/cgroup").join(name).is_dir())
            .map(str::to_owned)
            .collect(),
        can_lower_oom_score: !withheld_capabilities.contains(&"CAP_SYS_RESOURCE".to_owned()),
        withheld_capabilities,
        controllers: cgroups.controllers(root).expect("make the root"),
        ..NodeFacts::default()
    }
}

fn read_back(mut file: std::fs::File) -> String {
    use std::io::{Read, Seek};
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

pub fn parse(spec: &str) -> StaticPod {
    let yaml = format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n{spec}\n");
    let parsed = vetch::pod::manifest::parse("t.yaml", yaml.as_bytes(), "node");
    assert_eq!(parsed.pods.len(), 1, "{:?}", parsed.diagnostics);
    parsed.pods.into_iter().next().unwrap()
}

fn make_layer(layer: &Path) {
    for dir in ["bin", "proc", "sys", "dev", "etc", "tmp", "root"] {
        std::fs::create_dir_all(layer.join(dir)).unwrap();
    }
    std::fs::copy("/bin/busybox", layer.join("bin/busybox")).expect("install busybox-static");
    for applet in [
        "sh", "sleep", "cat", "echo", "hostname", "ip", "stty", "tty", "kill", "id", "env",
        "mount", "touch", "dd", "pwd", "ls", "chmod", "nc", "readlink", "true", "ps", "test",
        "ulimit", "yes", "head", "seq", "tail",
    ] {
        std::os::unix::fs::symlink("busybox", layer.join("bin").join(applet)).unwrap();
    }
}

/// Starts `vetch holder DIR` and waits for its line.
pub fn spawn(paths: &HolderPaths) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vetch"))
        .arg("holder")
        .arg(paths.dir())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = child.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // By its pid, too: it may not be in its cgroup yet.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
        wait_for("empty cgroups", || {
            self.cgroups.kill(&self.cgroup_root);
            (!self.cgroups.is_populated(&self.cgroup_root)).then_some(())
        });
        let removed = self.cgroups.remove(&self.cgroup_root);
        if !std::thread::panicking() {
            removed.unwrap();
        }
    }
}
