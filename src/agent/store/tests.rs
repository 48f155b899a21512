use std::os::unix::fs::PermissionsExt;

use super::*;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_failed_write_names_the_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("missing/record.json");
    assert_eq!(write_atomic(&path, b"new").unwrap_err().path, path);
}

/// P-190: a container that has it mounted sees what is new.
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
