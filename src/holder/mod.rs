//! The holder: one small process per pod that is the pod's pause process and outlives the agent.
//!
//! It has one thread, always: libcontainer is called in forked workers, and a fork with a second thread could hang
//! (checked before each fork). It waits in one poll, for all of its facts at once, and never for one of them.
//!
//! - [`proto`] is what it is told and tells, `record` what it keeps on disk; [`client`] the other end of its socket; `connection` its own end.
//! - `startup` makes the sandbox (`reaper`: pid 1 of shared processes), `server` is the loop; `requests` and `starts` do what is asked.
//! - A `job` is a worker in flight, which talks by `report`; what it runs is `runtime`, `bundle`, `volumes`, `rootfs`, `place`, `devices`, [`device_rules`] and `executor`.
//! - What came of it is an `instance` (a container), which ends by `ending` and `termination`, or a `session` (an exec).
//! - `hooks` run as such jobs and sessions.
//! - [`cgroup`] finds and ends processes, [`limits`] limits what they use; [`logs`] are the log files; [`found`] finds holders by their records.
//!
//! Life of a container: `starts::create` forks a worker → `runtime::create` mounts, and calls libcontainer → the new
//! process says `Report::Init` and waits → the holder notes its pid and says go → `executor` confines and executes →
//! every copy of the line is closed, so the job ends → `Instance::running` → SIGCHLD → `Instance::tick` kills what is
//! left in the cgroup, empties the pipes and records the exit → `requests::remove` discards it.

mod bundle;
pub mod cgroup;
pub mod client;
mod connection;
pub mod device_rules;
mod devices;
mod ending;
mod executor;
pub mod found;
mod hooks;
mod instance;
mod job;
pub mod limits;
pub mod logs;
mod place;
pub mod proto;
mod reaper;
mod record;
mod report;
mod requests;
mod rootfs;
mod runtime;
mod server;
mod session;
mod starts;
mod startup;
mod termination;
mod volumes;

use std::process::ExitCode;

/// Runs the hidden `vetch holder DIR` role: prints `ready` (or `error: …`) as one line on stdout, closes it, and serves
/// until it is told to leave.
pub fn run(dir: &std::path::Path) -> ExitCode {
    let mut holder = match startup::start(dir) {
        Ok(holder) => holder,
        Err(error) => {
            let _ = startup::announce(&format!("error: {}", crate::error::chain(&error)));
            return ExitCode::FAILURE;
        }
    };
    if startup::announce("ready").is_err() {
        // Who asked for it is dead. Its successor makes a new one rather than guess how far this one came.
        return ExitCode::FAILURE;
    }
    let served = holder.serve();
    // Its connections end with the process, not before: who waits for that may bury us then.
    std::mem::forget(holder);
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
