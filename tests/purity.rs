//! `pod`, `plan` and `oci` decide; they do not act. No I/O, no clock, no logging.

use std::fs;
use std::path::{Path, PathBuf};

const PURE: [&str; 3] = ["src/pod", "src/plan", "src/oci"];

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

/// Rust files below a directory, without tests.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("the directory is there") {
        let path = entry.expect("the directory can be read").path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs")
            && path.file_stem().is_some_and(|s| s != "tests")
        {
            files.push(path);
        }
    }
    files
}
