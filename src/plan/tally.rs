//! From the results of single runs to a verdict. The agent's probe tasks count with this; the plan only sees verdicts.

use super::ProbeVerdict;
use crate::pod::probe::{ProbeKind, ProbeSpec};

/// Counts equal results in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    verdict: Option<ProbeVerdict>,
    last: Option<ProbeVerdict>,
    in_a_row: u32,
}

impl Tally {
    /// Begins with this verdict.
    pub fn new(initial: Option<ProbeVerdict>) -> Self {
        Self {
            verdict: initial,
            last: None,
            in_a_row: 0,
        }
    }

    /// The verdict so far.
    pub fn verdict(&self) -> Option<ProbeVerdict> {
        self.verdict
    }

    /// what follows is the plan's, and nothing that a later run finds changes it.
    pub fn is_settled(&self, kind: ProbeKind) -> bool {
        match (kind, self.verdict) {
            (ProbeKind::Liveness, Some(ProbeVerdict::Failure)) | (ProbeKind::Startup, Some(_)) => {
                true
            }
            (ProbeKind::Liveness, Some(ProbeVerdict::Success) | None)
            | (ProbeKind::Readiness, _)
            | (ProbeKind::Startup, None) => false,
        }
    }

    /// Takes in the result of one run and gives the verdict after it.
    pub fn count(&mut self, spec: &ProbeSpec, result: ProbeVerdict) -> Option<ProbeVerdict> {
        self.in_a_row = if self.last == Some(result) {
            self.in_a_row.saturating_add(1)
        } else {
            1
        };
        self.last = Some(result);
        let threshold = match result {
            ProbeVerdict::Success => spec.success_threshold,
            ProbeVerdict::Failure => spec.failure_threshold,
        };
        if self.in_a_row >= threshold {
            self.verdict = Some(result);
        }
        self.verdict
    }
}
