//! What tasks tell the loop. News only update facts; the pass after them decides.

use std::path::PathBuf;

use super::child::ChildError;
use super::limits;
use super::probes::Report;
use super::store::WriteError;
use crate::holder::proto::{HolderState, Reply};
use crate::pod::PodUid;

/// A sandbox of this agent's life: a later one of the same pod has another serial, so that late news of the old one are
/// told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxId {
    /// The pod.
    pub uid: PodUid,
    /// Unique in this agent.
    pub serial: u64,
}

/// One piece of news.
#[derive(Debug)]
pub enum News {
    /// Nothing but a reason to wake up: the API asked for something, or a signal came (see [`super::state::Wishes`]).
    Look,
    /// Whether changes of a directory or file are noticed at once has changed.
    Watched {
        /// Which one.
        path: PathBuf,
        /// Why they are not.
        problem: Option<String>,
    },
    /// A manifest may have changed.
    Manifests,
    /// An image came or went.
    Images,
    /// Something was dropped into, or changed in, the import directory.
    Imports,
    /// The import child ended; what it warned of, or why something could not be imported.
    Imported(Result<String, ChildError>),
    /// From a holder.
    Holder(SandboxId, Fact),
    /// From a probe.
    Probe(Report),
    /// A dead sandbox is gone completely.
    Cleaned(SandboxId),
    /// A dead sandbox's processes do not end (uninterruptible sleep); cleaning goes on.
    CleaningStuck(SandboxId),
    /// Records are on the disk, or could not be.
    Synced(Result<(), WriteError>),
    /// Limits of pods were set, or could not be; none when there was no thread for it.
    Limited(Option<limits::Outcomes>),
    /// Processes wait for memory.
    Stalled,
    /// The child that removes unused images ended.
    Reclaimed(Result<String, ChildError>),
    /// What pods use.
    Weighed(Result<Vec<u8>, ChildError>),
    /// A child that removes trees ended.
    Swept,
}

/// What is known of a holder since a moment ago.
#[derive(Debug)]
pub enum Fact {
    /// Its whole truth.
    State(Box<HolderState>),
    /// Its answer to a request.
    Reply {
        /// Of the request.
        id: u64,
        /// The answer.
        reply: Reply,
    },
    /// It could not be started; nothing of it runs.
    NeverCame(String),
    /// It is dead and reaped.
    Died,
}
