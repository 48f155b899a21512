//! I/O priority of the calling process.
#![expect(unsafe_code, reason = "neither rustix nor libc wraps ioprio_set")]

use std::io;

const WHO_PROCESS: libc::c_long = 1;
const SELF: libc::c_long = 0;
const CLASS_BEST_EFFORT: libc::c_long = 2;
const CLASS_SHIFT: u32 = 13;
const LOWEST_LEVEL: libc::c_long = 7;

/// Puts this process at the end of the best-effort class. Not the idle class: on a busy card that never gets its turn.
pub fn lower() -> io::Result<()> {
    let priority = (CLASS_BEST_EFFORT << CLASS_SHIFT) | LOWEST_LEVEL;
    // SAFETY: ioprio_set takes three integers and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, SELF, priority) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
