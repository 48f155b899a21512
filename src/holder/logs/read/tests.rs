use std::fs;
use std::io::Write as _;

use proptest::prelude::*;

use super::super::compress::compress;
use super::super::names::{COMPRESSION_DONE, with_suffix};
use super::*;

/// A log directory with hand-made files.
struct Files {
    root: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    fn live(&self) -> PathBuf {
        self.root.path().join("0.log")
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.path().join(name);
        fs::File::create(&path)
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        path
    }

    fn write_compressed(&self, name: &str, text: &str) {
        // A line that is no entry, so that the file is worth compressing.
        let path = self.write(name, &("#".repeat(1000) + "\n" + text));
        compress(&path).unwrap();
        fs::rename(
            with_suffix(&path, COMPRESSION_DONE),
            with_suffix(&path, ".gz"),
        )
        .unwrap();
        fs::remove_file(path).unwrap();
    }

    fn read(&self, query: &Query) -> String {
        self.read_while(query, false)
    }

    fn read_while(&self, query: &Query, is_running: bool) -> String {
        let mut out = Vec::new();
        read_logs(&self.live(), query, &mut || is_running, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }
}

/// `o F text` → an entry of stdout in second `second`.
fn entry(second: u32, short: &str) -> String {
    let (stream, rest) = short.split_once(' ').unwrap();
    let stream = if stream == "o" { "stdout" } else { "stderr" };
    format!("2026-01-02T03:04:{second:02}.000000000Z {stream} {rest}\n")
}

fn entries(shorts: &[&str]) -> String {
    (0_u32..)
        .zip(shorts)
        .map(|(second, short)| entry(second, short))
        .collect()
}

fn tail(count: u64) -> Query {
    Query {
        tail: Some(count),
        ..Query::default()
    }
}

#[test]
fn fragments_are_joined_per_stream() {
    let files = Files::new();
    files.write(
        "0.log",
        &entries(&["o P a", "e P x", "o P b", "e F y", "o F c", "o F ", "e F z"]),
    );
    assert_eq!(files.read(&Query::default()), "xy\nabc\n\nz\n");
}

#[test]
fn stamps_streams_and_bytes_can_be_chosen() {
    let files = Files::new();
    files.write("0.log", &entries(&["o P a", "e F x", "o F b"]));
    let stamps = Query {
        timestamps: true,
        stream: Some(Stream::Stdout),
        ..Query::default()
    };
    // The stamp of the first fragment.
    assert_eq!(files.read(&stamps), "2026-01-02T03:04:00.000000000Z ab\n");
    for (limit, expected) in [(0, ""), (1, "x"), (2, "x\n"), (3, "x\na"), (100, "x\nab\n")] {
        let limited = Query {
            limit_bytes: Some(limit),
            ..Query::default()
        };
        assert_eq!(files.read(&limited), expected);
    }
}

#[test]
fn since_compares_the_beginning_of_a_line() {
    let files = Files::new();
    files.write(
        "0.log",
        &entries(&["o F old", "o P be", "o F gun", "o F new"]),
    );
    let since = |text: &str| Query {
        since: Some(text.parse().unwrap()),
        ..Query::default()
    };
    assert_eq!(files.read(&since("2026-01-02T03:04:01Z")), "begun\nnew\n");
    assert_eq!(files.read(&since("2026-01-02T03:04:02Z")), "new\n");
    assert_eq!(files.read(&since("2026-01-02T04:04:03+01:00")), "new\n");
    assert_eq!(files.read(&since("2027-01-01T00:00:00Z")), "");
}

#[test]
fn rotated_files_come_first_in_their_order() {
    let files = Files::new();
    files.write_compressed("0.log.20260102-030400", &entries(&["o F 1"]));
    files.write_compressed("0.log.20260102-030400_0001", &entries(&["o F 2", "o P 3"]));
    files.write("0.log.20260102-030400_0002", &entries(&["o F 4"]));
    files.write("0.log", &entries(&["o F 5"]));
    files.write("1.log", &entries(&["o F other"]));
    assert_eq!(files.read(&Query::default()), "1\n2\n34\n5\n");
    for (count, expected) in [
        (0, ""),
        (1, "5\n"),
        (2, "34\n5\n"),
        (3, "2\n34\n5\n"),
        (9, "1\n2\n34\n5\n"),
    ] {
        assert_eq!(files.read(&tail(count)), expected, "tail {count}");
    }
}

#[test]
fn without_a_live_file_the_rotated_ones_are_shown() {
    let files = Files::new();
    files.write("0.log.20260102-030400", &entries(&["o F 1"]));
    assert_eq!(files.read(&Query::default()), "1\n");
}

#[test]
fn a_tail_has_the_beginning_of_its_lines() {
    let files = Files::new();
    files.write(
        "0.log",
        &entries(&["o F 0", "o P a", "e F x", "e P y", "o F b", "e F z"]),
    );
    assert_eq!(files.read(&tail(1)), "yz\n");
    assert_eq!(files.read(&tail(2)), "ab\nyz\n");
    assert_eq!(files.read(&tail(3)), "x\nab\nyz\n");
    assert_eq!(files.read(&tail(4)), "0\nx\nab\nyz\n");
    let only_stdout = Query {
        stream: Some(Stream::Stdout),
        ..tail(1)
    };
    assert_eq!(files.read(&only_stdout), "ab\n");
}

#[test]
fn a_tail_is_found_across_blocks() {
    let files = Files::new();
    let fragment = format!("o P {}", "x".repeat(16 * 1024));
    let mut text = entries(&["o F first"]);
    for _ in 0..20 {
        text += &entry(1, &fragment);
    }
    text += &entries(&["o F end", "o F last"]);
    files.write("0.log", &text);
    assert_eq!(files.read(&tail(1)), "last\n");
    assert_eq!(
        files.read(&tail(2)).len(),
        20 * 16 * 1024 + "end\nlast\n".len()
    );
    assert!(files.read(&tail(3)).starts_with("first\nxxx"));
}

#[test]
fn torn_and_foreign_lines_do_no_harm() {
    let files = Files::new();
    let torn = entries(&["o F whole"])
        + "garbage\n\n"
        + &entry(1, "o F next")
        + "2026-01-02T03:04:05Z stdout F to";
    files.write("0.log", &torn);
    assert_eq!(files.read(&Query::default()), "whole\nnext\nto");
    assert_eq!(files.read_while(&Query::default(), true), "whole\nnext\n");
    assert_eq!(files.read(&tail(1)), "next\nto");
    files.write("0.log", "2026-01-02T03");
    assert_eq!(files.read(&Query::default()), "");
    files.write("0.log", "");
    assert_eq!(files.read(&tail(3)), "");
}

#[test]
fn a_damaged_compressed_file_does_not_hide_the_others() {
    let files = Files::new();
    files.write("0.log.20260102-030400.gz", "no gzip");
    files.write("0.log", &entries(&["o F 5"]));
    assert_eq!(files.read(&Query::default()), "5\n");
    assert_eq!(files.read(&tail(3)), "5\n");
}

#[test]
fn a_line_without_end_is_not_collected_for_ever() {
    let files = Files::new();
    let fragment = entry(0, &format!("o P {}", "x".repeat(16 * 1024)));
    files.write("0.log", &fragment.repeat(100));
    assert_eq!(files.read(&Query::default()).len(), 100 * 16 * 1024);
}

#[test]
fn following_an_ended_container_ends() {
    let files = Files::new();
    files.write(
        "0.log",
        &(entries(&["o F 5"]) + "2026-01-02T03:04:05Z stdout F to"),
    );
    let follow = Query {
        follow: true,
        ..Query::default()
    };
    assert_eq!(files.read(&follow), "5\nto");
}

/// The file that was being read has been compressed, and others have come since.
#[test]
fn a_follower_knows_its_file_again_when_it_was_compressed() {
    let files = Files::new();
    let place = Place::new(&files.live()).unwrap();
    let live = files.write("0.log", &entries(&["o F 1"; 20]));
    let held = segments::snapshot(&place).unwrap().pop().unwrap();
    assert!(segments::newer_than(&place, &held).unwrap().is_empty());
    let rotated = files.root.path().join("0.log.20260102-030400");
    fs::rename(live, &rotated).unwrap();
    compress(&rotated).unwrap();
    fs::rename(
        with_suffix(&rotated, COMPRESSION_DONE),
        with_suffix(&rotated, ".gz"),
    )
    .unwrap();
    fs::remove_file(&rotated).unwrap();
    files.write("0.log.20260102-030401", &entries(&["o F 2"]));
    files.write("0.log", &entries(&["o F 3"]));
    assert_eq!(segments::newer_than(&place, &held).unwrap().len(), 2);
    // Gone altogether: what is left is newer.
    fs::remove_file(with_suffix(&rotated, ".gz")).unwrap();
    assert_eq!(segments::newer_than(&place, &held).unwrap().len(), 2);
}

/// File systems use inodes again: an older file, compressed and removed, had the one of the file that is read now.
#[test]
fn a_follower_takes_no_older_file_for_its_own() {
    let files = Files::new();
    let place = Place::new(&files.live()).unwrap();
    let live = files.write("0.log", &entries(&["o F 1"; 20]));
    let held = segments::snapshot(&place).unwrap().pop().unwrap();
    compress(&live).unwrap();
    let older = files.root.path().join("0.log.20260102-030400.gz");
    fs::rename(with_suffix(&live, COMPRESSION_DONE), older).unwrap();
    files.write("0.log.20260102-030401", &entries(&["o F 2"]));
    fs::rename(live, files.root.path().join("0.log.20260102-030402")).unwrap();
    files.write("0.log", &entries(&["o F 3"]));
    assert_eq!(segments::newer_than(&place, &held).unwrap().len(), 1);
}

/// A file that was rotated already when it was opened is known by its name, whatever inode the live one has.
#[test]
fn a_follower_knows_a_rotated_file_by_its_name() {
    let files = Files::new();
    let place = Place::new(&files.live()).unwrap();
    let live = files.write("0.log", &entries(&["o F 2"; 20]));
    compress(&live).unwrap();
    let rotated = files.root.path().join("0.log.20260102-030400.gz");
    fs::rename(with_suffix(&live, COMPRESSION_DONE), rotated).unwrap();
    let held = segments::snapshot(&place).unwrap().swap_remove(0);
    assert_eq!(segments::newer_than(&place, &held).unwrap().len(), 1);
}

#[test]
fn no_log_is_an_error_of_its_own() {
    let missing = Path::new("/nonexistent/ns_pod_uid/c/0.log");
    let mut out = Vec::new();
    let result = read_logs(missing, &Query::default(), &mut || false, &mut out);
    assert!(matches!(result, Err(ReadError::NoLog(path)) if path == missing));
}

#[test]
fn a_closed_output_ends_the_reading() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let files = Files::new();
    files.write("0.log", &entries(&["o F 5"]));
    let result = read_logs(&files.live(), &Query::default(), &mut || true, &mut Closed);
    assert!(
        matches!(result, Err(ReadError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe)
    );
}

/// The line of one stream began before the last line of the other: also where the file can only be read forwards.
#[test]
fn a_tail_in_a_compressed_file_begins_with_its_line() {
    let files = Files::new();
    files.write("0.log.20260102-030400", &entries(&["e P 0,"]));
    let rest = entries(&["e P 1,", "o F 2", "o F 3", "e F 4"]);
    files.write_compressed("0.log.20260102-030401", &rest);
    files.write("0.log", "");
    assert_eq!(files.read(&tail(1)), "0,1,4\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the order of fragments and the cuts between files, a tail is the end of the whole.
    #[test]
    fn a_tail_is_the_end_of_the_whole(
        kinds in prop::collection::vec((any::<bool>(), any::<bool>()), 0..40),
        cuts in prop::collection::vec((0_usize..42, any::<bool>()), 0..4),
        count in 0_u64..45,
    ) {
        let files = Files::new();
        let ends = [(true, true), (false, true)];
        let mut entries: Vec<String> = (0_u32..)
            .zip(kinds.iter().chain(&ends))
            .map(|(number, (is_stdout, is_full))| {
                let stream = if *is_stdout { "o" } else { "e" };
                let tag = if *is_full { "F" } else { "P" };
                entry(0, &format!("{stream} {tag} {number},"))
            })
            .collect();
        for (turn, (cut, is_compressed)) in cuts.iter().enumerate() {
            let rest = entries.split_off((*cut).min(entries.len()));
            let name = format!("0.log.20260102-03040{turn}");
            if *is_compressed {
                files.write_compressed(&name, &entries.concat());
            } else {
                files.write(&name, &entries.concat());
            }
            entries = rest;
        }
        files.write("0.log", &entries.concat());
        let whole = files.read(&Query::default());
        let lines: Vec<&str> = whole.split_inclusive('\n').collect();
        let first = lines.len().saturating_sub(usize::try_from(count).unwrap());
        prop_assert_eq!(files.read(&tail(count)), lines[first..].concat());
    }
}
