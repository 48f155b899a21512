//! The output of all containers, each line with its pod and container in front.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use smol::Task;

use super::super::holders;
use crate::config::Paths;
use crate::holder::logs::read::{Query, read_logs};

/// A reader for each container instance that was seen.
#[derive(Debug)]
pub struct Followers {
    paths: Paths,
    seen: BTreeSet<PathBuf>,
    readers: Vec<Task<()>>,
}

impl Followers {
    /// Nobody is followed yet.
    pub fn new(paths: Paths) -> Self {
        Self {
            paths,
            seen: BTreeSet::new(),
            readers: Vec::new(),
        }
    }

    /// Starts a reader for each instance that is new.
    pub fn look(&mut self) {
        self.readers.retain(|reader| !reader.is_finished());
        for holder in holders::scan(&self.paths) {
            let pod = holder.record.pod.name();
            for container in holder.state.iter().flat_map(|state| &state.containers) {
                if self.seen.insert(container.log.clone()) {
                    let prefix = format!("{pod}/{} | ", container.name);
                    let log = container.log.clone();
                    let holder = holder.paths.clone();
                    self.readers.push(smol::unblock(move || {
                        follow(&log, prefix, &mut || holders::writes_log(&holder, &log));
                    }));
                }
            }
        }
    }

    /// Returns when every container's last line was shown.
    pub async fn finish(self) {
        for reader in self.readers {
            reader.await;
        }
    }
}

fn follow(log: &Path, prefix: String, is_running: &mut dyn FnMut() -> bool) {
    let query = Query {
        follow: true,
        ..Query::default()
    };
    let mut out = Prefixed::new(prefix, io::stdout());
    // A log that has gone was its pod's, and so has the pod; a closed stdout must not end the pods.
    let _ = read_logs(log, &query, is_running, &mut out);
}

/// Puts a prefix before each line. Lines of several containers do not mix: each is written at once.
#[derive(Debug)]
pub struct Prefixed<W> {
    prefix: String,
    line: Vec<u8>,
    out: W,
}

impl<W: Write> Prefixed<W> {
    /// Writes to `out`.
    pub fn new(prefix: String, out: W) -> Self {
        let line = prefix.clone().into_bytes();
        Self { prefix, line, out }
    }
}

impl<W: Write> Write for Prefixed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.out.write_all(&self.line)?;
                self.line.clear();
                self.line.extend_from_slice(self.prefix.as_bytes());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
