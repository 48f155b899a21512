use k8s_openapi::api::core::v1::ContainerPort;

use super::{HostPort, host_port, host_ports};
use crate::pod::manifest::parse;

fn claim(ip: &str, protocol: &str, port: i32) -> HostPort {
    host_port(&ContainerPort {
        container_port: 1,
        host_ip: Some(ip.to_owned()),
        host_port: Some(port),
        name: None,
        protocol: Some(protocol.to_owned()),
    })
    .expect("a claim")
}

#[test]
fn claims_clash_as_kubelet_has_it() {
    for (a, b, clashes) in [
        (("", "TCP", 80), ("", "TCP", 80), true),
        (("", "", 80), ("", "TCP", 80), true),
        (("", "TCP", 80), ("", "TCP", 81), false),
        (("", "TCP", 80), ("", "UDP", 80), false),
        (("", "TCP", 80), ("127.0.0.1", "TCP", 80), true),
        (("0.0.0.0", "TCP", 80), ("127.0.0.1", "TCP", 80), true),
        (("", "TCP", 80), ("::1", "TCP", 80), true),
        (("", "TCP", 80), ("::", "TCP", 80), true),
        (("127.0.0.1", "TCP", 80), ("127.0.0.1", "TCP", 80), true),
        (("127.0.0.1", "TCP", 80), ("127.0.0.2", "TCP", 80), false),
        (("127.0.0.1", "TCP", 80), ("::", "TCP", 80), false),
        (("::1", "TCP", 80), ("::", "TCP", 80), true),
        (("::1", "TCP", 80), ("0:0::1", "TCP", 80), true),
        (("here", "TCP", 80), ("there", "TCP", 80), false),
        (("here", "TCP", 80), ("here", "TCP", 80), true),
        (("here", "TCP", 80), ("", "TCP", 80), true),
    ] {
        let found = claim(a.0, a.1, a.2).clashes(&claim(b.0, b.1, b.2));
        assert_eq!(found, clashes, "{a:?} {b:?}");
        let back = claim(b.0, b.1, b.2).clashes(&claim(a.0, a.1, a.2));
        assert_eq!(back, clashes, "{b:?} {a:?}");
    }
}

#[test]
fn claims_are_those_of_containers_that_stay() {
    let text = "apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
  - {name: c, image: b, ports: [{containerPort: 80, hostPort: 8080}, {containerPort: 81}]}
  - {name: d, image: b, ports: [{containerPort: 80, hostPort: 53, hostIP: '::1', protocol: UDP}]}
  initContainers:
  - {name: i, image: b, ports: [{containerPort: 1, hostPort: 1}]}
  - {name: s, image: b, restartPolicy: Always, ports: [{containerPort: 2, hostPort: 2, hostIP: 127.0.0.1}]}
";
    let parsed = parse("f", text.as_bytes(), "node");
    let shown = |text: &str| {
        let ports = host_ports(&parse("f", text.as_bytes(), "node").pods[0].pod);
        ports.iter().map(HostPort::to_string).collect::<Vec<_>>()
    };
    assert_eq!(parsed.pods.len(), 1, "{:?}", parsed.diagnostics);
    assert_eq!(shown(text), ["TCP 8080", "TCP 127.0.0.1:2", "UDP [::1]:53"]);
    // S-91: the host's network, so each port is one of the host.
    let ports = "ports: [{containerPort: 80}, {containerPort: 53, protocol: UDP}]";
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {{hostNetwork: true, containers: [{{name: c, image: b, {ports}}}]}}\n"
    );
    assert_eq!(shown(&text), ["TCP 80", "UDP 53"]);
}
