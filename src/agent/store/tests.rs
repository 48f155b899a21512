use std::os::unix::fs::PermissionsExt;

use super::*;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

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
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record.json");
    write_atomic(&path, b"one, and long").unwrap();
    write_atomic(&path, b"two").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"two");
    assert_eq!(mode(&path), 0o600);
    assert_eq!(names(dir.path()), ["record.json"]);
}

#[test]
fn what_a_crash_left_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record.json");
    let mut stray = File::create(dir.path().join(".record.json.tmp")).unwrap();
    stray.write_all(b"half a record that is longer").unwrap();
    write_atomic(&path, b"new").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(names(dir.path()), ["record.json"]);
}

#[test]
fn a_failed_write_keeps_the_old_content_and_names_the_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record.json");
    write_atomic(&path, b"old").unwrap();
    // The temporary name cannot be opened for writing.
    std::fs::create_dir(dir.path().join(".record.json.tmp")).unwrap();
    let error = write_atomic(&path, b"new").unwrap_err();
    assert_eq!(error.path, path);
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
}

#[test]
fn rewriting_keeps_the_inode_and_sets_the_mode() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("etc-hosts");
    rewrite(&path, b"a longer first text", 0o644).unwrap();
    let inode = std::fs::metadata(&path).unwrap().ino();
    rewrite(&path, b"short", 0o666).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().ino(), inode);
    assert_eq!(std::fs::read(&path).unwrap(), b"short");
    assert_eq!(mode(&path), 0o666);
}

/// A container may write to its /etc/hosts: the agent must not read what it made of it.
#[test]
fn a_file_that_was_blown_up_is_replaced_unread() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("etc-hosts");
    rewrite(&path, b"text", 0o644).unwrap();
    // Sparse, and larger than any memory.
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(1 << 42)
        .unwrap();
    rewrite(&path, b"text", 0o644).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"text");
}

#[test]
fn syncing_forgives_files_that_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("here");
    write_atomic(&here, b"x").unwrap();
    sync(&[dir.path().join("gone"), here]).unwrap();
}

#[test]
fn a_file_that_is_right_is_not_written_again() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("etc-hosts");
    rewrite(&path, b"same", 0o644).unwrap();
    let changed = |path: &Path| {
        let meta = std::fs::metadata(path).unwrap();
        (meta.ctime(), meta.ctime_nsec())
    };
    let before = changed(&path);
    rewrite(&path, b"same", 0o644).unwrap();
    assert_eq!(changed(&path), before);
}
