//! The local image store, from outside.

mod support;

use support::images;

#[test]
fn the_busybox_archive_is_a_tar_with_one_image() {
    let dir = tempfile::tempdir().unwrap();
    let path = images::busybox_archive(dir.path());
    let mut tar = tar::Archive::new(std::fs::File::open(path).unwrap());
    let names: Vec<_> = tar
        .entries()
        .unwrap()
        .map(|e| e.unwrap().path().unwrap().into_owned())
        .collect();
    assert!(names.iter().any(|n| n.ends_with("manifest.json")));
    assert_eq!(names.len(), 3);
}
