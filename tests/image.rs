//! The local image store, from outside.

mod support;

use support::images;
use vetch::image::{ImportOptions, Store, import};
use vetch::plan::ImagePresence;

#[test]
fn busybox_is_imported_with_its_links_and_users() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("images")).unwrap();
    let archive = images::busybox_archive(dir.path());
    let report = import(&store, &archive, &ImportOptions::default()).unwrap();
    assert_eq!(report.warnings, [""; 0]);
    let ImagePresence::Present(id) = store.presence("busybox") else {
        panic!("busybox is not present");
    };
    let image = store.image(&id).unwrap().unwrap();
    assert!(
        store
            .read_file(&image, "etc/passwd")
            .unwrap()
            .starts_with("root:x:0:0:")
    );
    let sh = std::fs::read_link(image.layers[0].join("bin/sh")).unwrap();
    assert_eq!(sh, std::path::Path::new("/bin/busybox"));
}
