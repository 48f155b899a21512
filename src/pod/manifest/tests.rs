use std::fmt::Write as _;
use std::path::Path;

use super::parse;

/// Each file in `golden/` beside its `<file>.expected`: the diagnostics, then a line per pod.
/// `VETCH_BLESS=1` rewrites the expectations.
#[test]
fn golden_messages() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/pod/golden");
    let mut entries: Vec<_> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e != "expected"))
        .collect();
    entries.sort();
    assert!(
        entries.len() >= 30,
        "only {} golden manifests",
        entries.len()
    );
    let mut wrong = String::new();
    for path in entries {
        let name = path.file_name().unwrap().to_str().unwrap();
        let found = describe(name, &std::fs::read(&path).unwrap());
        let expected = path.with_file_name(format!("{name}.expected"));
        if std::env::var_os("VETCH_BLESS").is_some() {
            bless(&expected, &found);
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        if found != expected {
            writeln!(wrong, "{name}: expected\n{expected}found\n{found}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn bless(path: &Path, text: &str) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn describe(name: &str, content: &[u8]) -> String {
    let parsed = parse(name, content, "node");
    let mut out = String::new();
    for diagnostic in &parsed.diagnostics {
        writeln!(out, "{:?} {diagnostic}", diagnostic.severity).unwrap();
    }
    for pod in &parsed.pods {
        writeln!(
            out,
            "pod {} {} line {}",
            pod.full_name(),
            pod.uid,
            pod.origin.line
        )
        .unwrap();
    }
    out
}
