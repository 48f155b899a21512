//! When a probe runs: from begin to begin, on a grid that its first run sets. Times are CLOCK_BOOTTIME ms.

use crate::plan::ProbeOrder;

/// The grid of one probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    due_boot_ms: u64,
    period_ms: u64,
}

impl Schedule {
    /// the first run is at once, but not before the initial delay is over. R-10: within the first period of the
    /// agent's life a random part of the period is added, so that an agent that starts again starts no storm.
    pub fn new(order: &ProbeOrder, now_ms: u64, (agent_age_ms, random): (u64, u64)) -> Self {
        let period_ms = ms(order.spec.period_s).max(1);
        let delay_ms = ms(order.spec.initial_delay_s);
        let ripe = order.started_at.boot_ms.saturating_add(delay_ms);
        let spread = if agent_age_ms < period_ms {
            random % period_ms
        } else {
            0
        };
        Self {
            due_boot_ms: ripe.max(now_ms).saturating_add(spread),
            period_ms,
        }
    }

    /// How long until the next run.
    pub fn wait_ms(&self, now_ms: u64) -> u64 {
        self.due_boot_ms.saturating_sub(now_ms)
    }

    /// After a run: runs that are overdue are left out, never caught up.
    pub fn advance(&mut self, now_ms: u64) {
        let behind = now_ms.saturating_sub(self.due_boot_ms);
        let periods = behind / self.period_ms + 1;
        let ahead = periods.saturating_mul(self.period_ms);
        self.due_boot_ms = self.due_boot_ms.saturating_add(ahead);
    }
}

fn ms(seconds: u32) -> u64 {
    u64::from(seconds).saturating_mul(1000)
}
