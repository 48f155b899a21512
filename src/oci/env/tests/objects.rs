//! Variables from ConfigMaps and Secrets.

use serde_json::{Value, json};

use super::value_of;
use crate::oci::ConfigError;
use crate::oci::tests::Fixture;
use crate::pod::manifest;

const OBJECTS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: app, namespace: shop}
data: {MODE: slow, LEVEL: \"3\", only.here: yes it is}
binaryData: {blob: /w==, text: aGk=}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: more, namespace: shop}
data: {MODE: fast}
---
apiVersion: v1
kind: Secret
metadata: {name: db, namespace: shop}
data: {PASSWORD: aHVudGVyMg==}
---
apiVersion: v1
kind: Secret
metadata: {name: odd, namespace: shop}
data: {bytes: c2VjcmV0/w==, nul: YQBi}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: elsewhere}
data: {MODE: other}
";

fn launch(container: Value) -> Result<Vec<String>, ConfigError> {
    let mut all = json!({"name": "main", "command": ["/x", "$(MODE) $(P_PASSWORD)"]});
    for (key, value) in container.as_object().unwrap() {
        all[key] = value.clone();
    }
    let mut fixture = Fixture::new(json!({"containers": [all]}), json!({}));
    let parsed = manifest::parse("objects.yaml", OBJECTS.as_bytes(), "node");
    assert_eq!(parsed.diagnostics, []);
    let objects = parsed.objects.into_iter();
    fixture.objects.by_key = objects.map(|object| (object.key.clone(), object)).collect();
    fixture.objects.looked_in = "/m".to_owned();
    let launch = fixture.launch()?;
    let process = launch.spec.process().clone().unwrap();
    let args = process.args().clone().unwrap();
    Ok([process.env().clone().unwrap(), args].concat())
}

fn refused(container: Value) -> String {
    let problem = launch(container).unwrap_err().to_string();
    assert!(!problem.contains("secret\u{fffd}") && !problem.contains("c2VjcmV0"));
    problem
}

/// C-1, C-2, C-4: later sources over earlier ones, `env` over all of them, and both can be referred to.
#[test]
fn whole_objects_come_first_and_env_overrides_them() {
    let env = launch(json!({
        "envFrom": [
            {"configMapRef": {"name": "app"}},
            {"configMapRef": {"name": "more"}},
            {"prefix": "P_", "secretRef": {"name": "db"}},
        ],
        "env": [
            {"name": "LEVEL", "value": "$(LEVEL)$(MODE)"},
            {"name": "COPY", "value": "$(LEVEL)"},
        ],
    }))
    .unwrap();
    for (name, value) in [
        ("MODE", "fast"),
        ("only.here", "yes it is"),
        ("P_PASSWORD", "hunter2"),
        ("LEVEL", "3fast"),
        ("COPY", "3fast"),
    ] {
        assert_eq!(value_of(&env, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(env.last().unwrap(), "fast hunter2", "the argument");
    // As kubelet: what is binary is for volumes.
    assert_eq!(value_of(&env, "blob").or(value_of(&env, "text")), None);
}

fn key(source: &str, name: &str, key: &str, optional: bool) -> Value {
    json!({"env": [{"name": "V", "valueFrom": {source: {"name": name, "key": key, "optional": optional}}}]})
}

#[test]
fn single_keys() {
    for (source, name, key_name, value) in [
        ("configMapKeyRef", "app", "MODE", "slow"),
        ("secretKeyRef", "db", "PASSWORD", "hunter2"),
    ] {
        let env = launch(key(source, name, key_name, false)).unwrap();
        assert_eq!(value_of(&env, "V").as_deref(), Some(value));
    }
}

#[test]
fn what_is_optional_may_be_missing() {
    for container in [
        key("configMapKeyRef", "app", "nope", true),
        key("secretKeyRef", "nope", "x", true),
        json!({"envFrom": [{"configMapRef": {"name": "nope", "optional": true}},
                           {"secretRef": {"name": "app", "optional": true}}]}),
    ] {
        let env = launch(container.clone()).unwrap();
        assert_eq!(value_of(&env, "V"), None, "{container}");
    }
    // What was set before stays.
    let mut container = key("secretKeyRef", "db", "nope", true);
    container["env"][0]["name"] = json!("MODE");
    container["envFrom"] = json!([{"configMapRef": {"name": "app"}}]);
    let env = launch(container).unwrap();
    assert_eq!(value_of(&env, "MODE").as_deref(), Some("slow"));
}

/// Objects of other namespaces are none.
#[test]
fn what_is_missing_is_told_with_where_it_was_looked_for() {
    assert_eq!(
        refused(json!({"envFrom": [{"configMapRef": {"name": "elsewhere"}}]})),
        "configmap \"elsewhere\" not found in namespace \"shop\": no document of that name in /m"
    );
    assert_eq!(
        refused(key("secretKeyRef", "app", "MODE", false)),
        "environment variable V: secret \"app\" not found in namespace \"shop\": no document of that name in /m"
    );
    assert_eq!(
        refused(key("configMapKeyRef", "app", "MODUS", false)),
        "environment variable V: configmap \"app\" in namespace \"shop\" has no key \"MODUS\" (objects.yaml:2)"
    );
}

/// Without the value.
#[test]
fn what_no_variable_can_hold_is_refused() {
    assert_eq!(
        refused(key("secretKeyRef", "odd", "bytes", false)),
        "environment variable V: the value of key \"bytes\" of secret \"odd\" is not UTF-8 text, which a variable must be"
    );
    assert_eq!(
        refused(key("secretKeyRef", "odd", "nul", true)),
        "environment variable V: the value of key \"nul\" of secret \"odd\" has a NUL character, which no variable can have"
    );
    assert_eq!(
        refused(key("configMapKeyRef", "app", "text", false)),
        "environment variable V: the value of key \"text\" of configmap \"app\" is binaryData, which only volumes can have"
    );
    assert_eq!(
        refused(json!({"envFrom": [{"prefix": "O_", "secretRef": {"name": "odd"}}]})),
        "environment variable O_bytes: the value of key \"bytes\" of secret \"odd\" is not UTF-8 text, which a variable must be"
    );
}
