//! What a container said at its end (P-170 to P-173).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::logs::LogWriter;
use super::proto::CreateContainer;

/// P-171.
const MESSAGE_BYTES: u64 = 4096;
/// P-172: lines and bytes.
const FALLBACK: (u64, usize) = (80, 2048);

/// The message of an instance that ended with `code`. Its log is complete.
pub(super) fn message(
    request: &CreateContainer,
    code: i32,
    log: Option<&LogWriter>,
) -> Option<String> {
    let text = match request.termination_message.as_deref().map(read_tail) {
        Some(Ok(text)) => text,
        Some(Err(e)) => return Some(format!("read the termination message: {e}")),
        None => String::new(),
    };
    if text.is_empty() && code != 0 && request.termination_message_from_logs {
        let tail = log?.tail(FALLBACK.0, FALLBACK.1);
        return (!tail.is_empty()).then_some(tail);
    }
    (!text.is_empty()).then_some(text)
}

/// The last [`MESSAGE_BYTES`] of a regular file. Never waits: the container could write to it, not replace it.
fn read_tail(path: &Path) -> std::io::Result<String> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MESSAGE_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(MESSAGE_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
