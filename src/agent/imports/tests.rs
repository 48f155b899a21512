use super::*;
use crate::agent::store;

fn drop_in(dir: &Path, name: &str, bytes: &[u8]) {
    store::rewrite(&dir.join(name), bytes, 0o600).unwrap();
}

/// After the child of the start.
fn settled(dir: &Path) -> Imports {
    let mut imports = Imports::new(dir.into());
    assert!(imports.start());
    imports.finished();
    imports
}

#[test]
fn a_child_is_started_once_per_change() {
    let dir = tempfile::tempdir().unwrap();
    let mut imports = settled(dir.path());
    imports.look();
    assert!(!imports.start(), "nothing new");
    drop_in(dir.path(), "a.tar", b"one");
    imports.look();
    assert!(imports.start());
    assert!(!imports.start(), "it runs");
    imports.finished();
    imports.look();
    assert!(!imports.start(), "nothing new");
    drop_in(dir.path(), "a.tar", b"other");
    imports.look();
    assert!(imports.start());
    imports.finished();
    std::fs::remove_file(dir.path().join("a.tar")).unwrap();
    imports.look();
    assert!(imports.start(), "what is taken away counts, too");
}

#[test]
fn a_change_during_a_child_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut imports = settled(dir.path());
    drop_in(dir.path(), "a.tar", b"one");
    imports.look();
    assert!(imports.start());
    drop_in(dir.path(), "b.tar", b"two");
    imports.look();
    assert!(!imports.start());
    imports.finished();
    assert!(imports.start());
}

#[test]
fn a_layout_directory_that_grows_inside_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let mut imports = settled(dir.path());
    let layout = dir.path().join("layout");
    store::make_dir(&layout.join("blobs/sha256")).unwrap();
    imports.look();
    assert!(imports.start());
    imports.finished();
    drop_in(&layout, "index.json", b"{}");
    imports.look();
    assert!(imports.start());
}

#[test]
fn hidden_files_are_work_in_progress() {
    let dir = tempfile::tempdir().unwrap();
    let mut imports = settled(dir.path());
    drop_in(dir.path(), ".a.tar.part", b"one");
    imports.look();
    assert!(!imports.start());
}
