//! Imports that are killed, run side by side, or run out of space (D4, D5).

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::support::images;
use crate::tars::Tar;
use crate::{Place, chain, has_leftovers};

fn vetch(place: &Place) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vetch"));
    command
        .args(["image", "--root-dir"])
        .arg(place.path("root"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn start_import(place: &Place, archive: &Path) -> Child {
    vetch(place).arg("import").arg(archive).spawn().unwrap()
}

/// An image of three layers with many files.
fn big_archive(place: &Place) -> PathBuf {
    let layers: Vec<_> = (0..3)
        .map(|layer| {
            let mut tar = Tar::new();
            for n in 0..300 {
                tar = tar.file(&format!("{layer}/{}/{n}", n % 10), &"x".repeat(n * 20));
            }
            tar.finish()
        })
        .collect();
    let path = place.path("big.tar");
    images::docker_archive(&path, "big", json!({}), &layers);
    path
}

/// Everything in the store's directories, counted.
fn entries(dir: &Path) -> usize {
    let Ok(all) = std::fs::read_dir(dir) else {
        return 0;
    };
    all.flatten()
        .map(|entry| {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            1 + if is_dir { entries(&entry.path()) } else { 0 }
        })
        .sum()
}

#[test]
fn an_import_killed_at_any_point_leaves_a_working_store() {
    let place = Place::new();
    let archive = big_archive(&place);
    place
        .import(&images::busybox_archive(place.dir.path()))
        .unwrap();
    let store = place.path("root/images");
    let start = entries(&store);
    for grown in [0, 1, 5, 40, 200, 320, 450, 640, 800, 930, 945] {
        let mut child = start_import(&place, &archive);
        // Killed when the store has grown by so many entries, or at its end.
        while child.try_wait().unwrap().is_none() && entries(&store) < start + grown {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(place.image("busybox").is_some());
        for image in place.store.list().unwrap() {
            let whole = image.layers.iter().all(|layer| layer.is_dir());
            assert!(whole, "{} after {grown}", image.id);
        }
        if let Some(image) = place.image("big") {
            assert!(image.layers[0].join("2/9/299").is_file());
        }
    }
    place.import(&archive).unwrap();
    let image = place.image("big").unwrap();
    for (n, layer) in image.layers.iter().rev().enumerate() {
        assert_eq!(entries(layer), 311, "layer {n}");
    }
    assert!(!has_leftovers(&place.store));
}

#[test]
fn imports_side_by_side_wait_for_each_other_and_all_succeed() {
    let place = Place::new();
    let archives: Vec<_> = (0..4)
        .map(|n| {
            let path = place.path(&format!("{n}.tar"));
            let shared = Tar::new().file("shared", "x").finish();
            let own = Tar::new().file("own", &n.to_string()).finish();
            images::docker_archive(&path, &format!("app:{n}"), json!({}), &[shared, own]);
            path
        })
        .collect();
    // Each twice.
    let children: Vec<_> = archives
        .iter()
        .chain(&archives)
        .map(|archive| start_import(&place, archive))
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    for n in 0..4 {
        let image = place.image(&format!("app:{n}")).unwrap();
        assert_eq!(place.store.read_file(&image, "own").unwrap(), n.to_string());
    }
    assert_eq!(place.store.list().unwrap().len(), 4);
}

/// A small file system that vanishes with the test.
struct Tmpfs<'a>(&'a Path);

impl<'a> Tmpfs<'a> {
    fn mount(at: &'a Path, size: &str) -> Self {
        std::fs::create_dir_all(at).unwrap();
        let mount = |args: &[&str]| Command::new("mount").args(args).arg(at).status().unwrap();
        let options = format!("size={size}");
        assert!(mount(&["-t", "tmpfs", "-o", &options, "tmpfs"]).success());
        Self(at)
    }
}

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_fails_the_import_and_nothing_else() {
    let place = Place::new();
    let big = {
        let chunk = "x".repeat(1 << 20);
        let tar = (0..40).fold(Tar::new(), |tar, n| tar.file(&n.to_string(), &chunk));
        let path = place.path("big.tar");
        images::docker_archive(&path, "big", json!({}), &[tar.finish()]);
        path
    };
    let small = images::busybox_archive(place.dir.path());
    for (size, message) in [
        (
            "50m",
            "less than 32 MiB would be left on the store's file system",
        ),
        ("12m", "No space left on device"),
    ] {
        let at = place.path(size);
        let _tmpfs = Tmpfs::mount(&at, size);
        let store = vetch::image::Store::open(&at.join("images")).unwrap();
        let import = |archive| vetch::image::import(&store, archive, &Default::default());
        import(&small).unwrap();
        let text = chain(&import(&big).unwrap_err());
        assert!(text.contains(message), "{text}");
        assert!(!has_leftovers(&store));
        let names: Vec<_> = store
            .list()
            .unwrap()
            .into_iter()
            .flat_map(|i| i.names)
            .collect();
        assert_eq!(names, ["docker.io/library/busybox:latest"]);
    }
}

#[test]
fn an_import_waits_for_the_lock_and_does_not_disturb_its_holder() {
    let place = Place::new();
    let archive = images::busybox_archive(place.dir.path());
    let writer = place.store.lock().unwrap();
    let work = place.path("root/images/staging/work");
    std::fs::create_dir(&work).unwrap();
    let mut child = start_import(&place, &archive);
    let list = vetch(&place).arg("ls").status().unwrap();
    assert!(list.success(), "reading takes no lock");
    assert!(work.is_dir());
    assert!(child.try_wait().unwrap().is_none());
    drop(writer);
    assert!(child.wait().unwrap().success());
    assert!(!work.exists(), "left by a dead import");
    assert!(place.image("busybox").is_some());
}
