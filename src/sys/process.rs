//! Processes: identity that survives pid reuse, fork, exec.
#![expect(
    unsafe_code,
    reason = "fork, _exit, execve, unshare and closing what others opened have no safe wrapper"
)]

use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use rustix::thread::UnshareFlags;
use serde::{Deserialize, Serialize};

/// A process that survives pid reuse (invariant 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Pid in the host's namespace.
    pub pid: i32,
    /// Field 22 of /proc/pid/stat: clock ticks since boot.
    pub start_ticks: u64,
}

/// Identity of the process that has `pid` now.
pub fn of(pid: i32) -> io::Result<ProcessId> {
    let (_, start_ticks) = stat(pid)?;
    Ok(ProcessId { pid, start_ticks })
}

/// Identity of the calling process.
pub fn of_self() -> io::Result<ProcessId> {
    of(rustix::process::getpid().as_raw_nonzero().get())
}

/// True while that very process runs; a zombie does not.
pub fn is_alive(process: ProcessId) -> bool {
    stat(process.pid)
        .is_ok_and(|(state, start)| start == process.start_ticks && !matches!(state, 'Z' | 'X'))
}

/// A pidfd of that very process (invariant 7); `NotFound` when it is gone or its pid belongs to another now.
pub fn pidfd_open(process: ProcessId) -> io::Result<OwnedFd> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let pid = Pid::from_raw(process.pid).ok_or_else(gone)?;
    let fd =
        rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(|error| match error {
            Errno::SRCH => gone(),
            other => other.into(),
        })?;
    // Checked after opening: from here on the pid cannot be reused unseen.
    if of(process.pid)? == process {
        Ok(fd)
    } else {
        Err(gone())
    }
}

/// State letter and start time (field 22) from /proc/pid/stat.
fn stat(pid: i32) -> io::Result<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    parse_stat(&text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// The command name may hold blanks and parentheses, so fields are counted behind the last `)`.
fn parse_stat(text: &str) -> Option<(char, u64)> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let start = fields.nth(18)?.parse().ok()?;
    Some((state, start))
}

/// How many threads this process has.
pub fn thread_count() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

/// Forks a child that runs `work` and exits with its result without unwinding, flushing or running exit handlers.
///
/// Refused when there is a second thread (invariant 1): it could hold the heap's lock, and the child would hang.
pub fn fork(work: impl FnOnce() -> i32) -> io::Result<i32> {
    let threads = thread_count()?;
    if threads != 1 {
        return Err(io::Error::other(format!("{threads} threads before a fork")));
    }
    // SAFETY: this process has one thread (checked above), so the child's copy of every lock is free.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let code = work();
            // SAFETY: ends the child at once; always sound.
            unsafe { libc::_exit(code) }
        }
        pid => Ok(pid),
    }
}

/// Replaces the process by a program; returns only the error. `args` and `env` are passed on in their order.
pub fn execve(program: &CString, args: &[CString], env: &[CString]) -> io::Error {
    let pointers = |list: &[CString]| -> Vec<*const c_char> {
        list.iter()
            .map(|text| text.as_ptr())
            .chain([std::ptr::null()])
            .collect()
    };
    let (args, env) = (pointers(args), pointers(env));
    // SAFETY: both arrays end with null and point to NUL-terminated strings that outlive the call.
    unsafe { libc::execve(program.as_ptr(), args.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Moves this process into new namespaces. Only with one thread, which this checks.
pub fn unshare(flags: UnshareFlags) -> io::Result<()> {
    let threads = thread_count()?;
    if threads != 1 {
        return Err(io::Error::other(format!(
            "{threads} threads before an unshare"
        )));
    }
    // SAFETY: CLONE_FILES, the unsafe flag, takes nothing from anybody in a process of one thread.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Closes every descriptor from 3 on, except one. Only at a program's start, before anything owns another, or in a forked
/// child, which uses none of those that it inherited.
pub fn close_all_but(kept: BorrowedFd<'_>) -> io::Result<()> {
    let kept = u32::try_from(kept.as_raw_fd()).map_err(io::Error::other)?;
    if kept > 3 {
        close_range(3, kept - 1)?;
    }
    close_range(kept.saturating_add(1).max(3), u32::MAX)
}

/// Closes every descriptor. Only in a forked child, which uses none any more.
pub fn close_all() -> io::Result<()> {
    close_range(0, u32::MAX)
}

fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: nothing in this process uses them (see the callers). The system call is as old as kernel 5.9.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_identity_is_alive_and_another_start_time_is_not() {
        let me = of_self().unwrap();
        assert!(is_alive(me));
        assert!(pidfd_open(me).is_ok());
        let ended = ProcessId {
            pid: i32::MAX,
            ..me
        };
        assert_eq!(
            pidfd_open(ended).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        let other = ProcessId {
            start_ticks: me.start_ticks + 1,
            ..me
        };
        assert!(!is_alive(other));
        assert_eq!(
            pidfd_open(other).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn stat_survives_odd_names() {
        let text = "7 (a) b (c) Z 1 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        assert_eq!(parse_stat(text), Some(('Z', 4711)));
        assert_eq!(parse_stat("7 (x"), None);
        assert_eq!(parse_stat("7 (x) S 1"), None);
    }
}
