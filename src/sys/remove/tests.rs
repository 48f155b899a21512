use super::*;

#[test]
fn what_is_missing_is_fine_and_links_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let [kept, link, inner] = ["kept", "link", "tree/inner"].map(|name| dir.path().join(name));
    std::fs::create_dir_all(kept.join("inside")).unwrap();
    std::fs::create_dir_all(&inner).unwrap();
    std::os::unix::fs::symlink(&kept, &link).unwrap();
    std::os::unix::fs::symlink(&kept, inner.join("link")).unwrap();
    for path in [&link, &dir.path().join("tree"), &dir.path().join("missing")] {
        tree(path).unwrap();
        assert!(path.symlink_metadata().is_err(), "{path:?}");
    }
    assert!(kept.join("inside").exists());
    file(&link).unwrap();
    assert!(file(&kept).is_err());
}

/// V-8.
#[test]
fn v_8_what_is_mounted_in_a_tree_survives() {
    crate::sys::mounts::tests::apart(|| {
        let dir = tempfile::tempdir().unwrap();
        let [data, gone] = ["data", "gone/volume/v"].map(|name| dir.path().join(name));
        std::fs::create_dir_all(data.join("sub")).unwrap();
        std::fs::create_dir_all(&gone).unwrap();
        rustix::mount::mount_bind(&data, &gone).unwrap();
        for path in [&gone, &dir.path().join("gone")] {
            let error = tree(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
            assert!(data.join("sub").exists());
        }
        super::super::mounts::unmount_below(&dir.path().join("gone")).unwrap();
        tree(&dir.path().join("gone")).unwrap();
        assert!(data.join("sub").exists());
    });
}

#[test]
fn trees_may_be_deeper_than_there_is_stack() {
    let dir = tempfile::tempdir().unwrap();
    let mut here = open_dir(CWD, dir.path().as_os_str().as_encoded_bytes()).unwrap();
    for _ in 0..2000 {
        rustix::fs::mkdirat(&here, "d", Mode::RWXU).unwrap();
        here = open_dir(here.as_fd(), b"d").unwrap();
    }
    drop(here);
    let deep = dir.path().join("d");
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let removed = small.spawn(move || tree(&deep)).unwrap();
    removed.join().unwrap().unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
