use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::fixture;
use crate::oci::tests::Fixture;
use crate::oci::volumes::contents;
use crate::pod::Origin;
use crate::pod::objects::{LocalObject, ObjectKey, ObjectKind, Objects};
use crate::volume::spec::FileSet;

fn object(kind: ObjectKind, name: &str, data: &[(&str, &str)]) -> LocalObject {
    LocalObject {
        key: ObjectKey {
            kind,
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        },
        type_: String::new(),
        data: data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
            .collect(),
        binary: BTreeSet::new(),
        origin: Origin {
            file: "objects.yaml".to_owned(),
            line: 3,
        },
    }
}

fn objects() -> Objects {
    let all = [
        object(ObjectKind::ConfigMap, "app", &[("a", "1"), ("b", "2")]),
        object(ObjectKind::Secret, "key", &[("a", "s"), ("k", "x")]),
    ];
    Objects {
        by_key: all.map(|object| (object.key.clone(), object)).into(),
        looked_in: "/manifests".to_owned(),
    }
}

fn pod_with(volume: Value, context: Value) -> Fixture {
    let mut volume = volume;
    volume["name"] = "v".into();
    let mut fixture = fixture(&json!([volume]), &json!([]));
    fixture.objects = objects();
    let spec = fixture.pod.pod.spec.as_mut().unwrap();
    spec.security_context = serde_json::from_value(context).unwrap();
    spec.containers[0].resources =
        serde_json::from_value(json!({"limits": {"cpu": "1500m", "memory": "3Mi"}})).unwrap();
    let metadata = &mut fixture.pod.pod.metadata;
    metadata.labels = Some(BTreeMap::from([
        ("b".to_owned(), "two".to_owned()),
        (
            "a".to_owned(),
            "o\"ne\\\n\t\u{1}é\u{301}\u{200b}".to_owned(),
        ),
    ]));
    let note = ("note".to_owned(), "x".to_owned());
    metadata.annotations = Some(BTreeMap::from([note]));
    fixture
}

fn set(fixture: &Fixture) -> Result<FileSet, String> {
    contents(fixture.input().facts()).remove("v").unwrap()
}

/// `path → content, mode`.
fn files(volume: Value) -> Result<Vec<(String, String, u32)>, String> {
    let set = set(&pod_with(volume, json!({})))?;
    assert_eq!(set.gid, None);
    Ok(set
        .files
        .into_iter()
        .map(|(path, file)| (path, String::from_utf8(file.data).unwrap(), file.mode))
        .collect())
}

fn expected(files: &[(&str, &str, u32)]) -> Result<Vec<(String, String, u32)>, String> {
    let all = files.iter();
    Ok(all
        .map(|(path, text, mode)| ((*path).to_owned(), (*text).to_owned(), *mode))
        .collect())
}

/// V-32, V-40.
#[test]
fn keys_become_files() {
    for (volume, found) in [
        (
            json!({"configMap": {"name": "app"}}),
            expected(&[("a", "1", 0o644), ("b", "2", 0o644)]),
        ),
        (
            json!({"secret": {"secretName": "key", "defaultMode": 256}}),
            expected(&[("a", "s", 0o400), ("k", "x", 0o400)]),
        ),
        (
            json!({"configMap": {"name": "app", "defaultMode": 384, "items": [
                {"key": "b", "path": "deep/er/file"}, {"key": "b", "path": "./again", "mode": 511}]}}),
            expected(&[("again", "2", 0o777), ("deep/er/file", "2", 0o600)]),
        ),
        (json!({"configMap": {"name": "none", "optional": true}}), expected(&[])),
        (
            json!({"secret": {"secretName": "key", "optional": true, "items": [
                {"key": "k", "path": "k"}, {"key": "gone", "path": "gone"}]}}),
            expected(&[("k", "x", 0o644)]),
        ),
        (
            json!({"configMap": {"name": "none"}}),
            Err("configmap \"none\" not found in namespace \"shop\": no document of that name in /manifests".to_owned()),
        ),
        (
            json!({"secret": {"secretName": "app"}}),
            Err("secret \"app\" not found in namespace \"shop\": no document of that name in /manifests".to_owned()),
        ),
        (
            json!({"configMap": {"name": "app", "items": [{"key": "c", "path": "c"}]}}),
            Err("configmap \"app\" in namespace \"shop\" has no key \"c\" (objects.yaml:3)".to_owned()),
        ),
        (
            json!({"configMap": {"name": "app", "items": [{"key": "a", "path": "x"}, {"key": "b", "path": "x/y"}]}}),
            Err("\"x\" is a file, and \"x/y\" is below it".to_owned()),
        ),
        (
            json!({"configMap": {"name": "app", "items": [{"key": "a", "path": "../x"}]}}),
            Err("\"../x\" cannot be the name of a file".to_owned()),
        ),
    ] {
        assert_eq!(files(volume.clone()), found, "{volume}");
    }
}

/// V-41, V-42: several sources in one directory, without an API server; the last one wins a path.
#[test]
fn a_projected_volume_has_the_files_of_all_its_sources() {
    let volume = json!({"projected": {"defaultMode": 288, "sources": [
        {"configMap": {"name": "app"}},
        {"secret": {"name": "key", "items": [{"key": "k", "path": "a"}]}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"configMap": {"name": "none", "optional": true}},
    ]}});
    let all = [
        ("a", "x", 0o440),
        ("b", "2", 0o440),
        ("name", "web-node1", 0o440),
    ];
    assert_eq!(files(volume), expected(&all));
    let missing = json!({"projected": {"sources": [{"secret": {"name": "none"}}]}});
    assert!(files(missing).unwrap_err().starts_with("secret \"none\""));
}

/// C-11…C-13, C-18…C-20.
#[test]
fn a_pod_can_read_about_itself() {
    let quantity = |resource: &str, divisor: &str| {
        json!({"path": "f", "resourceFieldRef":
            {"containerName": "main", "resource": resource, "divisor": divisor}})
    };
    let field = |path: &str| json!({"path": "f", "fieldRef": {"fieldPath": path}});
    for (item, text) in [
        (field("metadata.name"), Ok("web-node1")),
        (field("metadata.namespace"), Ok("shop")),
        (field("metadata.uid"), Ok("u1")),
        (field("metadata.labels['b']"), Ok("two")),
        (field("metadata.labels['z']"), Ok("")),
        (field("metadata.annotations['note']"), Ok("x")),
        (field("metadata.annotations"), Ok("note=\"x\"")),
        (
            field("metadata.labels"),
            Ok("a=\"o\\\"ne\\\\\\n\\t\\x01é\u{301}\\u200b\"\nb=\"two\""),
        ),
        (
            field("status.podIP"),
            Err("fieldPath \"status.podIP\" is not supported"),
        ),
        (quantity("limits.cpu", "1"), Ok("2")),
        (quantity("limits.cpu", "1m"), Ok("1500")),
        (quantity("limits.memory", "1Mi"), Ok("3")),
        (quantity("requests.ephemeral-storage", "1"), Ok("0")),
        (
            json!({"path": "f", "resourceFieldRef": {"containerName": "who", "resource": "limits.cpu"}}),
            Err("there is no container \"who\""),
        ),
    ] {
        let found = files(json!({"downwardAPI": {"items": [item]}}));
        let wanted = text.map(|text| vec![("f".to_owned(), text.to_owned(), 0o644)]);
        assert_eq!(found, wanted.map_err(ToOwned::to_owned), "{item}");
    }
}

/// V-32.
#[test]
fn with_a_group_files_are_its_own_and_it_can_read_them() {
    let volume = json!({"configMap": {"name": "app", "defaultMode": 256,
        "items": [{"key": "a", "path": "a"}, {"key": "b", "path": "b", "mode": 511}]}});
    let set = set(&pod_with(volume, json!({"fsGroup": 7}))).unwrap();
    assert_eq!(set.gid, Some(7));
    assert_eq!(set.files["a"].mode, 0o440);
    assert_eq!(set.files["b"].mode, 0o777);
}

/// V-31: the hash tells contents apart, and does not tell them.
#[test]
fn the_hash_changes_with_content_mode_path_and_group() {
    let with = |items: Value, context: Value| {
        let volume = json!({"configMap": {"name": "app", "items": items}});
        set(&pod_with(volume, context)).unwrap().hash
    };
    let item = |key: &str, path: &str, mode: u32| json!([{"key": key, "path": path, "mode": mode}]);
    let hashes = [
        with(item("a", "x", 0o644), json!({})),
        with(item("b", "x", 0o644), json!({})),
        with(item("a", "y", 0o644), json!({})),
        with(item("a", "x", 0o600), json!({})),
        with(item("a", "x", 0o644), json!({"fsGroup": 1})),
        with(
            json!([{"key": "a", "path": "x"}, {"key": "b", "path": "y"}]),
            json!({}),
        ),
    ];
    let distinct: std::collections::BTreeSet<_> = hashes.iter().collect();
    assert_eq!(distinct.len(), hashes.len());
    assert_eq!(hashes[0], with(item("a", "x", 0o644), json!({})));
    assert_eq!(hashes[0].len(), 64);
}

/// The payload of a launch has what the container mounts, and nothing else.
#[test]
fn a_launch_brings_along_the_files_of_what_it_mounts() {
    let volumes = json!([
        {"name": "a", "configMap": {"name": "app"}},
        {"name": "b", "secret": {"secretName": "none"}},
    ]);
    let mut first = fixture(&volumes, &json!([{"name": "a", "mountPath": "/a"}]));
    first.objects = objects();
    let launch = first.launch().unwrap();
    assert_eq!(launch.payload.volumes.keys().collect::<Vec<_>>(), ["a"]);
    let mut second = fixture(&volumes, &json!([{"name": "b", "mountPath": "/b"}]));
    second.objects = objects();
    assert_eq!(
        second.launch().unwrap_err().to_string(),
        "volume \"b\": secret \"none\" not found in namespace \"shop\": no document of that name in /manifests"
    );
}
