//! What a container's status shows beside its state.

use serde_json::{Value, json};

use super::fixtures::*;
use crate::holder::proto::ContainerRecord;
use crate::plan::History;
use crate::pod::StaticPod;

/// The status of its first container.
fn shown(pod: &StaticPod, containers: Vec<ContainerRecord>) -> Value {
    let observed = seen(pod, ready(containers));
    let plan = planned(&[pod], &observed, &History::default(), 1);
    let status = plan.pods[&pod.uid].status.clone().unwrap();
    serde_json::to_value(&status.container_statuses.unwrap()[0]).unwrap()
}

/// P-139: what the instance was started with, whatever the pod has become by an edit in place.
#[test]
fn a_running_container_shows_what_it_may_use() {
    let mut p = pod("u1", "Always", &["a"]);
    let started = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}});
    let mut record = running("a", 0, 1);
    record.resources = serde_json::from_value(started.clone()).unwrap();
    for wanted in [
        started.clone(),
        json!({"limits": {"cpu": "2"}}),
        json!(null),
    ] {
        let spec = p.pod.spec.as_mut().unwrap();
        spec.containers[0].resources = serde_json::from_value(wanted).unwrap();
        let status = shown(&p, vec![record.clone()]);
        assert_eq!(status["resources"], started);
        assert_eq!(status["allocatedResources"], started["requests"]);
    }
    record.resources = Default::default();
    assert_eq!(shown(&p, vec![record]).get("resources"), None);
}

/// V-51: the outcome, never a wish.
#[test]
fn a_status_says_how_recursively_a_mount_is_read_only() {
    let mut p = pod("u1", "Always", &["a"]);
    let mounts = json!([
        {"name": "v", "mountPath": "/w"},
        {"name": "v", "mountPath": "/r", "readOnly": true},
        {"name": "v", "mountPath": "/i", "readOnly": true, "recursiveReadOnly": "IfPossible"},
        {"name": "v", "mountPath": "/e", "readOnly": true, "recursiveReadOnly": "Enabled"},
    ]);
    let spec = p.pod.spec.as_mut().unwrap();
    spec.containers[0].volume_mounts = serde_json::from_value(mounts).unwrap();
    assert_eq!(
        shown(&p, vec![])["volumeMounts"],
        json!([
            {"name": "v", "mountPath": "/w"},
            {"name": "v", "mountPath": "/r", "readOnly": true, "recursiveReadOnly": "Disabled"},
            {"name": "v", "mountPath": "/i", "readOnly": true, "recursiveReadOnly": "Enabled"},
            {"name": "v", "mountPath": "/e", "readOnly": true, "recursiveReadOnly": "Enabled"},
        ])
    );
}
