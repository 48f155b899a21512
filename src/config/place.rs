//! Where a setting was written, and what is wrong with it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::pod::duration;

/// Why there is no usable configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Reading the file.
    #[error("read {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// Not YAML, or a field of the wrong type.
    #[error("understand {path}")]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Cause; names the line.
        #[source]
        source: serde_yaml::Error,
    },
    /// A value that cannot be used. `setting` is a flag, or a file with the field in it.
    #[error("{setting}: {problem}")]
    Value {
        /// `--cgroup-root`, or `/etc/vetch/config.yaml: containerLogMaxFiles`.
        setting: String,
        /// What is wrong and what to do.
        problem: String,
    },
}

/// The file, for messages.
pub(super) struct Place<'a> {
    pub(super) path: &'a Path,
}

impl Place<'_> {
    pub(super) fn refuse(&self, field: &str, problem: impl ToString) -> ConfigError {
        ConfigError::Value {
            setting: format!("{}: {field}", self.path.display()),
            problem: problem.to_string(),
        }
    }

    /// Longer than nothing.
    pub(super) fn duration(&self, field: &str, text: &str) -> Result<Duration, ConfigError> {
        duration::parse(text)
            .map_err(|error| self.refuse(field, error))
            .and_then(|value| {
                if value.is_zero() {
                    Err(self.refuse(field, "must be more than 0"))
                } else {
                    Ok(value)
                }
            })
    }
}

pub(super) fn refuse_flag(flag: &str, problem: impl ToString) -> ConfigError {
    ConfigError::Value {
        setting: flag.to_owned(),
        problem: problem.to_string(),
    }
}
