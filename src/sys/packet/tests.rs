use std::io::Write;
use std::os::fd::AsFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

#[test]
fn bytes_descriptors_and_pid_arrive() {
    let (a, b) = pair();
    rustix::net::sockopt::set_socket_passcred(&b, true).unwrap();
    let file = tempfile::tempfile().unwrap();
    send(&a, b"hello", &[file.as_fd(), file.as_fd(), file.as_fd()]).unwrap();
    let packet = receive(&b).unwrap().unwrap();
    assert_eq!(packet.bytes, b"hello");
    assert_eq!(packet.fds.len(), 3);
    assert_eq!(packet.sender, Some(std::process::id().cast_signed()));
    std::fs::File::from(packet.fds.into_iter().next().unwrap())
        .write_all(b"x")
        .unwrap();
}

#[test]
fn an_oversized_packet_is_refused_and_the_next_one_arrives() {
    let (a, b) = pair();
    rustix::net::sockopt::set_socket_send_buffer_size(&a, 1 << 20).unwrap();
    send(&a, &vec![b'x'; MAX_PACKET + 1], &[]).unwrap();
    send(&a, b"next", &[]).unwrap();
    assert_eq!(receive(&b).unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert_eq!(receive(&b).unwrap().unwrap().bytes, b"next");
}

#[test]
fn end_and_empty_are_told() {
    let (a, b) = pair();
    assert_eq!(receive(&b).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(a);
    assert!(receive(&b).unwrap().is_none());
}
