//! Where tests can run, how long they take, and waiting for conditions.

#![expect(clippy::print_stdout, reason = "a skip is printed")]

use std::path::Path;
use std::time::Duration;

use vetch::sys::clock;

/// Longest that any condition may take on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// False, with the reason printed, where tests with real containers cannot run.
pub fn can_run() -> bool {
    let lacks = if !rustix::process::geteuid().is_root() {
        "root"
    } else if !Path::new("/bin/busybox").exists() {
        "busybox-static"
    } else {
        return true;
    };
    println!("SKIPPED: tests with real containers need {lacks}");
    false
}

/// Whether there is time for everything (`tests/run --full`).
pub fn is_full() -> bool {
    std::env::var_os("VETCH_TEST_FULL").is_some_and(|full| full != "0")
}

/// How much: the first number if there is time for everything, or else the second.
pub fn extent(full: u32, short: u32) -> u32 {
    if is_full() { full } else { short }
}

/// Waits until `look` gives something; panics with `what` after [`DEADLINE`].
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_at_most(DEADLINE, what, look)
}

/// Waits until `look` gives something; panics with `what` after so long.
pub fn wait_at_most<T>(limit: Duration, what: &str, look: impl FnMut() -> Option<T>) -> T {
    look_until(limit, look).unwrap_or_else(|| panic!("waited in vain: {what}"))
}

/// Looks until `look` gives something, or for so long.
pub fn look_until<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let limit_ms = u64::try_from(limit.as_millis()).expect("no ages");
    let deadline = clock::now().boot_ms + limit_ms;
    loop {
        let found = look();
        if found.is_some() || clock::now().boot_ms >= deadline {
            return found;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}
