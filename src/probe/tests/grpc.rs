//! Health checks against a real HTTP/2 server.

use std::io::Write;
use std::net::{TcpListener, TcpStream};

use hyper::body::Bytes;
use hyper::{HeaderMap, Response};
use smol::Async;

use super::server::{Server, hold};
use super::*;
use crate::probe::grpc::Tokio;

/// What a server says: headers, then perhaps a message, then perhaps trailers.
#[derive(Clone)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
    trailers: Option<HeaderMap>,
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect()
}

fn message(body: &[u8]) -> Answer {
    Answer {
        status: 200,
        headers: headers(&[("content-type", "application/grpc")]),
        body: Some(body.to_vec()),
        trailers: Some(headers(&[("grpc-status", "0")])),
    }
}

fn no_message(status: u16, pairs: &[(&'static str, &str)]) -> Answer {
    Answer {
        status,
        headers: headers(pairs),
        body: None,
        trailers: None,
    }
}

/// Answers one call; the result is what was asked.
fn serve(
    answer: Answer,
) -> (
    u16,
    std::thread::JoinHandle<(hyper::http::request::Parts, Vec<u8>)>,
) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let builder = std::thread::Builder::new();
    let asked = builder.spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        smol::block_on(talk(stream, answer))
    });
    (port, asked.unwrap())
}

async fn talk(stream: TcpStream, answer: Answer) -> (hyper::http::request::Parts, Vec<u8>) {
    let stream = Async::new(stream).unwrap();
    let mut connection = h2::server::handshake(Tokio(stream)).await.unwrap();
    let (request, mut respond) = connection.accept().await.unwrap().unwrap();
    let (parts, mut body) = request.into_parts();
    let answered = async {
        let mut sent = Vec::new();
        while let Some(chunk) = body.data().await {
            sent.extend(chunk.unwrap());
        }
        let mut head = Response::new(());
        *head.status_mut() = answer.status.try_into().unwrap();
        *head.headers_mut() = answer.headers;
        let is_last = answer.body.is_none() && answer.trailers.is_none();
        let mut stream = respond.send_response(head, is_last).unwrap();
        if let Some(body) = answer.body {
            let is_last = answer.trailers.is_none();
            stream.send_data(Bytes::from(body), is_last).unwrap();
        }
        if let Some(trailers) = answer.trailers {
            stream.send_trailers(trailers).unwrap();
        }
        sent
    };
    let driven = async {
        // Until the client has gone.
        while let Some(Ok(_)) = connection.accept().await {}
    };
    let (sent, ()) = futures_lite::future::zip(answered, driven).await;
    (parts, sent)
}

fn grpc(port: u16, service: &str) -> Check {
    Check::Grpc {
        port,
        service: service.to_owned(),
    }
}

fn ask(answer: Answer) -> Outcome {
    let (port, asked) = serve(answer);
    let outcome = check(&grpc(port, ""), LONG);
    asked.join().unwrap();
    outcome
}

#[test]
fn serving_is_success_and_the_service_is_asked_for() {
    let (port, asked) = serve(message(&[0, 0, 0, 0, 2, 8, 1]));
    assert_eq!(check(&grpc(port, "live"), LONG), Outcome::Success);
    let (parts, sent) = asked.join().unwrap();
    assert_eq!(parts.method, "POST");
    assert_eq!(
        parts.uri.to_string(),
        format!("http://127.0.0.1:{port}/grpc.health.v1.Health/Check")
    );
    let expected = headers(&[
        ("content-type", "application/grpc"),
        ("user-agent", "kube-probe/1.36"),
        ("te", "trailers"),
    ]);
    assert_eq!(parts.headers, expected);
    assert_eq!(sent, b"\0\0\0\0\x06\x0a\x04live");
}

#[test]
fn every_other_status_is_a_failure() {
    for (body, name) in [
        (&[0, 0, 0, 0, 2, 8, 2][..], "NOT_SERVING"),
        (&[0, 0, 0, 0, 2, 8, 3], "SERVICE_UNKNOWN"),
        (&[0, 0, 0, 0, 0], "UNKNOWN"),
    ] {
        let text = format!("service unhealthy (responded with \"{name}\")");
        assert_eq!(ask(message(body)), failure(text));
    }
}

#[test]
fn an_error_of_the_call_is_told() {
    let not_found = [("grpc-status", "5"), ("grpc-message", "unknown%20service")];
    let text = "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service";
    assert_eq!(ask(no_message(200, &not_found)), failure(text));
    let mut late = message(&[]);
    late.trailers = Some(headers(&not_found));
    assert_eq!(ask(late), failure(text));
    let odd = [("grpc-status", "99")];
    let text = "error: health rpc probe failed: rpc error: code = Code(99) desc = ";
    assert_eq!(ask(no_message(200, &odd)), failure(text));
}

#[test]
fn a_server_without_health_protocol_says_so() {
    let text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service grpc.health.v1.Health";
    let answer = [
        ("grpc-status", "12"),
        ("grpc-message", "unknown service grpc.health.v1.Health"),
    ];
    assert_eq!(ask(no_message(200, &answer)), failure(text));
    let text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unexpected HTTP status code received from server: 404 Not Found";
    assert_eq!(ask(no_message(404, &[])), failure(text));
    let text = "error: health rpc probe failed: unexpected HTTP status code received from server: 503 Service Unavailable";
    assert_eq!(ask(no_message(503, &[])), failure(text));
}

#[test]
fn an_answer_that_is_none_is_a_failure() {
    let text = "error: health rpc probe failed: the answer is no HealthCheckResponse";
    assert_eq!(ask(message(b"hello")), failure(text));
    assert_eq!(ask(message(&[0; 8192])), failure(text));
    let mut no_trailers = message(&[0, 0, 0, 0, 2, 8, 1]);
    no_trailers.trailers = None;
    let text = "error: health rpc probe failed: server closed the stream without sending trailers";
    assert_eq!(ask(no_trailers), failure(text));
}

#[test]
fn what_is_not_http2_is_a_failure() {
    for garbage in ["HTTP/1.1 400 Bad Request\r\n\r\n", "", "\u{1}\u{2}"] {
        let server = Server::raw(
            "127.0.0.1:0",
            Box::new(move |stream, _| stream.write_all(garbage.as_bytes())),
        );
        let outcome = check(&grpc(server.port(), ""), LONG);
        let Outcome::Failure(text) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(text.starts_with("error: health rpc probe failed"), "{text}");
    }
}

/// Each is answered, and none of them is an answer.
#[test]
fn endless_pings_do_not_keep_the_agents_only_thread() {
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let server = Server::raw(
        "127.0.0.1:0",
        Box::new(move |stream, _| {
            stream.write_all(&settings)?;
            let mut answers = stream.try_clone()?;
            std::thread::Builder::new()
                .spawn(move || std::io::copy(&mut answers, &mut std::io::sink()))?;
            let many = ping.repeat(1000);
            loop {
                stream.write_all(&many)?;
            }
        }),
    );
    let outcome = check(&grpc(server.port(), ""), LONG);
    let Outcome::Failure(text) = &outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        text.ends_with("the server sent more than 262144 bytes"),
        "{text}"
    );
}

#[test]
fn a_stalled_server_and_a_closed_port_are_told_apart() {
    let server = Server::raw("127.0.0.1:0", Box::new(|stream, _| hold(stream)));
    let text = "timeout: health rpc did not complete within 300ms";
    assert_eq!(check(&grpc(server.port(), ""), SHORT), failure(text));
    let port = super::http::free_port();
    let text = format!(
        "error: failed to connect service at \"127.0.0.1:{port}\": dial tcp 127.0.0.1:{port}: connect: connection refused"
    );
    assert_eq!(check(&grpc(port, ""), LONG), failure(text));
}
