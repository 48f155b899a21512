use std::fmt::Write as _;

use serde_json::json;

use super::{LocalObject, Missing, ObjectKind, Objects};
use crate::pod::manifest::parse;
use crate::pod::{Diagnostic, Severity};

fn read(text: &str) -> (Vec<LocalObject>, Vec<Diagnostic>) {
    let parsed = parse("a.yaml", text.as_bytes(), "node");
    (parsed.objects, parsed.diagnostics)
}

fn one(text: &str) -> LocalObject {
    let (mut objects, diagnostics) = read(text);
    assert_eq!((objects.len(), diagnostics), (1, vec![]));
    objects.remove(0)
}

fn value<'a>(object: &'a LocalObject, key: &str) -> &'a str {
    std::str::from_utf8(&object.data[key]).unwrap()
}

#[test]
fn a_secret_is_decoded_and_string_data_wins() {
    let secret = one(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {b: plain}\ndata: {a: aGVs\\nbG8=, b: bm8=}\n"
            .replace("aGVs\\nbG8=", "\"aGVs\\nbG8=\"")
            .as_str(),
    );
    assert_eq!(value(&secret, "a"), "hello");
    assert_eq!(value(&secret, "b"), "plain");
    assert_eq!(secret.type_, "Opaque");
    assert!(secret.binary.is_empty());
}

#[test]
fn a_config_map_knows_which_keys_are_binary() {
    let map = one(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {t: \"no: 1\", e: }\nbinaryData: {b: /wA=}\n",
    );
    assert_eq!(value(&map, "t"), "no: 1");
    assert_eq!(map.data["e"], b"");
    assert_eq!(map.data["b"], [0xff, 0]);
    assert_eq!(map.binary.iter().collect::<Vec<_>>(), ["b"]);
}

/// The API server's limit, and kubelet's for the length of a key.
#[test]
fn size_is_bounded() {
    let map = |key: usize, value: usize| {
        let (key, value) = ("k".repeat(key), "v".repeat(value));
        read(&format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{{key}: {value}}}\n"
        ))
        .1
    };
    assert_eq!(map(253, 1 << 20), []);
    for (key, value) in [(254, 1), (1, (1 << 20) + 1)] {
        let problems = map(key, value);
        assert_eq!(problems.len(), 1, "{key} {value}");
        assert_eq!(problems[0].severity, Severity::Error);
        assert!(problems[0].to_string().len() < 600);
    }
}

/// Whatever is wrong with a document, no remark quotes a value, and neither does `Debug`.
#[test]
fn values_are_in_no_remark() {
    let text = include_str!("../golden/objects_bad.yaml");
    let (_, diagnostics) = read(text);
    assert!(diagnostics.len() > 20);
    let all = format!("{diagnostics:?}");
    for value in [
        "hush\"",
        "hunter2",
        "12345",
        "99887766",
        "{hush",
        "not base64!",
    ] {
        assert!(!all.contains(value), "{value}: {all}");
    }
    let secret =
        one("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {token: hunter2}\n");
    let shown = format!("{secret:?}");
    assert!(
        shown.contains("token") && !shown.contains("hunter2"),
        "{shown}"
    );
    assert!(!shown.contains("104"), "{shown}");
}

/// One bad value spoils the file, as everywhere.
#[test]
fn a_file_with_a_bad_object_has_none() {
    let good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\n---\n";
    let bad = "apiVersion: v1\nkind: Secret\nmetadata: {name: bad}\ndata: {a: \"%\"}\n";
    let (objects, diagnostics) = read(&format!("{good}{bad}"));
    assert_eq!(objects, []);
    assert_eq!(
        diagnostics[0].to_string(),
        "a.yaml:8: data[a]: must be base64; plain text belongs in stringData"
    );
}

#[test]
fn what_is_missing_is_told_with_the_place() {
    let (objects, _) = read("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n");
    let mut all = Objects {
        looked_in: "/etc/kubernetes/manifests".to_owned(),
        ..Objects::default()
    };
    all.by_key = objects.into_iter().map(|o| (o.key.clone(), o)).collect();
    let mut told = String::new();
    let mut tell = |missing: Missing| writeln!(told, "{missing}").unwrap();
    tell(all.find(ObjectKind::Secret, "default", "app").unwrap_err());
    tell(all.find(ObjectKind::ConfigMap, "shop", "app").unwrap_err());
    let app = all.find(ObjectKind::ConfigMap, "default", "app").unwrap();
    tell(app.value("x").unwrap_err());
    assert_eq!(
        told,
        "secret \"app\" not found in namespace \"default\": no document of that name in /etc/kubernetes/manifests
configmap \"app\" not found in namespace \"shop\": no document of that name in /etc/kubernetes/manifests
configmap \"app\" in namespace \"default\" has no key \"x\" (a.yaml:1)
"
    );
}

/// As in the copy on disk.
#[test]
fn objects_survive_json() {
    let (objects, _) = read(include_str!("../golden/objects.yaml"));
    let text = serde_json::to_string(&objects).unwrap();
    let again: Vec<LocalObject> = serde_json::from_str(&text).unwrap();
    assert_eq!(again, objects);
    let mut broken = json!(objects);
    broken[0]["data"]["MODE"] = json!("hunter2 ");
    let error = serde_json::from_value::<Vec<LocalObject>>(broken).unwrap_err();
    assert_eq!(error.to_string(), "a value that is not base64");
}
