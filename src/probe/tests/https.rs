//! TLS of both versions, with a self-signed certificate of another name that expired in 2020.

use std::io::{Read, Write};
use std::sync::Arc;

use futures_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use futures_rustls::rustls::{
    self, ServerConfig, ServerConnection, SupportedProtocolVersion, version,
};

use super::http::get;
use super::server::{Server, hold};
use super::*;

const CERTIFICATE: &[u8] = include_bytes!("expired.cert.der");
const KEY: &[u8] = include_bytes!("expired.key.der");

fn config(version: &'static SupportedProtocolVersion) -> ServerConfig {
    let provider = rustls::crypto::ring::default_provider();
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(CERTIFICATE)],
            PrivateKeyDer::try_from(KEY).unwrap(),
        );
    config.unwrap()
}

/// Answers over TLS; `requests` gets the server name that was asked for, or `-`, and the request.
fn secure(bind: &str, version: &'static SupportedProtocolVersion, answer: &'static str) -> Server {
    let config = Arc::new(config(version));
    Server::raw(
        bind,
        Box::new(move |stream, seen| {
            let mut session = ServerConnection::new(config.clone()).unwrap();
            let mut tls = rustls::Stream::new(&mut session, stream);
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") {
                tls.read_exact(&mut byte)?;
                head.extend(byte);
            }
            tls.write_all(answer.as_bytes())?;
            let name = session.server_name().unwrap_or("-");
            let head = String::from_utf8(head).unwrap();
            let _ = seen.send(format!("{name} {head}"));
            Ok(())
        }),
    )
}

fn https(server: &Server, host: Option<&str>) -> HttpGet {
    let mut get = get(server.port(), "/healthz");
    get.tls = true;
    get.host = host.map(str::to_owned);
    get
}

#[test]
fn no_certificate_is_refused_in_either_version() {
    for version in [&version::TLS12, &version::TLS13] {
        // The first answer's end is the connection's, which comes without the goodbye of TLS.
        for answer in ["HTTP/1.1 200 OK\r\n\r\nx", "HTTP/1.0 204 X\r\n\r\n"] {
            let server = secure("127.0.0.1:0", version, answer);
            let check = Check::HttpGet(https(&server, None));
            assert_eq!(super::check(&check, LONG), Outcome::Success, "{answer}");
        }
    }
}

#[test]
fn only_a_name_in_the_url_is_told_to_the_server() {
    let answer = "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n";
    for (bind, host, told) in [
        ("127.0.0.1:0", None, "- GET "),
        ("[::1]:0", Some("::1"), "- GET "),
        ("127.0.0.1:0", Some("localhost"), "localhost GET "),
    ] {
        let server = secure(bind, &version::TLS13, answer);
        let mut get = https(&server, host);
        get.headers = vec![("Host".to_owned(), "virtual.example".to_owned())];
        let text = "HTTP probe failed with statuscode: 500";
        assert_eq!(check(&Check::HttpGet(get), LONG), failure(text));
        assert!(server.request().starts_with(told), "{host:?}");
    }
}

#[test]
fn a_redirect_may_lead_to_tls() {
    let end = secure("127.0.0.1:0", &version::TLS13, "HTTP/1.1 200 OK\r\n\r\n");
    let begin = Server::answering(format!(
        "HTTP/1.1 308 X\r\nLocation: https://127.0.0.1:{}/\r\nContent-Length: 0\r\n\r\n",
        end.port()
    ));
    let outcome = check(&Check::HttpGet(get(begin.port(), "/")), LONG);
    assert_eq!(outcome, Outcome::Success);
}

#[test]
fn a_server_without_tls_is_recognised() {
    let plain = |answer: &'static str| {
        Server::raw(
            "127.0.0.1:0",
            Box::new(move |stream, _| {
                stream.write_all(answer.as_bytes())?;
                hold(stream)
            }),
        )
    };
    let cases = [
        (
            "HTTP/1.1 400 Bad Request\r\n\r\n",
            "http: server gave HTTP response to HTTPS client",
        ),
        (
            "220 mail.example\r\n",
            "tls: received corrupt message of type InvalidContentType",
        ),
    ];
    for (answer, text) in cases {
        let server = plain(answer);
        let outcome = check(&Check::HttpGet(https(&server, None)), LONG);
        let url = format!("https://127.0.0.1:{}/healthz", server.port());
        assert_eq!(outcome, failure(format!("Get {url:?}: {text}")));
    }
}

#[test]
fn a_server_that_refuses_or_closes_is_a_failure() {
    let alert = Server::raw(
        "127.0.0.1:0",
        Box::new(|stream, _| stream.write_all(b"\x15\x03\x03\x00\x02\x02\x28")),
    );
    let closed = Server::raw(
        "127.0.0.1:0",
        Box::new(|stream, _| {
            // The whole greeting, so that the close is no reset.
            let mut head = [0; 5];
            stream.read_exact(&mut head)?;
            let mut rest = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
            stream.read_exact(&mut rest)
        }),
    );
    for (server, text) in [
        (alert, "tls: received fatal alert: HandshakeFailure"),
        (closed, "EOF"),
    ] {
        let outcome = check(&Check::HttpGet(https(&server, None)), LONG);
        let url = format!("https://127.0.0.1:{}/healthz", server.port());
        assert_eq!(outcome, failure(format!("Get {url:?}: {text}")));
    }
}

#[test]
fn a_silent_handshake_ends_with_the_timeout() {
    let server = Server::raw("127.0.0.1:0", Box::new(|stream, _| hold(stream)));
    let outcome = check(&Check::HttpGet(https(&server, None)), SHORT);
    let url = format!("https://127.0.0.1:{}/healthz", server.port());
    let text = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    assert_eq!(outcome, failure(format!("Get {url:?}: {text}")));
}

#[test]
fn a_hook_asks_a_plain_server_again_without_its_secret() {
    let server = Server::raw(
        "127.0.0.1:0",
        Box::new(|stream, seen| {
            let mut begin = [0; 3];
            stream.read_exact(&mut begin)?;
            if begin == *b"GET" {
                let rest = super::server::read_head(stream)?;
                let _ = seen.send(rest);
            }
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        }),
    );
    let mut get = https(&server, None);
    get.headers = vec![
        ("Authorization".to_owned(), "Bearer secret".to_owned()),
        ("X-A".to_owned(), "b".to_owned()),
    ];
    assert_eq!(smol::block_on(hook_get(&get)), Ok(()));
    let request = server.request();
    assert!(request.contains("\r\nX-A: b\r\n") && !request.contains("Authorization"));
}
