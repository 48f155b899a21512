//! What must be true before the loop runs: the environment, the directories, the lock, and whose boot the run directory
//! is of.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use futures_lite::FutureExt;
use smol::Timer;

use super::child;
use super::store::{self, WriteError};
use crate::config::{Config, HolderPaths, Paths};
use crate::holder::proto::{HolderState, ProcessId};
use crate::sys::{clock, process, remove, state_file};

#[cfg(test)]
mod tests;

/// A module is loaded within this time, or not at all.
const MODPROBE_DEADLINE: Duration = Duration::from_secs(10);

/// What this machine or this call lacks.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Containers need root.
    #[error("must run as root: containers need namespaces, mounts and cgroups (try sudo)")]
    NotRoot,
    /// Idmapped mounts, `close_range`, clone into cgroups … all older ones lack something.
    #[error("kernel {release} is too old: 5.12 or newer is needed")]
    OldKernel {
        /// As uname says.
        release: String,
    },
    /// Neither v1 nor v2.
    #[error(
        "no cgroups are mounted: mount cgroup2 on /sys/fs/cgroup (on boot: `cgroup2 /sys/fs/cgroup cgroup2` in fstab)"
    )]
    NoCgroups,
    /// Not built in, and no module.
    #[error(
        "the kernel has no overlay file system: enable CONFIG_OVERLAY_FS or install its module"
    )]
    NoOverlay,
    /// Another agent has the root directory.
    #[error("another agent (pid {pid}) runs on {root_dir}; one agent per root directory")]
    AlreadyRunning {
        /// Its pid as written in the lock file.
        pid: String,
        /// The root directory.
        root_dir: PathBuf,
    },
    /// The lock file cannot be used.
    #[error("lock {path}")]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// Something of the kernel's cannot be read.
    #[error("read {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// A directory or state file cannot be made.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// What the last boot left cannot be removed.
    #[error("remove what an earlier boot left in {path}")]
    Stale {
        /// The directory.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// Checks that pods can run here at all; one clear line for each thing that is missing.
pub fn check_environment() -> Result<(), StartError> {
    if !rustix::process::geteuid().is_root() {
        return Err(StartError::NotRoot);
    }
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    if !is_new_enough(&release) {
        return Err(StartError::OldKernel { release });
    }
    if !mounts_cgroups(&read("/proc/self/mountinfo")?) {
        return Err(StartError::NoCgroups);
    }
    if !knows_overlay(&read("/proc/filesystems")?) {
        load_overlay();
        if !knows_overlay(&read("/proc/filesystems")?) {
            return Err(StartError::NoOverlay);
        }
    }
    Ok(())
}

/// The kernel would load it at the first mount; that mount is inside a holder, where a failure is hard to read.
fn load_overlay() {
    let modprobe = Command::new("modprobe").arg("overlay").spawn();
    // Without modprobe the module may be built in, or it is missed by who looks next.
    let Ok(mut modprobe) = modprobe else { return };
    let ended = async {
        if let Ok(pidfd) = child::watch(&modprobe) {
            let _ = pidfd.readable().await;
        }
    };
    let late = async {
        Timer::after(MODPROBE_DEADLINE).await;
    };
    smol::block_on(ended.or(late));
    // One that hangs in the kernel dies when it can; nobody waits for that.
    let _ = modprobe.kill();
    let _ = modprobe.try_wait();
}

fn is_new_enough(release: &str) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (5, 12)
}

/// The file system type is the first field after the lone dash.
fn mounts_cgroups(mountinfo: &str) -> bool {
    mountinfo
        .lines()
        .filter_map(|line| line.split_once(" - "))
        .filter_map(|(_, after)| after.split(' ').next())
        .any(|kind| matches!(kind, "cgroup" | "cgroup2"))
}

fn knows_overlay(filesystems: &str) -> bool {
    filesystems
        .lines()
        .any(|line| line.split_whitespace().next_back() == Some("overlay"))
}

fn read(path: &str) -> Result<String, StartError> {
    std::fs::read_to_string(path).map_err(|source| StartError::Read {
        path: path.into(),
        source,
    })
}

/// Makes every directory the agent owns. Those with sockets and states are root's alone.
pub fn make_directories(paths: &Paths) -> Result<(), StartError> {
    for dir in [
        paths.root_dir.clone(),
        paths.images_import(),
        paths.log_dir.join("pods"),
        paths.container_log_links(),
    ] {
        store::make_dir(&dir)?;
    }
    for dir in [
        paths.pods(),
        paths.trash(),
        paths.run_dir.clone(),
        paths.holders(),
    ] {
        store::make_private_dir(&dir)?;
    }
    Ok(())
}

/// N-82: held as long as the agent lives; CLOEXEC, so no child can keep it.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// A child that an agent was just starting when it was killed holds the agent's lock until its exec.
const LOCK_LINGERS_MS: u64 = 2000;
/// Bytes of a lock file that are read.
const MAX_PID_TEXT: u64 = 32;
const LOCK_RETRY: Duration = Duration::from_millis(5);

/// Whether the writer of a lock file lives.
fn owner_lives(pid: &str) -> bool {
    let owner = pid.parse().ok().and_then(|pid| process::of(pid).ok());
    owner.is_some_and(process::is_alive)
}

/// Takes the lock of the root directory and writes our pid into it.
pub fn lock(paths: &Paths) -> Result<Lock, StartError> {
    let path = paths.lock();
    let failed = |source| StartError::Lock {
        path: path.clone(),
        source,
    };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    let give_up_at = clock::now().boot_ms + LOCK_LINGERS_MS;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(source)) => return Err(failed(source)),
            Err(TryLockError::WouldBlock) => {}
        }
        let mut pid = String::new();
        file.rewind().map_err(failed)?;
        let first = (&mut file).take(MAX_PID_TEXT).read_to_string(&mut pid);
        first.map_err(failed)?;
        if owner_lives(pid.trim()) || clock::now().boot_ms >= give_up_at {
            return Err(StartError::AlreadyRunning {
                pid: pid.trim().to_owned(),
                root_dir: paths.root_dir.clone(),
            });
        }
        std::thread::sleep(LOCK_RETRY);
    }
    // A full disk must not keep pods from running; only the pid in another agent's complaint is lost.
    let _ = file
        .rewind()
        .and_then(|()| file.set_len(0))
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(Lock { _file: file })
}

/// What the run directory turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Boot {
    /// Holders in it may live.
    Same,
    /// Nothing of that boot lives, whatever pids say.
    New,
}

/// The id of this boot.
pub fn boot_id() -> Result<String, StartError> {
    Ok(read("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// D2: a run directory that is no tmpfs survives a reboot. Told by boot id, never by age or file system; what an
/// earlier boot left is removed, but for exits that holders recorded and perhaps no agent has seen.
pub fn enter_boot(paths: &Paths, boot_id: &str) -> Result<Boot, StartError> {
    let path = paths.boot_id();
    let boot = match std::fs::read_to_string(&path) {
        Ok(text) if text.trim() == boot_id => return Ok(Boot::Same),
        // Written before anything else is: a missing one means an unused directory.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Boot::Same,
        Ok(_) | Err(_) => {
            bury_holders(paths)?;
            Boot::New
        }
    };
    store::write_atomic(&path, boot_id.as_bytes())?;
    Ok(boot)
}

fn bury_holders(paths: &Paths) -> Result<(), StartError> {
    let dir = paths.holders();
    let buried = || {
        for entry in std::fs::read_dir(&dir)? {
            let path = entry?.path();
            if !keep_exits(&HolderPaths::new(path.clone()))? {
                remove::tree(&path)?;
            }
        }
        Ok(())
    };
    buried().map_err(|source| StartError::Stale {
        path: dir.clone(),
        source,
    })
}

/// Makes a holder's last state that of a dead one with nothing but exits, so that its pod takes them in as of any dead
/// holder. What ran was interrupted by the reboot. False when there is nothing to take in.
fn keep_exits(holder: &HolderPaths) -> io::Result<bool> {
    let Ok(Some(mut state)) = state_file::read::<HolderState>(&holder.state()) else {
        return Ok(false);
    };
    state
        .containers
        .retain(|container| !container.state.is_live());
    state.creating.clear();
    // Of no process: its pid may be somebody else's now.
    state.process = ProcessId {
        pid: 0,
        start_ticks: 0,
    };
    if state.containers.is_empty() {
        return Ok(false);
    }
    let written = store::write_json(&holder.state(), &state);
    written.map(|()| true).map_err(|error| error.source)
}

/// All of the above, in the order in which each relies on the one before.
pub fn prepare(config: &Config, boot_id: &str) -> Result<(Lock, Boot), StartError> {
    check_environment()?;
    // Modes that are asked for are the modes that files get, also in the holders.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    make_directories(&config.paths)?;
    let lock = lock(&config.paths)?;
    let boot = enter_boot(&config.paths, boot_id)?;
    Ok((lock, boot))
}
