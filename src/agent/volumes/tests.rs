use std::collections::BTreeMap;
use std::io::Read;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::*;
use crate::oci::NodeFacts;
use crate::pod::objects::Objects;
use crate::pod::{Origin, StaticPod};
use crate::volume::spec::{FileContent, FileSet};

fn now(boot_ms: u64) -> Stamp {
    Stamp {
        boot_ms,
        wall: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// A pod with a volume `self` about itself, and one that refers to what is missing.
fn pod(label: &str) -> StaticPod {
    let field = json!({"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}});
    StaticPod {
        uid: PodUid::try_from("u1".to_owned()).unwrap(),
        pod: serde_json::from_value::<Pod>(json!({
            "metadata": {"name": "web-node", "labels": {"a": label}},
            "spec": {
                "containers": [],
                "volumes": [
                    {"name": "self", "downwardAPI": {"items": [field]}},
                    {"name": "map", "configMap": {"name": "gone"}},
                    {"name": "disk", "emptyDir": {}},
                ],
            },
        }))
        .unwrap()
        .into(),
        document_hash: label.to_owned(),
        origin: Origin {
            file: "web.yaml".into(),
            line: 1,
        },
        diagnostics: Vec::new(),
    }
}

fn work_with(label: &str, made: &[(&str, &str)]) -> Work {
    let (pod, node, objects) = (pod(label), NodeFacts::default(), Objects::default());
    let made = made.iter();
    let inputs = Inputs {
        objects: 0,
        document: String::new(),
        volumes: made
            .map(|(name, hash)| ((*name).to_owned(), (*hash).to_owned()))
            .collect(),
    };
    let facts = Facts {
        pod: &pod,
        node: &node,
        objects: &objects,
    };
    work(facts, &inputs)
}

/// V-31, V-34: what nobody has mounted yet is not written, what is right is not written again.
#[test]
fn only_what_differs_is_written() {
    assert_eq!(work_with("x", &[]).payload, Payload::default());
    let first = work_with("x", &[("self", "old")]);
    assert_eq!(first.payload.volumes.keys().collect::<Vec<_>>(), ["self"]);
    let hash = &first.payload.volumes["self"].hash;
    assert_eq!(
        work_with("x", &[("self", hash)]).payload,
        Payload::default()
    );
    let changed = work_with("y", &[("self", hash)]).payload;
    assert_eq!(changed.volumes["self"].files["labels"].data, b"a=\"y\"");
}

/// A reference that resolves no more leaves the files alone, and is told.
#[test]
fn what_is_missing_keeps_the_files() {
    let found = work_with("x", &[("map", "old")]);
    assert_eq!(found.payload, Payload::default());
    assert!(found.problems["map"].contains("configmap \"gone\""));
    let mut upkeep = Upkeep::default();
    let kept = upkeep.pods.entry(pod("x").uid).or_default();
    kept.problems = found.problems;
    let notes = upkeep.notes();
    assert!(
        notes[0]
            .text
            .starts_with("volume map keeps its old files: configmap"),
        "{}",
        notes[0].text
    );
}

/// Invariant 5: nothing is computed without news, and a failure is not tried again in a circle.
#[test]
fn a_pod_is_looked_at_again_only_with_news_or_later() {
    let inputs = |objects: u64| Inputs {
        objects,
        document: String::new(),
        volumes: BTreeMap::new(),
    };
    let uid = pod("x").uid;
    let settled = |next: NextLook, objects: u64, at: u64| {
        let mut upkeep = Upkeep::default();
        let kept = upkeep.pods.entry(uid.clone()).or_default();
        kept.seen = Some((inputs(1), next));
        upkeep.is_settled(&uid, &inputs(objects), now(at))
    };
    let later = NextLook::At { boot_ms: 10 };
    assert!(!Upkeep::default().is_settled(&uid, &inputs(1), now(0)));
    assert!(settled(NextLook::WithNews, 1, u64::MAX));
    assert!(!settled(NextLook::WithNews, 2, 0));
    assert!(settled(later, 1, 9));
    assert!(!settled(later, 1, 10));
    assert!(!settled(later, 2, 0));
}

/// What a holder reads is what was written, whatever becomes of the agent.
#[test]
fn a_payload_travels_in_a_file_that_nobody_can_change() {
    assert!(sealed(Payload::default(), now(1)).unwrap().is_none());
    let content = FileContent {
        data: vec![0, 255],
        mode: 0o400,
    };
    let set = FileSet {
        hash: "h".to_owned(),
        files: [("f".to_owned(), content)].into(),
        gid: None,
    };
    let mut payload = Payload {
        generation: 0,
        volumes: [("v".to_owned(), set)].into(),
    };
    let fd = sealed(payload.clone(), now(7)).unwrap().unwrap();
    let mut file = File::from(fd);
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    payload.generation = 7;
    assert_eq!(serde_json::from_str::<Payload>(&text).unwrap(), payload);
    assert!(file.write_all(b"x").is_err());
    assert!(file.set_len(1).is_err());
    let seals = rustix::fs::fcntl_get_seals(&file).unwrap();
    assert!(seals.contains(SealFlags::SEAL));
}
