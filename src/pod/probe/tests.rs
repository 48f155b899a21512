use k8s_openapi::api::core::v1::Container;
use serde_json::{Value, json};

use super::{Check, HttpGet, ProbeKind, ProbeSpec, spec};

fn container(fields: &Value) -> Container {
    let mut container = json!({
        "name": "c",
        "ports": [{"name": "http", "containerPort": 80}, {"name": "big", "containerPort": 70000}],
        "env": [
            {"name": "A", "value": "first"},
            {"name": "A", "value": "1"},
            {"name": "B", "value": "$(A)"},
            {"name": "EMPTY"},
            {"name": "FIELD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
    });
    let target = container.as_object_mut().expect("a mapping");
    target.extend(fields.as_object().expect("fields").clone());
    serde_json::from_value(container).expect("a container")
}

fn check(probe: Value) -> Check {
    let container = container(&json!({"livenessProbe": probe}));
    let spec = spec(&container, ProbeKind::Liveness);
    spec.expect("the probe").check
}

fn broken(why: &str) -> Check {
    Check::Broken {
        why: why.to_owned(),
    }
}

/// R-1…R-6: what is missing, and what is 0 or below, becomes the default.
#[test]
fn numbers_have_their_defaults() {
    let exec = json!({"exec": {"command": ["a"]}});
    let default = ProbeSpec {
        check: check(exec.clone()),
        initial_delay_s: 0,
        timeout_s: 1,
        period_s: 10,
        success_threshold: 1,
        failure_threshold: 3,
        grace_s: None,
    };
    let all = |value: i64| {
        let mut probe = exec.clone();
        for field in [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
            "terminationGracePeriodSeconds",
        ] {
            probe[field] = json!(value);
        }
        spec(
            &container(&json!({"startupProbe": probe})),
            ProbeKind::Startup,
        )
        .expect("the probe")
    };
    let bare = container(&json!({"startupProbe": exec}));
    assert_eq!(spec(&bare, ProbeKind::Startup), Some(default.clone()));
    assert_eq!(spec(&bare, ProbeKind::Liveness), None);
    assert_eq!(spec(&bare, ProbeKind::Readiness), None);
    assert_eq!(all(-1), default);
    let seven = ProbeSpec {
        check: default.check,
        initial_delay_s: 7,
        timeout_s: 7,
        period_s: 7,
        success_threshold: 7,
        failure_threshold: 7,
        grace_s: Some(7),
    };
    assert_eq!(all(7), seven);
}

/// each word by itself, by what the manifest says literally, once.
#[test]
fn commands_are_expanded_by_literal_values() {
    let words = [
        "$(A)", "x y", "$(B)", "$(EMPTY)", "$(FIELD)", "$(C)", "$$(A)", "$A",
    ];
    let args = ["1", "x y", "$(A)", "", "", "$(C)", "$(A)", "$A"];
    let expected = Check::Exec {
        args: args.map(str::to_owned).to_vec(),
    };
    assert_eq!(check(json!({"exec": {"command": words}})), expected);
    assert_eq!(check(json!({"exec": {}})), Check::Exec { args: vec![] });
}

///
#[test]
fn requests_are_complete() {
    let plain = HttpGet {
        tls: false,
        host: None,
        port: 80,
        path: "/".to_owned(),
        headers: vec![],
    };
    let get = |get: Value| check(json!({"httpGet": get}));
    assert_eq!(get(json!({"port": "http"})), Check::HttpGet(plain.clone()));
    assert_eq!(get(json!({"port": 80, "host": ""})), Check::HttpGet(plain));
    let headers = json!([
        {"name": "X-A", "value": "1"},
        {"name": "X-A", "value": "2"},
        {"name": "Accept", "value": ""},
    ]);
    let full = json!({
        "port": "8443", "host": "example.com", "scheme": "HTTPS", "path": "a?b=c", "httpHeaders": headers,
    });
    let headers = [("X-A", "1"), ("X-A", "2"), ("Accept", "")];
    let expected = HttpGet {
        tls: true,
        host: Some("example.com".to_owned()),
        port: 8443,
        path: "/a?b=c".to_owned(),
        headers: headers.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec(),
    };
    assert_eq!(get(full), Check::HttpGet(expected));
}

#[test]
fn sockets_have_a_number() {
    let tcp = |host: Option<&str>, port| Check::TcpSocket {
        host: host.map(str::to_owned),
        port,
    };
    let grpc = |port, service: &str| Check::Grpc {
        port,
        service: service.to_owned(),
    };
    for (probe, expected) in [
        (json!({"tcpSocket": {"port": 1}}), tcp(None, 1)),
        (
            json!({"tcpSocket": {"port": "http", "host": "h"}}),
            tcp(Some("h"), 80),
        ),
        (
            json!({"tcpSocket": {"port": "65535", "host": ""}}),
            tcp(None, 65535),
        ),
        (json!({"grpc": {"port": 9}}), grpc(9, "")),
        (json!({"grpc": {"port": 9, "service": "s"}}), grpc(9, "s")),
    ] {
        assert_eq!(check(probe.clone()), expected, "{probe}");
    }
}

///
#[test]
fn what_cannot_run_says_why() {
    let no_port = |name: &str| format!("the container has no port named {name:?}");
    let out = |port: i32| format!("port {port} is not between 1 and 65535");
    for (probe, why) in [
        (json!({}), "it has no handler".to_owned()),
        (
            json!({"exec": {}, "grpc": {"port": 1}}),
            "it has more than one handler".to_owned(),
        ),
        (json!({"tcpSocket": {"port": "htpp"}}), no_port("htpp")),
        (json!({"httpGet": {"port": ""}}), no_port("")),
        (json!({"httpGet": {"port": "big"}}), out(70000)),
        (json!({"httpGet": {"port": 0}}), out(0)),
        (json!({"tcpSocket": {"port": "65536"}}), out(65536)),
        (json!({"grpc": {"port": -1}}), out(-1)),
        (
            json!({"httpGet": {"port": 1, "httpHeaders": [{"name": "X", "value": "a\r\nb"}]}}),
            "header \"X\" has control characters in its value".to_owned(),
        ),
    ] {
        assert_eq!(check(probe.clone()), broken(&why), "{probe}");
    }
}
