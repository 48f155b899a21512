//! What is asked of holders, and how it can fail.

use std::os::fd::OwnedFd;

use super::sandboxes::MAX_WAITING;
use crate::holder::proto::{Request, ToHolder};
use crate::plan::stop::StopOrder;

/// What a link sends at once.
#[derive(Debug)]
pub struct Parcel {
    /// The packet.
    pub packet: ToHolder,
    /// The memory file that comes with it.
    pub payload: Option<OwnedFd>,
}

/// A request and what comes with it.
#[derive(Debug)]
pub struct Errand {
    /// The request.
    pub request: Request,
    /// Contents of volumes.
    pub payload: Option<OwnedFd>,
}

impl From<Request> for Errand {
    fn from(request: Request) -> Self {
        Self {
            request,
            payload: None,
        }
    }
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Done when the holder's state has the instance.
    Create {
        /// `containers[].name`.
        container: String,
        /// Instance.
        id: String,
    },
    /// Done when answered.
    Stop {
        /// Instance.
        id: String,
        /// A second request is only worth sending when it is shorter.
        grace_ms: u64,
    },
    /// Done when the holder's state no longer has the instance.
    Remove {
        /// Instance.
        id: String,
    },
    /// Done when answered.
    WriteVolumes,
    /// Done when the holder is dead.
    Leave,
}

impl Asked {
    /// This stop.
    pub fn stop(order: &StopOrder) -> Self {
        Self::Stop {
            id: order.id.clone(),
            grace_ms: order.grace_ms,
        }
    }
}

/// A create that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateFailure {
    /// `containers[].name`.
    pub container: String,
    /// Waiting reason.
    pub reason: &'static str,
    /// The real cause.
    pub message: String,
}

/// A request that failed, and of which somebody has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A container was not made.
    Create(CreateFailure),
    /// Volumes keep their old content: why.
    WriteVolumes(String),
}

/// The link cannot take another request now.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the holder does not answer: {MAX_WAITING} requests are waiting")]
pub struct Congested;
