use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::process::{Child, Command};

use rustix::thread::UnshareFlags;

use super::*;
use crate::sys::netdev;

/// A process in a network namespace of its own, with a listener in there.
fn elsewhere() -> (Child, TcpListener) {
    let made = std::thread::scope(|scope| {
        let born = scope.spawn(|| {
            #[expect(deprecated, reason = "its own thread; nothing else is shared")]
            rustix::thread::unshare(UnshareFlags::NEWNET)?;
            netdev::bring_up_loopback()?;
            let child = Command::new("sleep").arg("600").spawn()?;
            Ok::<_, io::Error>((child, TcpListener::bind("127.0.0.1:0")?))
        });
        born.join().unwrap()
    });
    made.unwrap()
}

#[test]
fn a_socket_belongs_to_the_other_namespace_and_the_thread_does_not() {
    let (mut child, listener) = elsewhere();
    let process = process::of(i32::try_from(child.id()).unwrap()).unwrap();
    let before = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let socket = tcp_socket_of(process, AddressFamily::INET).unwrap();
    assert_eq!(
        std::fs::read_link("/proc/thread-self/ns/net").unwrap(),
        before
    );
    let port = listener.local_addr().unwrap().port();
    let there: SocketAddr = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port).into();
    rustix::io::ioctl_fionbio(&socket, false).unwrap();
    rustix::net::connect(&socket, &there).unwrap();
    assert_eq!(TcpStream::from(socket).peer_addr().unwrap(), there);

    child.kill().unwrap();
    child.wait().unwrap();
    let gone = tcp_socket_of(process, AddressFamily::INET).unwrap_err();
    assert_eq!(gone.kind(), io::ErrorKind::NotFound);
}
