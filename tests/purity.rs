//! The map in `src/lib.rs` holds: `pod`, `plan` and `oci` decide, they do not act (no I/O, no clock, no logging), nor does
//! what they say to holders; and no room reaches up into one that uses it.

use std::fs;
use std::path::{Path, PathBuf};

const PURE: [&str; 4] = ["src/pod", "src/plan", "src/oci", "src/volume/spec.rs"];

const FORBIDDEN: [&str; 21] = [
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::env",
    "std::io",
    "std::os",
    "std::time::Instant",
    "std::time::SystemTime",
    "Instant::now",
    "SystemTime::now",
    "Timestamp::now",
    "Zoned::now",
    "sys::",
    "smol",
    "rustix",
    "libc::",
    "tracing",
    "println!",
    "print!",
    "dbg!",
];

#[test]
fn pure_rooms_touch_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for room in PURE {
        let files = sources(&root.join(room));
        assert!(!files.is_empty(), "{room} has no sources");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for (index, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                for word in FORBIDDEN.into_iter().filter(|word| code.contains(word)) {
                    let file = file.strip_prefix(root).unwrap().display();
                    found.push(format!("{file}:{}: {word}", index + 1));
                }
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// What each room may name of the others, from the bottom up: of rooms above it only single files. `holder::proto` and
/// `volume::spec` are data, and everybody's vocabulary.
const MAY_USE: [(&str, &[&str]); 14] = [
    ("sys", &[]),
    ("pod", &[]),
    ("config", &["pod"]),
    ("network", &["pod"]),
    ("plan", &["config", "holder::proto", "pod"]),
    ("volume", &["config", "error", "sys"]),
    (
        "oci",
        &["holder::proto", "network", "plan", "pod", "volume::spec"],
    ),
    ("image", &["plan", "pod", "sys"]),
    // A hook of the holder is one run of a check, and an exec check is one request to a holder.
    (
        "probe",
        &[
            "config",
            "error",
            "holder::client",
            "holder::proto",
            "pod",
            "sys",
        ],
    ),
    (
        "holder",
        &["config", "error", "oci", "pod", "probe", "sys", "volume"],
    ),
    (
        "figures",
        &[
            "config",
            "error",
            "holder::cgroup",
            "holder::found",
            "holder::proto",
            "pod",
            "sys",
        ],
    ),
    (
        "api",
        &["config", "figures", "holder::proto", "plan", "pod", "sys"],
    ),
    (
        "agent",
        &[
            "api",
            "config",
            "error",
            "figures",
            "holder",
            "image",
            "network",
            "oci",
            "plan",
            "pod",
            "probe",
            "sys",
            "volume::spec",
        ],
    ),
    (
        "cli",
        &[
            "agent", "api", "config", "error", "figures", "holder", "image", "network", "oci",
            "plan", "pod", "sys",
        ],
    ),
];

#[test]
fn no_room_reaches_up() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for (room, others) in MAY_USE {
        let may_use = |path: &str| {
            let is = |other: &str| {
                path.strip_prefix(other).is_some_and(|rest| {
                    !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
                })
            };
            is(room) || others.iter().any(|other| is(other))
        };
        for file in sources(&root.join("src").join(room)) {
            let text = fs::read_to_string(&file).unwrap();
            for (index, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                for path in uses(code).iter().filter(|path| !may_use(path)) {
                    let file = file.strip_prefix(root).unwrap().display();
                    found.push(format!("{file}:{}: {path}", index + 1));
                }
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// What stands behind each `crate::`, also in braces on the same line.
fn uses(code: &str) -> Vec<&str> {
    code.split("crate::")
        .skip(1)
        .flat_map(|rest| match rest.strip_prefix('{') {
            Some(list) => list.split(", ").collect(),
            None => vec![rest],
        })
        .collect()
}

/// Invariants 1 and 2: the agent never forks without exec, and its loop owns the state alone.
#[test]
fn only_holders_fork_and_nobody_shares_state() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for file in sources(&root) {
        let text = fs::read_to_string(&file).unwrap();
        let file = file.strip_prefix(&root).unwrap();
        let may_fork = file.starts_with("holder") || file == Path::new("sys/process.rs");
        for word in ["process::fork(", "libc::fork", "Arc<", "Mutex<", "RwLock<"] {
            // rustls wants its traits implemented with them.
            let may_share = word == "Arc<" && file == Path::new("probe/tls.rs");
            if text.contains(word) && !(may_fork && word.contains("fork")) && !may_share {
                found.push(format!("{}: {word}", file.display()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn the_map_goes_from_the_top_down() {
    let map = include_str!("../src/lib.rs").lines();
    let mut rooms: Vec<&str> = map
        .filter_map(|line| line.strip_prefix("//! - [`")?.split('`').next())
        .collect();
    rooms.reverse();
    assert_eq!(rooms, MAY_USE.map(|(room, _)| room));
    for (at, (room, others)) in MAY_USE.iter().enumerate() {
        for other in others.iter().filter(|other| !other.contains("::")) {
            let is_below = MAY_USE[..at].iter().any(|(below, _)| below == other);
            assert!(is_below || *other == "error", "{room} names {other}");
        }
    }
}

#[test]
fn every_room_is_on_the_map() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut rooms: Vec<_> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    rooms.sort();
    let mut known = MAY_USE.map(|(room, _)| room);
    known.sort_unstable();
    assert_eq!(rooms, known);
}

/// Rust files below a directory, without tests; or the one file.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    if dir.is_file() {
        files.push(dir.to_owned());
        return files;
    }
    for entry in fs::read_dir(dir).expect("the directory is there") {
        let path = entry.expect("the directory can be read").path();
        if path.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files
}
