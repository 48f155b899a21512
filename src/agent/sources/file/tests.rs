mod objects;
mod past;

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{FileSource, SETTLE_MS, Snapshot};
use crate::holder::proto::Stamp;
use crate::pod::PodUid;

/// A directory, the source on it, and a clock that the test moves.
struct Fixture {
    root: tempfile::TempDir,
    source: FileSource,
    now: Stamp,
}

impl Fixture {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("m")).unwrap();
        let source = FileSource::new(&root.path().join("m/"), "node");
        Self {
            root,
            source,
            now: crate::sys::clock::now(),
        }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("m")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    fn put(&self, name: &str, content: &str) {
        put(&self.path(name), content);
    }

    fn scan(&mut self) -> Snapshot {
        self.source.scan(self.now)
    }

    /// A scan, and the one that it asks for.
    fn settle(&mut self) -> Snapshot {
        self.scan();
        self.now.boot_ms += SETTLE_MS;
        self.scan()
    }
}

fn put(path: &Path, content: &str) {
    let mut file = fs::File::create(path).unwrap();
    file.write_all(content.as_bytes()).unwrap();
}

fn pod(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  hostNetwork: true\n  containers:\n  - {{name: c, image: \"{image}\"}}\n"
    )
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    snapshot.pods.iter().map(|p| p.name().to_owned()).collect()
}

fn uid(snapshot: &Snapshot, name: &str) -> PodUid {
    let pod = snapshot.pods.iter().find(|p| p.name() == name);
    pod.unwrap().uid.clone()
}

/// Every remark on every file, without the directory's name.
fn remarks(snapshot: &Snapshot, fixture: &Fixture) -> Vec<String> {
    let dir = format!("{}/", fixture.dir().display());
    let all = snapshot.files.iter().flat_map(|f| &f.diagnostics);
    all.map(|d| d.to_string().replace(&dir, "")).collect()
}

fn held(snapshot: &Snapshot) -> Vec<String> {
    let held = snapshot.files.iter().filter(|f| f.held);
    held.flat_map(|f| f.pods.clone()).collect()
}

#[test]
fn bad_content_keeps_the_last_good_pods() {
    let mut f = Fixture::new();
    f.put("a.yaml", &pod("a", "x:1"));
    let first = f.scan();
    assert_eq!(names(&first), ["a-node"]);
    assert_eq!(held(&first), [""; 0]);
    for garbage in ["kind: [", "", "# all gone\n", "\u{0}", "kind: Deployment"] {
        f.put("a.yaml", garbage);
        let bad = f.scan();
        assert_eq!(bad.pods, first.pods, "{garbage:?}");
        assert_eq!(held(&bad), ["default/a-node"]);
        assert!(!remarks(&bad, &f).is_empty());
    }
    f.put("a.yaml", &pod("a", "x:2"));
    let good = f.scan();
    assert_ne!(uid(&good, "a-node"), uid(&first, "a-node"));
    assert_eq!(held(&good), [""; 0]);
    fs::remove_file(f.path("a.yaml")).unwrap();
    assert_eq!(names(&f.settle()), [""; 0]);
}

#[test]
fn an_empty_list_has_no_pods() {
    let mut f = Fixture::new();
    f.put("a.yaml", &pod("a", "x:1"));
    f.scan();
    f.put("a.yaml", "apiVersion: v1\nkind: PodList\nitems: []\n");
    assert_eq!(f.scan().pods, []);
}

#[test]
fn removal_counts_only_when_it_lasts() {
    let mut f = Fixture::new();
    f.put("a.yaml", &pod("a", "x:1"));
    f.scan();
    // As vim saves with backupcopy=no.
    fs::rename(f.path("a.yaml"), f.path("a.yaml~")).unwrap();
    let gap = f.scan();
    assert_eq!(names(&gap), ["a-node"]);
    assert_eq!(gap.again_at_boot_ms, Some(f.now.boot_ms + SETTLE_MS));
    f.put("a.yaml", &pod("a", "x:2"));
    let saved = f.scan();
    assert_eq!(saved.again_at_boot_ms, None);
    assert_eq!(
        remarks(&saved, &f),
        ["a.yaml~: a back-up by its name; not read"]
    );
    fs::remove_file(f.path("a.yaml")).unwrap();
    let gone = f.settle();
    assert_eq!(gone.pods, []);
    assert_eq!(gone.again_at_boot_ms, None);
}

#[test]
fn a_moved_file_keeps_its_pod() {
    let mut f = Fixture::new();
    f.put("a.yaml", &pod("a", "x:1"));
    let before = f.scan();
    fs::rename(f.path("a.yaml"), f.path("b.yaml")).unwrap();
    let between = f.scan();
    assert_eq!(uid(&between, "a-node"), uid(&before, "a-node"));
    assert_eq!(remarks(&between, &f), [""; 0], "a conflict with itself");
    assert_eq!(uid(&f.settle(), "a-node"), uid(&before, "a-node"));
    // Moved and edited at once: the file that is there wins over the one that is missing.
    fs::rename(f.path("b.yaml"), f.path("c.yaml")).unwrap();
    f.put("c.yaml", &pod("a", "x:2"));
    assert_ne!(uid(&f.scan(), "a-node"), uid(&before, "a-node"));
}

#[test]
fn a_moved_bad_file_keeps_its_pods() {
    let mut f = Fixture::new();
    // A past in which the file's clock has settled.
    f.now.wall += jiff::SignedDuration::from_secs(3600);
    f.put("a.yaml", &pod("a", "x:1"));
    f.scan();
    f.put("a.yaml", "kind: [");
    f.scan();
    fs::rename(f.path("a.yaml"), f.path("b.yaml")).unwrap();
    let moved = f.settle();
    assert_eq!(names(&moved), ["a-node"]);
    assert_eq!(moved.files.len(), 1);
    fs::remove_file(f.path("b.yaml")).unwrap();
    assert_eq!(f.settle().pods, []);
}

#[test]
fn a_pod_renamed_inside_its_file_is_replaced_as_one() {
    let mut f = Fixture::new();
    f.put("a.yaml", &pod("a", "x:1"));
    f.scan();
    f.put("a.yaml", &pod("b", "x:1"));
    assert_eq!(names(&f.scan()), ["b-node"]);
}

#[test]
fn a_vanished_directory_holds_everything() {
    let mut f = Fixture::new();
    f.put("a.yaml", &pod("a", "x:1"));
    f.put("b.yaml", &pod("b", "x:1"));
    f.scan();
    // The files go before the directory does, and somebody scans in between.
    fs::remove_file(f.path("a.yaml")).unwrap();
    assert_eq!(names(&f.scan()), ["b-node", "a-node"]);
    crate::sys::remove::tree(&f.dir()).unwrap();
    let gone = f.settle();
    assert_eq!(held(&gone), ["default/a-node", "default/b-node"]);
    assert!(gone.directory_problem.is_some());
    assert_eq!(gone.again_at_boot_ms, None);
    // Another, empty directory is not yet an answer.
    fs::create_dir(f.root.path().join("new")).unwrap();
    fs::rename(f.root.path().join("new"), f.dir()).unwrap();
    let empty = f.settle();
    assert_eq!(held(&empty), ["default/a-node", "default/b-node"]);
    f.put("b.yaml", &pod("b", "x:1"));
    let back = f.settle();
    assert_eq!(names(&back), ["b-node"]);
    assert_eq!(back.directory_problem, None);
    fs::remove_file(f.path("b.yaml")).unwrap();
    assert_eq!(f.settle().pods, []);
}

#[test]
fn something_else_than_a_directory_holds_everything() {
    let mut f = Fixture::new();
    f.put("a.yaml", &pod("a", "x:1"));
    f.scan();
    crate::sys::remove::tree(&f.dir()).unwrap();
    make_fifo(&f.dir());
    assert_eq!(held(&f.settle()), ["default/a-node"]);
}

#[test]
fn the_first_of_two_files_wins_steadily() {
    let mut f = Fixture::new();
    f.put("kube-apiserver.yaml", &pod("web", "x:1"));
    f.put("kube-apiserver.yaml-bak", &pod("web", "x:0"));
    f.put("kube-apiserver.yaml-new", &pod("web", "x:2"));
    for _ in 0..2 {
        let snapshot = f.scan();
        assert_eq!(names(&snapshot), ["web-node"]);
        let image = &snapshot.pods[0].pod.spec.as_ref().unwrap().containers[0].image;
        assert_eq!(image.as_deref(), Some("x:1"));
        let dir = f.dir();
        assert_eq!(
            remarks(&snapshot, &f),
            [
                "kube-apiserver.yaml-bak: a back-up by its name; not read",
                "kube-apiserver.yaml-new:1: metadata.name: pod default/web-node is already in kube-apiserver.yaml, which comes first; this one does not run",
            ],
            "{}",
            dir.display()
        );
    }
    fs::remove_file(f.path("kube-apiserver.yaml")).unwrap();
    assert_eq!(
        f.settle().pods[0].origin.file,
        f.path("kube-apiserver.yaml-new").to_str().unwrap()
    );
}

#[test]
fn two_files_with_one_uid_do_not_both_run() {
    let mut f = Fixture::new();
    for name in ["a", "b"] {
        let text = pod(name, "x:1").replace(
            &format!("name: {name}}}"),
            &format!("name: {name}, uid: u}}"),
        );
        f.put(name, &text);
    }
    let snapshot = f.scan();
    assert_eq!(names(&snapshot), ["a-node"]);
    assert!(remarks(&snapshot, &f)[0].starts_with("b:1: metadata.uid: a pod in a has the uid u"));
}

#[test]
fn odd_entries_are_skipped_and_said() {
    let mut f = Fixture::new();
    f.put("pod", &pod("a", "x:1"));
    f.put(".hidden.yaml", &pod("hidden", "x:1"));
    fs::create_dir(f.path("dir")).unwrap();
    make_fifo(&f.path("fifo"));
    let _socket = std::os::unix::net::UnixListener::bind(f.path("socket")).unwrap();
    symlink("/dev/null", f.path("null")).unwrap();
    symlink("nowhere", f.path("z-link")).unwrap();
    for name in [
        "#a#",
        "a.bak",
        "a.dpkg-old",
        "a.orig",
        "a.rpmnew",
        "a.swp",
        "a.tmp",
        "a.yaml~",
    ] {
        f.put(name, &pod("backup", "x:1"));
    }
    let snapshot = f.scan();
    assert_eq!(names(&snapshot), ["a-node"]);
    let special = "not a regular file (a socket, FIFO or device); not read";
    let mut said = remarks(&snapshot, &f);
    assert_eq!(
        said.iter()
            .filter(|r| r.ends_with("a back-up by its name; not read"))
            .count(),
        8
    );
    said.retain(|r| !r.contains("back-up"));
    let expected = [
        "dir: a directory; not read".to_owned(),
        format!("fifo: {special}"),
        format!("null: {special}"),
        format!("socket: {special}"),
        "z-link: a link to nothing".to_owned(),
    ];
    assert_eq!(said, expected);
}

/// By a loop of links, as root may read everything that has a mere lack of permission.
#[test]
fn an_unreadable_file_is_bad() {
    let mut f = Fixture::new();
    f.put("a.yaml", &pod("a", "x:1"));
    f.scan();
    symlink("a.yaml", f.path(".loop")).unwrap();
    fs::rename(f.path(".loop"), f.path("a.yaml")).unwrap();
    let snapshot = f.settle();
    assert_eq!(held(&snapshot), ["default/a-node"]);
    assert!(remarks(&snapshot, &f)[0].starts_with("a.yaml: Too many levels of symbolic links"));
}

#[test]
fn a_huge_file_is_bad() {
    let mut f = Fixture::new();
    f.put("a.yaml", &pod("a", "x:1"));
    f.scan();
    let file = fs::File::create(f.path("a.yaml")).unwrap();
    file.set_len(1 << 40).unwrap();
    let snapshot = f.scan();
    assert_eq!(held(&snapshot), ["default/a-node"]);
    assert_eq!(remarks(&snapshot, &f), ["a.yaml: larger than 10 MiB"]);
}

fn make_fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap();
}
