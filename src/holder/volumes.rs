//! Volumes, as the holder and its workers see them: [`crate::volume`] makes them before libcontainer is called; their
//! files are written again when the agent has new ones.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libcontainer::oci_spec::runtime::{Linux, LinuxDeviceCgroup, LinuxDeviceCgroupBuilder};

use super::job::{Job, Outcome, Purpose};
use super::proto::{CreateContainer, FailureKind, Reply, Stamp};
use super::report::{self, Line, Report};
use super::requests::{failed, refused};
use super::runtime::{Place, WorkerError};
use super::server::Holder;
use crate::config::HolderPaths;
use crate::sys;
use crate::volume::spec::Payload;
use crate::volume::{self, Device, Made, Site};

/// Longest description of files that is read, in bytes.
const MAX_PAYLOAD: u64 = 64 << 20;
/// Workers that write files at the same time; each waits for the one before.
const MAX_WRITERS: usize = 4;

/// What a worker needs for volumes, beside its request.
pub(super) struct Supplies<'a> {
    /// The mount namespace that the holder came from.
    pub(super) host: BorrowedFd<'a>,
    /// A memory file with a [`Payload`].
    pub(super) payload: Option<OwnedFd>,
}

impl Supplies<'_> {
    fn site<'a>(&'a self, paths: &'a HolderPaths) -> Site<'a> {
        Site {
            paths,
            host: self.host,
        }
    }

    fn payload(&self) -> Result<Payload, WorkerError> {
        let Some(file) = &self.payload else {
            return Ok(Payload::default());
        };
        read(file.as_fd()).map_err(WorkerError::Payload)
    }
}

fn read(file: BorrowedFd<'_>) -> io::Result<Payload> {
    let mut file = File::from(file.try_clone_to_owned()?);
    file.rewind()?;
    let mut bytes = Vec::new();
    if file.take(MAX_PAYLOAD + 1).read_to_end(&mut bytes)? as u64 > MAX_PAYLOAD {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // Its text could name what is in the file.
    serde_json::from_slice(&bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Makes the volumes of a container that is being made.
pub(super) fn make(
    place: &Place<'_>,
    request: &CreateContainer,
    supplies: &Supplies<'_>,
) -> Result<Made, WorkerError> {
    let site = supplies.site(place.paths);
    // An earlier try may have been cut short.
    volume::unmount(site.paths, &request.id).map_err(WorkerError::Leftovers)?;
    let payload = supplies.payload()?;
    let made = volume::mount(site, &request.id, &request.volumes, &payload)?;
    if !made.written.is_empty() {
        place.line.tell(&Report::Written(made.written.clone()));
    }
    Ok(made)
}

/// The container has copies of its own.
pub(super) fn let_go(place: &Place<'_>, id: &str) {
    // The removal of the container tries again.
    let _ = volume::unmount(place.paths, id);
}

/// D-16: a device that is mounted may be used.
pub(super) fn allow_devices(linux: &mut Linux, made: &Made) {
    if made.devices.is_empty() {
        return;
    }
    let mut resources = linux.resources().clone().unwrap_or_default();
    let mut rules = resources.devices().clone().unwrap_or_default();
    rules.extend(made.devices.iter().map(allow));
    resources.set_devices(Some(rules));
    linux.set_resources(Some(resources));
}

fn allow(device: &Device) -> LinuxDeviceCgroup {
    LinuxDeviceCgroupBuilder::default()
        .allow(true)
        .typ(device.typ)
        .major(i64::from(device.major))
        .minor(i64::from(device.minor))
        .access("rwm")
        .build()
        .expect("every field has a default")
}

impl Holder {
    /// V-31, V-34.
    pub(super) fn write_volumes(
        &mut self,
        mut fds: Vec<OwnedFd>,
        waiter: (u64, u64),
        now: Stamp,
    ) -> Option<Reply> {
        let (Some(payload), true) = (fds.pop(), fds.is_empty()) else {
            return Some(refused("files of volumes come as one descriptor"));
        };
        let writes = |job: &&Job| matches!(job.purpose, Purpose::Write { .. });
        if self.jobs.iter().filter(writes).count() >= MAX_WRITERS {
            return Some(refused("files of volumes are being written"));
        }
        match self.start_write(payload, waiter, now) {
            Ok(()) => None,
            Err(e) => Some(failed(FailureKind::Volume, format!("start a worker: {e}"))),
        }
    }

    fn start_write(
        &mut self,
        payload: OwnedFd,
        (connection, request): (u64, u64),
        now: Stamp,
    ) -> io::Result<()> {
        let (ours, line) = report::open_line()?;
        let supplies = Supplies {
            host: self.host_mounts.as_fd(),
            payload: Some(payload),
        };
        let worker = sys::process::fork(|| write(&self.paths, &line, &supplies))?;
        drop(line);
        let purpose = Purpose::Write {
            connection,
            request,
        };
        self.jobs.push(Job::new((ours, worker), purpose, now));
        Ok(())
    }

    pub(super) fn finish_write(&mut self, (number, id): (u64, u64), outcome: Outcome) {
        let reply = match outcome {
            Outcome::Done => Reply::Done,
            // Whatever became of the worker.
            Outcome::Failed(_, message) | Outcome::NotExecuted(_, message) => {
                failed(FailureKind::Volume, message)
            }
            Outcome::Started(_) => failed(FailureKind::Volume, "it made a process".to_owned()),
        };
        self.reply(number, id, reply);
    }
}

/// The whole life of a worker that writes files.
fn write(paths: &HolderPaths, line: &Line, supplies: &Supplies<'_>) -> i32 {
    super::runtime::finish(line, || {
        sys::signals::reset_all();
        let written = volume::write(supplies.site(paths), &supplies.payload()?)?;
        line.tell(&Report::Written(written));
        Ok(None)
    })
}
