//! What the tests stand on: the server of `support::web`, as a client sees it.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use support::web::{Answer, Web};

/// Up to so many bytes of the answer to a request for `/`, and whether it ended with them.
fn get(web: &Web, limit: u64) -> (String, bool) {
    let mut stream = TcpStream::connect(("127.0.0.1", web.port())).expect("connect");
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("ask");
    let mut answer = Vec::new();
    let mut limited = stream.take(limit);
    limited.read_to_end(&mut answer).expect("an answer");
    let is_whole = limited.limit() > 0;
    (String::from_utf8_lossy(&answer).into_owned(), is_whole)
}

#[test]
fn the_server_answers_as_it_is_told() {
    let web = Web::start(Answer::Status(204));
    let (answer, is_whole) = get(&web, 1000);
    assert!(answer.starts_with("HTTP/1.1 204 ") && answer.ends_with("\r\n\r\n"));
    assert!(is_whole);
    web.answer(Answer::Bytes(b"\0garbage".to_vec()));
    assert_eq!(get(&web, 1000), ("\0garbage".to_owned(), true));
    web.answer(Answer::Endless("HTTP/1.1 200 OK\r\n\r\n", "ab"));
    let (answer, is_whole) = get(&web, 1 << 20);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n\r\nabab"));
    assert!(!is_whole && answer.len() == 1 << 20);
    web.answer(Answer::Slow);
    assert_eq!(get(&web, 30).0, "HTTP/1.1 200 OK\r\nX-Slow: xxxxx");
    assert_eq!(web.requests(), vec!["GET / HTTP/1.1\r\nHost: x\r\n\r\n"; 4]);
}

#[test]
fn a_silent_server_says_nothing_and_still_ends() {
    let web = Web::start(Answer::Silence);
    let mut stream = TcpStream::connect(("127.0.0.1", web.port())).expect("connect");
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("ask");
    support::wait::wait_for("the request", || web.requests().pop());
    stream.set_nonblocking(true).expect("set a flag");
    let nothing = stream.read(&mut [0]).expect_err("no byte");
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    drop(web);
    stream.set_nonblocking(false).expect("set a flag");
    assert_eq!(stream.read(&mut [0]).expect("an end"), 0);
}
