//! SOCK_SEQPACKET packets with file descriptors and the sender's pid. No unsafe code; here because it is a thin layer
//! over one syscall family.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
};

/// Longest packet that is accepted, in bytes.
pub const MAX_PACKET: usize = 128 * 1024;
/// Most descriptors that one packet carries.
pub const MAX_FDS: usize = 3;

/// A packet that was received.
#[derive(Debug)]
pub struct Packet {
    /// Content.
    pub bytes: Vec<u8>,
    /// Descriptors, close-on-exec.
    pub fds: Vec<OwnedFd>,
    /// The sender's pid as seen from here; only on a socket with SO_PASSCRED.
    pub sender: Option<i32>,
}

/// Sends one packet whole, or fails (`WouldBlock` on a full non-blocking socket).
pub fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives one packet; `None` at the end. A packet above [`MAX_PACKET`] is an `InvalidData` error.
pub fn receive(socket: impl AsFd) -> io::Result<Option<Packet>> {
    // Asked for first, so that an idle holder never holds a buffer of the largest size.
    let mut probe = [0_u8; 1];
    let peek = RecvFlags::PEEK | RecvFlags::TRUNC;
    let (_, size) = recv(&socket, &mut probe, peek)?;
    let mut bytes = vec![0; size.min(MAX_PACKET)];
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(
        &socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let (mut fds, mut sender) = (Vec::new(), None);
    for message in control.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(list) => fds.extend(list),
            RecvAncillaryMessage::ScmCredentials(peer) => {
                sender = Some(peer.pid.as_raw_nonzero().get());
            }
            _ => {}
        }
    }
    if size > MAX_PACKET {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    // An empty packet cannot be told from the end; nobody sends one.
    Ok((size > 0).then_some(Packet { bytes, fds, sender }))
}

#[cfg(test)]
mod tests;
