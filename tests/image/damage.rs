//! Archives that are broken, absurd, or not what they say they are.

use serde_json::json;
use tar::EntryType;

use crate::support::images;
use crate::tars::Tar;
use crate::{Place, chain, has_leftovers};

fn damaged_layers() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let mut truncated = Tar::new().file("f", &"x".repeat(5000)).finish();
    truncated.truncate(3000);
    let mut flipped = Tar::new().file("f", "x").finish();
    flipped[0] = b'g';
    let long = "x/".repeat(2100);
    let big = vec![b'x'; 2 << 20];
    vec![
        ("truncated", truncated, "end of file"),
        ("checksum", flipped, "this is no tar header"),
        ("garbage", b"garbage".repeat(1000), "this is no tar header"),
        ("half a header", b"x".repeat(100), "end of file"),
        (
            "long path",
            Tar::new().file(&long, "x").finish(),
            "a path longer than 4095 bytes",
        ),
        (
            "long extension",
            Tar::new().pax(&[("comment", &big)]).file("f", "x").finish(),
            "an extension header above 1 MiB",
        ),
        (
            "pax length",
            Tar::new()
                .entry(EntryType::XHeader, "p", |_| {}, b"99 path=x\n")
                .file("f", "x")
                .finish(),
            "bad pax record",
        ),
        (
            "pax size",
            Tar::new()
                .pax(&[("size", b"18446744073709551615")])
                .file("f", "x")
                .finish(),
            "the size is too big",
        ),
    ]
}

/// A GNU sparse file of 1024 bytes of data.
fn sparse(offsets: [(u64, u64); 2], size: u64) -> Vec<u8> {
    let edit = move |header: &mut tar::Header| {
        let gnu = header.as_gnu_mut().expect("a gnu header");
        for (slot, (offset, length)) in gnu.sparse.iter_mut().zip(offsets) {
            slot.offset
                .copy_from_slice(format!("{offset:011o}\0").as_bytes());
            slot.numbytes
                .copy_from_slice(format!("{length:011o}\0").as_bytes());
        }
        gnu.set_real_size(size);
    };
    Tar::new()
        .entry(EntryType::GNUSparse, "s", edit, &[b'x'; 1024])
        .finish()
}

fn damaged_sparse_files() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    vec![
        (
            "sparse overlap",
            sparse([(0, 512), (256, 512)], 4096),
            "out of order",
        ),
        (
            "sparse beyond the end",
            sparse([(0, 512), (4096, 512)], 4096),
            "out of order",
        ),
        (
            "sparse lies",
            sparse([(0, 512), (1024, 2048)], 4096),
            "does not fit its data",
        ),
        (
            "sparse map",
            Tar::new()
                .pax(&[("GNU.sparse.major", b"1"), ("GNU.sparse.realsize", b"9")])
                .file("f", "nonsense")
                .finish(),
            "read the archive",
        ),
    ]
}

#[test]
fn damaged_layers_are_refused_and_leave_nothing() {
    let place = Place::new();
    for (name, layer, message) in damaged_layers().into_iter().chain(damaged_sparse_files()) {
        let error = place.import_layers(&[layer]).unwrap_err();
        let text = chain(&error);
        assert!(text.contains(message), "{name}: {text}");
        assert!(place.store.list().unwrap().is_empty(), "{name}");
        assert!(!has_leftovers(&place.store), "{name}");
    }
}

#[test]
fn archives_that_hold_no_usable_image_are_refused() {
    let place = Place::new();
    let config = String::from_utf8(images::image_config(json!({}), &[])).unwrap();
    let manifest = |layers: &str| format!(r#"[{{"Config":"c.json","Layers":{layers}}}]"#);
    let other = config.replace(images::goarch(), "s390x");
    let deep = "[".repeat(100_000);
    let cases = [
        ("nothing", Tar::new(), "holds no image"),
        (
            "no config",
            Tar::new().file("manifest.json", &manifest("[]")),
            "c.json is missing",
        ),
        (
            "bad json",
            Tar::new().file("manifest.json", "{"),
            "is not a docker-archive manifest",
        ),
        (
            "deep json",
            Tar::new().file("manifest.json", &deep),
            "is not a docker-archive manifest",
        ),
        (
            "layer count",
            Tar::new()
                .file("manifest.json", &manifest(r#"["l"]"#))
                .file("c.json", &config),
            "1 layers, its configuration 0",
        ),
        (
            "other machine",
            Tar::new()
                .file("manifest.json", &manifest("[]"))
                .file("c.json", &other),
            "the image is for linux/s390x, this machine is linux/",
        ),
        (
            "links in a circle",
            Tar::new()
                .symlink("manifest.json", "x")
                .symlink("x", "manifest.json"),
            "holds no image",
        ),
        (
            "digest that is a path",
            Tar::new()
                .file("manifest.json", &manifest(r#"["l"]"#))
                .file("l", "")
                .file(
                    "c.json",
                    &config.replace("[]", r#"["sha256:../../../../etc"]"#),
                ),
            "is not sha256:",
        ),
    ];
    for (name, tar, message) in cases {
        let path = place.path("bad.tar");
        std::fs::File::create(&path)
            .and_then(|mut file| std::io::Write::write_all(&mut file, &tar.finish()))
            .unwrap();
        let text = chain(&place.import(&path).unwrap_err());
        assert!(text.contains(message), "{name}: {text}");
    }
    assert!(place.store.list().unwrap().is_empty());
}

#[test]
fn a_layer_that_is_not_what_its_digest_says_is_refused() {
    let place = Place::new();
    let path = place.path("app.tar");
    images::docker_archive(
        &path,
        "app",
        json!({}),
        &[Tar::new().file("f", "good").finish()],
    );
    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(4).position(|w| w == b"good").unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"evil", at as u64).unwrap();
    let text = chain(&place.import(&path).unwrap_err());
    assert!(
        text.contains("layer 0/layer.tar has the digest sha256:"),
        "{text}"
    );
    assert!(place.image("app").is_none());
    assert!(!has_leftovers(&place.store));
}
