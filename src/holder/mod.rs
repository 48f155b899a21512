//! The holder: one small process per pod that is the pod's pause process and outlives the agent.
//!
//! It has one thread, always: libcontainer is called in forked workers, and a fork with a second thread could hang
//! (checked before each fork). It waits in one poll, for all of its facts at once, and never for one of them.

pub mod cgroup;
pub mod client;
mod connection;
mod executor;
mod instance;
mod job;
pub mod logs;
pub mod proto;
mod report;
mod requests;
mod rootfs;
mod runtime;
mod server;
mod session;
mod starts;
mod startup;

use std::process::ExitCode;

/// Runs the hidden `vetch holder DIR` role: prints `ready` (or `error: …`) as one line on stdout, closes it, and serves
/// until it is told to leave.
pub fn run(dir: &std::path::Path) -> ExitCode {
    let mut holder = match startup::start(dir) {
        Ok(holder) => holder,
        Err(error) => {
            startup::announce(&format!("error: {}", runtime::chain(&error)));
            return ExitCode::FAILURE;
        }
    };
    startup::announce("ready");
    match holder.serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
