//! Standing still: a process that waits for nothing, for good, and can do nothing else.

#![expect(unsafe_code, reason = "ppoll without end has no safe wrapper")]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::seccomp;

/// A holder's are shorter than two paths.
const MAX_ARGUMENTS: u64 = 16 << 10;

/// Gives the process this name, in `comm` and as its command line, as far as that has room. Best effort.
pub fn rename(name: &CStr) {
    let _ = rustix::thread::set_name(name);
    let _ = overwrite_command_line(name.to_bytes());
}

/// The kernel shows what is in memory where it once put the arguments. PR_SET_MM would need CAP_SYS_RESOURCE.
fn overwrite_command_line(name: &[u8]) -> io::Result<()> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (start, end) = arguments(&stat).ok_or(io::ErrorKind::InvalidData)?;
    let mut line = name.to_vec();
    line.resize(usize::try_from(end - start).map_err(io::Error::other)?, 0);
    let memory = File::options().write(true).open("/proc/self/mem")?;
    memory.write_all_at(&line, start)
}

/// Fields 48 and 49 of /proc/pid/stat. The command name may hold blanks and parentheses.
fn arguments(stat: &str) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(45);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let (start, end) = (next()?, next()?);
    (0 < start && start < end && end - start <= MAX_ARGUMENTS).then_some((start, end))
}

/// Gives up everything but waiting, and waits until it is killed; returns only if the filter cannot be installed. Needs
/// no_new_privs. Whoever takes the process over (ptrace) cannot do more with it either.
pub fn stand() -> io::Error {
    if let Err(error) = seccomp::install(&only(&[libc::SYS_ppoll, libc::SYS_exit_group])) {
        return error;
    }
    loop {
        // SAFETY: no descriptors, no time limit, no other signal mask: no pointer is followed.
        unsafe { libc::syscall(libc::SYS_ppoll, 0_usize, 0_usize, 0_usize, 0_usize, 0_usize) };
    }
}

/// Any other call kills the process. The architecture is not looked at: on those that these numbers mean something else
/// (32-bit programs), that does no harm without descriptors.
fn only(calls: &[libc::c_long; 2]) -> [libc::sock_filter; 5] {
    let instruction = |code: u32, k: u32| libc::sock_filter {
        // Operations have 16 bits.
        code: u16::try_from(code).unwrap_or(u16::MAX),
        jt: 0,
        jf: 0,
        k,
    };
    let jump = |call: libc::c_long, to_allow: u8| libc::sock_filter {
        jt: to_allow,
        ..instruction(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            u32::try_from(call).unwrap_or(u32::MAX),
        )
    };
    [
        // seccomp_data begins with the number.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        jump(calls[0], 2),
        jump(calls[1], 1),
        instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_KILL_PROCESS),
        instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ]
}

#[cfg(test)]
mod tests;
