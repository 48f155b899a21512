//! Where wanted pods come from. Each source gives its complete set at every scan; nothing here stops or starts anything.
//!
//! ```text
//! let mut source = FileSource::new(&path, node);
//! source.seed(last_good_pods);                    // from durable records and adopted holders
//! loop {
//!     let snapshot = source.scan(clock::now());   // the whole truth; cheap when nothing changed
//!     // wait for a hint of super::watch, snapshot.again_at_boot_ms, or file_check_frequency (S-2), whichever is first
//! }
//! ```

mod file;

pub use file::{FileSource, Snapshot};
