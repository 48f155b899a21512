//! One accepted connection: what waits to be sent to it, bounded.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::proto::{ContainerRecord, FromHolder, HolderState, HookState, InstanceState, Reply};
use crate::sys::packet;

/// Replies that may wait for a peer that does not read.
const MAX_WAITING: usize = 64;

/// What a connection is for. Moved from `Watcher` to `Exec` by its first exec request, never back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Gets states and replies.
    Watcher,
    /// Belongs to one exec; no states.
    Exec,
}

pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) role: Role,
    /// The newest state has not been sent yet. A flag, not a queue: a state is the whole truth.
    pub(super) state_due: bool,
    waiting: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    /// Nothing more will come for this peer: close when all is sent.
    last_word: bool,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            role: Role::Watcher,
            state_due: true,
            waiting: VecDeque::new(),
            last_word: false,
        }
    }

    pub(super) fn reply(&mut self, id: u64, reply: Reply, fd: Option<OwnedFd>) {
        self.push(&FromHolder::Reply { id, reply }, fd);
    }

    /// Ends an exec's connection.
    pub(super) fn say_last(&mut self, message: &FromHolder) {
        self.push(message, None);
        self.last_word = true;
    }

    fn push(&mut self, message: &FromHolder, fd: Option<OwnedFd>) {
        if let Ok(bytes) = serde_json::to_vec(message) {
            self.waiting.push_back((bytes, fd));
        }
    }

    /// Whether `flush` could not send everything.
    pub(super) fn wants_to_write(&self) -> bool {
        self.state_due || !self.waiting.is_empty()
    }

    /// Sends what is due, the state before the replies, so that who reads a reply knows its effect. False when the
    /// connection is to be closed.
    pub(super) fn flush(&mut self, state: &[u8]) -> bool {
        if self.role == Role::Exec {
            self.state_due = false;
        }
        if self.state_due {
            match packet::send(&self.socket, state, &[]) {
                Ok(()) => self.state_due = false,
                Err(e) => return self.survives(&e),
            }
        }
        while let Some((bytes, fd)) = self.waiting.front() {
            let fds: Vec<_> = fd.iter().map(AsFd::as_fd).collect();
            if let Err(e) = packet::send(&self.socket, bytes, &fds) {
                return self.survives(&e);
            }
            self.waiting.pop_front();
        }
        !self.last_word
    }

    fn survives(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::WouldBlock && self.waiting.len() <= MAX_WAITING
    }
}

/// The state as one packet. Should it not fit, the longest messages go first: a state that cannot be sent would be
/// worth nothing.
pub(super) fn encode(mut state: HolderState) -> Vec<u8> {
    loop {
        let bytes = serde_json::to_vec(&FromHolder::State(Box::new(state.clone())));
        let bytes = bytes.unwrap_or_default();
        if bytes.len() <= packet::MAX_PACKET || !shorten(&mut state) {
            return bytes;
        }
    }
}

/// Empties the longest message; false when there is none.
fn shorten(state: &mut HolderState) -> bool {
    let longest = state
        .containers
        .iter_mut()
        .flat_map(messages)
        .max_by_key(|message| message.len())
        .filter(|message| !message.is_empty());
    longest.map(String::clear).is_some()
}

/// What was said about an instance, at any length.
fn messages(record: &mut ContainerRecord) -> impl Iterator<Item = &mut String> {
    let of_hook = |hook| match hook {
        &mut HookState::Failed { ref mut message } => Some(message),
        HookState::None | HookState::Running | HookState::Done => None,
    };
    let last = match &mut record.state {
        InstanceState::Exited(exit) => exit.message.as_mut(),
        InstanceState::Running { .. } | InstanceState::Stopping { .. } => None,
    };
    let hooks = [&mut record.post_start, &mut record.pre_stop];
    hooks.into_iter().filter_map(of_hook).chain(last)
}

#[cfg(test)]
mod tests;
