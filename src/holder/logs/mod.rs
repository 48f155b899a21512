//! Log files of containers: written here, rotated here, read here, so that the format has one home.
//!
//! - [`mod@format`], [`names`]: pure. CRI entries, file names, what is kept.
//! - [`writer`]: what the holder feeds; rotates on the way ([`rotation`]).
//! - [`compress`]: the hidden role `vetch compress-log FILE`, a niced child of the holder.
//! - [`read`]: what `vetch logs` calls.
//!
//! Invariants: a container never waits longer than for a disk write, and is never ended because of its log; the files
//! of an instance never exceed max_size × max_files bytes, a compression in progress included; what is kept is
//! contiguous; no entry is split across files.

pub mod compress;
mod files;
pub mod format;
pub mod names;
pub mod read;
mod rotation;
mod writer;

pub use files::remove;
pub use format::Stream;
pub use names::link_name;
pub use writer::{LogError, LogWriter};
