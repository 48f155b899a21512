//! Why a command failed, and with which exit code.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::agent::AgentError;
use crate::api::client::ClientError;
use crate::config::ConfigError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The command line is well formed, yet makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The reader of our output is gone, or the disk it goes to is full.
    #[error("write the output")]
    Output(#[source] io::Error),
    /// Reading or writing a file, starting a process, …
    #[error("{operation} {path}")]
    Io {
        /// Verb.
        operation: &'static str,
        /// Which file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The agent's settings cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The agent could not start or go on.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// Asking the agent.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Asking a holder.
    #[error(transparent)]
    Holder(#[from] crate::holder::client::ClientError),
    /// The image store.
    #[error(transparent)]
    Store(#[from] crate::image::StoreError),
    /// An archive of images.
    #[error("import {path}")]
    Import {
        /// Which file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: crate::image::ImportError,
    },
    /// An image that stays.
    #[error(transparent)]
    RemoveImage(#[from] crate::image::RemoveError),
    /// The terminal or a pipe of ours.
    #[error("pass input and output on")]
    Relay(#[source] io::Error),
    /// Taking over the signals that end us.
    #[error("catch signals")]
    Signals(#[source] io::Error),
    /// The agent of `vetch run` ended, and nobody asked it to.
    #[error("the agent ended unexpectedly; its last words:\n{last_words}")]
    AgentEnded {
        /// The end of its log.
        last_words: String,
    },
    /// The cgroups of a pod whose holder is gone.
    #[error(transparent)]
    Cgroup(#[from] crate::holder::cgroup::CgroupError),
    /// Reading a log.
    #[error(transparent)]
    Log(#[from] crate::holder::logs::read::ReadError),
    /// The command of an exec cannot be executed.
    #[error("{message}")]
    NotExecuted {
        /// Exit code that a shell has for it.
        code: u8,
        /// Why.
        message: String,
    },
    /// No such pod, container, …
    #[error("{0}")]
    NotFound(String),
    /// A wait ended without success.
    #[error("{0}")]
    TimedOut(String),
    /// A value could not be turned into JSON or YAML: our bug.
    #[error("print as {format}")]
    Render {
        /// `json` or `yaml`.
        format: &'static str,
        /// Cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl CliError {
    /// Style rule 14.
    pub fn code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(super::EXIT_USAGE),
            // `vetch logs -f web | head` ends quietly and well.
            Self::Output(source) if source.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Self::NotExecuted { code, .. } => ExitCode::from(*code),
            Self::Output(_)
            | Self::Io { .. }
            | Self::Config(_)
            | Self::Agent(_)
            | Self::Client(_)
            | Self::Holder(_)
            | Self::Store(_)
            | Self::Import { .. }
            | Self::RemoveImage(_)
            | Self::Relay(_)
            | Self::Signals(_)
            | Self::AgentEnded { .. }
            | Self::Cgroup(_)
            | Self::Log(_)
            | Self::NotFound(_)
            | Self::TimedOut(_)
            | Self::Render { .. } => ExitCode::FAILURE,
        }
    }

    /// Nothing to tell: the reader has gone.
    pub fn is_quiet(&self) -> bool {
        matches!(self, Self::Output(source) if source.kind() == io::ErrorKind::BrokenPipe)
    }
}
