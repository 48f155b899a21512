//! The clocks. The only place that reads them; everything else gets the time as an argument.

use rustix::time::{ClockId, clock_gettime};

use crate::holder::proto::Stamp;

/// The present moment on both clocks.
pub fn now() -> Stamp {
    let boot = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(boot.tv_sec).unwrap_or_default();
    let millis = u64::try_from(boot.tv_nsec / 1_000_000).unwrap_or_default();
    Stamp {
        boot_ms: seconds.saturating_mul(1000).saturating_add(millis),
        wall: wall(),
    }
}

fn wall() -> jiff::Timestamp {
    let real = clock_gettime(ClockId::Realtime);
    let nanos = i32::try_from(real.tv_nsec).unwrap_or_default();
    jiff::Timestamp::new(real.tv_sec, nanos).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}
