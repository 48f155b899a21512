use k8s_openapi::api::core::v1::Container;
use serde_json::{Value, json};

use super::{Hook, post_start, pre_stop};
use crate::pod::probe::HttpGet;

fn container(lifecycle: &Value) -> Container {
    serde_json::from_value(json!({
        "name": "c",
        "env": [{"name": "A", "value": "1"}],
        "ports": [{"name": "http", "containerPort": 80}],
        "lifecycle": lifecycle,
    }))
    .expect("a container")
}

#[test]
fn each_hook_is_its_own() {
    let sleep = |seconds: i64| json!({"sleep": {"seconds": seconds}});
    let both = container(&json!({"postStart": sleep(1), "preStop": sleep(2)}));
    assert_eq!(post_start(&both), Some(Hook::Sleep { ms: 1000 }));
    assert_eq!(pre_stop(&both), Some(Hook::Sleep { ms: 2000 }));
    for lifecycle in [json!({}), json!(null), json!({"stopSignal": "SIGINT"})] {
        let none = container(&lifecycle);
        assert_eq!((post_start(&none), pre_stop(&none)), (None, None));
    }
}

#[test]
fn actions_are_complete_or_say_why_not() {
    let broken = |why: &str| Hook::Broken {
        why: why.to_owned(),
    };
    for (handler, expected) in [
        // P-91: as it is written; only the container's own shell would expand it.
        (
            json!({"exec": {"command": ["a", "$(A)"]}}),
            Hook::Exec {
                args: vec!["a".to_owned(), "$(A)".to_owned()],
            },
        ),
        (
            json!({"httpGet": {"port": "http", "path": "/x", "scheme": "HTTP"}}),
            Hook::HttpGet(HttpGet {
                tls: false,
                host: None,
                port: 80,
                path: "/x".to_owned(),
                headers: vec![],
            }),
        ),
        (json!({"sleep": {"seconds": 0}}), Hook::Sleep { ms: 0 }),
        (json!({"sleep": {"seconds": -1}}), Hook::Sleep { ms: 0 }),
        (
            json!({"sleep": {"seconds": i64::MAX}}),
            Hook::Sleep { ms: u64::MAX },
        ),
        (
            json!({"tcpSocket": {"port": 1}}),
            broken("tcpSocket is not supported as a lifecycle hook"),
        ),
        (
            json!({"httpGet": {"port": "other"}}),
            broken("the container has no port named \"other\""),
        ),
        (json!({}), broken("it has no handler")),
        (
            json!({"exec": {}, "sleep": {"seconds": 1}}),
            broken("it has more than one handler"),
        ),
    ] {
        let found = pre_stop(&container(&json!({"preStop": handler})));
        assert_eq!(found, Some(expected), "{handler}");
    }
}
