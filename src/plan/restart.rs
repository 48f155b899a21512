//! Whether a container that does not run is started (P-41, P-42, P-50…P-54, P-60…P-63).

use k8s_openapi::api::core::v1::Container;

use super::pass::PodView;
use super::{PastInstance, PodHistory, init};
use crate::pod::lifecycle::{self, OnExit, RestartPolicy, Role};

/// False is final, unless the container's definition changes while the pod lives.
pub(super) fn starts(
    view: &PodView<'_>,
    memory: &PodHistory,
    (role, container): (Role, &Container),
) -> bool {
    let pod = &view.pod.pod;
    if role == Role::Init && init::has_passed(pod, memory, &container.name) {
        return false;
    }
    let past = memory.containers.get(&container.name);
    let Some(last) = past.and_then(|past| past.last.as_ref()) else {
        return true;
    };
    starts_anew(memory, role, last) || restarts(view, (role, container), last)
}

/// P-36, P-63: the last instance belongs to an earlier life of the pod. A new sandbox alone is no reason to run a regular
/// container again that its policy lets rest (P-32).
fn starts_anew(memory: &PodHistory, role: Role, last: &PastInstance) -> bool {
    match role {
        Role::Init => last.epoch < memory.epoch,
        Role::Sidecar | Role::Regular => last.epoch < memory.anew_from,
    }
}

fn restarts(view: &PodView<'_>, member: (Role, &Container), last: &PastInstance) -> bool {
    let pod = &view.pod.pod;
    let (role, container) = member;
    match &last.stop {
        None => lifecycle::on_exit(pod, member, last.exit.code) != OnExit::Stay,
        Some(cause) => {
            cause.is_interruption()
                || lifecycle::restart_policy(pod, role, container) != RestartPolicy::Never
        }
    }
}
