use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use serde::{Deserialize, Serialize};

/// A field like those of records.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    #[serde(deserialize_with = "super::pod")]
    pod: Pod,
}

fn read(json: &str) -> Result<Pod, String> {
    let record = serde_json::from_str::<Record>(json).map_err(|e| e.to_string())?;
    Ok(record.pod)
}

/// Everything that k8s-openapi writes comes back: looked at with its own deserializer.
#[test]
fn what_was_written_is_read() {
    let json = r#"{"apiVersion":"v1","kind":"Pod",
        "metadata":{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z","labels":{"yes":"true","n":"01"},
            "managedFields":[{"fieldsV1":{"f:a":{".":{}},"n":[1,-2.5,null,true,"1"]}}]},
        "spec":{"terminationGracePeriodSeconds":-9223372036854775808,"hostNetwork":true,"containers":[{"name":"c",
            "command":["sh","","null","0400"],"volumeMounts":[],"resources":{"limits":{"cpu":"1","memory":"1Gi"}},
            "livenessProbe":{"httpGet":{"port":80}},"readinessProbe":{"tcpSocket":{"port":"80"}}}],
            "volumes":[{"name":"v","emptyDir":{}}]},
        "status":{"phase":"Running","conditions":[{"type":"Ready","status":"False","lastTransitionTime":null}],
            "containerStatuses":[{"name":"c","image":"i","imageID":"","ready":false,"restartCount":3,
                "state":{"terminated":{"exitCode":-1,"message":"a\u0000b\n","finishedAt":"2026-01-02T03:04:05Z"}}}]}}"#;
    let wanted: Pod = serde_json::from_str(json).unwrap();
    let record = serde_json::to_string(&Record {
        pod: wanted.clone(),
    })
    .unwrap();
    assert_eq!(read(&record), Ok(wanted.clone()));
    assert_eq!(read(&format!("{{\"pod\":{json}}}")), Ok(wanted));
}

#[test]
fn fields_of_a_newer_version_are_left_out() {
    let pod = read(r#"{"pod":{"metadata":{"name":"a"},"spec":{"containers":[],"later":[1]}}}"#);
    assert_eq!(pod.unwrap().metadata.name.as_deref(), Some("a"));
}

/// A damaged record must not become another pod.
#[test]
fn a_wrong_type_is_an_error() {
    let error = read(r#"{"pod":{"spec":{"hostNetwork":"maybe","containers":[]}}}"#).unwrap_err();
    assert!(error.contains("spec.hostNetwork"), "{error}");
    assert!(read(r#"{"pod":[]}"#).is_err());
}

/// Of containers, as holders keep them.
#[test]
fn resources_are_read_as_they_were_written() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Record {
        #[serde(default, deserialize_with = "super::resources")]
        resources: ResourceRequirements,
    }
    let json = r#"{"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"100m"}}}"#;
    let read: Record = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), json);
    assert_eq!(read.resources.limits.unwrap().len(), 2);
    let none: Record = serde_json::from_str("{}").unwrap();
    let written = serde_json::to_string(&none).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&written).unwrap(), none);
}
