//! Becoming a holder: from a child of the agent to the pod's pause process.

use std::convert::Infallible;
use std::ffi::{CString, OsStr};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::FdFlags;
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::UnshareFlags;
use serde::Deserialize;

use super::cgroup::{CgroupError, Cgroups};
use super::proto::{PidNamespace, SandboxSpec};
use super::reaper::Reaper;
use super::server::Holder;
use crate::config::HolderPaths;
use crate::pod::{PodUid, sysctl};
use crate::sys;
use crate::sys::state_file::{self, ReadError};

/// Why a sandbox could not be made (P-35). Printed as one line with its causes.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartupError {
    #[error("{operation} {path}")]
    Io {
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(transparent)]
    Record(#[from] ReadError),
    #[error("{0}")]
    System(&'static str, #[source] io::Error),
    #[error("set sysctl {name} to {value:?}")]
    Sysctl {
        name: String,
        value: String,
        source: io::Error,
    },
    #[error("join the holder's cgroup")]
    Cgroup(#[from] CgroupError),
}

fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StartupError {
    let path = path.to_owned();
    move |source| StartupError::Io {
        operation,
        path,
        source,
    }
}

fn system<E: Into<io::Error>>(operation: &'static str) -> impl FnOnce(E) -> StartupError {
    move |source| StartupError::System(operation, source.into())
}

/// What a holder needs of [`super::proto::PodRecord`]: reading the whole pod would cost it memory for years.
#[derive(Debug, Deserialize)]
struct OwnRecord {
    pod: OwnPod,
    sandbox: SandboxSpec,
}

#[derive(Debug, Deserialize)]
struct OwnPod {
    uid: PodUid,
}

/// Set in the environment of the second start, to the number of the descriptor of the host's mount namespace.
const MARKER: &str = "VETCH_HOLDER_FROM_READ_ONLY_BINARY";

/// Makes the holder of the pod in `dir`. Returns in the second of two starts; see [`enter`].
pub(super) fn start(dir: &Path) -> Result<Holder, StartupError> {
    let dir = fs::canonicalize(dir).map_err(io_error("find", dir))?;
    let paths = HolderPaths::new(dir);
    let record = read_record(&paths.pod_record())?;
    let cgroups = Cgroups::discover()?;
    let Some(number) = std::env::var_os(MARKER) else {
        return Err(enter(&paths, &record.sandbox, &cgroups));
    };
    let host_mounts = inherited(&number).map_err(system("keep the host's mount namespace"))?;
    settle(host_mounts.as_fd())?;
    become_pause(&record.sandbox)?;
    mount_shm(&record.sandbox, &paths.shm())?;
    let runtime = paths.runtime();
    fs::create_dir_all(&runtime).map_err(io_error("create", &runtime))?;
    let reaper = share_processes(&record.sandbox, &paths)?;
    let child_exits = sys::signals::child_exits().map_err(system("watch for child exits"))?;
    let listener = listen(&paths).map_err(io_error("listen on", &paths.socket()))?;
    let mut holder = Holder::new(
        paths,
        (record.pod.uid, record.sandbox),
        cgroups,
        [host_mounts, listener, child_exits],
    )
    .map_err(system("find out who I am"))?;
    holder.reaper = reaper;
    holder.publish();
    Ok(holder)
}

fn read_record(path: &Path) -> Result<OwnRecord, StartupError> {
    state_file::read(path)?.ok_or_else(|| io_error("read", path)(io::ErrorKind::NotFound.into()))
}

/// First start: session, cgroup and mount namespace; then the same process again from a read-only bind mount of its own
/// binary (invariant 11), with an empty environment. Returns only on failure.
fn enter(paths: &HolderPaths, sandbox: &SandboxSpec, cgroups: &Cgroups) -> StartupError {
    match try_enter(paths, sandbox, cgroups) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn try_enter(
    paths: &HolderPaths,
    sandbox: &SandboxSpec,
    cgroups: &Cgroups,
) -> Result<Infallible, StartupError> {
    // A session leader already, if the agent made it one.
    let _ = rustix::process::setsid();
    cgroups.create(&sandbox.holder_cgroup)?;
    move_meanwhile(&sandbox.holder_cgroup, cgroups).map_err(system("fork"))?;
    // Before the unshare: the mount that our binary was started from stays behind in the old namespace.
    let tree = rustix::mount::open_tree(
        CWD,
        "/proc/self/exe",
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC,
    )
    .map_err(system("clone the binary's mount"))?;
    let host = sys::mounts::namespace().map_err(system("find the mount namespace"))?;
    rustix::io::fcntl_setfd(&host, FdFlags::empty()).map_err(system("keep it open"))?;
    unshare(UnshareFlags::NEWNS).map_err(system("unshare the mount namespace"))?;
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", slave).map_err(system("make / a slave mount"))?;
    let binary =
        bind_binary(&tree, &paths.dir().join("binary")).map_err(system("bind the binary"))?;
    let text = |bytes: &[u8]| {
        CString::new(bytes).map_err(|e| system("name the binary")(io::Error::from(e)))
    };
    let args = [
        text(b"vetch")?,
        text(b"holder")?,
        text(paths.dir().as_os_str().as_bytes())?,
    ];
    let env = [text(format!("{MARKER}={}", host.as_raw_fd()).as_bytes())?];
    let program = text(binary.as_os_str().as_bytes())?;
    let error = sys::process::execve(&program, &args, &env);
    Err(io_error("execute", &binary)(error))
}

/// Has a child move this process into its cgroup. Before the kernel moves a process it waits for an RCU grace period
/// (5 to 20 ms, if it has not moved one a moment ago). The sandbox and the first root file system are made meanwhile:
/// none of it depends on the holder's place, and each container's process is moved on its own.
fn move_meanwhile(cgroup: &str, cgroups: &Cgroups) -> io::Result<()> {
    let holder = rustix::process::getpid();
    sys::process::fork(|| {
        // The agent shall not find a second writer of its pipe.
        let _ = rustix::stdio::dup2_stdout(rustix::stdio::stderr());
        let Err(error) = cgroups.join(cgroup, holder.as_raw_nonzero().get()) else {
            return 0;
        };
        // A holder that stays where the agent is could end with it: better now, and with a reason.
        let _ = writeln!(io::stderr(), "{}", crate::error::chain(&error));
        if rustix::process::getppid() == Some(holder) {
            let _ = rustix::process::kill_process(holder, Signal::KILL);
        }
        1
    })?;
    Ok(())
}

fn bind_binary(tree: &OwnedFd, target: &Path) -> io::Result<PathBuf> {
    // An older holder of this pod may have left its mount point.
    sys::remove::file(target)?;
    fs::File::create(target)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", CWD, target, flags)?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount_remount(target, flags, c"")?;
    Ok(target.to_owned())
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    sys::process::unshare(flags)
}

/// Second start: the manners of a process that lives for years.
fn settle(host_mounts: BorrowedFd<'_>) -> Result<(), StartupError> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(system("become a subreaper"))?;
    // A holder must not die by a signal that was meant for somebody else: a terminal's, or systemd's when the agent's
    // unit is stopped with the wrong KillMode. It leaves when asked to over its socket; SIGKILL remains.
    sys::signals::ignore(&[
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGPIPE,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
    ]);
    // C-79; needs CAP_SYS_RESOURCE, and we work without.
    let _ = fs::OpenOptions::new()
        .write(true)
        .open("/proc/self/oom_score_adj")
        .and_then(|mut file| file.write_all(b"-998"));
    // Descriptors of pipes and connections: as many as there may be.
    let all = rustix::process::getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: all,
        maximum: all,
    };
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
    rustix::process::chdir("/").map_err(system("change to /"))?;
    sys::process::close_all_but(host_mounts).map_err(system("close inherited descriptors"))
}

/// The descriptor that [`enter`] left open, as one that no child inherits.
fn inherited(number: &OsStr) -> io::Result<OwnedFd> {
    let path = Path::new("/proc/self/fd").join(number);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// The namespaces that the pod's containers share (P-180, P-181), and what is set in them.
fn become_pause(sandbox: &SandboxSpec) -> Result<(), StartupError> {
    let mut flags = UnshareFlags::empty();
    flags.set(UnshareFlags::NEWIPC, !sandbox.host_ipc);
    flags.set(
        UnshareFlags::NEWNET | UnshareFlags::NEWUTS,
        !sandbox.host_network,
    );
    unshare(flags).map_err(system("unshare the namespaces of the pod"))?;
    if !sandbox.host_network {
        rustix::system::sethostname(sandbox.hostname.as_bytes())
            .map_err(system("set the host name"))?;
        sys::netdev::bring_up_loopback().map_err(system("bring up lo"))?;
        // C-63. Best effort: a kernel may be built without IPv4.
        let _ = set_sysctl("net.ipv4.ip_unprivileged_port_start", "0");
        let _ = set_sysctl("net.ipv4.ping_group_range", "0 2147483647");
    }
    for (name, value) in &sandbox.sysctls {
        set_sysctl(name, value).map_err(|source| StartupError::Sysctl {
            name: name.clone(),
            value: value.clone(),
            source,
        })?;
    }
    Ok(())
}

/// C-62. /proc/sys shows the namespaces of who opens it.
fn set_sysctl(name: &str, value: &str) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .open(Path::new("/proc/sys").join(sysctl::path(name)))?
        .write_all(value.as_bytes())
}

/// C-66: one /dev/shm for the pod, in this mount namespace only.
fn mount_shm(sandbox: &SandboxSpec, target: &Path) -> Result<(), StartupError> {
    fs::create_dir_all(target).map_err(io_error("create", target))?;
    if sandbox.host_ipc {
        return rustix::mount::mount_bind_recursive("/dev/shm", target)
            .map_err(|e| io_error("mount the host's /dev/shm on", target)(e.into()));
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("shm", target, "tmpfs", flags, c"mode=1777,size=65536k")
        .map_err(|e| io_error("mount a tmpfs on", target)(e.into()))
}

/// P-182. After the directories: what is covered there for the first process must exist.
fn share_processes(
    sandbox: &SandboxSpec,
    paths: &HolderPaths,
) -> Result<Option<Reaper>, StartupError> {
    match sandbox.pid {
        PidNamespace::Container | PidNamespace::Host => Ok(None),
        PidNamespace::Pod => Reaper::start(&paths.runtime())
            .map(Some)
            .map_err(system("make the process namespace of the pod")),
    }
}

fn listen(paths: &HolderPaths) -> io::Result<OwnedFd> {
    sys::remove::file(&paths.socket())?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(paths.dir(), flags, Mode::empty())?;
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    // The socket is made with the umask's mode: closed from its first moment on.
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = rustix::net::bind(&socket, &super::client::address_below(dir.as_fd())?);
    rustix::process::umask(before);
    bound?;
    // Clients do not wait for a place: room for as many probes and people as may come while we write a log.
    rustix::net::listen(&socket, 128)?;
    Ok(socket)
}

/// Prints the agent's line and lets go of its pipe. Stderr stays what the agent made it: a panic shall leave its words.
/// Fails when the agent is gone.
pub(super) fn announce(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush())?;
    let Ok(null) = rustix::fs::openat(
        CWD,
        "/dev/null",
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    ) else {
        return Ok(());
    };
    let _ = rustix::stdio::dup2_stdin(&null);
    let _ = rustix::stdio::dup2_stdout(&null);
    Ok(())
}
