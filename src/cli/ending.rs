//! Ends pods without an agent, by asking their holders. What a dead holder left is killed.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::holders::{self, Found};
use super::{CliError, output};
use crate::config::{Paths, ShutdownTurn};
use crate::holder::cgroup::Cgroups;
use crate::holder::client::{ClientError, HolderConnection};
use crate::holder::proto::{FromHolder, HolderState, Reply, Request, ToHolder};
use crate::plan::shutdown::{self, Leaver};
use crate::plan::stop;
use crate::pod::StaticPod;
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

/// Ends every pod of the run directory at once, see [`end`].
pub fn end_all(paths: &Paths, grace: Grace) -> Result<(), CliError> {
    let course = Course {
        turns: &[],
        grace,
        tell: |_| {},
    };
    end(paths, &course)
}

/// Ends every pod of the run directory, the least important first (N-26), and says when each is gone; see [`end`].
pub fn end_in_turns(paths: &Paths, turns: &[ShutdownTurn]) -> Result<(), CliError> {
    let course = Course {
        turns,
        grace: Grace::Recorded,
        tell: |name| output::say(&format!("{name} has ended")),
    };
    end(paths, &course)
}

/// In which order pods end, how fast, and what to do when one is gone.
struct Course<'a> {
    turns: &'a [ShutdownTurn],
    grace: Grace,
    tell: fn(&str),
}

impl Course<'_> {
    fn grace_ms(&self, pod: &StaticPod) -> u64 {
        match self.grace {
            Grace::Recorded => shutdown::grace_ms(self.turns, pod),
            Grace::Shortest => 0,
        }
    }
}

/// Ends every pod of the run directory and returns when the last holder is gone. One that cannot be ended does not keep
/// the others; somebody else may be ending them at the same time.
fn end(paths: &Paths, course: &Course<'_>) -> Result<(), CliError> {
    let found = holders::scan(paths);
    let roots: BTreeSet<String> = found.iter().filter_map(cgroup_root).collect();
    let leavers = found
        .iter()
        .map(|f| Leaver::new(course.turns, &f.record.pod));
    let mut leavers: Vec<Leaver> = leavers.collect();
    let started = clock::now().boot_ms;
    let deadline = time_limit(started, &leavers);
    let mut open = Vec::new();
    let mut ends = Vec::new();
    for (index, holder) in found.into_iter().enumerate() {
        match HolderConnection::connect(&holder.paths) {
            Ok(connection) => open.push(Ending::new(holder, connection, index)),
            Err(_) => {
                ends.push(bury(&holder, deadline));
                leavers[index].is_gone = true;
            }
        }
    }
    while !open.is_empty() {
        let due = shutdown::due(&leavers, clock::now().boot_ms - started);
        let mut still_open = Vec::new();
        for mut ending in open {
            let mut holder = ending.listen();
            if let Ok(Holder::There) = holder
                && leavers[ending.index].is_due(due)
            {
                holder = ending.react(course);
            }
            let outcome = match holder {
                Ok(Holder::There) => {
                    still_open.push(ending);
                    continue;
                }
                Ok(Holder::Gone) => bury(&ending.found, deadline),
                Err(error) => Err(error),
            };
            leavers[ending.index].is_gone = true;
            if outcome.is_ok() {
                (course.tell)(&ending.found.record.pod.full_name());
            }
            ends.push(outcome);
        }
        open = still_open;
        let next = due
            .next_ms
            .map_or(deadline, |ms| started.saturating_add(ms));
        if shutdown::due(&leavers, clock::now().boot_ms - started) == due {
            wait(&open, next.min(deadline), deadline)?;
        }
    }
    if holders::scan(paths).is_empty() {
        remove_cgroups(&roots);
    }
    ends.into_iter().collect()
}

/// CLOCK_BOOTTIME ms at which somebody who ends all of them gives up.
pub fn time_limit(started: u64, leavers: &[Leaver]) -> u64 {
    let margin_ms = u64::try_from(MARGIN.as_millis()).unwrap_or(u64::MAX);
    started
        .saturating_add(shutdown::limit_ms(leavers))
        .saturating_add(margin_ms)
}

/// The cgroup below which the agent of this pod has all of its own: holders are in `holders/<uid>` there.
fn cgroup_root(found: &Found) -> Option<String> {
    let holder = &found.record.sandbox.holder_cgroup;
    let (holders, _) = holder.rsplit_once('/')?;
    holders.strip_suffix("/holders").map(ToOwned::to_owned)
}

/// No pod is left. A new agent makes its cgroups itself, and keeps what is in use already.
fn remove_cgroups(roots: &BTreeSet<String>) {
    let Ok(cgroups) = Cgroups::discover() else {
        return;
    };
    for root in roots {
        let _ = cgroups.remove(root);
    }
}

/// Waits until a holder says something, or until a time; an error after the deadline.
fn wait(open: &[Ending], until: u64, deadline: u64) -> Result<(), CliError> {
    if open.is_empty() {
        return Ok(());
    }
    left(deadline).ok_or_else(|| late(open.first().map(|e| &e.found)))?;
    let mut fds: Vec<PollFd<'_>> = open
        .iter()
        .map(|ending| PollFd::new(&ending.connection, PollFlags::IN))
        .collect();
    match poll(&mut fds, Some(&left(until).unwrap_or_default())) {
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

/// What is known of a holder after talking to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    There,
    Gone,
}

/// A holder that is being ended.
struct Ending {
    found: Found,
    connection: HolderConnection,
    /// Among the leavers.
    index: usize,
    /// What it said last, until that is answered.
    state: Option<Box<HolderState>>,
    /// Containers that were asked to stop.
    asked: BTreeSet<String>,
}

impl Ending {
    fn new(found: Found, connection: HolderConnection, index: usize) -> Self {
        Self {
            found,
            connection,
            index,
            state: None,
            asked: BTreeSet::new(),
        }
    }

    /// Takes everything that the holder has said.
    fn listen(&mut self) -> Result<Holder, CliError> {
        self.connection.set_nonblocking()?;
        loop {
            match self.connection.recv() {
                Ok((FromHolder::State(state), _)) => self.state = Some(state),
                Ok((FromHolder::Reply { id: STOP, reply }, _)) => self.hear(&reply),
                // Refused when a container has started meanwhile: the next state says so.
                Ok((FromHolder::Reply { .. }, _)) => {}
                Ok((FromHolder::ExecExited { .. }, _)) => {}
                Err(error) if error.would_block() => return Ok(Holder::There),
                Err(ClientError::Closed | ClientError::Transport(_)) => return Ok(Holder::Gone),
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

    /// Asks what still runs to stop, and the holder to leave when nothing does. Once for each state.
    fn react(&mut self, course: &Course<'_>) -> Result<Holder, CliError> {
        let Some(state) = self.state.take() else {
            return Ok(Holder::There);
        };
        let pod = &self.found.record.pod;
        let grace_ms = course.grace_ms(pod);
        let orders = stop::orders(&pod.pod, &state.containers, grace_ms);
        if orders.is_empty() {
            return self.ask(SHUTDOWN, Request::Shutdown);
        }
        for order in orders {
            if !self.asked.insert(order.id.clone()) {
                continue;
            }
            match self.ask(STOP, order.into_request())? {
                Holder::There => {}
                Holder::Gone => return Ok(Holder::Gone),
            }
        }
        Ok(Holder::There)
    }

    fn ask(&self, id: u64, request: Request) -> Result<Holder, CliError> {
        match self.connection.send(&ToHolder { id, request }, &[]) {
            Ok(()) => Ok(Holder::There),
            Err(ClientError::Transport(_) | ClientError::Closed) => Ok(Holder::Gone),
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
