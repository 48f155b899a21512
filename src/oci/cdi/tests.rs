use oci_spec::runtime::{LinuxBuilder, ProcessBuilder, SpecBuilder, UserBuilder};

use super::*;

const WHOLE: &str = r#"
cdiVersion: "0.6.0"
kind: vendor.com/gpu
annotations: {a: b}
containerEdits:
  env: ["ALL=1"]
devices:
- name: "0"
  annotations: {a: b}
  containerEdits:
    env: ["GPU=0", "EMPTY="]
    deviceNodes:
    - {path: /dev/gpu0, hostPath: /dev/vendor0, type: c, major: 10, minor: 5, fileMode: 0660, permissions: rw, uid: 7, gid: 8}
    - path: /dev/other
    mounts:
    - {hostPath: /usr/lib/gpu.so, containerPath: /usr/lib/gpu.so, options: [ro, nosuid, bind]}
    - {hostPath: none, containerPath: /scratch, type: tmpfs}
    hooks:
    - {hookName: createContainer, path: /usr/bin/ctk, args: [ctk, hook], env: [A=b], timeout: 5}
    additionalGids: [44]
"#;

/// D-16
#[test]
fn a_file_is_read_whole() {
    let file = parse(WHOLE).unwrap();
    assert_eq!(file.kind, "vendor.com/gpu");
    assert_eq!(file.edits.env, ["ALL=1"]);
    let (name, edits) = &file.devices[0];
    assert_eq!(name, "0");
    let node = DeviceNode {
        path: "/dev/gpu0".into(),
        host_path: Some("/dev/vendor0".into()),
        kind: Some(LinuxDeviceType::C),
        numbers: Some((10, 5)),
        file_mode: Some(0o660),
        access: Some("rw".to_owned()),
        uid: Some(7),
        gid: Some(8),
    };
    let other = DeviceNode {
        path: "/dev/other".into(),
        ..DeviceNode::default()
    };
    assert_eq!(edits.nodes, [node, other]);
    assert_eq!(edits.gids, [44]);
    let (point, hook) = &edits.hooks[0];
    assert_eq!(*point, HookPoint::CreateContainer);
    assert_eq!(hook.timeout(), Some(5));
}

/// D-16
#[test]
fn json_and_every_version_are_read() {
    for version in [
        "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "v1.1.0",
    ] {
        let text = format!(
            r#"{{"cdiVersion": "{version}", "kind": "a/b", "devices": [{{"name": "x", "containerEdits": {{"deviceNodes": [{{"path": "/dev/x", "fileMode": 432}}]}}}}]}}"#
        );
        let file = parse(&text).unwrap();
        assert_eq!(file.devices[0].1.nodes[0].file_mode, Some(0o660));
    }
}

/// D-16
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn mistakes_have_line_and_field() {
    let with = |edits: &str| {
        format!("cdiVersion: 0.6.0\nkind: a/b\ndevices:\n- name: x\n  containerEdits: {edits}\n")
    };
    for (text, problem) in [
        (String::new(), "1: must be one document"),
        ("a: [".to_owned(), ""),
        ("[]".to_owned(), ""),
        (
            "cdiVersion: 9.0.0\nkind: a/b".to_owned(),
            "1: cdiVersion: \"9.0.0\" is not one of 0.3.0, 0.4.0, 0.5.0, 0.6.0, 0.7.0, 0.8.0, 1.0.0, 1.1.0",
        ),
        ("cdiVersion: 0.6.0".to_owned(), "1: kind is missing"),
        (
            "cdiVersion: 0.6.0\nkind: a".to_owned(),
            "2: kind: must be like vendor.com/class",
        ),
        (
            with("{env: [A]}"),
            "5: devices[0].containerEdits: env \"A\" must be like NAME=value",
        ),
        (
            with("{env: A=b}"),
            "5: devices[0].containerEdits.env: must be a list",
        ),
        (
            with("{intelRdt: {}}"),
            "5: devices[0].containerEdits.intelRdt: not supported by this version",
        ),
        (
            with("{netDevices: []}"),
            "5: devices[0].containerEdits.netDevices: not supported by this version",
        ),
        (
            with("{deviceNodes: [{path: dev/x}]}"),
            "5: devices[0].containerEdits.deviceNodes[0].path: must be an absolute path without ..",
        ),
        (
            with("{deviceNodes: [{path: /dev/x, type: d}]}"),
            "5: devices[0].containerEdits.deviceNodes[0].type: must be b, c, u or p",
        ),
        (
            with("{deviceNodes: [{path: /dev/x, permissions: x}]}"),
            "5: devices[0].containerEdits.deviceNodes[0].permissions: must be some of rwm",
        ),
        (
            with("{deviceNodes: [{path: /dev/x, uid: -1}]}"),
            "5: devices[0].containerEdits.deviceNodes[0].uid: must be a whole number",
        ),
        (
            with("{mounts: [{hostPath: /x, containerPath: /a/../b}]}"),
            "5: devices[0].containerEdits.mounts[0].containerPath: must be an absolute path without ..",
        ),
        (
            with("{mounts: [{hostPath: x, containerPath: /b}]}"),
            "5: devices[0].containerEdits.mounts[0].hostPath: must be an absolute path without ..",
        ),
        (
            with("{hooks: [{hookName: startContainer, path: /x}]}"),
            "5: devices[0].containerEdits.hooks[0].hookName: startContainer hooks are not run by this version",
        ),
        (
            with("{hooks: [{hookName: poststop, path: /x}]}"),
            "5: devices[0].containerEdits.hooks[0].hookName: poststop hooks are not run by this version",
        ),
        (
            with("{hooks: [{hookName: never, path: /x}]}"),
            "5: devices[0].containerEdits.hooks[0].hookName: \"never\" is not a hook",
        ),
        (with("{}\n- name: x"), "6: devices[1].name: is there twice"),
        (
            with("{}\n- name: x/y"),
            "6: devices[1].name: must be letters and digits, with '_', '-', '.' and ':' between",
        ),
    ] {
        let found = parse(&text).unwrap_err().to_string();
        assert!(
            found == problem || problem.is_empty(),
            "{text}\n{found}\n{problem}"
        );
    }
}

fn container() -> Spec {
    let user = UserBuilder::default()
        .uid(1000_u32)
        .gid(2000_u32)
        .additional_gids(vec![5])
        .build()
        .unwrap();
    let process = ProcessBuilder::default()
        .user(user)
        .env(vec!["PATH=/bin".to_owned(), "GPU=none".to_owned()])
        .build()
        .unwrap();
    let mounts = ["/proc", "/usr", "/usr/lib/gpu.so", "/usr/lib/gpu.so.1/x"].map(|path| {
        MountBuilder::default()
            .destination(path)
            .typ("bind")
            .source("/old")
            .build()
            .unwrap()
    });
    SpecBuilder::default()
        .process(process)
        .mounts(mounts)
        .linux(LinuxBuilder::default().build().unwrap())
        .build()
        .unwrap()
}

/// D-16
#[test]
#[expect(
    clippy::too_many_lines,
    reason = "a specification, looked at from all sides"
)]
fn edits_change_the_container() {
    let file = parse(WHOLE).unwrap();
    let mut edits = file.devices[0].1.clone();
    edits.nodes[1].kind = Some(LinuxDeviceType::B);
    edits.nodes[1].numbers = Some((8, 0));
    let mut spec = container();
    apply(&mut spec, &file.edits);
    apply(&mut spec, &edits);

    let process = spec.process().as_ref().unwrap();
    assert_eq!(
        process.env().as_ref().unwrap(),
        &["PATH=/bin", "GPU=0", "ALL=1", "EMPTY="]
    );
    assert_eq!(process.user().additional_gids().as_ref().unwrap(), &[5, 44]);

    let linux = spec.linux().as_ref().unwrap();
    let devices = linux.devices().as_ref().unwrap().iter().rev().take(2);
    let devices: Vec<_> = devices
        .map(|d| {
            (
                d.path().to_str().unwrap(),
                d.typ(),
                d.major(),
                d.minor(),
                d.file_mode(),
                d.uid(),
                d.gid(),
            )
        })
        .collect();
    assert_eq!(
        devices,
        [
            (
                "/dev/other",
                LinuxDeviceType::B,
                8,
                0,
                None,
                Some(1000),
                Some(2000)
            ),
            (
                "/dev/gpu0",
                LinuxDeviceType::C,
                10,
                5,
                Some(0o660),
                Some(7),
                Some(8)
            ),
        ]
    );
    let rules = linux
        .resources()
        .as_ref()
        .unwrap()
        .devices()
        .as_ref()
        .unwrap();
    let rules: Vec<_> = rules
        .iter()
        .rev()
        .take(2)
        .map(|r| {
            (
                r.allow(),
                r.typ(),
                r.major(),
                r.minor(),
                r.access().as_deref(),
            )
        })
        .collect();
    assert_eq!(
        rules,
        [
            (
                true,
                Some(LinuxDeviceType::B),
                Some(8),
                Some(0),
                Some("rwm")
            ),
            (
                true,
                Some(LinuxDeviceType::C),
                Some(10),
                Some(5),
                Some("rw")
            ),
        ]
    );

    let mounts = spec.mounts().as_ref().unwrap().iter();
    let mounts: Vec<String> = mounts
        .map(|m| {
            let source = m.source().as_ref().unwrap().display();
            let options = m.options().clone().unwrap_or_default().join(",");
            format!(
                "{} {source} {} {options}",
                m.destination().display(),
                m.typ().as_deref().unwrap()
            )
        })
        .collect();
    assert_eq!(
        mounts,
        [
            "/proc /old bind ",
            "/usr /old bind ",
            "/scratch none tmpfs ",
            "/usr/lib/gpu.so /usr/lib/gpu.so bind ro,nosuid,bind",
            "/usr/lib/gpu.so.1/x /old bind ",
        ]
    );
    let hooks = spec.hooks().as_ref().unwrap();
    assert_eq!(hooks.create_container().as_ref().unwrap().len(), 1);
    assert!(hooks.create_runtime().is_none());
}

/// D-16
#[test]
fn no_edits_change_nothing() {
    let (mut spec, before) = (container(), container());
    apply(&mut spec, &Edits::default());
    assert_eq!(spec, before);
}
