//! A GET with its redirects (R-30…R-34).

use std::cell::Cell;
use std::io;

use futures_lite::{FutureExt, future};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::LOCATION;
use hyper::{Request, Response, StatusCode};
use smol_hyper::rt::FuturesIo;

use super::Network;
use super::dial::{self, Connection, DialError};
pub use super::request::Agent;
use super::request::{self, RequestError};
use super::tls::{self, Stream};
use super::url::Url;
use crate::pod::probe::HttpGet;

///
const MAX_REDIRECTS: usize = 10;
/// What is beyond is not read.
const MAX_BODY: usize = 10 * 1024;
/// Longest status line with headers.
const MAX_HEAD: usize = 64 * 1024;
/// Most headers of a response.
const MAX_HEADERS: usize = 256;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// such a request cannot be sent.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// It was sent, or was about to be.
    #[error("Get {url:?}")]
    Get {
        /// The last one, after redirects.
        url: String,
        /// Cause.
        source: ExchangeError,
    },
}

/// Why one exchange failed, in the words of Go's `net/http`.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// No connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// No TLS.
    #[error("tls")]
    Tls(#[source] io::Error),
    /// No TLS, but HTTP.
    #[error("http: server gave HTTP response to HTTPS client")]
    Plain,
    /// Not HTTP.
    #[error("malformed HTTP response \"{}\"", .0.escape_ascii())]
    Malformed(Vec<u8>),
    /// See [`MAX_HEAD`] and [`MAX_HEADERS`].
    #[error("server response headers exceeded {MAX_HEAD} bytes or {MAX_HEADERS} lines; aborted")]
    TooLong,
    /// The server closed the connection before it had answered.
    #[error("EOF")]
    Closed,
    /// The server closed the connection in the middle of the body.
    #[error("unexpected EOF")]
    CutShort,
    ///
    #[error("stopped after {MAX_REDIRECTS} redirects")]
    Redirects,
    /// A redirect that cannot be followed.
    #[error("failed to parse Location header {0:?}")]
    Location(String),
    /// Anything else.
    #[error("net/http: HTTP/1.x transport connection broken")]
    Broken(#[source] hyper::Error),
}

impl GetError {
    /// The server answered to TLS without it.
    pub fn is_plain_answer(&self) -> bool {
        let plain = |source: &ExchangeError| matches!(source, ExchangeError::Plain);
        matches!(self, Self::Get { source, .. } if plain(source))
    }
}

/// The status of the last answer, which is a redirect's if it leads to another host. `place` is where the host is reached
/// and its name; `stage` says for whoever stops waiting what was waited for.
pub async fn get(
    get: &HttpGet,
    (network, host): (Network, &str),
    agent: Agent,
    stage: &Cell<&'static str>,
) -> Result<StatusCode, GetError> {
    let mut url = Url::of(get, host);
    for _ in 0..MAX_REDIRECTS {
        let request = request::build(&url, &get.headers, agent)?;
        let failed = |source| GetError::Get {
            url: url.to_string(),
            source,
        };
        let answer = exchange(&url, network, request, stage).await;
        let (status, location) = answer.map_err(failed)?;
        let Some(location) = location else {
            return Ok(status);
        };
        let next = url.join(&location);
        let next = next.ok_or_else(|| failed(ExchangeError::Location(location)))?;
        if next.host != url.host {
            return Ok(status);
        }
        url = next;
    }
    Err(GetError::Get {
        url: url.to_string(),
        source: ExchangeError::Redirects,
    })
}

/// One request and its answer: the status, and where it leads on.
async fn exchange(
    url: &Url,
    network: Network,
    request: Request<Empty<Bytes>>,
    stage: &Cell<&'static str>,
) -> Result<(StatusCode, Option<String>), ExchangeError> {
    stage.set("while awaiting headers");
    let connection = dial::dial(network, &url.host, url.port).await?;
    let stream = if url.tls {
        let secured = tls::handshake(&connection, &url.host).await;
        secured.map_err(|error| no_tls(error, &connection))?
    } else {
        Stream::Plain(&connection)
    };
    let broken = |error| explain(error, &connection);
    let (mut sender, driver) = http1::Builder::new()
        .title_case_headers(true)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .handshake(FuturesIo::new(stream))
        .await
        .map_err(broken)?;
    let asked = async {
        let answer = sender.send_request(request).await.map_err(broken)?;
        let seen = (answer.status(), location(&answer));
        stage.set("while reading body");
        drain(answer.into_body()).await?;
        Ok(seen)
    };
    // The driver's errors come out at the other end, too.
    let driven = async {
        let _ = driver.await;
        future::pending().await
    };
    asked.or(driven).await
}

/// Where a redirect leads; other statuses lead nowhere.
fn location(answer: &Response<Incoming>) -> Option<String> {
    if !matches!(answer.status().as_u16(), 301..=303 | 307 | 308) {
        return None;
    }
    let location = answer.headers().get(LOCATION)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned()).filter(|text| !text.is_empty())
}

/// Reads the body, or the begin of a long one.
async fn drain(mut body: Incoming) -> Result<(), ExchangeError> {
    let mut seen = 0;
    while seen < MAX_BODY {
        match body.frame().await {
            Some(Ok(frame)) => seen += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(error)) if is_end(&error) => return Err(ExchangeError::CutShort),
            Some(Err(error)) => return Err(ExchangeError::Broken(error)),
            None => break,
        }
    }
    Ok(())
}

fn is_end(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error);
    let cause = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
    error.is_incomplete_message()
        || cause.is_some_and(|cause| cause.kind() == io::ErrorKind::UnexpectedEof)
}

fn no_tls(error: io::Error, connection: &Connection) -> ExchangeError {
    if connection.first_words().starts_with(b"HTTP/") {
        ExchangeError::Plain
    } else if error.kind() == io::ErrorKind::UnexpectedEof {
        ExchangeError::Closed
    } else {
        ExchangeError::Tls(error)
    }
}

fn explain(error: hyper::Error, connection: &Connection) -> ExchangeError {
    if error.is_parse_too_large() {
        ExchangeError::TooLong
    } else if error.is_parse() {
        ExchangeError::Malformed(connection.first_words())
    } else if is_end(&error) {
        ExchangeError::Closed
    } else {
        ExchangeError::Broken(error)
    }
}
