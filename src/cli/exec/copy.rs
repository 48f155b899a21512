//! Copies bytes between descriptors until the command has ended, in one poll loop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio;

use super::terminal;
use crate::cli::CliError;
use crate::holder::client::{ClientError, HolderConnection};
use crate::holder::proto::FromHolder;
use crate::sys::signals;

/// Bytes read at once.
const CHUNK: usize = 16 << 10;
/// What is still read from an output after the command has ended: more than a pipe holds was written by a process that it
/// left behind.
const MAX_REST: usize = 1 << 20;
const NO_WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// One direction. Dropped ends are closed, so that the other side sees the end.
#[derive(Debug)]
pub struct Copy {
    ends: Option<(OwnedFd, OwnedFd)>,
    buffer: Vec<u8>,
    copied: usize,
    /// Why bytes were lost that had a reader.
    lost: Option<Errno>,
}

impl Copy {
    /// From one descriptor to another.
    pub fn new(from: OwnedFd, to: OwnedFd) -> Self {
        Self {
            ends: Some((from, to)),
            buffer: Vec::new(),
            copied: 0,
            lost: None,
        }
    }

    /// What to wait for; none when one end has closed.
    fn interest(&self) -> Option<PollFd<'_>> {
        let (from, to) = self.ends.as_ref()?;
        Some(if self.buffer.is_empty() {
            PollFd::new(from, PollFlags::IN)
        } else {
            PollFd::new(to, PollFlags::OUT)
        })
    }

    /// One read or one write. An error of either end is the end: the other side has closed, or (a full disk) takes no
    /// more.
    fn advance(&mut self) {
        let Some((from, to)) = &self.ends else { return };
        let is_reading = self.buffer.is_empty();
        let outcome = if is_reading {
            self.buffer.resize(CHUNK, 0);
            let read = rustix::io::read(from, &mut self.buffer);
            self.buffer.truncate(*read.as_ref().unwrap_or(&0));
            read
        } else {
            rustix::io::write(to, &self.buffer).inspect(|&written| {
                self.buffer.drain(..written);
                self.copied += written;
            })
        };
        match outcome {
            Ok(0) => self.ends = None,
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => {
                let is_lost = !is_reading && error != Errno::PIPE;
                self.lost = is_lost.then_some(error);
                self.ends = None;
            }
        }
    }

    /// Brings over what is there, without waiting for more.
    pub fn finish(&mut self) {
        let stop = self.copied.saturating_add(MAX_REST);
        while self.copied < stop {
            let Some(interest) = self.interest() else {
                return;
            };
            let waits_for_input = self.buffer.is_empty();
            let timeout = waits_for_input.then_some(&NO_WAIT);
            if !matches!(poll(&mut [interest], timeout), Ok(ready) if ready > 0) {
                return;
            }
            self.advance();
        }
    }
}

/// Everything that is copied while a command runs.
#[derive(Debug)]
pub struct Relay {
    /// To the command.
    pub input: Option<Copy>,
    /// From the command.
    pub outputs: Vec<Copy>,
    /// From [`signals::watch`].
    pub signals: Option<OwnedFd>,
}

impl Relay {
    /// Between our terminal and the master of the command's pty.
    pub fn of_terminal(
        master: &OwnedFd,
        stdin: Option<BorrowedFd<'_>>,
        signals: OwnedFd,
    ) -> io::Result<Self> {
        rustix::fs::fcntl_setfl(master, rustix::fs::OFlags::NONBLOCK)?;
        let stdout = stdio::stdout().try_clone_to_owned()?;
        let input = match stdin {
            Some(stdin) => Some(Copy::new(stdin.try_clone_to_owned()?, master.try_clone()?)),
            None => None,
        };
        Ok(Self {
            input,
            outputs: vec![Copy::new(master.try_clone()?, stdout)],
            signals: Some(signals),
        })
    }

    /// Copies until the holder says that the command has ended; gives its exit code. `on_signal` says whether to go on;
    /// if not, the code is 128+signal, and closing the connection ends the command. Output that could not be written is an
    /// error, whatever the command made of it.
    pub fn run(
        mut self,
        connection: &HolderConnection,
        on_signal: &mut dyn FnMut(i32) -> bool,
    ) -> Result<i32, CliError> {
        loop {
            let ready = self.wait(connection.as_fd())?;
            for (copy, ready) in self.copies().zip(ready.copies) {
                if ready {
                    copy.advance();
                }
            }
            while let Some(signal) = self.signals.as_ref().and_then(signals::next) {
                if !on_signal(signal) {
                    return Ok(128 + signal);
                }
            }
            if ready.connection
                && let Some(code) = exit_code(connection)?
            {
                self.outputs.iter_mut().for_each(Copy::finish);
                return match self.outputs.iter().find_map(|output| output.lost) {
                    Some(error) => Err(CliError::Output(error.into())),
                    None => Ok(code),
                };
            }
        }
    }

    fn copies(&mut self) -> impl Iterator<Item = &mut Copy> {
        self.input.iter_mut().chain(&mut self.outputs)
    }

    /// Waits until something can be done.
    fn wait(&self, connection: BorrowedFd<'_>) -> Result<Ready, CliError> {
        let mut fds = vec![PollFd::from_borrowed_fd(connection, PollFlags::IN)];
        fds.extend(self.signals.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let copies: Vec<Option<PollFd<'_>>> = self
            .input
            .iter()
            .chain(&self.outputs)
            .map(Copy::interest)
            .collect();
        let first_copy = fds.len();
        let open: Vec<bool> = copies.iter().map(Option::is_some).collect();
        fds.extend(copies.into_iter().flatten());
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(terminal::fail(error)),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let mut rest = fds.iter().skip(first_copy).map(is_ready);
        Ok(Ready {
            connection: fds.first().is_some_and(is_ready),
            copies: open
                .into_iter()
                .map(|open| open && rest.next().unwrap_or(false))
                .collect(),
        })
    }
}

/// What poll found.
struct Ready {
    connection: bool,
    copies: Vec<bool>,
}

/// Reads one packet; the code if it is the last one.
fn exit_code(connection: &HolderConnection) -> Result<Option<i32>, CliError> {
    match connection.recv() {
        Ok((FromHolder::ExecExited { code, .. }, _)) => Ok(Some(code)),
        Ok((FromHolder::State(_) | FromHolder::Reply { .. }, _)) => Ok(None),
        Err(ClientError::Closed) => Err(CliError::NotFound(
            "the container ended, and the command with it".to_owned(),
        )),
        Err(error) => Err(error.into()),
    }
}
