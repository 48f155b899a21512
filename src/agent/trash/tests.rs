use super::*;

/// V-8, V-52: a container mounted data of the host in a volume of its pod.
#[test]
fn v_8_what_is_mounted_in_a_pods_directory_does_not_go_with_it() {
    crate::sys::mounts::tests::apart(|| {
        let dir = tempfile::tempdir().unwrap();
        let [data, pod, trash] = ["data", "pod", "trash"].map(|name| dir.path().join(name));
        let inside = pod.join("volumes/v/mount");
        std::fs::create_dir_all(data.join("kept")).unwrap();
        std::fs::create_dir_all(&inside).unwrap();
        rustix::mount::mount_bind(&data, &inside).unwrap();
        rustix::mount::mount_bind(&data, inside.join("kept")).unwrap();
        throw(&trash, &pod).unwrap();
        empty(&trash).unwrap();
        assert_eq!(std::fs::read_dir(&trash).unwrap().count(), 0);
        assert!(data.join("kept").exists());
    });
}

#[test]
fn trees_of_the_same_name_lie_side_by_side_until_emptied() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths {
        root_dir: dir.path().into(),
        log_dir: dir.path().into(),
        ..Paths::default()
    };
    let outside = dir.path().join("outside");
    store::make_dir(&outside.join("kept")).unwrap();
    let trash = paths.trash();
    for _ in 0..2 {
        let tree = paths.pods().join("uid");
        store::make_dir(&tree.join("deep/er")).unwrap();
        std::os::unix::fs::symlink(&outside, tree.join("link")).unwrap();
        throw(&trash, &tree).unwrap();
        assert!(!tree.exists());
    }
    throw(&trash, &paths.pods().join("never-was")).unwrap();
    assert_eq!(std::fs::read_dir(&trash).unwrap().count(), 2);
    assert_eq!(full(&paths), std::slice::from_ref(&trash));
    empty(&trash).unwrap();
    assert!(full(&paths).is_empty());
    assert!(outside.join("kept").exists());
}
