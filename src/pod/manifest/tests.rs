use std::fmt::Write as _;
use std::path::Path;

use super::parse;

/// V-9, V-26, V-33, V-35, C-9, C-17, C-18.
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
    for object in &parsed.objects {
        let keys: Vec<_> = object.data.keys().map(String::as_str).collect();
        let (key, line, keys) = (&object.key, object.origin.line, keys.join(" "));
        writeln!(out, "{key} {} line {line}: {keys}", object.type_).unwrap();
    }
    out
}

/// None of these may take long, and none may be quoted at length.
#[test]
fn hostile_manifests_end_soon_with_short_remarks() {
    let head = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: m, image: b}]\n";
    let long = "x".repeat(4 << 20);
    let numbered =
        |count: u32, line: fn(u32) -> String| -> String { (0..count).map(line).collect() };
    for text in [
        head.repeat(2)
            .replace("apiVersion", "---\napiVersion")
            .repeat(2000),
        head.replace("Pod", &long),
        format!("{head}  ? {long}\n  : 1\n"),
        format!("{head}  hostname: {long}\n"),
        head.replace("{name: a}", "\n  name: a\n  labels:\n")
            .replace(
                "spec:",
                &format!(
                    "{}spec:",
                    numbered(50_000, |i| format!("    /k{i}: \" \"\n"))
                ),
            ),
        head.replace("[{name: m, image: b}]", "\n")
            + &numbered(20_000, |i| {
                format!("  - {{name: c{}, ports: [{{containerPort: x}}]}}\n", i / 2)
            }),
    ] {
        let parsed = parse("a.yaml", text.as_bytes(), "node");
        let size: usize = parsed
            .diagnostics
            .iter()
            .map(|d| d.message.len() + d.field.len())
            .sum();
        assert!((1..200_000).contains(&size), "{size}: {}", &text[..100]);
    }
}
