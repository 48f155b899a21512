use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

struct Fixture {
    root: tempfile::TempDir,
    spec: LogSpec,
}

fn fixture(max_size: u64) -> Fixture {
    let root = tempfile::tempdir().unwrap();
    let spec = LogSpec {
        file: root.path().join("log/pods/ns_pod_uid/main/0.log"),
        link: root.path().join("log/containers/pod_ns_main-1.log"),
        max_size,
        max_files: 3,
    };
    Fixture { root, spec }
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn later(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn open_makes_directories_file_and_link() {
    let fixture = fixture(1000);
    let writer = LogWriter::open(&fixture.spec).unwrap();
    assert_eq!(writer.trouble(), None);
    assert_eq!(mode(&fixture.root.path().join("log/pods")), 0o750);
    assert_eq!(
        mode(&fixture.root.path().join("log/pods/ns_pod_uid")),
        0o755
    );
    assert_eq!(
        mode(&fixture.root.path().join("log/pods/ns_pod_uid/main")),
        0o755
    );
    assert_eq!(mode(&fixture.spec.file), 0o640);
    assert_eq!(
        fs::read_link(&fixture.spec.link).unwrap(),
        fixture.spec.file
    );
}

#[test]
fn a_second_open_appends_behind_a_torn_entry() {
    let fixture = fixture(1000);
    drop(LogWriter::open(&fixture.spec).unwrap());
    #[expect(clippy::disallowed_methods, reason = "a torn file is wanted")]
    fs::write(&fixture.spec.file, "2026-01-02T03:04:05Z stdout F to").unwrap();
    let mut writer = LogWriter::open(&fixture.spec).unwrap();
    writer.feed(Stream::Stdout, b"whole\n", now());
    assert_eq!(
        fs::read_to_string(&fixture.spec.file).unwrap(),
        "2026-01-02T03:04:05Z stdout F to\n2026-01-02T03:04:05.000000000Z stdout F whole\n"
    );
}

#[test]
fn a_path_without_a_name_is_refused() {
    let mut spec = fixture(1000).spec;
    spec.file = "/".into();
    assert!(matches!(
        LogWriter::open(&spec),
        Err(LogError::NoLogPath(_))
    ));
}

#[test]
fn trouble_drops_lines_and_reports_them_when_it_is_over() {
    let fixture = fixture(1000);
    let dir = fixture.root.path().join("log");
    #[expect(clippy::disallowed_methods, reason = "a file in the way is wanted")]
    fs::write(&dir, "in the way").unwrap();
    let mut writer = LogWriter::open(&fixture.spec).unwrap();
    assert!(writer.trouble().unwrap().contains("0.log"));
    writer.feed(Stream::Stdout, b"a\nb\nc", now());
    fs::remove_file(&dir).unwrap();
    writer.feed(Stream::Stdout, b"c\n", now());
    assert!(
        writer.trouble().is_some(),
        "not tried again within a second"
    );
    writer.feed(Stream::Stdout, b"d\n", later(1));
    assert_eq!(writer.trouble(), None);
    assert_eq!(
        writer.tail(10, 1000),
        "vetch: 3 log lines were lost here\nd\n"
    );
}

#[test]
fn a_missing_link_and_missing_compression_are_told_and_cost_no_line() {
    let mut fixture = fixture(200);
    fixture.spec.max_files = 5;
    fs::create_dir_all(&fixture.spec.link).unwrap();
    let mut writer = LogWriter::open_with(&fixture.spec, Path::new("/no/program")).unwrap();
    assert!(writer.flaw().unwrap().starts_with("cannot link "));
    fs::remove_dir(&fixture.spec.link).unwrap();
    drop(writer);
    writer = LogWriter::open_with(&fixture.spec, Path::new("/no/program")).unwrap();
    assert_eq!(writer.flaw(), None);
    for number in 0..15 {
        writer.feed(Stream::Stdout, format!("line {number}\n").as_bytes(), now());
    }
    assert!(writer.flaw().unwrap().starts_with("cannot compress "));
    drop(writer);
    // Nor does the next instance, which finds the same.
    writer = LogWriter::open_with(&fixture.spec, Path::new("/no/program")).unwrap();
    assert!(writer.flaw().unwrap().starts_with("cannot compress "));
    assert_eq!(writer.trouble(), None);
    assert_eq!(writer.tail(1, 1000), "line 14\n");
}

#[test]
fn finish_tries_once_more_and_reports() {
    let fixture = fixture(1000);
    let dir = fixture.root.path().join("log");
    #[expect(clippy::disallowed_methods, reason = "a file in the way is wanted")]
    fs::write(&dir, "in the way").unwrap();
    let mut writer = LogWriter::open(&fixture.spec).unwrap();
    writer.feed(Stream::Stdout, b"a\nno feed", now());
    fs::remove_file(&dir).unwrap();
    writer.finish(now());
    assert_eq!(
        writer.tail(10, 1000),
        "vetch: 1 log lines were lost here\nno feed\n"
    );
}

#[test]
fn rotation_splits_no_entry_and_keeps_the_newest() {
    let fixture = fixture(200);
    let mut writer = LogWriter::open_with(&fixture.spec, Path::new("/bin/false")).unwrap();
    for number in 0..40 {
        writer.feed(Stream::Stdout, format!("line {number}\n").as_bytes(), now());
    }
    let rotated = writer.place.rotated().unwrap();
    assert_eq!(rotated.len(), 2);
    let mut texts = String::new();
    for path in rotated
        .iter()
        .map(|file| &file.path)
        .chain([&fixture.spec.file])
    {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.len() <= 200 && text.ends_with('\n'), "{text}");
        texts += &text;
    }
    let numbers: Vec<u32> = texts
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
        .collect();
    let first = numbers[0];
    assert!(numbers.iter().copied().eq(first..40), "{numbers:?}");
    assert!(numbers.len() >= 9, "{numbers:?}");
}

#[test]
fn an_entry_larger_than_the_limit_is_written_all_the_same() {
    let fixture = fixture(10);
    let mut writer = LogWriter::open_with(&fixture.spec, Path::new("/bin/false")).unwrap();
    writer.feed(Stream::Stdout, b"longer than ten bytes\nnext\n", now());
    assert_eq!(writer.trouble(), None);
    assert!(
        fs::read_to_string(&fixture.spec.file)
            .unwrap()
            .ends_with(" next\n")
    );
}

#[test]
fn a_removed_live_file_comes_back_at_the_next_rotation() {
    let fixture = fixture(100);
    let mut writer = LogWriter::open(&fixture.spec).unwrap();
    writer.feed(Stream::Stdout, &[b'x'; 40], now());
    fs::remove_file(&fixture.spec.file).unwrap();
    writer.feed(Stream::Stdout, b"\nfirst in the new file\n", now());
    writer.feed(Stream::Stdout, b"second\n", now());
    assert!(
        fs::read_to_string(&fixture.spec.file)
            .unwrap()
            .ends_with(" second\n")
    );
}

#[test]
fn tail_takes_the_last_lines_and_bytes_of_both_streams() {
    let fixture = fixture(100_000);
    let mut writer = LogWriter::open(&fixture.spec).unwrap();
    writer.feed(Stream::Stdout, b"one\n", now());
    writer.feed(Stream::Stderr, b"two\n", now());
    writer.feed(Stream::Stdout, "thr\u{e9}\u{e9}".as_bytes(), now());
    writer.finish(now());
    assert_eq!(writer.tail(2, 2048), "two\nthr\u{e9}\u{e9}\n");
    assert_eq!(writer.tail(80, 3), "\u{e9}\n");
    assert!(writer.tail(80, 4).len() <= 4);
    assert_eq!(writer.tail(0, 100), "");
}

#[test]
fn remove_takes_everything_of_the_instance_only() {
    let fixture = fixture(100);
    let mut other = fixture.spec.clone();
    other.file.set_file_name("1.log");
    other.link.set_file_name("other");
    let _other = LogWriter::open(&other).unwrap();
    let mut writer = LogWriter::open(&fixture.spec).unwrap();
    for _ in 0..10 {
        writer.feed(Stream::Stdout, b"some text\n", now());
    }
    super::super::remove(&fixture.spec).unwrap();
    let dir = fixture.spec.file.parent().unwrap();
    let left: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    assert_eq!(left, ["1.log"]);
    assert!(fs::symlink_metadata(&fixture.spec.link).is_err());
    super::super::remove(&other).unwrap();
    assert!(!dir.exists());
    super::super::remove(&other).unwrap();
}
