use super::*;
use crate::agent::store;

const DONE: Result<(), ()> = Ok(());
const FAILED: Result<(), ()> = Err(());

fn drop_in(dir: &Path, name: &str, bytes: &[u8]) {
    store::rewrite(&dir.join(name), bytes, 0o600).unwrap();
}

/// After the child of the start.
fn settled(dir: &Path) -> Imports {
    let mut imports = Imports::new(dir.into());
    assert!(imports.start());
    assert!(imports.finished(&DONE));
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
    assert!(imports.finished(&DONE));
    imports.look();
    assert!(!imports.start(), "nothing new");
    drop_in(dir.path(), "a.tar", b"other");
    imports.look();
    assert!(imports.start());
    assert!(imports.finished(&DONE));
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
    assert!(imports.finished(&DONE));
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
    assert!(imports.finished(&DONE));
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

#[test]
fn a_slow_copy_is_tried_once_and_again_at_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut imports = settled(dir.path());
    drop_in(dir.path(), "a.tar", b"ha");
    imports.look();
    assert!(imports.start());
    drop_in(dir.path(), "a.tar", b"half");
    assert!(!imports.finished(&FAILED), "no failure worth a word");
    assert!(!imports.start(), "it goes on");
    drop_in(dir.path(), "a.tar", b"half and half");
    imports.look();
    assert!(imports.start(), "it is over");
    assert!(imports.finished(&FAILED), "bad content");
    assert!(!imports.start(), "and nothing new");
}

#[test]
fn a_copy_that_ends_during_a_child_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut imports = settled(dir.path());
    drop_in(dir.path(), "a.tar", b"half");
    imports.look();
    assert!(imports.start());
    drop_in(dir.path(), "a.tar", b"half and half");
    imports.look();
    assert!(!imports.finished(&FAILED));
    assert!(imports.start());
}
