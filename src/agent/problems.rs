//! What could not be started, for the waiting reasons and the retries of the plan.

use std::collections::BTreeMap;

use super::sandboxes::CreateFailure;
use super::state::Agent;
use crate::holder::proto::Stamp;
use crate::plan::StartProblem;
use crate::pod::PodUid;

/// The newest problem of each, until it has started or nobody knows it any more.
#[derive(Debug, Default)]
pub struct Problems {
    /// By pod and container name.
    pub containers: BTreeMap<(PodUid, String), StartProblem>,
    /// By pod.
    pub sandboxes: BTreeMap<PodUid, StartProblem>,
}

impl Problems {
    /// What was said of this pod was said of another document. What is still wrong is said again.
    pub fn forget(&mut self, uid: &PodUid) {
        self.containers.retain(|(pod, _), _| pod != uid);
        self.sandboxes.remove(uid);
    }

    /// Only these pods have problems.
    pub fn retain(&mut self, is_known: impl Fn(&PodUid) -> bool) {
        self.containers.retain(|(uid, _), _| is_known(uid));
        self.sandboxes.retain(|uid, _| is_known(uid));
    }
}

impl Agent {
    /// Remembers a container that could not be started.
    pub fn container_failed(&mut self, uid: &PodUid, failure: CreateFailure, now: Stamp) {
        let problem = StartProblem {
            reason: failure.reason.to_owned(),
            message: failure.message,
            at_boot_ms: now.boot_ms,
            failures: 1,
        };
        let key = (uid.clone(), failure.container);
        note(&mut self.problems.containers, key, problem);
        self.look_again();
    }

    /// P-35: remembers a sandbox that could not be made.
    pub fn sandbox_failed(&mut self, uid: &PodUid, message: String, now: Stamp) {
        let problem = StartProblem {
            reason: "FailedCreatePodSandBox".to_owned(),
            message,
            at_boot_ms: now.boot_ms,
            failures: 1,
        };
        note(&mut self.problems.sandboxes, uid.clone(), problem);
        self.look_again();
    }
}

/// The newest one counts, with those before it.
fn note<K: Ord>(problems: &mut BTreeMap<K, StartProblem>, key: K, problem: StartProblem) {
    let before = problems.get(&key).map_or(0, |old| old.failures);
    let failures = problem.failures.saturating_add(before);
    problems.insert(
        key,
        StartProblem {
            failures,
            ..problem
        },
    );
}
