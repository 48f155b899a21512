//! The last step of a container's process: confine itself and execute the program. libcontainer's own executor loses
//! the order of the environment, refuses programs that others cannot execute and falls back to /bin/sh; this one does
//! what was asked for or says why not.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

use libcontainer::oci_spec::runtime::{Process, Spec};
use libcontainer::workload::{
    Executor, ExecutorError, ExecutorSetEnvsError, ExecutorValidationError,
};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_change, mount_move};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::proto::{Confinement, FailureKind, Seccomp};
use super::report::{Line, Report};
use crate::oci::mounts::WAITING_DEV;
use crate::oci::seccomp::{self, Instruction};
use crate::sys;

/// What is executed.
#[derive(Debug, Clone)]
pub(super) enum Task {
    /// The container's own program, with what messages call it in place of its name.
    Main(Option<String>),
    /// A command in a container that runs.
    Command,
}

impl Task {
    fn called(&self) -> Option<&str> {
        match self {
            Self::Main(called) => called.as_deref(),
            Self::Command => None,
        }
    }
}

/// Runs in the container, as its process.
#[derive(Clone)]
pub(super) struct ExactExecutor {
    confinement: Confinement,
    filter: Option<Rc<[libc::sock_filter]>>,
    line: Line,
    task: Task,
}

impl ExactExecutor {
    /// `filter` is the file of [`Seccomp::Localhost`].
    pub(super) fn new(
        task: Task,
        confinement: &Confinement,
        filter: &Path,
        line: &Line,
    ) -> io::Result<Self> {
        let program = match confinement.seccomp {
            Seccomp::RuntimeDefault => Some(seccomp::default_program(&confinement.capabilities)),
            Seccomp::Localhost => Some(read_program(filter)?),
            Seccomp::Unconfined => None,
        };
        let to_kernel = |Instruction { code, jt, jf, k }| libc::sock_filter { code, jt, jf, k };
        Ok(Self {
            confinement: confinement.clone(),
            filter: program.map(|program| program.into_iter().map(to_kernel).collect()),
            line: line.clone(),
            task,
        })
    }
}

fn read_program(file: &Path) -> io::Result<Vec<Instruction>> {
    let bytes = fs::read(file)?;
    let (instructions, rest) = bytes.as_chunks();
    if instructions.is_empty() || !rest.is_empty() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let instructions = instructions.iter().copied();
    Ok(instructions.map(Instruction::from_bytes).collect())
}

impl Executor for ExactExecutor {
    /// The holder learns the pid here, and has noted it before anything of the container runs.
    fn validate(&self, _: &Spec) -> Result<(), ExecutorValidationError> {
        self.line.tell(&Report::Init);
        self.line
            .wait_for_go()
            .map_err(|e| ExecutorValidationError::ArgValidationError(e.to_string()))
    }

    /// The environment is given to execve whole; the process's own stays unused.
    fn setup_envs(&self, _: HashMap<String, String>) -> Result<(), ExecutorSetEnvsError> {
        Ok(())
    }

    fn exec(&self, spec: &Spec) -> Result<(), ExecutorError> {
        // Until here SIGPIPE was ignored. Before the filter, which may forbid it.
        sys::signals::reset_all();
        let start = |message| (FailureKind::Start, message);
        let (kind, message) = match spec.process() {
            Some(process) => match self.prepare(spec, process) {
                Ok(()) => run(process, self.task.called()),
                Err((what, e)) => start(format!("{what}: {}", plain(&e))),
            },
            None => start("no process in the specification".to_owned()),
        };
        self.line.tell(&Report::ExecFailed(kind, message.clone()));
        Err(ExecutorError::Other(message))
    }
}

impl ExactExecutor {
    fn prepare(&self, spec: &Spec, process: &Process) -> Result<(), (&'static str, io::Error)> {
        if matches!(self.task, Task::Main(_)) {
            move_dev(spec, process).map_err(|e| ("mount the volume on /dev", e))?;
        }
        let confined = self.confine(process.user().uid());
        confined.map_err(|e| ("confine the process", e))
    }

    /// Filter first, while the capability for it is still there; then the capabilities.
    fn confine(&self, uid: u32) -> io::Result<()> {
        if self.confinement.no_new_privileges {
            rustix::thread::set_no_new_privs(true)?;
        }
        if let Some(profile) = &self.confinement.apparmor {
            enter_at_exec(profile)?;
        }
        if let Some(filter) = &self.filter {
            sys::seccomp::install(filter)?;
        }
        limit_capabilities(capability_set(&self.confinement.capabilities), uid)
    }
}

/// See [`WAITING_DEV`].
fn move_dev(spec: &Spec, process: &Process) -> io::Result<()> {
    let mut mounts = spec.mounts().iter().flatten();
    if !mounts.any(|mount| mount.destination() == Path::new(WAITING_DEV)) {
        return Ok(());
    }
    // What is mounted on a shared mount cannot be moved.
    mount_change("/dev", MountPropagationFlags::PRIVATE)?;
    mount_move(WAITING_DEV, "/dev")?;
    if process.cwd().starts_with("/dev") {
        rustix::process::chdir(process.cwd())?;
    }
    Ok(())
}

/// C-54: the kernel changes to the profile with the execve. The attribute is only written to where it is the kernel's.
fn enter_at_exec(profile: &str) -> io::Result<()> {
    let open = |path: &str| fs::OpenOptions::new().write(true).open(path);
    let file = open("/proc/self/attr/apparmor/exec").or_else(|_| open("/proc/self/attr/exec"));
    let written = file.and_then(|mut file| {
        if rustix::fs::fstatfs(&file)?.f_type != rustix::fs::PROC_SUPER_MAGIC {
            return Err(io::Error::other("/proc is not the kernel's"));
        }
        file.write_all(format!("exec {profile}").as_bytes())
    });
    written.map_err(|error| {
        let why = plain(&error);
        io::Error::other(format!("apply the apparmor profile {profile}: {why}"))
    })
}

/// `wanted` becomes the bounding set, and what uid 0 holds; others hold nothing.
fn limit_capabilities(wanted: CapabilitySet, uid: u32) -> io::Result<()> {
    for bit in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        if wanted.contains(capability) {
            continue;
        }
        match rustix::thread::capability_is_in_bounding_set(capability) {
            Ok(true) => rustix::thread::remove_capability_from_bounding_set(capability)?,
            Ok(false) => {}
            // Unknown to the kernel, as are all that follow.
            Err(_) => break,
        }
    }
    let held = if uid == 0 {
        wanted
    } else {
        CapabilitySet::empty()
    };
    // Kernels refuse to permit what is not permitted already, so what they lack is left out.
    let held = held & rustix::thread::capabilities(None)?.permitted;
    rustix::thread::set_capabilities(
        None,
        CapabilitySets {
            effective: held,
            permitted: held,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(())
}

fn capability_set(names: &[String]) -> CapabilitySet {
    names
        .iter()
        .filter_map(|name| CapabilitySet::from_name(name.strip_prefix("CAP_").unwrap_or(name)))
        .collect()
}

/// Executes the program; returns only to say why that failed, of a program `called` so.
fn run(process: &Process, called: Option<&str>) -> (FailureKind, String) {
    let args = process.args().as_deref().unwrap_or_default();
    let env = process.env().as_deref().unwrap_or_default();
    let failed = |kind, name: &str, why: &str| {
        let name = called.unwrap_or(name);
        (kind, format!("exec: {name:?}: {why}"))
    };
    let Some(name) = args.first() else {
        return (FailureKind::Start, "exec: no command".to_owned());
    };
    let (Ok(argv), Ok(envp)) = (c_strings(args), c_strings(env)) else {
        let why = "a NUL byte in the arguments or the environment";
        return failed(FailureKind::Start, name, why);
    };
    let mut denied = None;
    for program in candidates(name, env) {
        let Ok(path) = CString::new(program.as_str()) else {
            continue;
        };
        let error = sys::process::execve(&path, &argv, &envp);
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR) if !Path::new(&program).exists() => {}
            Some(Errno::NOENT) => {
                let why = "its interpreter or loader does not exist";
                return failed(FailureKind::NotFound, &program, why);
            }
            Some(Errno::ACCESS) => denied = Some((program, error)),
            _ => return failed(FailureKind::Start, &program, &plain(&error)),
        }
    }
    match denied {
        Some((program, error)) => failed(FailureKind::Start, &program, &plain(&error)),
        None if name.contains('/') => {
            failed(FailureKind::NotFound, name, &plain(&Errno::NOENT.into()))
        }
        None => failed(
            FailureKind::NotFound,
            name,
            "executable file not found in $PATH",
        ),
    }
}

/// The paths to try: the name itself with a slash in it, else below each directory of the container's PATH (the last
/// one, as a shell would see it). Empty and relative entries are skipped, as runc does.
fn candidates(name: &str, env: &[String]) -> Vec<String> {
    if name.contains('/') {
        return vec![name.to_owned()];
    }
    env.iter()
        .rev()
        .find_map(|entry| entry.strip_prefix("PATH="))
        .unwrap_or_default()
        .split(':')
        .filter(|dir| dir.starts_with('/'))
        .map(|dir| format!("{}/{name}", dir.trim_end_matches('/')))
        .collect()
}

fn c_strings(list: &[String]) -> Result<Vec<CString>, std::ffi::NulError> {
    list.iter()
        .map(|text| CString::new(text.as_str()))
        .collect()
}

/// An error as runtimes print it: `no such file or directory`, without Rust's capital and number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
