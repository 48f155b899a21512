//! The syntax of names and paths in a manifest.

/// What may be mounted over below /proc, as with runc. Anything else there is how a container is confined, or watched.
pub(crate) const PROC_FILES: [&str; 10] = [
    "cpuinfo",
    "diskstats",
    "loadavg",
    "meminfo",
    "slabinfo",
    "stat",
    "swaps",
    "sys/crypto/fips_enabled",
    "sys/kernel/ns_last_pid",
    "uptime",
];

/// Lower-case letters, digits and `-`, at most 63, beginning and ending alphanumeric.
pub(super) fn is_dns_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| is_lower(b) || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Labels joined by dots, at most 253 characters in all. (The labels themselves may be longer than 63.)
pub(super) fn is_dns_subdomain(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text.split('.').all(|label| {
            !label.is_empty()
                && label.bytes().all(|b| is_lower(b) || b == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

/// Key of a label or annotation: `name` or `dns.sub.domain/name`.
pub(crate) fn is_qualified_name(text: &str) -> bool {
    let name = match text.split_once('/') {
        Some((prefix, _)) if !is_dns_subdomain(prefix) => return false,
        Some((_, name)) => name,
        None => text,
    };
    is_label_text(name)
}

/// Empty, or as the name part of a key.
pub(crate) fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_label_text(text)
}

fn is_label_text(text: &str) -> bool {
    let ends_well = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.len() <= 63
        && ends_well(text.bytes().next())
        && ends_well(text.bytes().next_back())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// S-113.
pub(super) fn is_port_name(text: &str) -> bool {
    (1..=15).contains(&text.len())
        && text.bytes().all(|b| is_lower(b) || b == b'-')
        && text.bytes().any(|b| b.is_ascii_lowercase())
        && !text.starts_with('-')
        && !text.ends_with('-')
        && !text.contains("--")
}

/// S-115: printable ASCII other than `=`.
pub(super) fn is_env_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'=')
}

/// what the API takes as the name of a header.
pub(super) fn is_header_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// S-116, V-53: relative, without `..`.
pub(crate) fn is_descending_path(text: &str) -> bool {
    !text.starts_with('/') && text.split('/').all(|part| part != "..")
}

/// V-33: a file's place in a volume of files, whose own names begin with `..`.
pub(crate) fn is_file_path(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with("..")
        && is_descending_path(text)
        && !text.ends_with('/')
        && text.split('/').any(|part| !matches!(part, "" | "."))
}

fn is_lower(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_good_names_from_bad() {
        let long = "a".repeat(64);
        type Rule = fn(&str) -> bool;
        let rules: [(Rule, &[&str], &[&str]); 9] = [
            (
                is_dns_label,
                &["a", "a-1", "0"],
                &["", "A", "-a", "a-", "a.b", "ü", &long],
            ),
            (
                is_dns_subdomain,
                &["a", "a.b-c", &long],
                &["", "a..b", ".a", "a.", "a_b", "a.-b"],
            ),
            (
                is_qualified_name,
                &["a", "A_b.c", "k8s.io/x"],
                &["", "/x", "a/", "a/b/c", "-a", "A.b/c", "a b"],
            ),
            (
                is_label_value,
                &["", "A", "1.2_3-x"],
                &["-", "a b", "a/b", &long],
            ),
            (
                is_port_name,
                &["http", "a-1"],
                &["", "80", "a--b", "-a", "HTTP", "sixteen-letters-"],
            ),
            (
                is_env_name,
                &["A", "my.var", "a b", "1"],
                &["", "A=B", "ü", "a\n"],
            ),
            (
                is_header_name,
                &["Host", "x-1"],
                &["", "a b", "a_b", "a:", "ü", "a\n"],
            ),
            (
                is_descending_path,
                &["", "a", "a/b", "..a", "a..", "a/...", "./a"],
                &["/", "/a", "..", "../a", "a/..", "a/../b"],
            ),
            (
                is_file_path,
                &["a", "a/b", "a/..b", "a..", "./a"],
                &["", ".", "./", "/a", "a/", "..", "..a", "..data/x", "a/../b"],
            ),
        ];
        for (index, (rule, good, bad)) in rules.into_iter().enumerate() {
            for text in good {
                assert!(rule(text), "rule {index} refuses {text:?}");
            }
            for text in bad {
                assert!(!rule(text), "rule {index} takes {text:?}");
            }
        }
    }
}
