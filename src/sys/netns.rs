//! Sockets of another network namespace. No unsafe code; here because a thread that stays in the wrong namespace would
//! break everything that comes after it.
//!
//! Invariant 1 forbids the agent to fork, clone and unshare: what a child inherits from a process with threads is not to
//! be known. Nothing is inherited here. One thread changes its own namespace, makes one socket, which belongs to that
//! namespace for good, and is back before anything else can run on it. Whatever a thread starts in between would be born
//! in the pod's namespace, so nothing but [`tcp_socket`] can be run there.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::thread::{
    LinkNameSpaceType, ThreadNameSpaceType, move_into_link_name_space, move_into_thread_name_spaces,
};

use super::process::{self, ProcessId};

/// A TCP socket that neither blocks nor is inherited, in the caller's own network namespace.
pub fn tcp_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    Ok(socket)
}

/// The same in the network namespace of that very process (invariant 7); `NotFound` when it is gone.
///
/// Aborts the process if its thread cannot come back: systemd starts a new agent, and no pod notices.
pub fn tcp_socket_of(process: ProcessId, family: AddressFamily) -> io::Result<OwnedFd> {
    // A pidfd for setns is as old as kernel 5.8.
    let there = process::pidfd_open(process)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let home = rustix::fs::open("/proc/thread-self/ns/net", flags, Mode::empty())?;
    move_into_thread_name_spaces(there.as_fd(), ThreadNameSpaceType::NETWORK).map_err(gone)?;
    let socket = tcp_socket(family);
    if move_into_link_name_space(home.as_fd(), Some(LinkNameSpaceType::Network)).is_err() {
        std::process::abort();
    }
    socket
}

/// A process that ended after its pidfd was opened.
fn gone(error: rustix::io::Errno) -> io::Error {
    match error {
        rustix::io::Errno::SRCH => io::ErrorKind::NotFound.into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests;
