//! The clocks. The only place that reads them; everything else gets the time as an argument.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A point in time on both clocks: wall for people, boot for arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    /// CLOCK_BOOTTIME in ms.
    pub boot_ms: u64,
    /// Wall clock.
    pub wall: jiff::Timestamp,
}

impl Stamp {
    /// This moment, or `other` where that is later.
    pub fn not_before(self, other: Self) -> Self {
        Self {
            boot_ms: self.boot_ms.max(other.boot_ms),
            wall: self.wall.max(other.wall),
        }
    }
}

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

/// CLOCK_BOOTTIME in ns, for what happens within moments.
pub fn boot_ns() -> u64 {
    let boot = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(boot.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(boot.tv_nsec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

fn wall() -> jiff::Timestamp {
    let real = clock_gettime(ClockId::Realtime);
    let nanos = i32::try_from(real.tv_nsec).unwrap_or_default();
    jiff::Timestamp::new(real.tv_sec, nanos).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}
