use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

use serde_json::json;

use super::*;

/// A layer of plain files; names ending in `/` are directories, texts beginning `-> ` links.
fn layer(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, text) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        header.set_size(0);
        if let Some(target) = text.strip_prefix("-> ") {
            header.set_entry_type(tar::EntryType::Symlink);
            tar.append_link(&mut header, path, target).unwrap();
            continue;
        }
        if path.ends_with('/') {
            header.set_entry_type(tar::EntryType::Directory);
        }
        header.set_size(text.len() as u64);
        tar.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap()
}

fn docker_archive(path: &Path, name: &str, layers: &[Vec<u8>]) {
    let diff_ids: Vec<_> = layers.iter().map(|l| Digest::of(l)).collect();
    let config = json!({
        "architecture": platform::Platform::host().architecture,
        "os": "linux",
        "config": {"Cmd": ["sh"]},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    })
    .to_string();
    let names: Vec<_> = (0..layers.len())
        .map(|n| format!("{n}/layer.tar"))
        .collect();
    let manifest = json!([{"Config": "c.json", "RepoTags": [name], "Layers": names}]).to_string();
    let mut tar = tar::Builder::new(std::fs::File::create(path).unwrap());
    let mut append = |name: &str, data: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(data.len() as u64);
        tar.append_data(&mut header, name, data).unwrap();
    };
    append("c.json", config.as_bytes());
    append("manifest.json", manifest.as_bytes());
    for (name, layer) in names.iter().zip(layers) {
        append(name, layer);
    }
}

struct Place {
    dir: tempfile::TempDir,
    store: Store,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("images")).unwrap();
        Self { dir, store }
    }

    fn import(&self, name: &str, layers: &[Vec<u8>]) -> ImportReport {
        let path = self.dir.path().join("a.tar");
        docker_archive(&path, name, layers);
        import(&self.store, &path, &ImportOptions::default()).unwrap()
    }

    fn id(&self, name: &str) -> Option<String> {
        match self.store.presence(name) {
            ImagePresence::Present(id) => Some(id),
            ImagePresence::Absent => None,
            ImagePresence::InvalidName(e) => panic!("{e}"),
        }
    }
}

#[test]
fn an_imported_image_is_found_under_all_spellings_of_its_name() {
    let place = Place::new();
    assert_eq!(place.id("busybox"), None);
    let report = place.import(
        "busybox:latest",
        &[layer(&[("etc/", ""), ("etc/passwd", "root")])],
    );
    let id = report.images[0].id.to_string();
    for name in [
        "busybox",
        "busybox:latest",
        "docker.io/library/busybox",
        "library/busybox",
    ] {
        assert_eq!(place.id(name).as_ref(), Some(&id), "{name}");
    }
    assert_eq!(place.id("busybox:1"), None);
    assert!(matches!(
        place.store.presence("Busy Box"),
        ImagePresence::InvalidName(_)
    ));
    let image = place.store.image(&id).unwrap().unwrap();
    assert_eq!(image.names, ["docker.io/library/busybox:latest"]);
    assert_eq!(image.size, 4);
    assert_eq!(place.store.list().unwrap(), std::slice::from_ref(&image));
    assert_eq!(
        place.store.read_file(&image, "/etc/passwd").unwrap(),
        "root"
    );
    assert_eq!(place.store.read_file(&image, "etc/none").unwrap(), "");
    assert_eq!(
        std::fs::metadata(&place.store.dir).unwrap().mode() & 0o7777,
        0o700
    );
}

#[test]
fn a_name_moves_to_the_newer_image_and_the_older_stays() {
    let place = Place::new();
    let old = place.import("app:1", &[layer(&[("v", "1")])]);
    let new = place.import("app:1", &[layer(&[("v", "22")])]);
    assert_eq!(place.id("app:1"), Some(new.images[0].id.to_string()));
    let old = place
        .store
        .image(old.images[0].id.as_str())
        .unwrap()
        .unwrap();
    assert!(old.names.is_empty());
    assert_eq!(place.store.read_file(&old, "v").unwrap(), "1");
}

#[test]
fn an_image_without_one_of_its_layers_is_absent_and_healed_by_importing_again() {
    let place = Place::new();
    let layers = [layer(&[("a", "1")]), layer(&[("b", "2")])];
    let id = place.import("app", &layers).images[0].id.to_string();
    let image = place.store.image(&id).unwrap().unwrap();
    crate::sys::remove::tree(&image.layers[0]).unwrap();
    assert_eq!(place.id("app"), None);
    assert_eq!(place.store.image(&id).unwrap(), None);
    assert!(place.store.list().unwrap().is_empty());
    let report = place.import("app", &layers);
    assert_eq!(report.images[0].new_layers, 1);
    assert_eq!(place.id("app"), Some(id));
}

#[test]
fn removing_takes_the_name_then_the_image_and_only_its_own_layers() {
    let place = Place::new();
    let shared = layer(&[("shared", "1")]);
    place.import("a", &[shared.clone(), layer(&[("a", "1")])]);
    let b = place.import("b", &[shared]).images[0].id.to_string();
    let none = BTreeSet::new();
    let writer = place.store.lock().unwrap();
    assert!(matches!(
        writer.remove("c", &none),
        Err(RemoveError::Unknown { .. })
    ));
    let used = BTreeSet::from([place.id("a").unwrap()]);
    assert!(matches!(
        writer.remove("a", &used),
        Err(RemoveError::InUse { .. })
    ));
    assert!(matches!(writer.remove("a", &none), Ok(Removed::Image(_))));
    assert_eq!(place.id("a"), None);
    assert_eq!(place.id("b"), Some(b));
    assert_eq!(
        std::fs::read_dir(place.store.layers_dir()).unwrap().count(),
        1
    );
    for dir in [place.store.staging_dir(), place.store.trash_dir()] {
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
    }
}

#[test]
fn files_are_looked_up_through_whiteouts_opaque_directories_and_links() {
    let place = Place::new();
    let bottom = layer(&[
        ("etc/", ""),
        ("etc/gone", "x"),
        ("etc/kept", "kept"),
        ("opaque/", ""),
        ("opaque/low", "x"),
        ("file", "x"),
    ]);
    let top = layer(&[
        ("etc/.wh.gone", ""),
        ("opaque/.wh..wh..opq", ""),
        ("opaque/high", "high"),
        ("file/", ""),
        ("abs", "-> /etc/kept"),
        ("up", "-> ../../etc/./kept"),
        ("loop", "-> loop"),
    ]);
    let id = place.import("app", &[bottom, top]).images[0].id.to_string();
    let image = place.store.image(&id).unwrap().unwrap();
    let cases = [
        ("etc/kept", "kept"),
        ("etc/gone", ""),
        ("opaque/low", ""),
        ("opaque/high", "high"),
        ("file", ""),
        ("abs", "kept"),
        ("up", "kept"),
        ("loop", ""),
        ("etc/../etc/kept", "kept"),
        ("etc/kept/x", ""),
    ];
    for (path, text) in cases {
        assert_eq!(place.store.read_file(&image, path).unwrap(), text, "{path}");
    }
}

#[test]
fn only_one_at_a_time_may_change_the_store_and_reading_goes_on() {
    let place = Place::new();
    place.import("a", &[layer(&[("a", "1")])]);
    let writer = place.store.lock().unwrap();
    let other = Store::open(&place.store.dir).unwrap();
    assert!(other.try_lock().unwrap().is_none());
    assert!(matches!(other.presence("a"), ImagePresence::Present(_)));
    drop(writer);
    assert!(other.try_lock().unwrap().is_some());
}

#[test]
fn the_best_platform_is_the_own_variant_then_lower_ones() {
    let v7 = platform::Platform::of("arm", "armv7l");
    assert_eq!(v7.to_string(), "linux/arm/v7");
    assert_eq!(v7.rank("linux", "arm", "v7"), Some(0));
    assert_eq!(v7.rank("linux", "arm", ""), Some(0));
    assert_eq!(v7.rank("linux", "arm", "v6"), Some(1));
    assert_eq!(v7.rank("linux", "arm", "v5"), Some(2));
    assert_eq!(v7.rank("linux", "arm", "v8"), None);
    assert_eq!(v7.rank("linux", "arm64", "v8"), None);
    let v6 = platform::Platform::of("arm", "armv6l");
    assert_eq!(v6.rank("linux", "arm", "v7"), None);
    assert_eq!(v6.rank("linux", "arm", "v6"), Some(0));
    let v8 = platform::Platform::of("aarch64", "aarch64");
    assert_eq!(v8.to_string(), "linux/arm64/v8");
    assert!(v8.rank("linux", "arm64", "").is_some());
    assert!(v8.rank("linux", "arm64", "v8").is_some());
    assert_eq!(v8.rank("windows", "arm64", "v8"), None);
    let amd64 = platform::Platform::of("x86_64", "x86_64");
    assert!(amd64.rank("linux", "amd64", "") < amd64.rank("linux", "amd64", "v3"));
    assert_eq!(amd64.rank("linux", "386", ""), None);
}

#[test]
fn pax_records_are_split_by_their_length_and_times_have_fractions() {
    let parse = |text: &[u8]| pax::Pax::parse(text);
    let mtime = |text: &str| {
        let record = format!("{} mtime={text}\n", text.len() + 10);
        let time = parse(record.as_bytes())?.mtime?;
        Some((time.tv_sec, time.tv_nsec))
    };
    assert_eq!(mtime("12"), Some((12, 0)));
    assert_eq!(mtime("12.5"), Some((12, 500_000_000)));
    assert_eq!(mtime("12.1234567891"), Some((12, 123_456_789)));
    assert_eq!(mtime("-1.25"), Some((-2, 750_000_000)));
    assert_eq!(mtime("-0.25"), Some((-1, 750_000_000)));
    for bad in ["x", "1.x", "1.-5", ""] {
        assert_eq!(mtime(bad), None, "{bad}");
    }
    let two = parse(b"12 path=a\nb\n12 uid=1234\n").unwrap();
    assert_eq!(two.path.as_deref(), Some(&b"a\nb"[..]));
    assert_eq!(two.uid, Some(1234));
    for bad in [
        &b"5 a=b"[..],
        b"x a=b\n",
        b"3 a\n",
        b"6 a=b\n7",
        b"0 a=b\n",
        b"99 a=b\n",
    ] {
        assert!(parse(bad).is_none(), "{}", String::from_utf8_lossy(bad));
    }
}

#[test]
fn names_become_file_names_that_cannot_clash_or_climb() {
    let file = record::file_name;
    assert_eq!(file("docker.io/library/a:1"), "docker.io%library%a:1");
    let long = |end| file(&format!("r/{}{end}", "x".repeat(300)));
    assert_ne!(long("a"), long("b"));
    assert!(long("a").len() < 100);
    assert!(!file("../../x").contains('/') && !file("..").starts_with('.'));
}

#[test]
fn a_damaged_record_hides_its_image_only_and_is_healed_by_importing_again() {
    let place = Place::new();
    let layers = [layer(&[("a", "1")])];
    let id = place.import("a", &layers).images[0].id.clone();
    place.import("b", &[layer(&[("b", "1")])]);
    std::fs::File::create(place.store.record_path(&id)).unwrap();
    assert_eq!(place.id("a"), None);
    assert!(place.id("b").is_some());
    assert_eq!(place.store.list().unwrap().len(), 1);
    let report = place.import("a", &layers);
    assert_eq!(report.images[0].new_layers, 0, "its layer was kept");
    assert_eq!(place.id("a"), Some(id.to_string()));
}

#[test]
fn the_store_is_roots_alone_whoever_made_its_directory() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("images");
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    Store::open(&dir).unwrap();
    let mode = std::fs::metadata(&dir).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
}

/// N-6, D-5: only what has lost its name goes; of the rest that nobody needs it is told what it takes.
#[test]
fn a_full_disk_costs_no_image_that_has_a_name() {
    use std::time::{Duration, SystemTime};
    let place = Place::new();
    let base = layer(&[("base", &"b".repeat(4096))]);
    let own = |name: &str, size| layer(&[(name, &"x".repeat(size))]);
    let lost = place.import("idle", &[own("first", 1)]).images[0]
        .id
        .clone();
    place.import("needed", std::slice::from_ref(&base));
    place.import("idle", &[base, own("idle", 3000)]);
    place.import("small", &[own("small", 100)]);
    place.import("used", &[own("used", 1)]);
    let path = place.dir.path().join("p.tar");
    docker_archive(&path, "pinned", &[own("pinned", 1)]);
    let options = ImportOptions {
        pin: Some(Pin::Person),
        names: Vec::new(),
    };
    import(&place.store, &path, &options).unwrap();
    let needs = reclaim::Needs {
        names: ["needed:latest", "missing", "?"].map(str::to_owned).into(),
        ids: BTreeSet::from([place.id("used").unwrap()]),
    };
    let now = SystemTime::from(crate::sys::clock::now().wall);
    let early = reclaim::reclaim(&place.store, &needs, now).unwrap();
    assert_eq!(early, reclaim::Reclaimed::default());
    let later = now + Duration::from_secs(130);
    let told = reclaim::reclaim(&place.store, &needs, later).unwrap();
    assert_eq!(told.removed, [lost]);
    let kept = told.kept.iter().map(|k| (k.name.as_str(), k.bytes));
    let expected = [
        ("docker.io/library/idle:latest", 3000),
        ("docker.io/library/small:latest", 100),
    ];
    assert_eq!(kept.collect::<Vec<_>>(), expected);
    assert_eq!(told.kept_bytes, 3100);
    for name in ["needed", "idle", "small", "used", "pinned"] {
        assert!(place.id(name).is_some(), "{name}");
    }
}
