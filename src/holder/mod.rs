//! The holder: one small process per pod that is the pod's pause process and outlives the agent.

pub mod client;
pub mod logs;
pub mod proto;

/// Runs the hidden `vetch holder DIR` role: prints `ready` (or `error: …`) as one line on stdout, closes it, and serves
/// until it is told to leave.
pub fn run(dir: &std::path::Path) -> std::process::ExitCode {
    let _ = dir;
    unimplemented!("room holder")
}
