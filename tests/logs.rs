//! Log writer and reader on a real file system, with the real compressing child.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jiff::Timestamp;
use support::disk::SmallDisk;
use support::logs::{Counting, files, log, now, numbered, numbers, spec_below, vetch_binary};
use support::wait::{extent, wait_for};
use vetch::holder::logs::read::{Query, read_logs};
use vetch::holder::logs::{LogWriter, Stream, format, names};

#[test]
fn a_long_line_binary_bytes_and_no_final_newline_come_back_as_they_were() {
    let mut log = log((64 * 1024 * 1024, 2));
    let mut bytes = vec![b'x'; 1_000_000];
    bytes.push(b'\n');
    bytes.extend((0..=255_u8).cycle().take(100_000));
    bytes.extend_from_slice(b"\n\n\r\nno final newline");
    for piece in bytes.chunks(7919) {
        log.feed(piece);
    }
    log.writer.finish(now());
    bytes.push(b'\n');
    assert!(log.read_all() == bytes);
}

#[test]
fn long_lines_of_both_streams_at_once_are_joined_each_for_itself() {
    let mut log = log((64 * 1024 * 1024, 2));
    for _ in 0..10 {
        log.writer.feed(Stream::Stdout, &[b'o'; 10_000], now());
        log.writer.feed(Stream::Stderr, &[b'e'; 10_000], now());
    }
    log.writer.feed(Stream::Stderr, b"\n", now());
    log.writer.feed(Stream::Stdout, b"\n", now());
    let expected = ["e".repeat(100_000), "o".repeat(100_000), String::new()].join("\n");
    assert!(log.read_all() == expected.as_bytes());
    let only_stdout = Query {
        stream: Some(Stream::Stdout),
        ..Query::default()
    };
    assert_eq!(log.read(&only_stdout).len(), 100_001);
    // The last line began before the end of the one before it.
    let last = Query {
        tail: Some(1),
        ..Query::default()
    };
    assert!(
        log.read(&last)
            == "o"
                .repeat(100_000)
                .as_bytes()
                .iter()
                .copied()
                .chain(*b"\n")
                .collect::<Vec<_>>()
    );
}

/// Feeds much more than is kept, at full speed, so that compression falls behind.
#[test]
fn the_cap_holds_at_any_time_and_what_is_kept_is_contiguous() {
    let (max_size, max_files) = (1024 * 1024, 5);
    let mut log = log((max_size, max_files));
    let total = u64::from(extent(500, 60)) * 1024 * 1024;
    let mut fed = 0;
    let mut next = 0;
    while fed < total {
        let text = numbered(next, next + 1000);
        log.feed(&text);
        next += 1000;
        fed += text.len() as u64;
        log.reap();
        let used = log.bytes_on_disk();
        assert!(used <= max_size * u64::from(max_files), "{used} bytes");
    }
    assert_eq!(log.writer.trouble(), None);
    assert_eq!(numbers(&log.read_all()).end, next);
    log.reap_all();
    let kept = numbers(&log.read_all());
    assert_eq!(kept.end, next);
    let counted = files(log.dir()).len();
    assert!(counted <= max_files as usize, "{:?}", files(log.dir()));
}

#[test]
fn after_a_flood_compression_catches_up() {
    let mut log = log((100_000, 5));
    let mut next = 10_000;
    // Nobody reaps: the first child is not followed by another.
    log.feed(&numbered(0, next));
    for _ in 0..4 {
        let newest = files(log.dir()).pop();
        while files(log.dir()).pop() == newest {
            log.feed(&numbered(next, next + 100));
            next += 100;
        }
        log.reap_all();
    }
    let is_compressed = |path: &PathBuf| path.extension().is_some_and(|it| it == "gz");
    let compressed = files(log.dir())
        .iter()
        .filter(|it| is_compressed(it))
        .count();
    assert_eq!(compressed, 3, "{:?}", files(log.dir()));
    assert_eq!(numbers(&log.read_all()).end, next);
}

#[test]
fn old_files_are_compressed_so_that_gzip_can_read_them() {
    let mut log = log((100_000, 5));
    let mut next = 0;
    while files(log.dir()).len() < 5 {
        log.feed(&numbered(next, next + 100));
        next += 100;
        log.reap_all();
    }
    let names: Vec<_> = files(log.dir());
    let compressed: Vec<_> = names
        .iter()
        .filter(|path| path.extension().is_some_and(|it| it == "gz"))
        .collect();
    assert_eq!(compressed.len(), 3, "all but the newest rotated: {names:?}");
    let output = Command::new("gzip")
        .arg("-dc")
        .args(&compressed)
        .output()
        .unwrap();
    assert!(output.status.success());
    let lines = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let mut texts = Vec::new();
    for line in lines {
        texts.extend_from_slice(format::parse(line).unwrap().text);
        texts.push(b'\n');
    }
    assert_eq!(numbers(&texts).start, 0);
    assert_eq!(numbers(&log.read_all()), 0..next);
    assert_eq!(fs::metadata(compressed[0]).unwrap().mode() & 0o777, 0o640);
}

#[test]
fn tail_goes_back_over_rotated_and_compressed_files() {
    let mut log = log((20_000, 5));
    let mut next = 0;
    while files(log.dir()).len() < 5 {
        log.feed(&numbered(next, next + 10));
        next += 10;
        log.reap_all();
    }
    let all = log.read_all();
    let first = numbers(&all).start;
    for count in [1, 2, 50, 200, 500, 900, next - first, next - first + 10] {
        let query = Query {
            tail: Some(count),
            ..Query::default()
        };
        let expected = next.saturating_sub(count).max(first);
        assert_eq!(numbers(&log.read(&query)), expected..next, "tail {count}");
    }
}

/// A reader that is slower than the writer, but not so slow that lines are gone before it comes.
#[test]
fn follow_goes_on_over_rotations_and_loses_nothing() {
    let mut log = log((50_000, 6));
    let file = log.spec.file.clone();
    let is_running = AtomicBool::new(true);
    let seen = AtomicU64::new(0);
    let text = numbered(0, 40_000);
    let followed = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut out = Counting {
                bytes: Vec::new(),
                seen: &seen,
            };
            let query = Query {
                follow: true,
                ..Query::default()
            };
            read_logs(
                &file,
                &query,
                &mut || is_running.load(Ordering::SeqCst),
                &mut out,
            )
            .unwrap();
            out.bytes
        });
        let mut fed = 0;
        for piece in text.chunks(3000) {
            log.feed(piece);
            log.reap();
            fed += piece.len() as u64;
            // Entries are up to five times as long as these lines: this is up to three rotations ahead.
            wait_for("the reader is near", || {
                let is_near = seen.load(Ordering::SeqCst) + 60_000 > fed;
                (is_near || reader.is_finished()).then_some(())
            });
        }
        log.writer.finish(now());
        is_running.store(false, Ordering::SeqCst);
        reader.join().unwrap()
    });
    log.reap_all();
    assert!(
        followed == text,
        "{:?} of {:?}",
        numbers(&followed),
        numbers(&text)
    );
}

#[test]
fn what_a_crash_left_behind_is_cleared_when_the_log_is_opened_again() {
    let mut log = log((3000, 5));
    let mut next = 0;
    while files(log.dir()).len() < 3 {
        log.feed(&numbered(next, next + 1));
        next += 1;
    }
    log.reap_all();
    let dir = log.dir().to_owned();
    let name = |suffix: &str| dir.join(format!("0.log.19990101-000000{suffix}"));
    for leftover in [".tmp", "_0001.gz.tmp"] {
        fs::copy(&log.spec.file, name(leftover)).unwrap();
    }
    // Killed between the rename of the compressed file and the removal of the other.
    let compressed = files(&dir)
        .into_iter()
        .find(|it| it.extension().is_some_and(|it| it == "gz"))
        .unwrap();
    fs::copy(&log.spec.file, compressed.with_extension("")).unwrap();
    log.writer = LogWriter::open_with(&log.spec, vetch_binary()).unwrap();
    log.reap_all();
    assert!(
        files(&dir)
            .iter()
            .all(|it| it.extension().is_none_or(|it| it != "tmp"))
    );
    assert!(!compressed.with_extension("").exists());
    log.feed(&numbered(next, next + 1));
    assert_eq!(numbers(&log.read_all()), 0..next + 1);
}

#[test]
fn a_full_disk_stops_the_log_and_says_so_and_the_log_goes_on_when_there_is_space() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: a full disk: only root can mount a small one");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let _disk = SmallDisk::mount(dir.path(), "size=256k");
    let spec = spec_below(dir.path(), (10 * 1024 * 1024, 5));
    let mut writer = LogWriter::open_with(&spec, vetch_binary()).unwrap();
    let second = |count: i64| Timestamp::from_second(1_700_000_000 + count).unwrap();
    let ballast = dir.path().join("ballast");
    fs::File::create(&ballast)
        .unwrap()
        .write_all(&[0; 128 * 1024])
        .unwrap();
    for number in 0..3000 {
        writer.feed(
            Stream::Stdout,
            format!("{number} {}\n", "x".repeat(60)).as_bytes(),
            second(0),
        );
    }
    let trouble = writer.trouble().unwrap().to_owned();
    assert!(
        trouble.contains("0.log") && trouble.to_lowercase().contains("no space left"),
        "{trouble}"
    );
    let full = fs::read(&spec.file).unwrap();
    assert_eq!(full.last(), Some(&b'\n'), "no torn entry");
    // Still full a second later.
    writer.feed(Stream::Stdout, "x".repeat(8000).as_bytes(), second(1));
    writer.feed(Stream::Stdout, b"\n", second(1));
    assert_eq!(writer.trouble(), Some(trouble.as_str()));
    fs::remove_file(&ballast).unwrap();
    writer.feed(Stream::Stdout, b"3001 after\n", second(1));
    assert!(
        writer.trouble().is_some(),
        "not tried again within the second"
    );
    writer.feed(Stream::Stdout, b"3002 after\n", second(2));
    assert_eq!(writer.trouble(), None);
    let text = writer.tail(100_000, 1_000_000);
    let lines: Vec<_> = text.lines().collect();
    let written = lines.len() as u64 - 2;
    assert!(lines[lines.len() - 3].starts_with(&format!("{} ", written - 1)));
    // 0 to 2999, the long one, and 3001.
    let lost = 3002 - written;
    assert_eq!(
        lines[lines.len() - 2],
        format!("vetch: {lost} log lines were lost here")
    );
    assert_eq!(lines[lines.len() - 1], "3002 after");
}

#[test]
fn link_names_of_real_length_can_be_made() {
    let mut spec = spec_below(tempfile::tempdir().unwrap().path(), (1000, 2));
    let name = names::link_name(
        &"p".repeat(253),
        &"n".repeat(63),
        &"c".repeat(63),
        &"0".repeat(64),
    );
    spec.link.set_file_name(name);
    let _writer = LogWriter::open(&spec).unwrap();
    assert_eq!(fs::read_link(&spec.link).unwrap(), spec.file);
    vetch::holder::logs::remove(&spec).unwrap();
}
