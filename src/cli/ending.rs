//! Ends pods without an agent, by asking their holders. What a dead holder left is killed.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::holders::{self, Found};
use super::{CliError, output};
use crate::config::Paths;
use crate::holder::cgroup::Cgroups;
use crate::holder::client::{ClientError, HolderConnection};
use crate::holder::proto::{FromHolder, HolderState, Reply, Request, ToHolder};
use crate::plan::stop;
use crate::sys::{clock, remove};

/// Time that is given beyond the grace of the slowest pod: killing and unmounting.
const MARGIN: Duration = Duration::from_secs(30);
/// Pause between two looks at a cgroup that is being killed.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// Ids of requests.
const STOP: u64 = 1;
const SHUTDOWN: u64 = 2;

/// How long containers may take to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    /// What their pods say.
    Recorded,
    /// Two seconds (P-78): the person is in a hurry.
    Shortest,
}

/// A holder that is being ended.
struct Ending {
    found: Found,
    connection: HolderConnection,
    /// Containers that were asked to stop.
    asked: BTreeSet<String>,
}

/// Ends every pod of the run directory and returns when the last holder is gone. One that cannot be ended does not keep
/// the others; somebody else may be ending them at the same time.
pub fn end_all(paths: &Paths, grace: Grace) -> Result<(), CliError> {
    let found = holders::scan(paths);
    let longest = found.iter().map(|f| f.record.pod.grace_s()).max();
    let limit_ms = u64::from(longest.unwrap_or(0)) * 1000;
    let margin_ms = u64::try_from(MARGIN.as_millis()).unwrap_or(u64::MAX);
    let deadline = clock::now()
        .boot_ms
        .saturating_add(limit_ms)
        .saturating_add(margin_ms);
    let mut open = Vec::new();
    let mut ends = Vec::new();
    for holder in found {
        match HolderConnection::connect(&holder.paths) {
            Ok(connection) => open.push(Ending {
                found: holder,
                connection,
                asked: BTreeSet::new(),
            }),
            Err(_) => ends.push(bury(&holder, deadline)),
        }
    }
    while !open.is_empty() {
        wait(&open, deadline)?;
        let mut still_open = Vec::new();
        for mut ending in open {
            match ending.go_on(grace) {
                Ok(true) => still_open.push(ending),
                Ok(false) => ends.push(bury(&ending.found, deadline)),
                Err(error) => ends.push(Err(error)),
            }
        }
        open = still_open;
    }
    ends.into_iter().collect()
}

/// Waits until a holder says something.
fn wait(open: &[Ending], deadline: u64) -> Result<(), CliError> {
    let left = left(deadline).ok_or_else(|| late(open.first().map(|e| &e.found)))?;
    let mut fds: Vec<PollFd<'_>> = open
        .iter()
        .map(|ending| PollFd::new(&ending.connection, PollFlags::IN))
        .collect();
    match poll(&mut fds, Some(&left)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(CliError::Relay(error.into())),
    }
}

/// What is left of the time; none when it is over.
fn left(deadline: u64) -> Option<Timespec> {
    let ms = deadline.saturating_sub(clock::now().boot_ms);
    let left = Timespec::try_from(Duration::from_millis(ms)).ok()?;
    (ms > 0).then_some(left)
}

fn late(found: Option<&Found>) -> CliError {
    let name = found.map(|f| f.record.pod.full_name()).unwrap_or_default();
    CliError::TimedOut(format!("pod {name} did not end in time"))
}

impl Ending {
    /// Takes everything that the holder has said; false when it is gone.
    fn go_on(&mut self, grace: Grace) -> Result<bool, CliError> {
        self.connection.set_nonblocking()?;
        loop {
            match self.connection.recv() {
                Ok((FromHolder::State(state), _)) => {
                    if !self.react(&state, grace)? {
                        return Ok(false);
                    }
                }
                Ok((FromHolder::Reply { id: STOP, reply }, _)) => self.hear(&reply),
                // Refused when a container has started meanwhile: the next state says so.
                Ok((FromHolder::Reply { .. }, _)) => {}
                Ok((FromHolder::ExecExited { .. }, _)) => {}
                Err(error) if error.would_block() => return Ok(true),
                Err(ClientError::Closed | ClientError::Transport(_)) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn hear(&self, reply: &Reply) {
        // A container that ended meanwhile refuses its stop, and the next state says so.
        if let Reply::Failed { message, .. } = reply {
            output::say(&format!("{}: {message}", self.found.record.pod.full_name()));
        }
    }

    /// Asks what still runs to stop, and the holder to leave when nothing does.
    fn react(&mut self, state: &HolderState, grace: Grace) -> Result<bool, CliError> {
        let pod = &self.found.record.pod;
        let grace_ms = match grace {
            Grace::Recorded => u64::from(pod.grace_s()) * 1000,
            Grace::Shortest => 0,
        };
        let orders = stop::orders(&pod.pod, &state.containers, grace_ms);
        if orders.is_empty() {
            return self.ask(SHUTDOWN, Request::Shutdown);
        }
        for order in orders {
            if self.asked.insert(order.id.clone()) && !self.ask(STOP, order.into_request())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// False when the holder has gone meanwhile.
    fn ask(&self, id: u64, request: Request) -> Result<bool, CliError> {
        match self.connection.send(&ToHolder { id, request }, &[]) {
            Ok(()) => Ok(true),
            Err(ClientError::Transport(_) | ClientError::Closed) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The holder is gone: kills what is left of its pod, then removes its cgroups and its directory.
fn bury(found: &Found, deadline: u64) -> Result<(), CliError> {
    let cgroups = Cgroups::discover()?;
    let sandbox = &found.record.sandbox;
    let groups = [&sandbox.pod_cgroup, &sandbox.holder_cgroup];
    while groups.iter().any(|group| cgroups.is_populated(group)) {
        groups.iter().for_each(|group| cgroups.kill(group));
        if left(deadline).is_none() {
            return Err(late(Some(found)));
        }
        pause();
    }
    for group in groups {
        // One that is still busy goes with the next agent.
        let _ = cgroups.remove(group);
    }
    remove::tree(found.paths.dir()).map_err(|source| CliError::Io {
        operation: "remove",
        path: found.paths.dir().to_owned(),
        source,
    })
}

fn pause() {
    let _ = poll(&mut [], Some(&PAUSE));
}
