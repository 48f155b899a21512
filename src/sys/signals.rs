//! Signals: what a holder ignores, SIGCHLD as a file descriptor, and the clean slate of its children.
#![expect(
    unsafe_code,
    reason = "sigaction, sigprocmask and signalfd have no safe wrapper"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

/// Blocks SIGCHLD and returns a non-blocking descriptor that becomes readable when a child ends.
pub fn child_exits() -> io::Result<OwnedFd> {
    watch(&[libc::SIGCHLD])
}

/// Blocks these signals and returns a non-blocking descriptor from which [`next`] takes them. To be called before a
/// second thread is started: each one inherits the mask.
pub fn watch(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = set_of(signals);
    // SAFETY: `set` is initialised; the old mask is not wanted.
    let blocked =
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    if blocked != 0 {
        return Err(io::Error::last_os_error());
    }
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: `set` is initialised; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes one signal from a descriptor of [`watch`]; none when there is none.
pub fn next(fd: impl AsFd) -> Option<i32> {
    // A signalfd_siginfo has 128 bytes and begins with the number.
    let mut info = [0; 128];
    match rustix::io::read(fd, &mut info) {
        Ok(128) => i32::from_ne_bytes(*info.first_chunk()?).into(),
        Ok(_) | Err(_) => None,
    }
}

/// Ignores these signals.
pub fn ignore(signals: &[i32]) {
    for &signal in signals {
        // SAFETY: SIG_IGN is a valid disposition and installs no code.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Every signal back to its default and none blocked: what a program expects at its start, and what a parent that was
/// started by `&` in a script, or by Rust's runtime (SIGPIPE), would otherwise pass on.
pub fn reset_all() {
    // All zeroes is the default action, no flags and an empty mask, whatever the architecture's layout. Not by libc, which
    // keeps two real-time signals for itself and would leave them ignored.
    let default = [0_u64; 8];
    for signal in 1..=64_i32 {
        // SAFETY: the kernel reads a sigaction that is shorter than `default`; no code is installed. Unchangeable
        // signals are refused harmlessly.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                8_usize,
            );
        }
    }
    let none = set_of(&[]);
    // SAFETY: `none` is initialised; the old mask is not wanted.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set it is given.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for &signal in signals {
        // SAFETY: initialised above.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    }
    // SAFETY: initialised above.
    unsafe { set.assume_init() }
}

/// Sends any signal, also a real-time one, to one process. Only for a child that was not reaped yet: its pid is its own.
pub fn send(child: i32, signal: i32) -> io::Result<()> {
    if child <= 1 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: touches no memory.
    if unsafe { libc::kill(child, signal) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
