//! A connection to a holder that keeps what comes while it waits for something else.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail by panic")]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vetch::config::HolderPaths;
use vetch::holder::client::HolderConnection;
use vetch::holder::proto::{ExecCommand, FromHolder, HolderState, Reply, Request, ToHolder};

use super::wait::DEADLINE;

/// One connection with its own request numbers.
pub struct Wire {
    pub connection: HolderConnection,
    next: Cell<u64>,
    /// Replies that came while waiting for something else.
    replies: RefCell<HashMap<u64, (Reply, Vec<OwnedFd>)>>,
    /// The newest state.
    pub state: RefCell<Option<HolderState>>,
    exec_exit: Cell<Option<(i32, bool)>>,
}

impl Wire {
    pub fn connect(paths: &HolderPaths) -> Self {
        Self {
            connection: HolderConnection::connect(paths).unwrap(),
            next: Cell::new(1),
            replies: RefCell::default(),
            state: RefCell::default(),
            exec_exit: Cell::new(None),
        }
    }

    pub fn send(&self, request: Request, fds: &[BorrowedFd<'_>]) -> u64 {
        let id = self.next.replace(self.next.get() + 1);
        self.connection
            .send(&ToHolder { id, request }, fds)
            .unwrap();
        id
    }

    /// Receives one packet, or fails after the deadline.
    pub fn receive(&self) {
        let mut fds = [PollFd::from_borrowed_fd(
            self.connection.as_fd(),
            PollFlags::IN,
        )];
        let limit = Timespec::try_from(DEADLINE).unwrap();
        assert_eq!(poll(&mut fds, Some(&limit)).unwrap(), 1, "no packet came");
        let (message, fds) = self.connection.recv().unwrap();
        match message {
            FromHolder::State(state) => *self.state.borrow_mut() = Some(*state),
            FromHolder::Reply { id, reply } => {
                self.replies.borrow_mut().insert(id, (reply, fds));
            }
            FromHolder::ExecExited { code, timed_out } => {
                self.exec_exit.set(Some((code, timed_out)));
            }
        }
    }

    pub fn reply(&self, id: u64) -> (Reply, Vec<OwnedFd>) {
        loop {
            if let Some(reply) = self.replies.borrow_mut().remove(&id) {
                return reply;
            }
            self.receive();
        }
    }

    pub fn ask(&self, request: Request) -> Reply {
        let id = self.send(request, &[]);
        self.reply(id).0
    }

    /// Waits for (exit code, timed out).
    pub fn exec_exit(&self) -> (i32, bool) {
        loop {
            if let Some(exit) = self.exec_exit.get() {
                return exit;
            }
            self.receive();
        }
    }
}

/// To run a command in a container without a terminal.
pub fn exec_request(container: &str, args: &[&str]) -> ExecCommand {
    ExecCommand {
        container: container.into(),
        args: args.iter().map(|&a| a.to_owned()).collect(),
        tty: false,
        timeout_ms: None,
    }
}
