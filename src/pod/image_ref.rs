//! Names of images, normalised as docker does it (I-2).

use std::fmt;
use std::str::FromStr;

/// A valid, normalised image name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageRef {
    /// `docker.io`, `localhost:5000`, …
    pub registry: String,
    /// `library/busybox`.
    pub repository: String,
    /// `latest` when neither tag nor digest is written; none when only a digest is.
    pub tag: Option<String>,
    /// `sha256:…`; wins over the tag.
    pub digest: Option<String>,
}

/// Why a text names no image (`InvalidImageName`, I-3).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no image name: {problem}")]
pub struct BadImageRef {
    text: String,
    problem: &'static str,
}

/// The image that vetch makes of itself, by `vetch image import builtin/hello`.
pub const BUILTIN: &str = "builtin/hello";

const REGISTRY: &str = "docker.io";
const NAME_MAX: usize = 255;
const TAG_MAX: usize = 128;

impl ImageRef {
    /// The one name under which an image is stored and looked up: `docker.io/library/busybox:latest`, or
    /// `…/busybox@sha256:…` without the tag when there is a digest.
    pub fn canonical(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => format!("{}/{}@{digest}", self.registry, self.repository),
            (None, Some(tag)) => format!("{}/{}:{tag}", self.registry, self.repository),
            (None, None) => format!("{}/{}", self.registry, self.repository),
        }
    }

    /// S-86: the normalised tag is `latest`, also beside a digest.
    pub fn is_latest(&self) -> bool {
        self.tag.as_deref() == Some("latest")
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical())
    }
}

impl FromStr for ImageRef {
    type Err = BadImageRef;

    fn from_str(text: &str) -> Result<Self, BadImageRef> {
        parse(text).map_err(|problem| BadImageRef {
            text: text.to_owned(),
            problem,
        })
    }
}

fn parse(text: &str) -> Result<ImageRef, &'static str> {
    let (name, digest) = match text.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (text, None),
    };
    let (name, tag) = split_tag(name);
    let (registry, repository) = split_registry(name);
    check_repository(&repository)?;
    check_registry(registry)?;
    if registry.len() + 1 + repository.len() > NAME_MAX {
        return Err("longer than 255 characters");
    }
    if digest.is_none() && name.len() == 64 && is_lower_hex(name) {
        return Err("64 hexadecimal digits are an image id, not a name");
    }
    if !tag.is_none_or(is_tag) {
        return Err(
            "the tag is not 1 to 128 letters, digits, '_', '-' or '.', starting with none of '-' and '.'",
        );
    }
    if !digest.is_none_or(is_digest) {
        return Err(
            "the digest is not sha256: with 64 or sha512: with 128 lower-case hexadecimal digits",
        );
    }
    let tag = tag.or(if digest.is_none() {
        Some("latest")
    } else {
        None
    });
    Ok(ImageRef {
        registry: registry.to_owned(),
        repository,
        tag: tag.map(str::to_owned),
        digest: digest.map(str::to_owned),
    })
}

/// A colon before the last slash belongs to the registry's port.
fn split_tag(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        Some(_) | None => (name, None),
    }
}

/// The first element is a registry when it has a dot, a colon or an upper-case letter, or is `localhost`.
fn split_registry(name: &str) -> (&str, String) {
    let (registry, rest) = match name.split_once('/') {
        Some((first, rest))
            if first == "localhost"
                || first
                    .bytes()
                    .any(|b| b == b'.' || b == b':' || b.is_ascii_uppercase()) =>
        {
            (first, rest)
        }
        Some(_) | None => (REGISTRY, name),
    };
    let registry = if registry == "index.docker.io" {
        REGISTRY
    } else {
        registry
    };
    if registry == REGISTRY && !rest.contains('/') {
        (registry, format!("library/{rest}"))
    } else {
        (registry, rest.to_owned())
    }
}

fn check_registry(registry: &str) -> Result<(), &'static str> {
    let (host, port) = match registry.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        Some(_) | None => (registry, None),
    };
    let good_host = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        Some(v6) => v6.parse::<core::net::Ipv6Addr>().is_ok(),
        None => host.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-')
        }),
    };
    let good_port =
        port.is_none_or(|p| p.bytes().all(|b| b.is_ascii_digit()) && p.parse::<u16>().is_ok());
    if good_host && good_port {
        Ok(())
    } else {
        Err("the registry is no host name with an optional port")
    }
}

fn check_repository(repository: &str) -> Result<(), &'static str> {
    if repository.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err("the repository must be lower case");
    }
    if repository.split('/').all(is_path_component) {
        Ok(())
    } else {
        Err(
            "a repository is lower-case letters and digits, separated by one '.', one or two '_', or '-'",
        )
    }
}

/// Alphanumeric runs joined by `.`, `_`, `__` or any number of `-`.
fn is_path_component(component: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends_well = component.bytes().next().is_some_and(alphanumeric)
        && component.bytes().next_back().is_some_and(alphanumeric);
    ends_well
        && component
            .split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            .all(|gap| matches!(gap, "" | "." | "_" | "__") || gap.bytes().all(|b| b == b'-'))
}

fn is_tag(tag: &str) -> bool {
    (1..=TAG_MAX).contains(&tag.len())
        && !tag.starts_with(['-', '.'])
        && tag
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

fn is_digest(digest: &str) -> bool {
    match digest.split_once(':') {
        Some(("sha256", hex)) => hex.len() == 64 && is_lower_hex(hex),
        Some(("sha512", hex)) => hex.len() == 128 && is_lower_hex(hex),
        Some(_) | None => false,
    }
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::ImageRef;

    fn digest() -> String {
        format!("sha256:{}", "0123456789abcdef".repeat(4))
    }

    #[test]
    fn normalises_as_docker_does() {
        let d = digest();
        let vectors = [
            ("busybox", "docker.io/library/busybox:latest".to_owned()),
            ("a/b", "docker.io/a/b:latest".to_owned()),
            ("a/b/c:1", "docker.io/a/b/c:1".to_owned()),
            (
                "docker.io/nginx",
                "docker.io/library/nginx:latest".to_owned(),
            ),
            (
                "index.docker.io/nginx:1",
                "docker.io/library/nginx:1".to_owned(),
            ),
            ("localhost/x", "localhost/x:latest".to_owned()),
            ("localhost:5000/x", "localhost:5000/x:latest".to_owned()),
            (
                "quay.io/a/b_c__d-e--f.g:v1.2-3_4",
                "quay.io/a/b_c__d-e--f.g:v1.2-3_4".to_owned(),
            ),
            ("[fd00::1]:5000/x:2", "[fd00::1]:5000/x:2".to_owned()),
            ("Host/x", "Host/x:latest".to_owned()),
            (
                &format!("nginx:1.29@{d}"),
                format!("docker.io/library/nginx@{d}"),
            ),
            (
                &format!("nginx@{d}"),
                format!("docker.io/library/nginx@{d}"),
            ),
        ];
        for (written, canonical) in vectors {
            let image: ImageRef = written.parse().unwrap();
            assert_eq!(image.canonical(), canonical, "{written}");
            assert_eq!(
                canonical.parse::<ImageRef>().unwrap().canonical(),
                canonical
            );
        }
    }

    /// The vectors of the specification's section 12.5 (S-86).
    #[test]
    fn knows_latest() {
        let d = digest();
        let vectors = [
            ("nginx".to_owned(), true),
            ("nginx:latest".to_owned(), true),
            ("nginx:1.29".to_owned(), false),
            (format!("nginx@{d}"), false),
            (format!("nginx:1.29@{d}"), false),
            (format!("nginx:latest@{d}"), true),
            ("localhost:5000/x".to_owned(), true),
        ];
        for (written, latest) in vectors {
            let image: ImageRef = written.parse().unwrap();
            assert_eq!(image.is_latest(), latest, "{written}");
        }
    }

    #[test]
    fn refuses_what_is_no_name() {
        let long = "a".repeat(250);
        let id = "0123456789abcdef".repeat(4);
        for bad in [
            "",
            " ",
            " nginx",
            "nginx ",
            "NGINX",
            "a/B",
            "nginx:",
            "nginx:-1",
            "nginx:a b",
            ":1",
            "/x",
            "x/",
            "a//b",
            "a..b",
            "a___b",
            "-a",
            "a-",
            ".a",
            "a:1:2",
            "x@",
            "x@sha256:00",
            "x@md5:0123",
            "x@sha256:zz",
            "a_/b",
            "host:port/x",
            "host:99999/x",
            "-h.io/x",
            "h..io/x",
            "[::1/x",
            "../../etc/passwd",
            "a/../b",
            "ü",
            &long,
            &id,
            "docker.io/",
            "nginx\n",
        ] {
            assert!(bad.parse::<ImageRef>().is_err(), "{bad:?}");
        }
    }
}
