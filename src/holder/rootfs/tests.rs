use std::os::unix::fs::{MetadataExt, symlink};

use super::*;

fn rootfs(cwd: &str) -> Rootfs {
    Rootfs {
        lower: vec![],
        writable: PathBuf::new(),
        cwd: cwd.into(),
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    }
}

fn make(root: &Path, cwd: &str) -> io::Result<()> {
    make_cwd(&rootfs(cwd), open_dir(root).unwrap().as_fd())
}

#[test]
fn a_missing_working_directory_is_made_with_its_parents() {
    let root = tempfile::tempdir().unwrap();
    make(root.path(), "/a/b/c").unwrap();
    make(root.path(), "/a/b/c").unwrap();
    assert!(root.path().join("a/b/c").is_dir());
    assert_eq!(
        root.path().join("a").metadata().unwrap().mode() & 0o777,
        0o755
    );
}

#[test]
fn links_of_the_image_do_not_lead_outside() {
    let outside = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    symlink(outside.path(), root.path().join("abs")).unwrap();
    symlink("../../..", root.path().join("up")).unwrap();
    // A link to a place that exists only outside leads to the place of that name inside.
    make(root.path(), "/abs/x").unwrap();
    let inside = outside.path().strip_prefix("/").unwrap();
    assert!(root.path().join(inside).join("x").is_dir());
    make(root.path(), "/up/y").unwrap();
    assert!(root.path().join("y").is_dir());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}
