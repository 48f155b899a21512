//! What agent (or CLI) and holder say to each other.
//!
//! Transport: a SOCK_SEQPACKET Unix socket, one JSON document per packet (≤ 128 KiB), file descriptors by SCM_RIGHTS.
//! The holder accepts many connections, only from uid 0 (peer credentials). After `accept` it sends
//! [`FromHolder::State`]; from then on a new one after each change, to each connection that has not sent an exec.
//! Level, not edge: a state is always the whole truth, so losing one costs nothing.
//!
//! Compatibility: [`PROTO_VERSION`] rises when an old peer could not understand; fields are only added, with
//! `#[serde(default)]`. An agent must adopt holders of the previous version.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::ResourceRequirements;
use serde::{Deserialize, Serialize};

use super::record::sigterm;
pub use super::record::{
    ContainerRecord, Exit, HolderState, HookState, InstanceState, LinuxUser, PidNamespace,
    PodRecord, SandboxSpec, StopPhase,
};
use crate::pod::hook::Hook;
use crate::pod::stored;
pub use crate::sys::{clock::Stamp, process::ProcessId};
use crate::volume::spec::VolumeOrder;

/// Version of this protocol.
pub const PROTO_VERSION: u32 = 3;
/// P-78: least time between stop signal and SIGKILL.
pub const MIN_GRACE_MS: u64 = 2000;

/// A packet to the holder. `id` is chosen by the sender and comes back in the reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToHolder {
    /// Echoed.
    pub id: u64,
    /// What to do.
    pub request: Request,
}

/// What a holder can be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Mount the rootfs, create and start. Idempotent by container id; refused while another instance of the same name
    /// lives or is being made. If it mounts volumes of files, the descriptor of a memory file with a
    /// [`crate::volume::spec::Payload`] comes with the packet.
    Create(Box<CreateContainer>),
    /// V-31: new content for volumes of files that were made already; others are left out. The descriptor of a memory
    /// file with a [`crate::volume::spec::Payload`] comes with the packet. What is in place then is in
    /// [`HolderState::volumes`].
    WriteVolumes,
    /// Run the preStop hook, wait for others, send the instance's stop signal to init; at the deadline SIGKILL the whole
    /// cgroup. All of it happens whether the sender lives or not. A later request can only shorten the wait.
    Stop {
        /// Container id.
        id: String,
        /// From now to SIGKILL, in ms; the hook and the wait count against it. Between signal and SIGKILL are at least
        /// [`MIN_GRACE_MS`]. With 0 there is neither hook nor wait.
        grace_ms: u64,
        /// Why, for people ("Stopping container web").
        reason: String,
        /// P-77.
        #[serde(default)]
        pre_stop: Option<Hook>,
        /// P-81: names of containers that have to end before the signal is sent.
        #[serde(default)]
        after: Vec<String>,
    },
    /// Forget an exited instance: libcontainer state, mounts, bundle, writable layer, log files and link.
    Remove {
        /// Container id.
        id: String,
        /// False keeps the log files (the pod finished; `vetch logs` still works).
        with_logs: bool,
    },
    /// Run a command in a running container. Not with `tty`: three fds come with the packet (stdin, stdout, stderr).
    /// With `tty`: none; the reply carries the pty's master. The connection belongs to the exec from here on: it gets
    /// [`Reply::Started`] or [`Reply::Failed`], then [`FromHolder::ExecExited`]. Closing it kills the command's tree.
    Exec(ExecCommand),
    /// Leave when no container runs (exited ones are removed with their logs kept); refused otherwise.
    Shutdown,
}

/// Everything the holder needs to make one container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateContainer {
    /// Goes into the record as it is.
    pub id: String,
    /// Goes into the record as it is.
    pub name: String,
    /// Goes into the record as it is.
    pub restart_count: u32,
    /// Goes into the record as it is.
    pub hash: String,
    /// Goes into the record as it is.
    pub image: String,
    /// Goes into the record as it is.
    pub image_id: String,
    /// The bundle's `config.json` is already there; its rootfs is `rootfs` and its cgroupsPath absolute.
    pub rootfs: Rootfs,
    /// Confinement that our own executor applies after libcontainer.
    pub confinement: Confinement,
    /// Logging.
    pub log: LogSpec,
    /// Host file that is bind-mounted at terminationMessagePath, read at exit (P-170, P-171).
    pub termination_message: Option<PathBuf>,
    /// FallbackToLogsOnError (P-172).
    pub termination_message_from_logs: bool,
    /// P-79.
    #[serde(default = "sigterm")]
    pub stop_signal: i32,
    /// Goes into the record as it is.
    #[serde(default, deserialize_with = "stored::resources")]
    pub resources: ResourceRequirements,
    /// P-90: run once the container runs. It has no time limit; a container that ends ends it.
    #[serde(default)]
    pub post_start: Option<Hook>,
    /// What it mounts.
    #[serde(default)]
    pub volumes: VolumeOrder,
    /// Goes into the record as it is.
    #[serde(default)]
    pub user: Option<LinuxUser>,
    /// Its program for messages, if the manifest has variables there: their values may be those of Secrets.
    #[serde(default)]
    pub program: Option<String>,
}

/// The overlay root of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rootfs {
    /// Unpacked layers, top-most first.
    pub lower: Vec<PathBuf>,
    /// Directory with `upper` and `work`; made by the agent on durable storage.
    pub writable: PathBuf,
    /// C-26: created if missing, safely below the root.
    pub cwd: PathBuf,
    /// Owner of a created `cwd`.
    pub uid: u32,
    /// Group of a created `cwd`.
    pub gid: u32,
}

/// What is beyond libcontainer: our own executor applies it last, right before execve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Seccomp profile.
    pub seccomp: Seccomp,
    /// Names like `CAP_CHOWN`: final bounding set, and permitted and effective for uid 0. The spec's own sets may be
    /// wider (plus SYS_ADMIN and SETPCAP) where the filter must be installed without no_new_privs.
    pub capabilities: Vec<String>,
    /// C-44.
    pub no_new_privileges: bool,
    /// C-43, C-49.
    #[serde(default)]
    pub devices: Devices,
    /// C-54: name of the AppArmor profile, if the kernel is to apply one.
    #[serde(default)]
    pub apparmor: Option<String>,
}

/// Which device nodes there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Devices {
    /// Those of every container, and what the specification lists.
    #[default]
    Usual,
    /// All that the node has when the container starts, too.
    AllOfNode,
}

/// Which filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seccomp {
    /// [`crate::oci::seccomp`]'s default profile for the capabilities of the container.
    RuntimeDefault,
    /// C-51: the program in [`crate::config::HolderPaths::seccomp_filter`], as
    /// [`crate::oci::seccomp::Instruction::to_bytes`] writes it.
    Localhost,
    /// None.
    Unconfined,
}

/// Where output goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSpec {
    /// `…/<container>/<restart count>.log` (G-2).
    pub file: PathBuf,
    /// Link to make (G-3).
    pub link: PathBuf,
    /// G-9, bytes.
    pub max_size: u64,
    /// G-9, ≥ 2.
    pub max_files: u32,
}

/// A command in a running container; the OCI process comes from the container's own config.json, with these changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecCommand {
    /// Container id.
    pub container: String,
    /// argv, verbatim (C6).
    pub args: Vec<String>,
    /// Make a pty in the container.
    pub tty: bool,
    /// Kill the whole tree after this long (ms).
    pub timeout_ms: Option<u64>,
}

/// A packet from the holder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromHolder {
    /// The whole truth.
    State(Box<HolderState>),
    /// Answer to the request `id`.
    Reply {
        /// Of the request.
        id: u64,
        /// The answer.
        reply: Reply,
    },
    /// The exec of this connection ended.
    ExecExited {
        /// Exit code, 128+signal if killed.
        code: i32,
        /// The timeout ended it.
        timed_out: bool,
    },
}

/// Answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// Done.
    Done,
    /// The container or exec runs, as this pid; with a tty the packet carries the master.
    Started {
        /// Pid in the host's namespace.
        pid: i32,
    },
    /// Not done.
    Failed {
        /// Which kind.
        kind: FailureKind,
        /// The real cause: `exec: "/bin/foo": no such file or directory`.
        message: String,
    },
}

/// Kinds of failure, as Kubernetes tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// `CreateContainerError`: nothing was made, no record is kept.
    Create,
    /// V-25: a volume cannot be mounted; nothing was made, no record is kept.
    Volume,
    /// The program cannot be executed. Of a container: `StartError` 128 (P-163), and an Exited record is kept.
    Start,
    /// The program of an exec does not exist.
    NotFound,
    /// Unknown container, wrong state, bad request.
    Refused,
}
