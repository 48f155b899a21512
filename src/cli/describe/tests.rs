use jiff::Timestamp;
use k8s_openapi::api::core::v1::Probe;
use serde_json::json;

use super::{probes, text};
use crate::api::types::Description;

/// kubectl's own test of DescribeProbe, and its borders.
#[test]
fn probes_are_printed_as_kubectl_prints_them() {
    let cases = [
        (
            json!({"httpGet": {"port": 80, "path": "/healthz", "scheme": "HTTP"}}),
            "http-get http://:80/healthz",
        ),
        (
            json!({"httpGet": {"host": "example.com", "port": "web", "path": "/a?b=c", "scheme": "HTTPS"}}),
            "http-get https://example.com:web/a?b=c",
        ),
        (
            json!({"httpGet": {"host": "fd00::1", "port": 8080, "path": "x"}}),
            "http-get http://[fd00::1]:8080/x",
        ),
        (
            json!({"exec": {"command": ["cat", "/tmp/healthy"]}}),
            "exec [cat /tmp/healthy]",
        ),
        (json!({"tcpSocket": {"port": 3306}}), "tcp-socket :3306"),
        (
            json!({"tcpSocket": {"host": "h", "port": "sql"}}),
            "tcp-socket h:sql",
        ),
        (
            json!({"grpc": {"port": 8080, "service": "x"}}),
            "grpc <pod>:8080 x",
        ),
        (json!({"grpc": {"port": 8080}}), "grpc <pod>:8080 "),
        (json!({}), "unknown"),
    ];
    for (handler, expected) in cases {
        let mut probe: Probe = serde_json::from_value(handler.clone()).unwrap();
        let defaults = "delay=0s timeout=1s period=10s #success=1 #failure=3";
        assert_eq!(
            probes::text(&probe),
            format!("{expected} {defaults}"),
            "{handler}"
        );
        probe.initial_delay_seconds = Some(5);
        probe.failure_threshold = Some(1);
        let other = "delay=5s timeout=1s period=10s #success=1 #failure=1";
        assert_eq!(
            probes::text(&probe),
            format!("{expected} {other}"),
            "{handler}"
        );
    }
}

/// The whole page, compared with `golden.txt`.
#[test]
fn a_page_answers_why() {
    let description: Description = serde_json::from_str(include_str!("golden.json")).unwrap();
    let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
    let page = text::render(&description, now);
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/describe/golden.txt");
    if std::env::var_os("VETCH_BLESS").is_some() {
        #[expect(
            clippy::disallowed_methods,
            reason = "a test writes what it compares with"
        )]
        std::fs::write(golden, &page).unwrap();
        return;
    }
    assert_eq!(page, include_str!("golden.txt"));
}
