use std::io::Write;

use super::server::{Server, hold};
use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

pub fn get(port: u16, path: &str) -> HttpGet {
    HttpGet {
        tls: false,
        host: None,
        port,
        path: path.to_owned(),
        headers: Vec::new(),
    }
}

fn ask(server: &Server) -> Outcome {
    check(&Check::HttpGet(get(server.port(), "/healthz")), LONG)
}

fn url(server: &Server) -> String {
    format!("Get \"http://127.0.0.1:{}/healthz\"", server.port())
}

#[test]
fn a_status_from_200_to_299_is_success() {
    for answer in [
        OK,
        "HTTP/1.0 204 No Content\r\n\r\n",
        "HTTP/1.1 299 Odd\r\nContent-Length: 0\r\n\r\n",
        // The reason and the length may be missing.
        "HTTP/1.1 200\r\n\r\nthe end is the end",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ] {
        assert_eq!(
            ask(&Server::answering(answer)),
            Outcome::Success,
            "{answer}"
        );
    }
}

#[test]
fn a_status_from_400_on_fails_and_the_body_is_not_told() {
    for status in [101, 400, 404, 500, 599, 999] {
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 6\r\n\r\nsecret");
        let answer = if status == 101 {
            "HTTP/1.1 101 X\r\nUpgrade: y\r\nConnection: upgrade\r\n\r\n".to_owned()
        } else {
            answer
        };
        assert_eq!(
            ask(&Server::answering(answer)),
            failure(format!("HTTP probe failed with statuscode: {status}"))
        );
    }
}

#[test]
fn a_redirect_on_the_same_host_is_followed_to_its_end() {
    let end = Server::answering("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n");
    let begin = Server::answering(format!(
        "HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:{}/other?x=1\r\nContent-Length: 0\r\n\r\n",
        end.port()
    ));
    let text = "HTTP probe failed with statuscode: 503";
    assert_eq!(ask(&begin), failure(text));
    assert!(end.request().starts_with("GET /other?x=1 HTTP/1.1\r\n"));
}

#[test]
fn a_redirect_to_another_host_is_a_success_with_a_warning() {
    for location in ["http://example.invalid/", "//localhost/x"] {
        let answer = format!("HTTP/1.1 301 X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(
            ask(&Server::answering(answer)),
            Outcome::Warning("Probe terminated redirects with statuscode: 301".to_owned())
        );
    }
}

#[test]
fn redirects_end() {
    let server = Server::answering("HTTP/1.1 302 X\r\nLocation: on\r\nContent-Length: 0\r\n\r\n");
    let text = format!(
        "Get \"http://127.0.0.1:{}/on\": stopped after 10 redirects",
        server.port()
    );
    assert_eq!(ask(&server), failure(text));
    assert_eq!(server.requests.try_iter().count(), 10);
}

#[test]
fn what_is_not_http_is_quoted() {
    let server = Server::answering("SSH-2.0-OpenSSH_9.2p1\r\n");
    let text = r#"malformed HTTP response "SSH-2.0-OpenSSH_""#;
    assert_eq!(ask(&server), failure(format!("{}: {text}", url(&server))));
    let server = Server::answering(*b"\x15\x03\x01\x00\x02\x02\x50");
    let text = r#"malformed HTTP response "\x15\x03\x01\x00\x02\x02P""#;
    assert_eq!(ask(&server), failure(format!("{}: {text}", url(&server))));
}

#[test]
fn an_early_end_is_a_failure() {
    let server = Server::answering("");
    assert_eq!(ask(&server), failure(format!("{}: EOF", url(&server))));
    let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Le");
    assert_eq!(ask(&server), failure(format!("{}: EOF", url(&server))));
    let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    let text = format!("{}: unexpected EOF", url(&server));
    assert_eq!(ask(&server), failure(text));
}

#[test]
fn a_refused_connection_says_so() {
    let port = free_port();
    let text = format!(
        "Get \"http://127.0.0.1:{port}/\": dial tcp 127.0.0.1:{port}: connect: connection refused"
    );
    assert_eq!(check(&Check::HttpGet(get(port, "/")), LONG), failure(text));
}

/// Bound and never listened to, so nobody else gets it while the test runs.
pub fn free_port() -> u16 {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    bind(&socket, &any).unwrap();
    let bound = getsockname(&socket).unwrap();
    std::mem::forget(socket);
    std::net::SocketAddr::try_from(bound).unwrap().port()
}

#[test]
fn an_endless_body_is_read_in_part() {
    let server = Server::start(
        "127.0.0.1:0",
        Box::new(|stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
            loop {
                stream.write_all(&[b'x'; 4096])?;
            }
        }),
    );
    assert_eq!(ask(&server), Outcome::Success);
}

#[test]
fn an_endless_head_is_not_read_to_the_end() {
    let text = "server response headers exceeded 65536 bytes or 256 lines; aborted";
    for line in ["X: y\r\n".to_owned(), "x".repeat(4096)] {
        let server = Server::start(
            "127.0.0.1:0",
            Box::new(move |stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\nA: ")?;
                loop {
                    stream.write_all(line.as_bytes())?;
                }
            }),
        );
        assert_eq!(ask(&server), failure(format!("{}: {text}", url(&server))));
    }
}

/// They are no answers, so that no limit of an answer counts, and a parser reads on without a pause.
#[test]
fn endless_interim_answers_do_not_keep_the_agents_only_thread() {
    let server = Server::start(
        "127.0.0.1:0",
        Box::new(|stream| {
            let many = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1000);
            loop {
                stream.write_all(&many)?;
            }
        }),
    );
    let outcome = ask(&server);
    let Outcome::Failure(text) = &outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        text.ends_with("the server sent more than 262144 bytes"),
        "{text}"
    );
}

#[test]
fn silence_and_slow_answers_end_with_the_timeout() {
    for (begin, stage) in [
        ("", "while awaiting headers"),
        ("HTTP/1.1 200 OK\r\nA: b", "while awaiting headers"),
        ("HTTP/1.1 200 OK\r\n\r\nx", "while reading body"),
    ] {
        let server = Server::start(
            "127.0.0.1:0",
            Box::new(move |stream| {
                stream.write_all(begin.as_bytes())?;
                hold(stream)
            }),
        );
        let outcome = check(&Check::HttpGet(get(server.port(), "/healthz")), SHORT);
        let text = format!(
            "{}: context deadline exceeded (Client.Timeout exceeded {stage})",
            url(&server)
        );
        assert_eq!(outcome, failure(text));
    }
}

#[test]
fn hosts_are_addresses_and_names() {
    for (bind, host) in [("[::1]:0", "::1"), ("127.0.0.1:0", "localhost")] {
        let server = Server::answering_at(bind, OK);
        let mut get = get(server.port(), "/");
        get.host = Some(host.to_owned());
        assert_eq!(check(&Check::HttpGet(get), LONG), Outcome::Success);
        let host = dial::join(host, server.port());
        assert!(server.request().contains(&format!("\r\nHost: {host}\r\n")));
    }
}

#[test]
fn an_unknown_name_is_a_failure() {
    let mut get = get(80, "/");
    get.host = Some("vetch.invalid".to_owned());
    let outcome = check(&Check::HttpGet(get), LONG);
    let Outcome::Failure(text) = outcome else {
        panic!("{outcome:?}");
    };
    let begin = "Get \"http://vetch.invalid:80/\": dial tcp: lookup vetch.invalid: ";
    assert!(text.starts_with(begin), "{text}");
}

#[test]
fn a_header_that_cannot_be_sent_is_an_error_of_ours() {
    let mut get = get(80, "/");
    get.headers = vec![("X-A".to_owned(), "a\nb".to_owned())];
    let text = "invalid header field value for \"X-A\"";
    assert_eq!(
        check(&Check::HttpGet(get), LONG),
        Outcome::Errored(text.to_owned())
    );
}

#[test]
fn a_hook_does_not_look_at_the_status() {
    let server = Server::answering("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(smol::block_on(hook_get(&get(server.port(), "/"))), Ok(()));
    assert!(
        server
            .request()
            .contains("\r\nUser-Agent: kube-lifecycle/1.36\r\n")
    );
    let server = Server::answering("");
    let outcome = smol::block_on(hook_get(&get(server.port(), "/healthz")));
    assert_eq!(outcome, Err(format!("{}: EOF", url(&server))));
}
