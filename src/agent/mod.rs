//! The agent: an async shell around [`crate::plan`].

pub mod sources;

use crate::config::Config;

/// Why the agent could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Another agent has the root directory.
    #[error("another agent (pid {pid}) runs on {root_dir}; one agent per root directory")]
    AlreadyRunning {
        /// Its pid as written in the lock file.
        pid: String,
        /// The root directory.
        root_dir: std::path::PathBuf,
    },
}

/// Runs the agent until SIGTERM or SIGINT (pods stay, P-87) or until a stop request is done (pods are gone).
pub fn run(config: Config) -> Result<(), AgentError> {
    let _ = config;
    unimplemented!("room agent")
}
