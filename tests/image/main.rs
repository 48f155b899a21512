//! The local image store, from outside.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod archives;
mod attacks;
mod damage;
mod hello;
mod interrupted;
mod layers;
#[expect(dead_code, reason = "the harness has more than is needed here")]
#[path = "../support/mod.rs"]
mod support;
mod tars;

use std::path::{Path, PathBuf};

use serde_json::json;
use support::images;
use vetch::image::{Image, ImportError, ImportOptions, ImportReport, Store, import};
use vetch::plan::ImagePresence;

/// A store of its own in a temporary directory.
struct Place {
    dir: tempfile::TempDir,
    store: Store,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("make a temporary directory");
        let store = Store::open(&dir.path().join("root/images")).expect("open the store");
        Self { dir, store }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn import(&self, archive: &Path) -> Result<ImportReport, ImportError> {
        import(&self.store, archive, &ImportOptions::default())
    }

    /// Imports an image `app` of these layers.
    fn import_layers(&self, layers: &[Vec<u8>]) -> Result<Image, ImportError> {
        let archive = self.path("app.tar");
        images::docker_archive(&archive, "app", json!({}), layers);
        self.import(&archive)?;
        Ok(self.image("app").expect("the image is present"))
    }

    fn image(&self, name: &str) -> Option<Image> {
        match self.store.presence(name) {
            ImagePresence::Present(id) => self.store.image(&id).expect("read the image"),
            ImagePresence::Absent => None,
            ImagePresence::InvalidName(e) => panic!("{e}"),
        }
    }
}

/// The whole chain of causes.
/// Is there anything of an unfinished import or removal?
fn has_leftovers(store: &Store) -> bool {
    let names = store.names_dir();
    let root = names.parent().expect("it is in the store");
    ["staging", "trash"].iter().any(|dir| {
        let mut entries = std::fs::read_dir(root.join(dir)).expect("read the store");
        entries.next().is_some()
    })
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

#[test]
fn busybox_is_imported_with_its_links_and_users() {
    let place = Place::new();
    let report = place
        .import(&images::busybox_archive(place.dir.path()))
        .unwrap();
    assert_eq!(report.warnings, [""; 0]);
    let image = place.image("busybox").unwrap();
    let passwd = place.store.read_file(&image, "etc/passwd").unwrap();
    assert!(passwd.starts_with("root:x:0:0:"));
    let sh = std::fs::read_link(image.layers[0].join("bin/sh")).unwrap();
    assert_eq!(sh, Path::new("/bin/busybox"));
}
