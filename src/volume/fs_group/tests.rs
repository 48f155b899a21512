use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

const GID: u32 = 4711;

fn group(only_on_root_mismatch: bool) -> FsGroup {
    FsGroup {
        gid: GID,
        only_on_root_mismatch,
    }
}

fn look(path: &Path) -> (u32, u32) {
    let meta = path.symlink_metadata().unwrap();
    (meta.gid(), meta.mode() & 0o7777)
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("SKIPPED: groups need root");
    }
    is_root
}

/// V-60.
#[test]
fn v_60_everything_in_the_volume_belongs_to_the_group_and_nothing_else() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let volume = dir.path().join("volume");
    let outside = dir.path().join("outside");
    fs::create_dir_all(volume.join("sub/deeper")).unwrap();
    for (name, mode) in [("file", 0o640), ("sub/suid", 0o4711), ("sub/closed", 0)] {
        File::create(volume.join(name)).unwrap();
        fs::set_permissions(volume.join(name), Permissions::from_mode(mode)).unwrap();
    }
    File::create(&outside).unwrap();
    symlink(&outside, volume.join("link")).unwrap();
    let before = look(&outside);

    let root = File::open(&volume).unwrap();
    apply(root.as_fd(), group(false)).unwrap();
    for (name, mode) in [
        ("", 0o2775),
        ("sub", 0o2775),
        ("sub/deeper", 0o2775),
        ("file", 0o660),
        ("sub/suid", 0o4771),
        ("sub/closed", 0o660),
        ("link", 0o777),
    ] {
        assert_eq!(look(&volume.join(name)), (GID, mode), "{name}");
    }
    assert_eq!(look(&outside), before);
}

/// V-60: the root tells.
#[test]
fn v_60_on_root_mismatch_only_a_root_that_differs_is_followed() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    File::create(&file).unwrap();
    let root = File::open(dir.path()).unwrap();
    own(root.as_fd(), GID).unwrap();
    apply(root.as_fd(), group(true)).unwrap();
    assert_eq!(look(&file).0, 0);
    fs::set_permissions(dir.path(), Permissions::from_mode(0o770)).unwrap();
    apply(root.as_fd(), group(true)).unwrap();
    assert_eq!(look(&file).0, GID);
}
