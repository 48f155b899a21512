//! Formats of archives, choice of the platform, names, digests, and the import directory.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};
use vetch::image::{Digest, ImportOptions, Pin, RemoveError, builtin, import, import_dir};

use crate::support::images;
use crate::tars::Tar;
use crate::{Place, chain, has_leftovers};

fn gzip(data: &[u8]) -> Vec<u8> {
    gzip_at(flate2::Compression::fast(), data)
}

fn gzip_other(data: &[u8]) -> Vec<u8> {
    gzip_at(flate2::Compression::none(), data)
}

fn gzip_at(level: flate2::Compression, data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// Two frames with a skippable one between and after them, as zstd:chunked and pzstd have them.
fn zstd(data: &[u8]) -> Vec<u8> {
    let skippable = b"\x51\x2a\x4d\x18\x03\0\0\0xyz";
    let (first, second) = data.split_at(data.len() / 2);
    let compress = |part| compress_to_vec(part, CompressionLevel::Fastest);
    [
        &compress(first)[..],
        skippable,
        &compress(second),
        skippable,
    ]
    .concat()
}

type Pack = fn(&[u8]) -> Vec<u8>;

/// An OCI layout being written.
struct Layout<'a>(&'a Path);

impl<'a> Layout<'a> {
    fn new(dir: &'a Path) -> Self {
        fs::create_dir_all(dir.join("blobs/sha256")).unwrap();
        Self(dir)
    }

    fn write(&self, name: &str, data: &[u8]) {
        File::create(self.0.join(name))
            .unwrap()
            .write_all(data)
            .unwrap();
    }

    fn blob(&self, data: &[u8]) -> Value {
        let digest = images::digest(data);
        self.write(&format!("blobs/sha256/{}", &digest[7..]), data);
        json!({"mediaType": "application/octet-stream", "digest": digest, "size": data.len()})
    }

    /// A manifest with one layer that holds the file `which`; gives its descriptor.
    fn image(&self, which: &str, architecture: &str, pack: Pack) -> Value {
        let layer = Tar::new().file("which", which).finish();
        let config = images::image_config(json!({}), &[images::digest(&layer)]);
        let mut config: Value = serde_json::from_slice(&config).unwrap();
        config["architecture"] = json!(architecture);
        let manifest = json!({
            "schemaVersion": 2,
            "config": self.blob(config.to_string().as_bytes()),
            "layers": [self.blob(&pack(&layer))],
        });
        self.blob(manifest.to_string().as_bytes())
    }

    fn index(&self, manifests: &[Value]) {
        let index = json!({"schemaVersion": 2, "manifests": manifests});
        self.write("index.json", index.to_string().as_bytes());
        self.write("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
    }
}

fn named(mut descriptor: Value, name: &str) -> Value {
    descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": name});
    descriptor
}

fn for_platform(mut descriptor: Value, os: &str, architecture: &str) -> Value {
    descriptor["platform"] = json!({"os": os, "architecture": architecture});
    descriptor
}

fn tar_of(dir: &Path) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all(".", dir).unwrap();
    tar.into_inner().unwrap()
}

#[test]
fn every_format_and_compression_gives_the_same_image() {
    let packs: [Pack; 3] = [|data| data.to_vec(), gzip, zstd];
    let mut ids = Vec::new();
    for pack in packs {
        let place = Place::new();
        let dir = place.path("layout");
        let layout = Layout::new(&dir);
        let descriptor = layout.image("x", images::goarch(), pack);
        layout.index(&[named(descriptor, "registry.example/app:1")]);
        place.import(&dir).unwrap();
        let image = place.image("registry.example/app:1").unwrap();
        assert_eq!(place.store.read_file(&image, "which").unwrap(), "x");
        ids.push(image.id);
        for outer in packs {
            let place = Place::new();
            let path = place.path("layout.tar");
            File::create(&path)
                .unwrap()
                .write_all(&outer(&tar_of(&dir)))
                .unwrap();
            place.import(&path).unwrap();
            ids.push(place.image("registry.example/app:1").unwrap().id);
        }
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
}

#[test]
fn the_platform_of_this_machine_is_chosen_and_its_digests_lead_to_it() {
    let place = Place::new();
    let dir = place.path("layout");
    let layout = Layout::new(&dir);
    let plain: Pack = |data| data.to_vec();
    let other = for_platform(layout.image("other", "s390x", plain), "linux", "s390x");
    let windows = layout.image("windows", images::goarch(), plain);
    let ours = layout.image("ours", images::goarch(), plain);
    let digest = ours["digest"].as_str().unwrap().to_owned();
    let inner = layout.blob(
        json!({"schemaVersion": 2, "manifests": [
            other,
            for_platform(windows, "windows", images::goarch()),
            for_platform(ours, "linux", images::goarch()),
            for_platform(layout.blob(b"{}"), "unknown", "unknown"),
        ]})
        .to_string()
        .as_bytes(),
    );
    let inner_digest = inner["digest"].as_str().unwrap().to_owned();
    layout.index(&[named(inner, "docker.io/library/app:2")]);
    place.import(&dir).unwrap();
    let image = place.image("app:2").unwrap();
    assert_eq!(place.store.read_file(&image, "which").unwrap(), "ours");
    for digest in [digest, inner_digest] {
        let found = place.image(&format!("app@{digest}")).unwrap();
        assert_eq!(found.id, image.id);
        assert_eq!(
            place.image(&format!("app:old@{digest}")).unwrap().id,
            image.id
        );
    }
    assert!(
        place
            .image(&format!("app@{}", images::digest(b"?")))
            .is_none()
    );
}

#[test]
fn an_index_without_our_platform_says_what_it_has() {
    let place = Place::new();
    let dir = place.path("layout");
    let layout = Layout::new(&dir);
    let one = layout.image("x", "s390x", |data| data.to_vec());
    let two = layout.image("y", "mips", |data| data.to_vec());
    let members = [
        for_platform(one, "linux", "s390x"),
        for_platform(two, "linux", "mips"),
    ];
    layout.index(&members);
    let text = chain(&place.import(&dir).unwrap_err());
    assert!(
        text.starts_with("the image is for linux/s390x, linux/mips, this"),
        "{text}"
    );
}

#[test]
fn a_blob_that_is_not_what_its_digest_says_is_refused() {
    for victim in ["layer", "manifest"] {
        let place = Place::new();
        let dir = place.path("layout");
        let layout = Layout::new(&dir);
        let manifest = layout.image("x", images::goarch(), gzip);
        layout.index(&[named(manifest.clone(), "a/app:1")]);
        let layer = Tar::new().file("which", "x").finish();
        // Other bytes that are good by themselves: the same tar in another gzip, the same JSON with a space.
        let (digest, other) = match victim {
            "layer" => (images::digest(&gzip(&layer)), gzip_other(&layer)),
            _ => (
                manifest["digest"].as_str().unwrap().to_owned(),
                b" {}".to_vec(),
            ),
        };
        layout.write(&format!("blobs/sha256/{}", &digest[7..]), &other);
        let text = chain(&place.import(&dir).unwrap_err());
        assert!(
            text.contains(&format!(", not {digest}")),
            "{victim}: {text}"
        );
        assert!(place.image("a/app:1").is_none(), "{victim}");
    }
}

#[test]
fn a_layer_that_docker_wrote_as_a_link_is_found() {
    let place = Place::new();
    let layer = Tar::new().file("f", "x").finish();
    let id = images::digest(&layer);
    let config = images::image_config(json!({}), &[id.clone(), id]);
    let manifest = json!([{"Config": "c.json", "RepoTags": ["app:1", "other/app:2"], "Layers": ["a/layer.tar", "b/layer.tar"]}]);
    let tar = Tar::new()
        .file("c.json", std::str::from_utf8(&config).unwrap())
        .file("a/layer.tar", std::str::from_utf8(&layer).unwrap())
        .symlink("b/layer.tar", "../a/layer.tar")
        .file("manifest.json", &manifest.to_string());
    let path = place.path("app.tar");
    File::create(&path)
        .unwrap()
        .write_all(&tar.finish())
        .unwrap();
    place.import(&path).unwrap();
    let image = place.image("app:1").unwrap();
    assert_eq!(image.layers.len(), 1, "the same layer twice is one");
    assert_eq!(
        image.names,
        ["docker.io/library/app:1", "docker.io/other/app:2"]
    );
}

#[test]
fn names_can_be_given_instead() {
    let place = Place::new();
    let path = place.path("app.tar");
    images::docker_archive(&path, "app", json!({}), &[]);
    let options = ImportOptions {
        pin: Some(Pin::Person),
        names: vec!["mine".to_owned()],
    };
    import(&place.store, &path, &options).unwrap();
    assert!(place.image("app").is_none());
    assert!(place.image("mine").unwrap().pinned);
}

#[test]
fn the_import_directory_is_loaded_pinned_and_unpinned() {
    let place = Place::new();
    let dir = place.path("root/images-import");
    fs::create_dir(&dir).unwrap();
    let archive = |file: &str, name: &str, text: &str| {
        let layer = Tar::new().file("text", text).finish();
        images::docker_archive(&dir.join(file), name, json!({}), &[layer]);
    };
    archive("a.tar", "a", "1");
    for ignored in [".hidden.tar", "b.tar.part", "b.tar.tmp", "b.tar~"] {
        archive(ignored, "ignored", "x");
    }
    File::create(dir.join("half.tar"))
        .unwrap()
        .write_all(&[b'x'; 700])
        .unwrap();
    let run = || import_dir::run(&place.store, &dir).unwrap();

    let report = run();
    assert_eq!(report.imported.len(), 1);
    assert_eq!(report.failures.len(), 1);
    assert_eq!(report.failures[0].0, "half.tar");
    let first = place.image("a").unwrap();
    assert!(first.pinned);
    assert!(place.image("ignored").is_none());
    assert_eq!(
        import_dir::pending(&place.store, &dir).unwrap(),
        [""; 0].map(Path::new)
    );
    let report = run();
    assert_eq!(
        (report.imported.len(), report.failures.len()),
        (0, 1),
        "not tried again"
    );
    let writer = place.store.lock().unwrap();
    let refused = writer.remove("a", &Default::default());
    assert!(matches!(refused, Err(RemoveError::PinnedByFile { .. })));
    drop(writer);

    // The copy is finished, and the other file changes.
    fs::remove_file(dir.join("half.tar")).unwrap();
    archive("half.tar", "half", "h");
    archive("a.tar", "a", "22");
    assert_eq!(import_dir::pending(&place.store, &dir).unwrap().len(), 2);
    assert_eq!(run().failures.len(), 0);
    let second = place.image("a").unwrap();
    assert_ne!(first.id, second.id);
    assert!(!place.store.image(&first.id).unwrap().unwrap().pinned);

    // A lost layer makes the file pending again.
    vetch::sys::remove::tree(&second.layers[0]).unwrap();
    assert!(place.image("a").is_none());
    assert_eq!(
        import_dir::pending(&place.store, &dir).unwrap(),
        [dir.join("a.tar")]
    );
    run();
    assert_eq!(place.image("a").unwrap().id, second.id);

    // A directory that is gone says nothing; a file that is gone pins nothing.
    fs::rename(&dir, place.path("elsewhere")).unwrap();
    run();
    assert!(place.image("a").unwrap().pinned);
    fs::rename(place.path("elsewhere"), &dir).unwrap();
    fs::remove_file(dir.join("a.tar")).unwrap();
    run();
    assert!(!place.image("a").unwrap().pinned);
    assert!(place.image("half").unwrap().pinned);
}

#[test]
fn the_built_in_image_holds_only_the_program() {
    let place = Place::new();
    builtin::import_hello(&place.store, &ImportOptions::default()).unwrap();
    assert!(!has_leftovers(&place.store));
    let image = place.image(builtin::HELLO).unwrap();
    let own = fs::read("/proc/self/exe").unwrap();
    assert!(fs::read(image.layers[0].join("vetch")).unwrap() == own);
    assert_eq!(fs::read_dir(&image.layers[0]).unwrap().count(), 1);
    let config = image.config.config().clone().unwrap();
    let expected = ["/vetch".to_owned(), "hello".to_owned()];
    assert_eq!(config.entrypoint().as_deref(), Some(&expected[..]));
    assert_eq!(
        Digest::try_from(image.id.clone()).unwrap().as_str(),
        image.id
    );
}
