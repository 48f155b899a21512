use std::net::TcpListener;

use super::*;

fn tcp(host: Option<&str>, port: u16) -> Check {
    Check::TcpSocket {
        host: host.map(str::to_owned),
        port,
    }
}

#[test]
fn a_connection_is_success_even_if_nobody_accepts_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for host in [None, Some("127.0.0.1"), Some("localhost")] {
        assert_eq!(check(&tcp(host, port), LONG), Outcome::Success);
    }
    drop(listener);
    let text = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(check(&tcp(None, port), LONG), failure(text));
}

#[test]
fn a_full_backlog_ends_with_the_timeout() {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    bind(&listener, &any).unwrap();
    listen(&listener, 0).unwrap();
    let address = std::net::SocketAddr::try_from(getsockname(&listener).unwrap()).unwrap();
    let _fills_it = std::net::TcpStream::connect(address).unwrap();
    let text = format!("dial tcp {address}: i/o timeout");
    assert_eq!(check(&tcp(None, address.port()), SHORT), failure(text));
}

#[test]
fn a_pod_that_is_gone_is_no_failure() {
    let mut target = target();
    let mut process = crate::sys::process::of_self().unwrap();
    process.start_ticks += 1;
    target.network = Network::Pod(process);
    let outcome = smol::block_on(run(&tcp(None, 1), &target, LONG));
    let text = "make a socket in the pod's network namespace: entity not found";
    assert_eq!(outcome, Outcome::Errored(text.to_owned()));
}

#[test]
fn a_broken_check_errs() {
    let why = "the container has no port named \"web\"".to_owned();
    let broken = Check::Broken { why: why.clone() };
    assert_eq!(check(&broken, LONG), Outcome::Errored(why));
}
