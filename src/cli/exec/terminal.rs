//! The person's terminal: raw while a command runs in it, and as it was afterwards, on every way out.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::stdio;
use rustix::termios::{self, OptionalActions, Termios};

use crate::cli::CliError;

/// Standard input in raw mode until this is dropped.
pub struct RawTerminal {
    before: Option<Termios>,
}

impl RawTerminal {
    /// Enters raw mode if keys are passed on and there is a terminal to take them from.
    pub fn enter(stdin: Option<BorrowedFd<'_>>) -> Result<Self, CliError> {
        let Some(stdin) = stdin.filter(|stdin| termios::isatty(stdin)) else {
            return Ok(Self { before: None });
        };
        let before = termios::tcgetattr(stdin).map_err(fail)?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(stdin, OptionalActions::Drain, &raw).map_err(fail)?;
        Ok(Self {
            before: Some(before),
        })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // The terminal may have gone; there is nobody left to tell.
            let _ = termios::tcsetattr(stdio::stdin(), OptionalActions::Drain, before);
        }
    }
}

/// Gives the pty the size of the person's terminal. Without a terminal it keeps its own.
pub fn copy_size(master: impl AsFd) {
    let size =
        termios::tcgetwinsize(stdio::stdout()).or_else(|_| termios::tcgetwinsize(stdio::stdin()));
    if let Ok(size) = size {
        // A command that has ended needs no size.
        let _ = termios::tcsetwinsize(master, size);
    }
}

/// For `map_err`.
pub fn fail(error: impl Into<io::Error>) -> CliError {
    CliError::Relay(error.into())
}
