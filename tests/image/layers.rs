//! What an honest layer holds comes out as it was: kinds, owners, modes, times, attributes, whiteouts.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use tar::EntryType;

use crate::Place;
use crate::tars::Tar;

/// `security.capability` of revision 2: cap_net_raw, effective and permitted.
const CAPABILITY: &[u8] = b"\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = [0u8; 256];
    let length = rustix::fs::lgetxattr(path, name, &mut value).ok()?;
    Some(value[..length].to_vec())
}

fn is_whiteout(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|meta| meta.file_type().is_char_device() && meta.rdev() == 0)
}

fn is_opaque(path: &Path) -> bool {
    xattr(path, "trusted.overlay.opaque").as_deref() == Some(b"y")
}

#[test]
fn owners_modes_times_and_attributes_are_kept() {
    let set = |mode, uid, gid| {
        move |header: &mut tar::Header| {
            header.set_mode(mode);
            header.set_uid(uid);
            header.set_gid(gid);
        }
    };
    let tar = Tar::new()
        .entry(EntryType::Directory, "./", set(0o711, 3, 4), b"")
        .entry(EntryType::Directory, "tmp/", set(0o1777, 0, 0), b"")
        .entry(EntryType::Regular, "su", set(0o4755, 0, 0), b"su")
        .entry(EntryType::Regular, "sg", set(0o2711, 65534, 100_000), b"sg")
        .pax(&[
            ("SCHILY.xattr.user.text", b"one\ntwo=\0three"),
            ("SCHILY.xattr.security.capability", CAPABILITY),
            ("mtime", b"1500000000.25"),
            ("uid", b"3000000000"),
        ])
        .file("attributes", "x")
        .file("tmp/late", "x")
        .finish();
    let place = Place::new();
    let image = place.import_layers(&[tar]).unwrap();
    let root = &image.layers[0];
    let meta = |name: &str| root.join(name).symlink_metadata().unwrap();
    let mode = |name: &str| {
        let meta = meta(name);
        (meta.mode() & 0o7777, meta.uid(), meta.gid())
    };
    assert_eq!(mode("."), (0o711, 3, 4));
    assert_eq!(mode("tmp"), (0o1777, 0, 0));
    assert_eq!(mode("su"), (0o4755, 0, 0));
    assert_eq!(mode("sg"), (0o2711, 65534, 100_000));
    assert_eq!(meta("tmp").mtime(), 1_000_000_000, "its entries came later");
    assert_eq!(meta(".").mtime(), 1_000_000_000);
    let attributes = root.join("attributes");
    assert_eq!(
        xattr(&attributes, "user.text").unwrap(),
        b"one\ntwo=\0three"
    );
    assert_eq!(
        xattr(&attributes, "security.capability").unwrap(),
        CAPABILITY
    );
    let stamp = (meta("attributes").mtime(), meta("attributes").mtime_nsec());
    assert_eq!(stamp, (1_500_000_000, 250_000_000));
    assert_eq!(mode("attributes").1, 3_000_000_000);
}

#[test]
fn links_devices_and_long_names_are_kept() {
    let long = format!("{}name", "long/".repeat(60));
    let longer = format!("{}name", "longer/".repeat(80));
    let tar = Tar::new()
        .dir("tmp")
        .file("su", "su")
        .hard_link("tmp/other", "su")
        .symlink("link", "/nowhere/../at/all")
        .hard_link("link2", "link")
        .device(EntryType::Char, "null", (1, 3))
        .device(EntryType::Block, "disk", (259, 300))
        .entry(EntryType::Fifo, "pipe", |h| h.set_mode(0o622), b"")
        .file(&long, "long")
        .pax(&[("path", longer.as_bytes())])
        .file("short", "longer")
        .file("twice", "first and longer")
        .file("twice", "second")
        .symlink("in", "tmp")
        .file("in/side", "x")
        .symlink("abs", "/tmp")
        .file("abs/olute", "x")
        .finish();
    let place = Place::new();
    let image = place.import_layers(&[tar]).unwrap();
    let root = &image.layers[0];
    let meta = |name: &str| root.join(name).symlink_metadata().unwrap();

    assert_eq!(meta("tmp/other").ino(), meta("su").ino());
    let target = std::fs::read_link(root.join("link2")).unwrap();
    assert_eq!(target, Path::new("/nowhere/../at/all"));
    assert_eq!(meta("null").rdev(), rustix::fs::makedev(1, 3));
    assert!(meta("disk").file_type().is_block_device());
    assert_eq!(meta("disk").rdev(), rustix::fs::makedev(259, 300));
    assert!(meta("pipe").file_type().is_fifo());
    assert_eq!(meta("pipe").mode() & 0o7777, 0o622);
    let text = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    assert_eq!(text(&long), "long");
    assert_eq!(text(&longer), "longer");
    assert_eq!(text("twice"), "second");
    assert_eq!(text("tmp/side"), "x");
    assert_eq!(text("tmp/olute"), "x");
}

#[test]
fn whiteouts_hide_lower_layers_and_nothing_of_their_own() {
    let tar = Tar::new()
        .file(".wh.gone", "")
        .file("deep/er/.wh.gone", "")
        .dir("opaque")
        .file("opaque/new", "x")
        .file("opaque/.wh..wh..opq", "")
        // As aufs writes it: a hard link to a shared whiteout.
        .hard_link(".wh.linked", ".wh..wh.aufs")
        .file(".wh..wh.aufs", "")
        .dir(".wh..wh.plnk")
        .file(".wh..wh.plnk/77.1", "x")
        .file("kept", "kept")
        .file(".wh.kept", "")
        .dir("replaced")
        .file("replaced/new", "x")
        .file(".wh.replaced", "")
        .file(".wh.later", "")
        .file("later/new", "x")
        .file(".wh.file", "")
        .file("file", "new")
        .file(".wh.dir", "")
        .dir("dir")
        .finish();
    let place = Place::new();
    let image = place.import_layers(&[tar]).unwrap();
    let root = &image.layers[0];
    for name in ["gone", "deep/er/gone", "linked"] {
        assert!(is_whiteout(&root.join(name)), "{name}");
    }
    for name in ["opaque", "replaced", "later", "dir"] {
        assert!(is_opaque(&root.join(name)), "{name}");
    }
    for name in ["opaque/new", "replaced/new", "later/new", "kept", "file"] {
        assert!(root.join(name).is_file(), "{name}");
    }
    assert!(!is_opaque(&root.join("deep")));
    let mut names: Vec<_> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| name.starts_with(".wh."));
    assert_eq!(names, [""; 0]);
}

/// The kernel's overlayfs is the judge of what the layers mean.
#[test]
fn overlayfs_and_our_own_lookup_agree() {
    let bottom = Tar::new()
        .file("etc/gone", "x")
        .file("etc/kept", "kept")
        .file("opaque/low", "x")
        .file("was-dir/low", "x")
        .file("was-file", "x")
        .finish();
    let middle = Tar::new()
        .file("middle", "middle")
        .file("etc/kept", "newer")
        .finish();
    let top = Tar::new()
        .file("etc/.wh.gone", "")
        .file("opaque/.wh..wh..opq", "")
        .file("opaque/high", "high")
        .file(".wh.was-dir", "")
        .file("was-dir/high", "high")
        .file("was-file/high", "high")
        .symlink("link", "../etc/kept")
        .finish();
    let place = Place::new();
    // The middle layer twice: overlayfs would refuse the same directory.
    let image = place
        .import_layers(&[middle.clone(), bottom, middle, top])
        .unwrap();
    assert_eq!(image.layers.len(), 3);
    let expected = "etc/kept middle opaque/high was-dir/high was-file/high";
    assert_eq!(overlay_files(&place, &image.layers), expected);
    for (path, text) in [
        ("etc/kept", "newer"),
        ("etc/gone", ""),
        ("opaque/low", ""),
        ("opaque/high", "high"),
        ("was-dir/low", ""),
        ("was-dir/high", "high"),
        ("was-file/high", "high"),
        ("link", "newer"),
    ] {
        assert_eq!(place.store.read_file(&image, path).unwrap(), text, "{path}");
    }
}

/// Regular files of the merged tree; mounted in a mount namespace that ends with the command.
fn overlay_files(place: &Place, layers: &[std::path::PathBuf]) -> String {
    let lower: Vec<_> = layers.iter().map(|layer| layer.to_str().unwrap()).collect();
    let at = place.path("merged");
    std::fs::create_dir(&at).unwrap();
    let script = "mount -t overlay overlay -o ro,lowerdir=$1 $2 && cd $2 && find . -type f -printf '%P\\n' | sort";
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh", &lower.join(":")])
        .arg(&at)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_layer_with_an_opaque_root_hides_all_below_it() {
    let place = Place::new();
    let low = Tar::new().file("low", "x").finish();
    let high = Tar::new()
        .file(".wh..wh..opq", "")
        .file("high", "x")
        .finish();
    let image = place.import_layers(&[low, high]).unwrap();
    assert_eq!(image.layers.len(), 1);
    assert!(image.layers[0].join("high").exists());
}

/// By GNU tar in all its formats, so that the reader is not tested against our own writing only.
#[test]
fn sparse_files_of_gnu_tar_keep_their_content_and_holes() {
    let place = Place::new();
    let source = place.path("source");
    std::fs::create_dir(&source).unwrap();
    let file = std::fs::File::create(source.join("sparse")).unwrap();
    file.set_len(8 << 20).unwrap();
    for n in 0..40u64 {
        std::os::unix::fs::FileExt::write_all_at(&file, b"data", n * 200_000).unwrap();
    }
    let expected = std::fs::read(source.join("sparse")).unwrap();
    for format in [
        &["--format=gnu"][..],
        &["--format=posix", "--sparse-version=0.0"],
        &["--format=posix", "--sparse-version=0.1"],
        &["--format=posix", "--sparse-version=1.0"],
    ] {
        let output = Command::new("tar")
            .args(["-c", "-S", "-C"])
            .arg(&source)
            .args(format)
            .arg("sparse")
            .output()
            .unwrap();
        assert!(output.status.success(), "{format:?}");
        assert!(
            output.stdout.len() < 1 << 20,
            "{format:?}: tar saw no holes"
        );
        let image = place.import_layers(&[output.stdout]).unwrap();
        let path = image.layers[0].join("sparse");
        assert!(std::fs::read(&path).unwrap() == expected, "{format:?}");
        assert!(
            path.metadata().unwrap().blocks() < 2048,
            "{format:?}: no holes"
        );
    }
}
