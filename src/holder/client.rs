//! The client half of the holder's socket, for agent and CLI.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::proto::{FromHolder, ToHolder};
use crate::config::HolderPaths;
use crate::sys::packet;

/// Why a holder could not be talked to.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No holder listens there.
    #[error("connect to {path}")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The connection broke.
    #[error("talk to the holder")]
    Transport(#[source] io::Error),
    /// The holder closed the connection.
    #[error("the holder closed the connection")]
    Closed,
    /// The packet is not understood.
    #[error("read the holder's answer")]
    Answer(#[source] serde_json::Error),
    /// The request is too long.
    #[error("the request to the holder has {0} bytes, more than it takes")]
    TooLong(usize),
}

impl ClientError {
    /// True when a non-blocking connection has nothing to read or no room to write now.
    pub fn would_block(&self) -> bool {
        matches!(self, Self::Transport(e) if e.kind() == io::ErrorKind::WouldBlock)
    }
}

/// One connection. The holder sends a [`FromHolder::State`] first, and after each change.
#[derive(Debug)]
pub struct HolderConnection {
    socket: OwnedFd,
}

impl HolderConnection {
    /// Connects at once or fails, also when a holder that hangs has a full backlog. The connection is in blocking mode.
    pub fn connect(paths: &HolderPaths) -> Result<Self, ClientError> {
        Self::open(paths).map_err(|source| ClientError::Connect {
            path: paths.socket(),
            source,
        })
    }

    fn open(paths: &HolderPaths) -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(paths.dir(), flags, Mode::empty())?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        rustix::net::connect(&socket, &address_below(dir.as_fd())?)?;
        rustix::io::ioctl_fionbio(&socket, false)?;
        Ok(Self { socket })
    }

    /// Makes `send` and `recv` fail with [`ClientError::would_block`] instead of waiting; for a reactor.
    pub fn set_nonblocking(&self) -> Result<(), ClientError> {
        rustix::io::ioctl_fionbio(&self.socket, true).map_err(|e| ClientError::Transport(e.into()))
    }

    /// Sends a request, with descriptors for an exec without tty.
    pub fn send(&self, request: &ToHolder, fds: &[BorrowedFd<'_>]) -> Result<(), ClientError> {
        let bytes = serde_json::to_vec(request).map_err(ClientError::Answer)?;
        if bytes.len() > packet::MAX_PACKET {
            return Err(ClientError::TooLong(bytes.len()));
        }
        packet::send(&self.socket, &bytes, fds).map_err(ClientError::Transport)
    }

    /// Receives the next packet and the descriptors that came with it.
    pub fn recv(&self) -> Result<(FromHolder, Vec<OwnedFd>), ClientError> {
        let packet = packet::receive(&self.socket)
            .map_err(ClientError::Transport)?
            .ok_or(ClientError::Closed)?;
        let message = serde_json::from_slice(&packet.bytes).map_err(ClientError::Answer)?;
        Ok((message, packet.fds))
    }
}

impl AsFd for HolderConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<HolderConnection> for OwnedFd {
    fn from(connection: HolderConnection) -> Self {
        connection.socket
    }
}

/// Address of `holder.sock` below an open directory: a path of any length fits into the 108 bytes of sun_path this way.
pub(super) fn address_below(dir: BorrowedFd<'_>) -> io::Result<SocketAddrUnix> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}/holder.sock", dir.as_raw_fd());
    Ok(SocketAddrUnix::new(path)?)
}
