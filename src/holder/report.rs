//! What a worker and the process it makes tell the holder, packet by packet, over a socket pair whose holder's end has
//! SO_PASSCRED: the kernel adds the sender's pid as the holder sees it, so that the holder knows a container's process
//! before it runs its first instruction. The end of the conversation (every copy of the other end closed) means that
//! the worker is gone and the process has executed its program, or died.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use serde::{Deserialize, Serialize};

use super::proto::FailureKind;
use crate::sys::{self, packet};

/// One packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// The container's (or exec's) own process stands ready and waits for [`Line::wait_for_go`].
    Init,
    /// libcontainer logged an error: the cause that its error texts leave out.
    Trouble(String),
    /// The program could not be executed: kind and cause.
    ExecFailed(FailureKind, String),
    /// The worker failed.
    Failed(FailureKind, String),
    /// V-31: files of volumes are in place: hash by name of the volume.
    Written(BTreeMap<String, String>),
    /// The worker is done; for an exec with tty, the packet carries the master.
    Done,
}

/// The worker's end; blocking, shared with every process it makes.
#[derive(Debug, Clone)]
pub(super) struct Line(Rc<OwnedFd>);

/// Makes (the holder's end, the worker's end).
pub(super) fn open_line() -> io::Result<(OwnedFd, Line)> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    sockopt::set_socket_passcred(&ours, true)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, Line(Rc::new(theirs))))
}

/// Holder's side of [`Line::wait_for_go`].
pub(super) fn send_go(ours: &OwnedFd) -> io::Result<()> {
    packet::send(ours, b"go", &[])
}

impl Line {
    /// Tells the holder. It may have given up already; nobody is left to complain to.
    pub(super) fn tell(&self, report: &Report) {
        self.tell_with(report, &[]);
    }

    /// The same with descriptors.
    pub(super) fn tell_with(&self, report: &Report, fds: &[BorrowedFd<'_>]) {
        if let Ok(bytes) = serde_json::to_vec(report) {
            let _ = packet::send(self.0.as_fd(), &bytes, fds);
        }
    }

    /// Closes everything else but stdio. Only in a worker that uses nothing of the holder's.
    pub(super) fn close_others(&self) -> io::Result<()> {
        sys::process::close_all_but(self.0.as_fd())
    }

    /// Waits until the holder has noted the process.
    pub(super) fn wait_for_go(&self) -> io::Result<()> {
        match packet::receive(self.0.as_fd())? {
            Some(_) => Ok(()),
            None => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        }
    }

    /// From now on libcontainer's error events go to the holder, also those of the processes that it makes.
    pub(super) fn collect_errors(&self) {
        if let Ok(socket) = self.0.try_clone() {
            let _ = tracing::subscriber::set_global_default(Collector { socket });
        }
    }
}

/// Sends error events as [`Report::Trouble`].
struct Collector {
    socket: OwnedFd,
}

impl tracing::Subscriber for Collector {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = EventText::default();
        event.record(&mut text);
        let report = Report::Trouble(text.message + &text.fields);
        if let Ok(bytes) = serde_json::to_vec(&report) {
            let _ = packet::send(&self.socket, &bytes, &[]);
        }
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// `message: field=value, …`
#[derive(Default)]
struct EventText {
    message: String,
    fields: String,
}

impl tracing::field::Visit for EventText {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        let written = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else {
            let comma = if self.fields.is_empty() { ": " } else { ", " };
            write!(self.fields, "{comma}{}={value:?}", field.name())
        };
        // Writing to a String cannot fail.
        let _ = written;
    }
}
