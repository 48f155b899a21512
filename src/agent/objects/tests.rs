use std::os::unix::fs::PermissionsExt;

use super::{ObjectCopy, changes, load};
use crate::pod::manifest;
use crate::pod::objects::Objects;

fn objects(text: &str) -> Objects {
    let parsed = manifest::parse("/m/a.yaml", text.as_bytes(), "node");
    assert_eq!(parsed.diagnostics, []);
    Objects {
        by_key: parsed
            .objects
            .into_iter()
            .map(|object| (object.key.clone(), object))
            .collect(),
        looked_in: "/m".to_owned(),
    }
}

fn secret(name: &str, value: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{k: {value}}}\n"
    )
}

/// Invariant 5, and nobody but root can read it.
#[test]
fn the_copy_is_private_and_written_on_change_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.json");
    let (none, mut copy) = load(&path).unwrap();
    assert!(none.is_empty());
    let wanted = objects(&secret("s", "hush"));
    assert!(!copy.save(&path, &wanted).unwrap(), "nothing had changed");
    copy.is_stale = true;
    assert!(copy.save(&path, &wanted).unwrap());
    assert!(!copy.save(&path, &wanted).unwrap());
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let (again, mut copy) = load(&path).unwrap();
    assert_eq!(again, wanted.by_key.values().cloned().collect::<Vec<_>>());
    assert!(!copy.save(&path, &wanted).unwrap(), "as it was loaded");
    copy.is_stale = true;
    assert!(!copy.save(&path, &Objects::default()).unwrap());
    assert!(!path.exists(), "the last one is gone");
}

#[test]
fn a_bad_copy_is_told_without_its_content_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.json");
    crate::agent::store::write_atomic(&path, b"[{\"hush\": \"hush\"}]").unwrap();
    let problem = load(&path).unwrap_err();
    assert!(problem.contains("objects.json: missing field"), "{problem}");
    let mut copy = ObjectCopy::unknown();
    copy.save(&path, &objects(&secret("s", "x"))).unwrap();
    assert_eq!(load(&path).unwrap().0.len(), 1);
}

#[test]
fn only_what_changed_counts() {
    let old = objects(&(secret("same", "x") + &secret("edited", "x") + &secret("gone", "x")));
    let new = objects(&(secret("same", "x") + &secret("edited", "y") + &secret("new", "x")));
    let changed: Vec<String> = changes(&old, &new).iter().map(|k| k.name.clone()).collect();
    assert_eq!(changed, ["edited", "gone", "new"]);
}
