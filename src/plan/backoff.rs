//! Delays: between restarts (P-64…P-72), after a failed start and after a failed sandbox (L-4).

use k8s_openapi::api::core::v1::Pod;

use super::{Backoff, PastInstance, Rules, StartProblem, StopCause};
use crate::config::BackoffCurve;
use crate::pod::backoff::{self, annotated};

/// First wait after a failed start of a container or sandbox.
const RETRY_START_MS: u64 = 10_000;
/// Longest wait after a failed start of a container.
const RETRY_CONTAINER_MAX_MS: u64 = 300_000;
/// Longest wait after a failed sandbox.
const RETRY_SANDBOX_MAX_MS: u64 = 60_000;

/// The node's curve with what the pod's annotations say of it. P-67: a cap below the start value becomes the start value.
pub(super) fn curve(pod: &Pod, rules: &Rules) -> BackoffCurve {
    let own = |annotation| annotated(pod, annotation).and_then(Result::ok);
    let max = own(backoff::MAX).unwrap_or(rules.backoff.max);
    let start = own(backoff::START).unwrap_or(rules.backoff.start);
    BackoffCurve {
        start: start.min(max),
        max,
        ..rules.backoff
    }
}

/// Where a container stands after its instance `ended`, which followed `before`. None when nothing holds back the next
/// start at all (the instance did not end by itself).
pub(super) fn after_exit(
    old: Option<&Backoff>,
    before: Option<&PastInstance>,
    ended: &PastInstance,
    (pod, rules): (&Pod, &Rules),
) -> Option<Backoff> {
    let curve = curve(pod, rules);
    if ended.stop.as_ref().is_some_and(StopCause::is_interruption) {
        return None;
    }
    // P-70: a new image starts afresh, and so does a new boot.
    let same = old
        .filter(|b| b.boot_id == rules.boot_id)
        .filter(|_| before.is_some_and(|b| b.hash == ended.hash));
    let long_run = run_ms(ended) > millis(curve.reset_after);
    let delay_ms = match same {
        Some(backoff) if !long_run => next_delay_ms(curve, backoff.delay_ms),
        Some(_) | None => 0,
    };
    Some(Backoff {
        delay_ms,
        advanced_at_boot_ms: ended.exit.finished_at.boot_ms,
        boot_id: rules.boot_id.clone(),
    })
}

/// P-64: 0, then start, doubling up to the cap. P-67: a cap below the start wins.
pub(super) fn next_delay_ms(curve: BackoffCurve, delay_ms: u64) -> u64 {
    let max = millis(curve.max);
    if delay_ms == 0 {
        millis(curve.start).min(max)
    } else {
        delay_ms.saturating_mul(2).min(max)
    }
}

/// When a container that exited may start again. None: at once.
pub(super) fn due_boot_ms(backoff: &Backoff, rules: &Rules) -> Option<u64> {
    (backoff.boot_id == rules.boot_id)
        .then(|| backoff.advanced_at_boot_ms.saturating_add(backoff.delay_ms))
}

/// When to try again to start a container: after 10 s, doubling up to 300 s.
pub(super) fn retry_container_at(problem: &StartProblem) -> u64 {
    let doublings = problem.failures.saturating_sub(1).min(16);
    let delay = (RETRY_START_MS << doublings).min(RETRY_CONTAINER_MAX_MS);
    problem.at_boot_ms.saturating_add(delay)
}

/// When to try again to make a sandbox (L-4): after 10, 20, 30 … 60 s. Kubelet tries each 10 to 15 s for ever; a device
/// with a lasting fault should neither spin nor be slow to notice that the fault is gone.
pub(super) fn retry_sandbox_at(problem: &StartProblem) -> u64 {
    let delay = RETRY_START_MS
        .saturating_mul(u64::from(problem.failures.max(1)))
        .min(RETRY_SANDBOX_MAX_MS);
    problem.at_boot_ms.saturating_add(delay)
}

fn run_ms(ended: &PastInstance) -> u64 {
    ended.exit.started_at.map_or(0, |started| {
        ended
            .exit
            .finished_at
            .boot_ms
            .saturating_sub(started.boot_ms)
    })
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
