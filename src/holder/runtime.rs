//! libcontainer, and the only file that names it, apart from the executor that it calls.
//!
//! It is written for a command that ends: in its caller it leaves descriptors and zombies after each failure, another
//! oom score, no dumpability, and sometimes another working directory; it blocks, and its raw clone3 hangs beside a
//! second thread. So everything here runs in a forked worker, with `as_sibling`: the container's process becomes a child
//! of the holder. libcontainer's `delete` is not used: it removes less than [`super::requests`] does.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use libcontainer::container::builder::ContainerBuilder;
use libcontainer::error::LibcontainerError;
use libcontainer::oci_spec::OciSpecError;
use libcontainer::oci_spec::runtime::{Process, Spec};
use libcontainer::syscall::syscall::SyscallType;
use rustix::fs::{FileType, MemfdFlags, Mode, OFlags, Uid};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit};
use rustix::pty::OpenptFlags;

use super::bundle;
use super::cgroup::{CgroupError, Cgroups};
use super::device_rules::{self, DeviceError};
use super::executor::{ExactExecutor, Task};
use super::proto::{Confinement, CreateContainer, FailureKind};
use super::report::{Line, Report};
use super::rootfs::{self, RootfsError};
use super::volumes::{self, Supplies};
use crate::config::HolderPaths;
use crate::error::chain;
use crate::sys;
use crate::volume::VolumeError;

/// Why a worker could not do its job. The text goes to the user.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkerError {
    #[error("prepare the root file system")]
    Rootfs(#[from] RootfsError),
    #[error("prepare the cgroup")]
    Cgroup(#[from] CgroupError),
    #[error("confine its devices")]
    Devices(#[from] DeviceError),
    #[error("processes of an earlier instance are left in the cgroup {0}")]
    Populated(String),
    #[error("{operation} {path}")]
    Spec {
        operation: &'static str,
        path: PathBuf,
        source: OciSpecError,
    },
    #[error("{operation} {path}")]
    Io {
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("no process in {0}")]
    NoProcess(PathBuf),
    #[error("write down the process")]
    Process(#[source] io::Error),
    #[error("read the files of volumes")]
    Payload(#[source] io::Error),
    #[error("unmount the volumes of an earlier try")]
    Leftovers(#[source] io::Error),
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error(transparent)]
    Runtime(#[from] LibcontainerError),
}

fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WorkerError {
    let path = path.to_owned();
    move |source| WorkerError::Io {
        operation,
        path,
        source,
    }
}

/// What every job needs.
pub(super) struct Place<'a> {
    pub(super) paths: &'a HolderPaths,
    pub(super) cgroups: &'a Cgroups,
    /// The container's cgroup.
    pub(super) cgroup: &'a str,
    /// The pod's, for a container that shares its processes.
    pub(super) pid_namespace: Option<PathBuf>,
    pub(super) line: Line,
}

impl WorkerError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Volume(_) | Self::Payload(_) | Self::Leftovers(_) => FailureKind::Volume,
            Self::Rootfs(_)
            | Self::Cgroup(_)
            | Self::Devices(_)
            | Self::Populated(_)
            | Self::Spec { .. }
            | Self::Io { .. }
            | Self::NoProcess(_)
            | Self::Process(_)
            | Self::Runtime(_) => FailureKind::Create,
        }
    }
}

impl Place<'_> {
    /// Where libcontainer would leave the new process in the holder's cgroup, the worker goes ahead.
    fn leave_holder_cgroups(&self) -> Result<(), CgroupError> {
        let me = rustix::process::getpid().as_raw_nonzero().get();
        self.cgroups.join_beside_controllers(self.cgroup, me)
    }
}

/// Mounts, creates and starts; the worker's whole life.
pub(super) fn create(
    place: &Place<'_>,
    request: &CreateContainer,
    supplies: &Supplies<'_>,
    stdio: [OwnedFd; 3],
) -> i32 {
    finish(&place.line, || {
        clean_slate();
        let spec = prepare(place, request, supplies)?;
        start(place, request, &spec, stdio)?;
        volumes::let_go(place, &request.id);
        Ok(None)
    })
}

fn prepare(
    place: &Place<'_>,
    request: &CreateContainer,
    supplies: &Supplies<'_>,
) -> Result<Spec, WorkerError> {
    let made = volumes::make(place, request, supplies)?;
    let state = place.paths.runtime().join(&request.id);
    sys::remove::tree(&state).map_err(io_error("remove", &state))?;
    if place.cgroups.is_populated(place.cgroup) {
        return Err(WorkerError::Populated(place.cgroup.to_owned()));
    }
    place.cgroups.remove(place.cgroup)?;
    place.cgroups.create(place.cgroup)?;
    place.leave_holder_cgroups()?;
    let bundle = place.paths.bundle(&request.id);
    let root = bundle.join("rootfs");
    rootfs::mount(&request.rootfs, &root)?;
    let spec = bundle::complete(place, request, &made)?;
    device_rules::enforce(place.cgroups, place.cgroup, &spec)?;
    rootfs::make_mount_points(&root, spec.mounts().as_deref().unwrap_or_default())?;
    Ok(spec)
}

fn start(
    place: &Place<'_>,
    request: &CreateContainer,
    spec: &Spec,
    stdio: [OwnedFd; 3],
) -> Result<(), WorkerError> {
    if let Some(process) = spec.process() {
        give_pipes(&stdio, process);
    }
    let [stdin, stdout, stderr] = stdio;
    let task = Task::Main(request.program.clone());
    let mut container = builder(place, task, &request.id, &request.confinement)?
        .with_stdin(stdin)
        .with_stdout(stdout)
        .with_stderr(stderr)
        .as_init(place.paths.bundle(&request.id))
        .with_systemd(false)
        .as_sibling(true)
        .build()?;
    container.start()?;
    Ok(())
}

/// A command in a running container.
pub(super) struct ExecJob<'a> {
    pub(super) container: &'a str,
    pub(super) confinement: &'a Confinement,
    pub(super) args: &'a [String],
    /// Unique number among the holder's execs, for file names.
    pub(super) number: u64,
}

/// Where the command's standard streams go.
pub(super) enum ExecStdio {
    /// To these.
    Pipes([OwnedFd; 3]),
    /// To a pty made in the container; its master comes back.
    Terminal,
}

/// Starts the command; the worker's whole life.
pub(super) fn exec(place: &Place<'_>, job: &ExecJob<'_>, stdio: ExecStdio) -> i32 {
    finish(&place.line, || {
        clean_slate();
        place.leave_holder_cgroups()?;
        let bundle = place.paths.bundle(job.container);
        let process = exec_process(&bundle.join("config.json"), job.args, &stdio)?;
        if let ExecStdio::Pipes(pipes) = &stdio {
            give_pipes(pipes, &process);
        }
        // libcontainer wants a path. This one leaves nothing behind, whenever this worker dies.
        let file = in_memory(&process).map_err(WorkerError::Process)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let master =
            run_tenant(place, job, &path, stdio).map_err(|error| explain(place, job, error))?;
        if let Some(master) = &master {
            give_terminal(master, &process);
        }
        Ok(master)
    })
}

fn run_tenant(
    place: &Place<'_>,
    job: &ExecJob<'_>,
    file: &Path,
    stdio: ExecStdio,
) -> Result<Option<OwnedFd>, WorkerError> {
    let ExecStdio::Pipes([stdin, stdout, stderr]) = stdio else {
        return run_on_terminal(place, job, file).map(Some);
    };
    builder(place, Task::Command, job.container, job.confinement)?
        .with_stdin(stdin)
        .with_stdout(stdout)
        .with_stderr(stderr)
        .as_tenant()
        .with_process(Some(file))
        .with_detach(true)
        .as_sibling(true)
        .build()?;
    Ok(None)
}

/// libcontainer makes a socket for each command. When it cannot, it names the socket, at random, and not the reason.
fn explain(place: &Place<'_>, job: &ExecJob<'_>, error: WorkerError) -> WorkerError {
    let dir = place.paths.runtime().join(job.container);
    // Named like those that are swept up, should this worker die here.
    let name = format!("tenant-{}.sock", job.number);
    match listen(&dir, &name) {
        Ok(_) => {
            let _ = fs::remove_file(dir.join(name));
            error
        }
        Err(cause) => io_error("make a socket in", &dir)(cause),
    }
}

fn run_on_terminal(
    place: &Place<'_>,
    job: &ExecJob<'_>,
    file: &Path,
) -> Result<OwnedFd, WorkerError> {
    let bundle = place.paths.bundle(job.container);
    let name = format!("console-{}.sock", job.number);
    let socket = bundle.join(&name);
    let failed = |e: io::Error| io_error("receive the terminal over", &socket)(e);
    let listener = listen(&bundle, &name).map_err(failed)?;
    let built = builder(place, Task::Command, job.container, job.confinement)?
        .with_console_socket(Some(&socket))
        .as_tenant()
        .with_process(Some(file))
        .with_detach(true)
        .as_sibling(true)
        .build();
    let _ = fs::remove_file(&socket);
    built?;
    accept_master(&listener).map_err(failed)
}

/// The name is bound below a descriptor: the bundle's path may be longer than a socket address.
fn listen(dir: &Path, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, flags, Mode::empty())?;
    let listener = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    let path = format!("/proc/self/fd/{}/{name}", dir.as_raw_fd());
    rustix::net::bind(&listener, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&listener, 1)?;
    Ok(listener)
}

fn accept_master(listener: &OwnedFd) -> io::Result<OwnedFd> {
    let connection = rustix::net::accept_with(listener, SocketFlags::CLOEXEC)?;
    sys::packet::receive(&connection)?
        .and_then(|packet| packet.fds.into_iter().next())
        .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
}

fn builder(
    place: &Place<'_>,
    task: Task,
    id: &str,
    confinement: &Confinement,
) -> Result<ContainerBuilder, WorkerError> {
    let filter = place.paths.seccomp_filter(id);
    let executor = ExactExecutor::new(task, confinement, &filter, &place.line)
        .map_err(io_error("read the seccomp filter", &filter))?;
    Ok(ContainerBuilder::new(id.to_owned(), SyscallType::default())
        .with_root_path(place.paths.runtime())?
        .with_executor(executor))
}

/// Runs the job and tells the holder how it went.
pub(super) fn finish(
    line: &Line,
    job: impl FnOnce() -> Result<Option<OwnedFd>, WorkerError>,
) -> i32 {
    use std::os::fd::AsFd;
    line.collect_errors();
    match job() {
        Ok(master) => {
            let fds: Vec<_> = master.iter().map(AsFd::as_fd).collect();
            line.tell_with(&Report::Done, &fds);
            0
        }
        Err(error) => {
            line.tell(&Report::Failed(error.kind(), chain(&error)));
            1
        }
    }
}

/// A program may open its own streams again (`/dev/stdout`), so pipes belong to its user, as with other runtimes. What
/// else a person passed to an exec stays as it is.
fn give_pipes(stdio: &[OwnedFd; 3], process: &Process) {
    for fd in stdio {
        let is_pipe =
            |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo;
        if rustix::fs::fstat(fd).is_ok_and(is_pipe) {
            let _ = rustix::fs::fchown(fd, Some(Uid::from_raw(process.user().uid())), None);
        }
    }
}

/// The same for the terminal of an exec.
fn give_terminal(master: &OwnedFd, process: &Process) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    if let Ok(slave) = rustix::pty::ioctl_tiocgptpeer(master, flags) {
        let _ = rustix::fs::fchown(slave, Some(Uid::from_raw(process.user().uid())), None);
    }
}

/// What a container inherits and libcontainer does not set: the same whoever started the agent, and however.
fn clean_slate() {
    sys::signals::reset_all();
    // libcontainer writes to hooks (D-16) that may not read. The executor resets it.
    sys::signals::ignore(&[libc::SIGPIPE]);
    let _ = rustix::thread::set_thread_groups(&[]);
    rustix::process::umask(Mode::from_raw_mode(0o022));
    sys::keyring::new_session();
    // The values of a service under systemd.
    set_limit(Resource::Nofile, Some(1024), Some(524_288));
    set_limit(Resource::Core, Some(0), None);
    set_limit(Resource::Stack, Some(8 << 20), None);
    set_limit(Resource::Memlock, Some(8 << 20), Some(8 << 20));
}

/// Without CAP_SYS_RESOURCE the hard limit stays where it is, if that is lower.
fn set_limit(resource: Resource, current: Option<u64>, maximum: Option<u64>) {
    if rustix::process::setrlimit(resource, Rlimit { current, maximum }).is_err() {
        let maximum = rustix::process::getrlimit(resource).maximum;
        let current = match (current, maximum) {
            (Some(wanted), Some(most)) => Some(wanted.min(most)),
            (wanted, most) => wanted.or(most),
        };
        let _ = rustix::process::setrlimit(resource, Rlimit { current, maximum });
    }
}

/// The container's own process with another command.
fn exec_process(config: &Path, args: &[String], stdio: &ExecStdio) -> Result<Process, WorkerError> {
    let mut process = bundle::load(config)?
        .process()
        .clone()
        .ok_or_else(|| WorkerError::NoProcess(config.to_owned()))?;
    process.set_args(Some(args.to_vec()));
    process.set_terminal(Some(matches!(stdio, ExecStdio::Terminal)));
    Ok(process)
}

fn in_memory(process: &Process) -> io::Result<fs::File> {
    let file = rustix::fs::memfd_create("process.json", MemfdFlags::CLOEXEC)?;
    let mut file = fs::File::from(file);
    io::Write::write_all(&mut file, &serde_json::to_vec(process)?)?;
    Ok(file)
}
