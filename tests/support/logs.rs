//! A log in a directory of its own, with the holder's part played by the test.
#![expect(clippy::unwrap_used, reason = "test code outside #[test] functions")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use vetch::holder::logs::read::{Query, read_logs};
use vetch::holder::logs::{LogWriter, Stream};
use vetch::holder::proto::LogSpec;
use vetch::sys::clock;

use super::wait::wait_for;

pub struct Log {
    _root: tempfile::TempDir,
    pub spec: LogSpec,
    pub writer: LogWriter,
}

/// With the limits max_size, max_files.
pub fn log(limits: (u64, u32)) -> Log {
    let root = tempfile::tempdir().unwrap();
    let spec = spec_below(root.path(), limits);
    let writer = LogWriter::open_with(&spec, vetch_binary()).unwrap();
    Log {
        _root: root,
        spec,
        writer,
    }
}

pub fn spec_below(root: &Path, limits: (u64, u32)) -> LogSpec {
    LogSpec {
        file: root.join("pods/ns_pod_uid/main/0.log"),
        link: root.join("containers/link.log"),
        max_size: limits.0,
        max_files: limits.1,
    }
}

pub fn vetch_binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_vetch"))
}

pub fn now() -> Timestamp {
    clock::now().wall
}

impl Log {
    pub fn feed(&mut self, bytes: &[u8]) {
        self.writer.feed(Stream::Stdout, bytes, now());
    }

    pub fn read(&self, query: &Query) -> Vec<u8> {
        let mut out = Vec::new();
        read_logs(&self.spec.file, query, &mut || false, &mut out).unwrap();
        out
    }

    pub fn read_all(&self) -> Vec<u8> {
        self.read(&Query::default())
    }

    pub fn dir(&self) -> &Path {
        self.spec.file.parent().unwrap()
    }

    pub fn bytes_on_disk(&self) -> u64 {
        // A file that vanishes meanwhile (the child's) needs no room.
        let sizes = files(self.dir())
            .into_iter()
            .map(|path| fs::metadata(path).map_or(0, |it| it.len()));
        sizes.sum()
    }

    pub fn has_child(&self) -> bool {
        children()
            .into_iter()
            .any(|pid| self.writer.owns_child(pid))
    }

    /// What the holder's reaper does.
    pub fn reap(&mut self) {
        for pid in children() {
            if self.writer.owns_child(pid) && has_ended(pid) {
                self.writer.child_exited(pid);
            }
        }
    }

    pub fn reap_all(&mut self) {
        wait_for("the children are reaped", || {
            self.reap();
            (!self.has_child()).then_some(())
        });
    }
}

pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

pub fn children() -> Vec<i32> {
    let mut pids = Vec::new();
    for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        pids.extend(
            text.split_whitespace()
                .map(|pid| pid.parse::<i32>().unwrap()),
        );
    }
    pids
}

pub fn has_ended(pid: i32) -> bool {
    use rustix::process::{Pid, WaitOptions, waitpid};
    waitpid(Pid::from_raw(pid), WaitOptions::NOHANG)
        .unwrap()
        .is_some()
}

/// Numbered lines of different lengths.
pub fn numbered(from: u64, to: u64) -> Vec<u8> {
    let mut text = Vec::new();
    for number in from..to {
        let length = usize::try_from(number % 97).unwrap();
        writeln!(text, "{number} {}", &"abcdefghij".repeat(10)[..length]).unwrap();
    }
    text
}

/// The numbers at the beginning of the lines; asserts that there is no gap.
pub fn numbers(text: &[u8]) -> std::ops::Range<u64> {
    let text = std::str::from_utf8(text).unwrap();
    let mut lines = text
        .lines()
        .map(|line| line.split_once(' ').unwrap().0.parse::<u64>().unwrap());
    let first = lines.next().unwrap();
    let mut next = first + 1;
    for number in lines {
        assert_eq!(number, next, "gap or double");
        next += 1;
    }
    first..next
}

pub struct Counting<'a> {
    pub bytes: Vec<u8>,
    pub seen: &'a AtomicU64,
}

impl Write for Counting<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        self.seen.store(self.bytes.len() as u64, Ordering::SeqCst);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
