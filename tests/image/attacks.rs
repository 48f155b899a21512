//! Layers that try to reach out of their directory. None may create, change or link anything outside, and each must
//! either be refused with a clear message or turn out harmless.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use tar::EntryType;

use crate::tars::Tar;
use crate::{Place, chain, has_leftovers};

/// What is to become of an attack.
enum Fate {
    /// Imported; everything stayed inside.
    Harmless,
    /// Refused with a message that contains this.
    Refused(&'static str),
}
use Fate::{Harmless, Refused};

const NOT_A_PARENT: &str = "has a parent that is a link to nothing in its layer";
const NOT_IN_LAYER: &str = "is a hard link to something that its layer does not have";
const DOT_DOT: &str = "has '..' in its path";
const NO_NAME: &str = "is a whiteout of no name";

type Attack = (&'static str, Tar, Fate);

/// `out`: a directory outside, with a file `victim`.
fn path_attacks(out: &str) -> Vec<Attack> {
    let abs = format!("{out}/new");
    vec![
        ("absolute path", Tar::new().file(&abs, "x"), Harmless),
        ("dot dot", Tar::new().file("../new", "x"), Refused(DOT_DOT)),
        (
            "dot dot inside",
            Tar::new().file("a/../../new", "x"),
            Refused(DOT_DOT),
        ),
        (
            "dot dot at the end",
            Tar::new().dir("a/.."),
            Refused(DOT_DOT),
        ),
        (
            "dot dot in a long name",
            Tar::new().file(&format!("{}/../../../new", "d/".repeat(60)), "x"),
            Refused(DOT_DOT),
        ),
        (
            "dot dot in pax",
            Tar::new().pax(&[("path", b"../new")]).file("good", "x"),
            Refused(DOT_DOT),
        ),
        (
            "nul in pax",
            Tar::new().pax(&[("path", b"new\0/x")]).file("good", "x"),
            Refused("has a NUL in its path"),
        ),
    ]
}

fn parent_attacks(out: &str) -> Vec<Attack> {
    let deep = format!("../../../../../../../../..{out}");
    vec![
        (
            "through an absolute link",
            Tar::new().symlink("l", out).file("l/new", "x"),
            Refused(NOT_A_PARENT),
        ),
        (
            "through a relative link",
            Tar::new()
                .dir("d")
                .symlink("d/l", &deep)
                .file("d/l/new", "x"),
            Refused(NOT_A_PARENT),
        ),
        (
            "through two links",
            Tar::new()
                .symlink("a", "b")
                .symlink("b", out)
                .file("a/new", "x"),
            Refused(NOT_A_PARENT),
        ),
        (
            "through /proc",
            Tar::new()
                .symlink("l", "/proc/self/root")
                .file(&format!("l{out}/new"), "x"),
            Refused(NOT_A_PARENT),
        ),
        (
            "through a loop",
            Tar::new()
                .symlink("a", "b")
                .symlink("b", "a")
                .file("a/new", "x"),
            Refused("symbolic links"),
        ),
        (
            "through a directory that becomes a link",
            Tar::new()
                .file("d/a", "x")
                .symlink("d", out)
                .file("d/new", "x"),
            Refused(NOT_A_PARENT),
        ),
        (
            "through a file",
            Tar::new().file("f", "x").file("f/new", "x"),
            Refused("has a parent that is no directory"),
        ),
    ]
}

fn replacing_attacks(out: &str) -> Vec<Attack> {
    vec![
        (
            "onto a link",
            Tar::new()
                .symlink("f", &format!("{out}/victim"))
                .file("f", "x"),
            Harmless,
        ),
        (
            "directory onto a link",
            Tar::new().symlink("d", out).entry(
                EntryType::Directory,
                "d",
                |h| h.set_mode(0o777),
                b"",
            ),
            Harmless,
        ),
        (
            "onto a fifo",
            Tar::new()
                .entry(EntryType::Fifo, "f", |_| {}, b"")
                .file("f", "x"),
            Harmless,
        ),
    ]
}

fn link_attacks(out: &str) -> Vec<Attack> {
    let victim = format!("{out}/victim");
    vec![
        (
            "hard link to an absolute path",
            Tar::new().hard_link("h", &victim).file("h", "x"),
            Refused(NOT_IN_LAYER),
        ),
        (
            "hard link to dot dot",
            Tar::new().hard_link("h", &format!("../../..{victim}")),
            Refused(DOT_DOT),
        ),
        (
            "hard link through a link",
            Tar::new().symlink("l", out).hard_link("h", "l/victim"),
            Refused(NOT_IN_LAYER),
        ),
        (
            "hard link to a link, then a file",
            Tar::new()
                .symlink("l", &victim)
                .hard_link("h", "l")
                .file("h", "x"),
            Harmless,
        ),
        (
            "hard link to the root",
            Tar::new().hard_link("h", "."),
            Refused("is a hard link to the layer's root"),
        ),
        (
            "hard link to a directory",
            Tar::new().dir("d").hard_link("h", "d"),
            Refused("is a hard link to a directory"),
        ),
        (
            "hard link to itself",
            Tar::new().file("h", "x").hard_link("h", "./h"),
            Refused("is a hard link to itself"),
        ),
        (
            "hard link to a whiteout",
            Tar::new().file(".wh.gone", "").hard_link("h", "gone"),
            Refused(NOT_IN_LAYER),
        ),
        (
            "link without target",
            Tar::new().symlink("l", ""),
            Refused("without a usable target"),
        ),
    ]
}

fn whiteout_attacks(out: &str) -> Vec<Attack> {
    vec![
        (
            "whiteout of dot dot",
            Tar::new().dir("d").file("d/.wh...", ""),
            Refused(NO_NAME),
        ),
        (
            "whiteout of dot",
            Tar::new().dir("d").file("d/.wh..", ""),
            Refused(NO_NAME),
        ),
        (
            "whiteout of nothing",
            Tar::new().file(".wh.", ""),
            Refused(NO_NAME),
        ),
        (
            "whiteout through a link",
            Tar::new().symlink("l", out).file("l/.wh.victim", ""),
            Refused(NOT_A_PARENT),
        ),
        (
            "opaque through a link",
            Tar::new().symlink("l", out).file("l/.wh..wh..opq", ""),
            Refused(NOT_A_PARENT),
        ),
        (
            "below a whiteout",
            Tar::new().file(".wh.d/new", "x"),
            Refused("lies below a whiteout"),
        ),
    ]
}

fn odd_entries(out: &str) -> Vec<Attack> {
    vec![
        (
            "root as a link",
            Tar::new().symlink(".", out),
            Refused("is the layer's root"),
        ),
        (
            "root as a file",
            Tar::new().file("/", "x").file("./", "x"),
            Harmless,
        ),
        (
            "owner beyond 32 bits",
            Tar::new().entry(EntryType::Regular, "f", |h| h.set_uid(1 << 40), b""),
            Refused("has an owner that is no user id"),
        ),
        (
            "owner -1",
            Tar::new().entry(
                EntryType::Regular,
                "f",
                |h| h.set_gid(u64::from(u32::MAX)),
                b"",
            ),
            Refused("has an owner that is no user id"),
        ),
        (
            "unknown kind",
            Tar::new().entry(EntryType::new(b'D'), "f", |_| {}, b""),
            Refused("is of a kind that layers do not have"),
        ),
    ]
}

#[test]
fn nothing_escapes_a_layer() {
    let outside = tempfile::tempdir().unwrap();
    let out = outside.path().to_str().unwrap();
    let victim = outside.path().join("victim");
    std::fs::File::create(&victim).unwrap();
    std::fs::set_permissions(outside.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let before = look(outside.path());
    let tables = [
        path_attacks(out),
        parent_attacks(out),
        replacing_attacks(out),
        link_attacks(out),
        whiteout_attacks(out),
        odd_entries(out),
    ];
    for (name, tar, fate) in tables.into_iter().flatten() {
        let place = Place::new();
        let outcome = place.import_layers(&[tar.finish()]);
        match (fate, outcome) {
            (Harmless, Ok(_)) => {}
            (Refused(message), Err(error)) => {
                let text = chain(&error);
                assert!(text.contains(message), "{name}: {text}");
                assert!(place.image("app").is_none(), "{name}");
                assert!(!has_leftovers(&place.store), "{name}");
            }
            (Harmless, Err(error)) => panic!("{name}: {}", chain(&error)),
            (Refused(_), Ok(_)) => panic!("{name}: was imported"),
        }
        assert_eq!(look(outside.path()), before, "{name}");
    }
}

/// Names, modes, link counts and sizes: whatever an attack could change.
fn look(dir: &Path) -> Vec<(String, u32, u64, u64)> {
    let mut all = vec![dir.to_owned()];
    all.extend(std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()));
    all.sort();
    all.iter()
        .map(|path| {
            let meta = path.symlink_metadata().unwrap();
            let links = if meta.is_dir() { 0 } else { meta.nlink() };
            (path.display().to_string(), meta.mode(), links, meta.size())
        })
        .collect()
}

#[test]
fn xattrs_that_would_speak_to_overlayfs_or_the_kernel_are_dropped() {
    let tar = Tar::new()
        .pax(&[
            ("SCHILY.xattr.trusted.overlay.redirect", b"/../../etc"),
            ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
            ("SCHILY.xattr.user.overlay.opaque", b"y"),
            ("SCHILY.xattr.security.selinux", b"x"),
            ("SCHILY.xattr.system.posix_acl_access", b"x"),
        ])
        .dir("d");
    let place = Place::new();
    let image = place.import_layers(&[tar.finish()]).unwrap();
    let mut names = [0u8; 1024];
    let length = rustix::fs::listxattr(image.layers[0].join("d"), &mut names).unwrap();
    assert_eq!(String::from_utf8_lossy(&names[..length]), "");
}

#[test]
fn deeper_directories_than_there_are_descriptors_are_unpacked_replaced_and_removed() {
    // Links make each entry's path short while the tree gets deep.
    let mut tar = Tar::new();
    let chain = ["d"; 400].join("/");
    tar = tar.dir(&chain).symlink("l", &chain);
    let second = format!("l/{chain}");
    tar = tar
        .dir(&second)
        .symlink("m", &second)
        .dir(&format!("m/{chain}"));
    let replaced = tar.symlink("d", "elsewhere");
    let place = Place::new();
    let image = place.import_layers(&[replaced.finish()]).unwrap();
    assert!(image.layers[0].join("d").is_symlink());
    assert!(!has_leftovers(&place.store));
}
