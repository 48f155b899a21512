use super::*;
use crate::pod::manifest;

/// D-16
#[test]
fn names_are_checked() {
    let all = parse("vendor.com/gpu=0, a/b=all,v_1-x.y/c-d_e=a.b:c-d_e").unwrap();
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(
        all,
        ["vendor.com/gpu=0", "a/b=all", "v_1-x.y/c-d_e=a.b:c-d_e"]
    );
    for bad in [
        "",
        ",",
        "a/b",
        "a/b=",
        "a=b",
        "/b=c",
        "a/=c",
        "1a/b=c",
        "a/1b=c",
        "a/b.c=d",
        "a/b=-",
        "a/b=c/d",
        "a/b=c,,a/b=d",
        "a b/c=d",
        "-a/b=c",
    ] {
        assert!(parse(bad).is_err(), "{bad:?}");
    }
}

/// D-16
#[test]
fn a_container_has_the_pods_devices_and_its_own() {
    let text = "apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations:
    cdi.k8s.io/z: a/b=1
    cdi.k8s.io/container.c: a/b=2,a/b=1
    cdi.k8s.io/container.d: a/b=3
    example.com/cdi: a/b=4
spec:
  hostNetwork: true
  initContainers:
  - {name: i, image: app}
  containers:
  - {name: c, image: app}
  - {name: d, image: app}
";
    let parsed = manifest::parse("f", text.as_bytes(), "node");
    assert_eq!(parsed.diagnostics, []);
    let pod = &parsed.pods[0].pod;
    let names = |container| -> Vec<String> {
        devices(pod, container)
            .into_iter()
            .map(|name| name.device)
            .collect()
    };
    assert_eq!(names("c"), ["2", "1"]);
    assert_eq!(names("d"), ["3", "1"]);
    assert_eq!(names("i"), ["1"]);
}
