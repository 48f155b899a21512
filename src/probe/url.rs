//! Where a request goes, and where a redirect leads.

use std::fmt;

use super::dial;
use crate::pod::probe::HttpGet;

/// A URL of http or https, in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// https.
    pub tls: bool,
    /// Name or address; of IPv6, without brackets.
    pub host: String,
    /// Number.
    pub port: u16,
    /// With the query and without a fragment; begins with `/`, and holds nothing that a request line may not.
    pub path: String,
}

impl Url {
    /// R-30, with this host where the request names none.
    pub fn of(get: &HttpGet, host: &str) -> Self {
        Self {
            tls: get.tls,
            host: get.host.as_deref().unwrap_or(host).to_owned(),
            port: get.port,
            path: escape(&get.path),
        }
    }

    /// As in a Host header. The port is always there, as kubelet has it.
    pub fn authority(&self) -> String {
        dial::join(&self.host, self.port)
    }

    /// Where a `Location` seen at this URL leads; none if it is not of http or https, or makes no sense.
    pub fn join(&self, location: &str) -> Option<Self> {
        let location = location.trim();
        if let Some((scheme, rest)) = split_scheme(location) {
            let tls = match scheme.to_ascii_lowercase().as_str() {
                "http" => false,
                "https" => true,
                _ => return None,
            };
            return absolute(tls, rest.strip_prefix("//")?);
        }
        if let Some(rest) = location.strip_prefix("//") {
            return absolute(self.tls, rest);
        }
        let path = self.path.split('?').next().unwrap_or_default();
        let path = if location.starts_with('/') {
            location.to_owned()
        } else if location.is_empty() || location.starts_with('#') {
            self.path.clone()
        } else if location.starts_with('?') {
            format!("{path}{location}")
        } else {
            let (parent, _) = path.rsplit_once('/').unwrap_or_default();
            format!("{parent}/{location}")
        };
        Some(Self {
            path: without_dots(&escape(&path)),
            ..self.clone()
        })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

/// A scheme ends at the first colon, if no other separator comes before.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    (!scheme.is_empty() && !scheme.contains(['/', '?', '#'])).then_some((scheme, rest))
}

/// What follows `//`.
fn absolute(tls: bool, text: &str) -> Option<Url> {
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    let (authority, path) = text.split_at_checked(end)?;
    let authority = authority.rsplit('@').next().unwrap_or(authority);
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => None,
        None => return None,
        Some("") => None,
        Some(number) => Some(number.parse().ok()?),
    };
    let slash = if path.starts_with('/') { "" } else { "/" };
    (!host.is_empty()).then(|| Url {
        tls,
        host: host.to_owned(),
        port: port.unwrap_or(if tls { 443 } else { 80 }),
        path: without_dots(&escape(&format!("{slash}{path}"))),
    })
}

/// Leaves the fragment away and escapes what may not stand in a request line. What is escaped already stays as it is.
fn escape(path: &str) -> String {
    let path = path.split('#').next().unwrap_or_default();
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// RFC 3986, 5.2.4.
fn without_dots(path: &str) -> String {
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let mut kept: Vec<&str> = Vec::new();
    let mut is_folder = false;
    for segment in path.split('/').skip(1) {
        is_folder = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            other => kept.push(other),
        }
    }
    if is_folder {
        kept.push("");
    }
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests;
