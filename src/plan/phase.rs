//! `status.phase` (section 2.9), as a function of where the containers stand.

use crate::pod::lifecycle::Role;

/// `status.phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

/// Where a container stands, as far as the phase depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    /// It waits and never ran. A regular init container that has to run again for a new sandbox is new, too.
    New,
    /// It runs, and its startup probe has not succeeded.
    Starting,
    /// It runs and is started.
    Started,
    /// It ended, with this code, and is not started again.
    Over(i32),
    /// It ended and is to start again.
    Again,
}

/// P-100…P-110. Without the memory of a phase that was final (P-111).
pub(super) fn phase(parts: &[(Role, Stand)]) -> Phase {
    let of = |role: Role| {
        let parts = parts.iter().filter(move |(r, _)| *r == role);
        parts.map(|(_, stand)| *stand)
    };
    let regular = || of(Role::Regular);
    let beside = || of(Role::Sidecar).chain(regular());
    let is_new = |stand: Stand| stand == Stand::New;
    let runs = |stand: Stand| matches!(stand, Stand::Starting | Stand::Started);
    let has_begun = || regular().any(|stand| !is_new(stand));

    let init_failed = of(Role::Init).any(|stand| matches!(stand, Stand::Over(code) if code != 0));
    let init_waits = of(Role::Init).any(|stand| is_new(stand) || runs(stand));
    let sidecar_waits =
        of(Role::Sidecar).any(|stand| matches!(stand, Stand::New | Stand::Starting));
    if init_failed {
        Phase::Failed
    } else if init_waits
        || sidecar_waits && !has_begun()
        || beside().any(is_new)
        || parts.is_empty()
    {
        Phase::Pending
    } else if beside().any(runs) || regular().any(|stand| stand == Stand::Again) {
        Phase::Running
    } else if regular().all(|stand| stand == Stand::Over(0)) {
        Phase::Succeeded
    } else {
        Phase::Failed
    }
}
