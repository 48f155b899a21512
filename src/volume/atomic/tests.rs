use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use super::*;

struct Volume {
    dir: tempfile::TempDir,
    root: File,
}

impl Volume {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = File::open(dir.path()).unwrap();
        Self { dir, root }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, generation: u64, files: &[(&str, &str, u32)]) -> bool {
        write(self.root.as_fd(), generation, &set(files)).unwrap()
    }

    /// As a container reads it.
    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    fn names(&self) -> BTreeSet<String> {
        names(self.root.as_fd()).unwrap().into_iter().collect()
    }

    fn has(&self, names: &[&str]) {
        let expected: BTreeSet<_> = names.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(self.names(), expected);
    }
}

fn set(files: &[(&str, &str, u32)]) -> FileSet {
    let content = |&(path, data, mode): &(&str, &str, u32)| {
        let data = data.as_bytes().to_vec();
        (path.to_owned(), FileContent { data, mode })
    };
    FileSet {
        hash: String::new(),
        files: files.iter().map(content).collect::<BTreeMap<_, _>>(),
        gid: None,
    }
}

fn mode(path: PathBuf) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

/// V-31, V-32.
#[test]
fn v_31_visible_names_are_links_through_data() {
    let volume = Volume::new();
    assert!(volume.write(7, &[("plain", "a", 0o640), ("x/y/z", "b", 0o400)]));
    volume.has(&["..7", "..data", "plain", "x"]);
    let link = |name| fs::read_link(volume.at(name)).unwrap();
    assert_eq!(link("..data"), Path::new("..7"));
    assert_eq!(link("plain"), Path::new("..data/plain"));
    assert_eq!(link("x"), Path::new("..data/x"));
    assert_eq!(volume.read("x/y/z").as_deref(), Some("b"));
    assert_eq!(mode(volume.at("plain")), 0o640);
    assert_eq!(mode(volume.at("x/y/z")), 0o400);
    assert_eq!(mode(volume.at("x/y")), 0o755);
}

/// V-31: removed keys go, equal content changes nothing, older content never comes back.
#[test]
fn v_31_generations_follow_each_other() {
    let volume = Volume::new();
    volume.write(7, &[("a", "1", 0o644), ("b", "1", 0o644)]);
    let inode = |name| volume.at(name).metadata().unwrap().ino();
    let before = inode("a");
    assert!(volume.write(8, &[("a", "1", 0o644), ("b", "1", 0o644)]));
    assert_eq!(inode("a"), before);
    volume.has(&["..7", "..data", "a", "b"]);

    assert!(volume.write(9, &[("a", "1", 0o600), ("c/d", "2", 0o644)]));
    volume.has(&["..9", "..data", "a", "c"]);
    assert_eq!(mode(volume.at("a")), 0o600);
    assert!(!volume.write(8, &[("a", "old", 0o644)]));
    assert_eq!(volume.read("a").as_deref(), Some("1"));
    assert!(volume.write(9, &[("a", "same time", 0o644)]));
    volume.has(&["..9.1", "..data", "a"]);
    assert!(volume.write(9, &[("a", "again", 0o644)]));
    assert_eq!(volume.read("a").as_deref(), Some("again"));
    assert!(volume.write(10, &[]));
    volume.has(&["..10", "..data"]);
}

#[test]
fn a_file_and_a_directory_may_exchange_their_names() {
    let volume = Volume::new();
    volume.write(1, &[("a", "file", 0o644), ("b/c", "nested", 0o644)]);
    volume.write(2, &[("a/c", "nested", 0o644), ("b", "file", 0o644)]);
    assert_eq!(volume.read("a/c").as_deref(), Some("nested"));
    assert_eq!(volume.read("b").as_deref(), Some("file"));
}

const NEW: [(&str, &str, u32); 2] = [("a", "new", 0o644), ("x/y", "new", 0o644)];

/// A writer of these files, until the moment of their exchange.
fn exchange(volume: &Volume) {
    fill(volume.root.as_fd(), "..2", &set(&NEW)).unwrap();
    symlink("..2", volume.at("..data_tmp")).unwrap();
    fs::rename(volume.at("..data_tmp"), volume.at("..data")).unwrap();
}

/// V-31: whatever a killed writer leaves, the next one goes on from there.
#[test]
fn v_31_leftovers_of_a_killed_writer_are_no_trouble() {
    let old = [("a", "old", 0o644), ("gone", "old", 0o644)];
    type Leave = fn(&Volume);
    let steps: [Leave; 7] = [
        |_| {},
        // In the middle of its files.
        |volume| {
            fs::create_dir_all(volume.at("..2/x")).unwrap();
            File::create(volume.at("..2/a")).unwrap();
        },
        // Before the exchange, its link half way.
        |volume| {
            fs::create_dir(volume.at("..2")).unwrap();
            symlink("..2", volume.at("..data_tmp")).unwrap();
        },
        // After the exchange: links are missing, old files are left.
        exchange,
        // Before it removed links.
        |volume| {
            exchange(volume);
            symlink("..data/x", volume.at("x")).unwrap();
        },
        // What somebody else put there.
        |volume| symlink("/etc", volume.at("..2")).unwrap(),
        |volume| symlink("/etc", volume.at("..data_tmp")).unwrap(),
    ];
    for (index, leave) in steps.into_iter().enumerate() {
        let volume = Volume::new();
        volume.write(1, &old);
        leave(&volume);
        assert!(volume.write(2, &NEW), "{index}");
        volume.has(&["..2", "..data", "a", "x"]);
        assert_eq!(volume.read("a").as_deref(), Some("new"), "{index}");
        assert_eq!(volume.read("x/y").as_deref(), Some("new"), "{index}");
    }
    assert!(Path::new("/etc/passwd").exists());
}

/// V-33.
#[test]
fn v_33_no_path_leads_out() {
    let volume = Volume::new();
    let inner = volume.at("volume");
    fs::create_dir(&inner).unwrap();
    let root = File::open(&inner).unwrap();
    for path in [
        "",
        "/x",
        "../x",
        "..x",
        "..data",
        "a/../../x",
        ".",
        &"a/".repeat(100),
    ] {
        let error = write(root.as_fd(), 1, &set(&[(path, "", 0o644)])).unwrap_err();
        assert!(matches!(error, Problem::FilePath(_)), "{path}");
    }
    volume.has(&["volume"]);
    assert_eq!(names(root.as_fd()).unwrap().len(), 0);
}

#[test]
fn a_full_disk_keeps_what_is_there() {
    crate::sys::mounts::tests::apart(|| {
        let mut volume = Volume::new();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("small", volume.dir.path(), "tmpfs", flags, c"size=64k").unwrap();
        volume.root = File::open(volume.dir.path()).unwrap();
        volume.write(1, &[("a", "old", 0o644)]);
        let large = "x".repeat(100_000);
        let error = write(volume.root.as_fd(), 2, &set(&[("a", &large, 0o644)])).unwrap_err();
        let text = crate::error::chain(&error);
        assert!(text.starts_with("write its files: No space left"), "{text}");
        volume.has(&["..1", "..data", "a"]);
        assert!(volume.write(3, &[("a", "new", 0o644)]));
        assert_eq!(volume.read("a").as_deref(), Some("new"));
        rustix::mount::unmount(volume.dir.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
    });
}

#[test]
fn a_failure_keeps_what_is_there() {
    let volume = Volume::new();
    volume.write(1, &[("a", "old", 0o644)]);
    // A file cannot be a directory, too.
    let bad = set(&[("a", "new", 0o644), ("a/b", "new", 0o644)]);
    write(volume.root.as_fd(), 2, &bad).unwrap_err();
    volume.has(&["..1", "..data", "a"]);
    assert_eq!(volume.read("a").as_deref(), Some("old"));
}
