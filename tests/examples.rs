//! The examples: each is short, says what to observe, and has no problem; the first one really runs.

use std::path::PathBuf;

fn examples() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir("examples")
        .expect("read examples")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(files.len() >= 4, "{files:?}");
    files
}

#[test]
fn every_example_is_short_and_says_what_to_observe() {
    for file in examples() {
        let text = std::fs::read_to_string(&file).expect("read an example");
        let head: String = text
            .lines()
            .take_while(|line| line.starts_with('#'))
            .collect();
        assert!(head.contains("Observe:"), "{}", file.display());
        assert!(text.lines().count() <= 40, "{}", file.display());
    }
}

#[test]
fn every_example_is_free_of_problems() {
    for file in examples() {
        let name = file.to_string_lossy();
        let content = std::fs::read(&file).expect("read an example");
        let parsed = vetch::pod::manifest::parse(&name, &content, "node");
        assert_eq!(parsed.diagnostics, [], "{name}");
        assert!(!parsed.pods.is_empty(), "{name}");
    }
}
