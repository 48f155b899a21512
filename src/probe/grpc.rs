//! gRPC health checks: one call of `grpc.health.v1.Health/Check` over HTTP/2 without TLS.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_lite::{AsyncRead, AsyncWrite, FutureExt, future};
use h2::client::SendRequest;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use smol::Timer;
use tokio::io::ReadBuf;

use super::dial::{self, Connection, DialError};
use super::health::{self, Status};
use super::request::PROBE_AGENT;
use super::{Network, OWN_ADDRESS, Outcome, failure};

/// Longest answer; the message itself takes seven bytes.
const MAX_ANSWER: usize = 4 * 1024;
/// Longest headers.
const MAX_HEADERS: u32 = 16 * 1024;

/// The status of a call that is not well, as gRPC numbers them.
const OK: u32 = 0;
const DEADLINE_EXCEEDED: u32 = 4;
const UNIMPLEMENTED: u32 = 12;
/// As Go names them, by number.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// Why a call gave no status of the service.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error("health rpc probe failed")]
    Transport(#[from] h2::Error),
    #[error("health rpc probe failed: request: {0}")]
    Request(#[from] hyper::http::Error),
    #[error("health rpc probe failed: the answer is no HealthCheckResponse")]
    Answer,
    #[error("health rpc probe failed: unexpected HTTP status code received from server: {0}")]
    Http(StatusCode),
    #[error("health rpc probe failed: server closed the stream without sending trailers")]
    NoTrailers,
    #[error("health rpc probe failed: rpc error: code = {} desc = {message}", name(*.code))]
    Rpc { code: u32, message: String },
}

pub(super) async fn run(network: Network, port: u16, service: &str, timeout: Duration) -> Outcome {
    let address = dial::join(OWN_ADDRESS, port);
    let is_connected = Cell::new(false);
    let checked = async {
        match dial::dial(network, OWN_ADDRESS, port).await {
            Ok(connection) => {
                is_connected.set(true);
                check(&connection, &address, service, timeout).await
            }
            Err(error @ DialError::Socket(_)) => failure(&error),
            Err(error) => Outcome::Failure(format!(
                "error: failed to connect service at {address:?}: {error}"
            )),
        }
    };
    let timed_out = async {
        Timer::after(timeout).await;
        if is_connected.get() {
            return Outcome::Failure(late(timeout));
        }
        Outcome::Failure(format!(
            "timeout: failed to connect service {address:?} within {timeout:?}: context deadline exceeded"
        ))
    };
    checked.or(timed_out).await
}

/// Asks over a connection, in the words of kubelet.
async fn check(
    connection: &Connection,
    address: &str,
    service: &str,
    timeout: Duration,
) -> Outcome {
    let text = match call(connection, address, service).await {
        Ok(Status::Serving) => return Outcome::Success,
        Ok(status) => format!("service unhealthy (responded with \"{status}\")"),
        Err(CallError::Rpc { code, message }) if code == UNIMPLEMENTED => format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
        ),
        Err(CallError::Rpc { code, .. }) if code == DEADLINE_EXCEEDED => late(timeout),
        Err(error) => format!("error: {}", crate::error::chain(&error)),
    };
    Outcome::Failure(text)
}

fn late(timeout: Duration) -> String {
    format!("timeout: health rpc did not complete within {timeout:?}")
}

async fn call(connection: &Connection, address: &str, service: &str) -> Result<Status, CallError> {
    let (sender, driver) = h2::client::Builder::new()
        .enable_push(false)
        .max_header_list_size(MAX_HEADERS)
        .handshake(Tokio(connection))
        .await?;
    // The driver's errors come out at the other end, too.
    let driven = async {
        let _ = driver.await;
        future::pending().await
    };
    exchange(sender, address, service).or(driven).await
}

async fn exchange(
    sender: SendRequest<Bytes>,
    address: &str,
    service: &str,
) -> Result<Status, CallError> {
    let mut sender = sender.ready().await?;
    let (answer, mut body) = sender.send_request(request(address)?, false)?;
    body.send_data(health::request(service).into(), true)?;
    let answer = answer.await?;
    if answer.status() != StatusCode::OK {
        return Err(refused(answer.status()));
    }
    // An error without a message comes with the headers.
    accepted(answer.headers())?;
    let mut body = answer.into_body();
    let mut message = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        let _ = body.flow_control().release_capacity(chunk.len());
        message.extend(chunk);
        if message.len() > MAX_ANSWER {
            return Err(CallError::Answer);
        }
    }
    let trailers = body.trailers().await?.ok_or(CallError::NoTrailers)?;
    accepted(&trailers)?;
    health::response(&message).ok_or(CallError::Answer)
}

fn request(address: &str) -> Result<Request<()>, hyper::http::Error> {
    let uri = Uri::builder()
        .scheme("http")
        .authority(address)
        .path_and_query("/grpc.health.v1.Health/Check")
        .build()?;
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(USER_AGENT, HeaderValue::from_static(PROBE_AGENT));
    headers.insert(TE, HeaderValue::from_static("trailers"));
    Ok(request)
}

/// An answer that no gRPC server gave.
fn refused(status: StatusCode) -> CallError {
    if status == StatusCode::NOT_FOUND {
        CallError::Rpc {
            code: UNIMPLEMENTED,
            message: format!("unexpected HTTP status code received from server: {status}"),
        }
    } else {
        CallError::Http(status)
    }
}

/// Fails with the status of the call, if these headers hold one that is not well.
fn accepted(headers: &HeaderMap) -> Result<(), CallError> {
    let Some(status) = headers.get("grpc-status") else {
        return Ok(());
    };
    // A status that is no number is Unknown.
    let code = status.to_str().ok().and_then(|text| text.parse().ok());
    let code = code.unwrap_or(2);
    if code == OK {
        return Ok(());
    }
    let message = headers.get("grpc-message").map(HeaderValue::as_bytes);
    Err(CallError::Rpc {
        code,
        message: decode(message.unwrap_or_default()),
    })
}

/// Undoes percent encoding.
fn decode(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let escaped = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let escaped = escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match escaped.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn name(code: u32) -> String {
    let known = usize::try_from(code).ok().and_then(|n| CODES.get(n));
    known.map_or_else(|| format!("Code({code})"), |name| (*name).to_owned())
}

/// The traits that h2 wants.
pub(super) struct Tokio<T>(pub(super) T);

impl<T: AsyncRead + Unpin> tokio::io::AsyncRead for Tokio<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.initialize_unfilled();
        let n = ready!(Pin::new(&mut self.0).poll_read(cx, room))?;
        buffer.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> tokio::io::AsyncWrite for Tokio<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}
