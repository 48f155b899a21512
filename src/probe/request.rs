//! The bytes of a GET request as kubelet sends them.

use hyper::header::{ACCEPT, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::uri::InvalidUri;
use hyper::{Request, Uri};

use super::url::Url;

/// The Kubernetes release whose behaviour is copied; servers know probes by it.
macro_rules! release {
    () => {
        "1.36"
    };
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub enum Agent {
    /// A probe.
    Probe,
    /// P-92: a hook.
    Lifecycle,
}

/// `User-Agent` of probes, of gRPC too.
pub const PROBE_AGENT: &str = concat!("kube-probe/", release!());
const LIFECYCLE_AGENT: &str = concat!("kube-lifecycle/", release!());

/// The headers that are made by other means.
const EXCLUDED: [&str; 5] = [
    "host",
    "user-agent",
    "content-length",
    "transfer-encoding",
    "trailer",
];

/// What of a manifest cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The path of the URL.
    #[error("path {path:?}: {why}")]
    Path {
        /// As written.
        path: String,
        /// In hyper's words.
        why: InvalidUri,
    },
    /// A header's name.
    #[error("invalid header field name {0:?}")]
    Name(String),
    /// The value of the header of this name.
    #[error("invalid header field value for {0:?}")]
    Value(String),
}

/// The request for a URL, with the headers of the manifest.
pub fn build<B: Default>(
    url: &Url,
    configured: &[(String, String)],
    agent: Agent,
) -> Result<Request<B>, RequestError> {
    let mut request = Request::new(B::default());
    *request.uri_mut() = Uri::try_from(&url.path).map_err(|why| RequestError::Path {
        path: url.path.clone(),
        why,
    })?;
    *request.headers_mut() = headers(url, configured, agent)?;
    Ok(request)
}

/// In Go's order: Host and User-Agent, then by name, and Connection last.
fn headers(
    url: &Url,
    configured: &[(String, String)],
    agent: Agent,
) -> Result<HeaderMap, RequestError> {
    let agent = match agent {
        Agent::Probe => PROBE_AGENT,
        Agent::Lifecycle => LIFECYCLE_AGENT,
    };
    let mut headers = HeaderMap::new();
    let host = first(configured, "host").filter(|host| !host.is_empty());
    let authority = url.authority();
    headers.insert(HOST, value("Host", host.unwrap_or(&authority))?);
    let agent = first(configured, "user-agent").unwrap_or(agent);
    if !agent.is_empty() {
        headers.insert(USER_AGENT, value("User-Agent", agent)?);
    }
    let mut others: Vec<(HeaderName, HeaderValue)> = Vec::new();
    for (name, text) in configured {
        let key = HeaderName::try_from(name).map_err(|_| RequestError::Name(name.clone()))?;
        let is_removed = key == ACCEPT && first(configured, "accept") == Some("");
        if !EXCLUDED.contains(&key.as_str()) && !is_removed {
            others.push((key, value(name, text)?));
        }
    }
    if first(configured, "accept").is_none() {
        others.push((ACCEPT, HeaderValue::from_static("*/*")));
    }
    // Stable: the values of one name keep their order.
    others.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
    for (key, value) in others {
        headers.append(key, value);
    }
    headers.append(CONNECTION, HeaderValue::from_static("close"));
    Ok(headers)
}

/// The first configured value of a header.
fn first<'a>(configured: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut found = configured
        .iter()
        .filter(|(key, _)| key.eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.trim())
}

fn value(name: &str, text: &str) -> Result<HeaderValue, RequestError> {
    HeaderValue::from_bytes(text.trim().as_bytes())
        .map_err(|_| RequestError::Value(name.to_owned()))
}
