use std::os::unix::fs::PermissionsExt;

use super::*;

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_write_replaces_the_file_and_leaves_nothing_else() {
    for write in [replace, replace_synced] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record.json");
        write(&path, b"one, and long").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(names(dir.path()), ["record.json"]);
    }
}

#[test]
fn what_a_crash_left_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record.json");
    let mut stray = File::create(dir.path().join(".tmp-record.json")).unwrap();
    stray.write_all(b"half a record that is longer").unwrap();
    replace(&path, b"new").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(names(dir.path()), ["record.json"]);
}

#[test]
fn a_failed_write_keeps_the_old_content() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record.json");
    replace(&path, b"old").unwrap();
    // The temporary name cannot be opened for writing.
    std::fs::create_dir(dir.path().join(".tmp-record.json")).unwrap();
    replace(&path, b"new").unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
}

#[test]
fn reading_tells_missing_from_damaged_and_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record.json");
    assert_eq!(read::<u64>(&path).unwrap(), None);
    replace(&path, b"7").unwrap();
    assert_eq!(read::<u64>(&path).unwrap(), Some(7));
    replace(&path, b"7 or so").unwrap();
    let damaged = read::<u64>(&path).unwrap_err();
    assert!(matches!(damaged, ReadError::Content { .. }), "{damaged}");
    // Sparse, and larger than any memory.
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(1 << 42).unwrap();
    let large = read::<u64>(&path).unwrap_err();
    assert!(matches!(large, ReadError::Io { .. }), "{large}");
}

#[test]
fn syncing_forgives_files_that_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("here");
    replace(&here, b"x").unwrap();
    sync(&here).unwrap();
    sync(&dir.path().join("gone")).unwrap();
}
