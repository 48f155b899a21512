//! Pid 1 of a pod whose containers share their processes (P-182). It does nothing: the kernel reaps for who ignores
//! SIGCHLD, and what dies with it, every process of the pod, the kernel kills.
//!
//! The containers see it and share its user, so there is nothing to gain from it: it has no descriptors, no capabilities,
//! an empty root, cannot be traced without CAP_SYS_PTRACE, and may only wait. It lives in the holder's cgroup and dies
//! with the holder. A child of the holder: when it dies the holder leaves, and the sandbox is made anew.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};
use rustix::thread::{CapabilitySet, CapabilitySets, LinkNameSpaceType, UnshareFlags};

use super::server::Holder;
use crate::error::chain;
use crate::sys;

/// As the containers see it; pause is what they know from elsewhere.
const NAME: &std::ffi::CStr = c"pause";
/// Why a holder leaves by itself.
pub(super) const REAPER_DIED: &str =
    "the first of the processes that the pod's containers share died";
/// What it says when it is there.
const READY: &[u8] = b"+";

/// It, as the holder knows it.
#[derive(Debug)]
pub(super) struct Reaper {
    /// Until it is reaped.
    pid: Option<i32>,
    namespace: OwnedFd,
}

impl Reaper {
    /// Makes the namespace and its first process. `empty` is any directory: it is covered, for that process only.
    pub(super) fn start(empty: &Path) -> io::Result<Self> {
        // The child that moves us into our cgroup. What we fork before would stay in the agent's.
        while rustix::process::wait(WaitOptions::empty()).is_ok() {}
        let (said, word) = pipe_with(PipeFlags::CLOEXEC)?;
        let own = open_namespace("pid")?;
        sys::process::unshare(UnshareFlags::NEWPID)?;
        let pid = sys::process::fork(|| live(empty, &word))?;
        drop(word);
        let reaper = open_namespace("pid_for_children").and_then(|namespace| {
            rustix::thread::move_into_link_name_space(
                own.as_fd(),
                Some(LinkNameSpaceType::ProcessID),
            )?;
            hear(said)?;
            let pid = Some(pid);
            Ok(Self { pid, namespace })
        });
        if reaper.is_err()
            && let Some(pid) = Pid::from_raw(pid)
        {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        reaper
    }

    /// For a runtime specification; valid in children of this process that have its descriptors.
    pub(super) fn namespace(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.namespace.as_raw_fd()).into()
    }
}

impl Holder {
    /// A process was reaped. If it was this one, everything in its namespace was reaped before.
    pub(super) fn reaper_reaped(&mut self, pid: i32) {
        if let Some(reaper) = &mut self.reaper
            && reaper.pid == Some(pid)
        {
            reaper.pid = None;
            let _ = writeln!(io::stderr(), "{REAPER_DIED}");
        }
    }

    /// No container can be started any more. With all exits on record the holder leaves, and the agent makes a new
    /// sandbox, as kubelet does when a pause container has died.
    pub(super) fn is_doomed(&self) -> bool {
        let reaper = self.reaper.as_ref();
        reaper.is_some_and(|reaper| reaper.pid.is_none())
    }
}

fn open_namespace(name: &str) -> io::Result<OwnedFd> {
    let path = Path::new("/proc/self/ns").join(name);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// Waits until the new process is what it should be.
fn hear(said: OwnedFd) -> io::Result<()> {
    let mut words = Vec::new();
    fs::File::from(said).read_to_end(&mut words)?;
    match words.as_slice() {
        READY => Ok(()),
        b"" => Err(io::Error::other("the first process died")),
        why => Err(io::Error::other(String::from_utf8_lossy(why).into_owned())),
    }
}

/// The whole life of the first process.
fn live(empty: &Path, word: &OwnedFd) -> i32 {
    let word = |text: &[u8]| rustix::io::write(word, text);
    if let Err(error) = give_up_everything(empty) {
        let _ = word(chain(&error).as_bytes());
        return 1;
    }
    // Fails when the holder has died meanwhile: its death would not be told any more.
    if word(READY).is_err() || sys::process::close_all().is_err() {
        return 1;
    }
    let _ = sys::still::stand();
    1
}

fn give_up_everything(empty: &Path) -> io::Result<()> {
    sys::signals::ignore(&[libc::SIGCHLD]);
    sys::still::rename(NAME);
    leave_file_systems(empty)?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none)?;
    rustix::thread::set_no_new_privs(true)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

/// Else every container of the pod could see the host's files as /proc/1/root.
fn leave_file_systems(empty: &Path) -> io::Result<()> {
    sys::process::unshare(UnshareFlags::NEWNS)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private)?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("none", empty, "tmpfs", flags, c"mode=555")?;
    rustix::process::chdir(empty)?;
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}
