mod objects;

use serde_json::{Value, json};

use crate::oci::ConfigError;
use crate::oci::tests::Fixture;

/// The process's environment for a container with this `env`, an image with this `Env`, and changes to the fixture.
fn env_of(env: Value, image: Value, change: impl FnOnce(&mut Fixture)) -> Vec<String> {
    let spec = json!({
        "serviceAccountName": "robot",
        "containers": [
            {"name": "main", "command": ["/x"], "env": env,
             "resources": {"limits": {"memory": "100Mi", "cpu": "1500m"}, "requests": {"cpu": "250m"}}},
            {"name": "other", "resources": {"limits": {"cpu": "2", "hugepages-2Mi": "4Mi"}}},
        ],
    });
    let mut fixture = Fixture::new(spec, json!({"Env": image}));
    let metadata = &mut fixture.pod.pod.metadata;
    metadata.labels = serde_json::from_value(json!({"b": "say \"hi\"", "a": "1"})).unwrap();
    metadata.annotations = serde_json::from_value(json!({"example.com/x": "two\nlines"})).unwrap();
    change(&mut fixture);
    let launch = fixture.launch().unwrap();
    launch
        .spec
        .process()
        .as_ref()
        .unwrap()
        .env()
        .clone()
        .unwrap()
}

fn value_of(env: &[String], name: &str) -> Option<String> {
    let prefix = format!("{name}=");
    let mut values = env.iter().filter_map(|entry| entry.strip_prefix(&prefix));
    let value = values.next().map(str::to_owned);
    assert_eq!(values.next(), None, "{name} is there twice");
    value
}

fn field(path: &str) -> Value {
    json!([{"name": "V", "valueFrom": {"fieldRef": {"fieldPath": path}}}])
}

fn resource(resource: &str, divisor: &str, container: &str) -> Value {
    json!([{"name": "V", "valueFrom": {"resourceFieldRef": {
        "resource": resource, "divisor": divisor, "containerName": container}}}])
}

/// C-3, C-7, C-8.
#[test]
fn the_last_value_of_a_name_wins_and_the_order_stays() {
    let env = env_of(
        json!([{"name": "B", "value": "pod"}, {"name": "A"}, {"name": "B", "value": "$(B) again"}]),
        json!([
            "B=image",
            "C=image",
            "PATH=/image",
            "broken",
            "=nameless",
            "D=a=b"
        ]),
        |_| {},
    );
    assert_eq!(
        env,
        [
            "PATH=/image",
            "HOSTNAME=web-node1",
            "B=pod again",
            "C=image",
            "D=a=b",
            "A=",
            "HOME=/root",
        ]
    );
}

/// C-8.
#[test]
fn what_everybody_has() {
    let env = env_of(json!([]), json!(null), |_| {});
    assert_eq!(
        env,
        [
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOSTNAME=web-node1",
            "HOME=/root",
        ]
    );
}

#[test]
fn home_is_kept_when_set_and_never_empty() {
    for (pod, image, home) in [
        (
            json!([{"name": "HOME", "value": "/own"}]),
            json!(["HOME=/image"]),
            "/own",
        ),
        (json!([]), json!(["HOME=/image"]), "/image"),
        (json!([{"name": "HOME", "value": ""}]), json!([]), "/root"),
    ] {
        assert_eq!(value_of(&env_of(pod, image, |_| {}), "HOME").unwrap(), home);
    }
    let no_passwd = env_of(json!([]), json!([]), |fixture| fixture.passwd = "");
    assert_eq!(value_of(&no_passwd, "HOME").unwrap(), "/");
}

#[test]
fn a_terminal_gets_a_type() {
    let env = env_of(json!([]), json!([]), |fixture| {
        fixture.pod.pod.spec.as_mut().unwrap().containers[0].tty = Some(true);
    });
    assert_eq!(value_of(&env, "TERM").unwrap(), "xterm");
}

/// C-2: only what is declared earlier, and never the image's.
#[test]
fn values_expand_what_came_before_them() {
    let env = env_of(
        json!([
            {"name": "EARLY", "value": "$(LATE)-$(IMAGE)-$(PATH)"},
            {"name": "LATE", "value": "1"},
            {"name": "BOTH", "value": "$(LATE)$$(LATE)$(NOPE)$(open"},
        ]),
        json!(["IMAGE=x"]),
        |_| {},
    );
    assert_eq!(value_of(&env, "EARLY").unwrap(), "$(LATE)-$(IMAGE)-$(PATH)");
    assert_eq!(value_of(&env, "BOTH").unwrap(), "1$(LATE)$(NOPE)$(open");
}

/// C-11, C-12, C-14, C-15, C-16.
#[test]
fn fields_of_the_pod() {
    for (path, value) in [
        ("metadata.name", "web-node1"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "u1"),
        ("metadata.labels['a']", "1"),
        ("metadata.labels['nope']", ""),
        ("metadata.annotations['example.com/x']", "two\nlines"),
        ("spec.nodeName", "node1"),
        ("spec.serviceAccountName", "robot"),
        ("status.hostIP", "192.0.2.7"),
        ("status.hostIPs", "192.0.2.7,2001:db8::7"),
        ("status.podIP", ""),
    ] {
        let env = env_of(field(path), json!([]), |_| {});
        assert_eq!(value_of(&env, "V").unwrap(), value, "{path}");
    }
}

/// C-16.
#[test]
fn a_pod_on_the_hosts_network_has_the_hosts_addresses_and_name() {
    let host = |fixture: &mut Fixture| {
        fixture.pod.pod.spec.as_mut().unwrap().host_network = Some(true);
    };
    let env = env_of(field("status.podIPs"), json!([]), host);
    assert_eq!(value_of(&env, "V").unwrap(), "192.0.2.7,2001:db8::7");
    assert_eq!(value_of(&env, "HOSTNAME").unwrap(), "node1");
}

#[test]
fn a_node_without_addresses_is_no_error() {
    let env = env_of(field("status.hostIP"), json!([]), |fixture| {
        fixture.node.host_ips.clear()
    });
    assert_eq!(value_of(&env, "V").unwrap(), "");
}

/// C-13, C-17.
#[test]
fn other_fields_are_refused_by_name() {
    for path in [
        "status.phase",
        "metadata.labels",
        "metadata.annotations",
        "spec.containers['x']",
        "metadata.labels['x",
    ] {
        let spec = json!({"containers": [{"name": "main", "command": ["/x"], "env": field(path)}]});
        let error = Fixture::new(spec, json!({})).launch().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("environment variable V: fieldPath {path:?} is not supported")
        );
        assert!(matches!(error, ConfigError::Env { .. }));
    }
}

/// C-18, C-19, C-20.
#[test]
fn resources_are_divided_and_rounded_up() {
    for (name, divisor, container, value) in [
        ("limits.cpu", "0", "", "2"),
        ("limits.cpu", "1m", "", "1500"),
        ("requests.cpu", "1", "main", "1"),
        ("limits.memory", "1Mi", "", "100"),
        ("limits.memory", "1M", "", "105"),
        ("requests.memory", "1", "", "104857600"),
        ("limits.cpu", "1m", "other", "2000"),
        ("requests.ephemeral-storage", "1", "", "0"),
        ("limits.hugepages-2Mi", "1Mi", "other", "4"),
        // Unset: the node's own.
        ("limits.memory", "1Gi", "other", "1"),
    ] {
        let env = env_of(resource(name, divisor, container), json!([]), |_| {});
        assert_eq!(
            value_of(&env, "V").unwrap(),
            value,
            "{name} / {divisor} of {container:?}"
        );
    }
}

#[test]
fn an_unknown_amount_leaves_the_variable_out() {
    let env = env_of(
        resource("limits.ephemeral-storage", "1", ""),
        json!([]),
        |_| {},
    );
    assert_eq!(value_of(&env, "V"), None);
    let env = env_of(
        resource("limits.memory", "1", "other"),
        json!([]),
        |fixture| {
            fixture.node.memory_bytes = 0;
        },
    );
    assert_eq!(value_of(&env, "V"), None);
}

/// C-20.
#[test]
fn resources_of_a_container_that_is_not_there_are_an_error() {
    let spec = json!({"containers": [{
        "name": "main", "command": ["/x"], "env": resource("limits.cpu", "1", "ghost")}]});
    let error = Fixture::new(spec, json!({})).launch().unwrap_err();
    assert_eq!(
        error.to_string(),
        "environment variable V: there is no container \"ghost\""
    );
}

/// C-19: what pods can have of the node, or the pod's own limit; a request that is not set is 0.
#[test]
fn an_unset_limit_is_what_can_be_allocated() {
    let node = |fixture: &mut Fixture| {
        fixture.node.reserved_cpu_milli = 500;
        fixture.node.reserved_memory = 1 << 29;
        fixture.node.storage_bytes = 10 << 30;
    };
    let pod = |fixture: &mut Fixture| {
        let spec = fixture.pod.pod.spec.as_mut().unwrap();
        let limits = json!({"limits": {"cpu": "700m", "memory": "64Mi"}});
        spec.resources = serde_json::from_value(limits).unwrap();
    };
    for (name, divisor, on_node, in_pod) in [
        ("limits.cpu", "1m", "3500", "700"),
        ("limits.cpu", "1", "4", "1"),
        ("limits.memory", "1Mi", "512", "64"),
        ("limits.ephemeral-storage", "1Gi", "10", "10"),
        ("limits.hugepages-2Mi", "1Mi", "0", "0"),
        ("requests.memory", "1", "0", "0"),
    ] {
        let only = |fixture: &mut Fixture| {
            node(fixture);
            fixture.pod.pod.spec.as_mut().unwrap().containers[0].resources = None;
        };
        let env = env_of(resource(name, divisor, ""), json!([]), only);
        assert_eq!(value_of(&env, "V").unwrap(), on_node, "{name} / {divisor}");
        let env = env_of(resource(name, divisor, ""), json!([]), |fixture| {
            only(fixture);
            pod(fixture);
        });
        assert_eq!(value_of(&env, "V").unwrap(), in_pod, "{name} / {divisor}");
    }
}
