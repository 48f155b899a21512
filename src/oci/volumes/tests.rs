use std::path::PathBuf;

use serde_json::{Value, json};

use crate::oci::tests::Fixture;
use crate::oci::{ConfigError, Launch};
use crate::volume::spec::{FsGroup, HostPathKind, Propagation, Source, VolumeMount};

mod files;

/// A pod with these volumes and mounts.
fn fixture(volumes: &Value, mounts: &Value) -> Fixture {
    let container = json!({
        "name": "main",
        "command": ["/x"],
        "env": [{"name": "WHO", "value": "me"}, {"name": "NOBODY", "value": ""}, {"name": "UP", "value": "../up"}],
        "volumeMounts": mounts,
    });
    let spec = json!({"containers": [container], "volumes": volumes});
    let mut fixture = Fixture::new(spec, json!({}));
    fixture.places.mounts = "/run/m".into();
    let dir = ("scratch".to_owned(), PathBuf::from("/var/scratch"));
    fixture.places.empty_dirs.extend([dir]);
    let layers = vec!["/l2".into(), "/l1".into()];
    fixture.places.images.insert("model".to_owned(), layers);
    fixture
}

fn launch(volumes: Value, mounts: Value) -> Result<Launch, ConfigError> {
    fixture(&volumes, &mounts).launch()
}

/// `source → options` of a mount of the specification.
fn at(launch: &Launch, target: &str) -> Option<(String, Vec<String>)> {
    let mounts = launch.spec.mounts().as_ref().unwrap();
    let mut found = mounts
        .iter()
        .filter(|mount| mount.destination().to_str() == Some(target));
    let mount = found.next()?;
    assert!(found.next().is_none(), "{target} is mounted twice");
    let source = mount.source().as_ref().unwrap().display().to_string();
    Some((source, mount.options().clone().unwrap()))
}

/// V-10, V-20…V-24, V-57: each kind of volume as the holder gets it.
#[test]
fn each_volume_is_ordered_as_what_it_is() {
    let kinds = [
        ("", HostPathKind::Unset),
        ("DirectoryOrCreate", HostPathKind::DirectoryOrCreate),
        ("Directory", HostPathKind::Directory),
        ("FileOrCreate", HostPathKind::FileOrCreate),
        ("File", HostPathKind::File),
        ("Socket", HostPathKind::Socket),
        ("CharDevice", HostPathKind::CharDevice),
        ("BlockDevice", HostPathKind::BlockDevice),
    ];
    let mut cases: Vec<(Value, Source)> = kinds
        .into_iter()
        .map(|(text, kind)| {
            let path = "/srv".into();
            let written = json!({"name": "v", "hostPath": {"path": "/srv", "type": text}});
            (written, Source::HostPath { path, kind })
        })
        .collect();
    cases.push((
        json!({"name": "scratch", "emptyDir": {}}),
        Source::EmptyDir {
            dir: "/var/scratch".into(),
        },
    ));
    cases.push((
        json!({"name": "model", "image": {"reference": "m"}}),
        Source::Image {
            layers: vec!["/l2".into(), "/l1".into()],
        },
    ));
    cases.push((json!({"name": "d", "downwardAPI": {}}), Source::Files));
    cases.push((json!({"name": "p", "projected": {}}), Source::Files));
    for (volume, source) in cases {
        let mounts = json!([{"name": volume["name"], "mountPath": "/v"}]);
        let launch = launch(json!([volume]), mounts).unwrap();
        let ordered = &launch.volumes.volumes;
        assert_eq!(ordered.len(), 1);
        assert_eq!(volume["name"], ordered[0].name.as_str());
        assert_eq!(ordered[0].source, source, "{volume}");
    }
}

/// V-13: the size is the least of sizeLimit, the pod's memory limit (if every container has one) and the node's memory.
#[test]
fn a_memory_volume_is_no_larger_than_what_the_pod_may_have() {
    const MI: u64 = 1 << 20;
    let limit = |text: &str| json!({"limits": {"memory": text}});
    let none = json!({});
    for (size_limit, node, main, other, whole, expected) in [
        ("0", 0, &none, &none, &none, None),
        ("0", 512, &none, &none, &none, Some(512)),
        ("16Mi", 512, &none, &none, &none, Some(16)),
        ("16Mi", 512, &limit("4Mi"), &none, &none, Some(16)),
        ("16Mi", 512, &limit("4Mi"), &limit("5Mi"), &none, Some(9)),
        ("0", 512, &limit("4Mi"), &limit("5Mi"), &none, Some(9)),
        ("0", 8, &limit("4Mi"), &limit("5Mi"), &none, Some(8)),
        ("0", 512, &none, &none, &limit("7Mi"), Some(7)),
        (
            "1Mi",
            512,
            &limit("4Mi"),
            &limit("5Mi"),
            &limit("7Mi"),
            Some(1),
        ),
    ] {
        let container = json!({"name": "main", "command": ["/x"], "resources": main,
            "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
        let mut fixture = Fixture::new(
            json!({
                "containers": [container, {"name": "other", "resources": other}],
                "volumes": [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": size_limit}}],
                "resources": whole,
            }),
            json!({}),
        );
        fixture.node.memory_bytes = node * MI;
        let launch = fixture.launch().unwrap();
        let size_bytes = expected.map(|size: u64| size * MI);
        assert_eq!(
            launch.volumes.volumes[0].source,
            Source::Memory { size_bytes },
            "{size_limit} {node} {main} {other} {whole}"
        );
    }
}

/// V-13, N-20: what is kept from pods is kept from their volumes.
#[test]
fn the_memory_of_a_volume_is_that_of_all_pods_at_the_most() {
    let mut fixture = fixture(
        &json!([{"name": "v", "emptyDir": {"medium": "Memory"}}]),
        &json!([{"name": "v", "mountPath": "/v"}]),
    );
    fixture.node.memory_bytes = 64 << 20;
    fixture.node.reserved_memory = 24 << 20;
    let size_bytes = Some(40 << 20);
    assert_eq!(
        fixture.launch().unwrap().volumes.volumes[0].source,
        Source::Memory { size_bytes }
    );
}

/// V-13: init containers that end count by themselves, sidecars beside all that come after.
#[test]
fn the_memory_of_a_pod_counts_its_init_containers_as_they_run() {
    let with = |name: &str, memory: &str| json!({"name": name, "resources": {"limits": {"memory": memory}}});
    let mut main = with("main", "3Mi");
    main["command"] = json!(["/x"]);
    main["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let mut sidecar = with("side", "2Mi");
    sidecar["restartPolicy"] = json!("Always");
    for (init, expected) in [("1Mi", 5_u64), ("9Mi", 11)] {
        let fixture = Fixture::new(
            json!({
                "initContainers": [sidecar, with("init", init)],
                "containers": [main],
                "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
            }),
            json!({}),
        );
        let size_bytes = Some(expected << 20);
        let launch = fixture.launch().unwrap();
        assert_eq!(
            launch.volumes.volumes[0].source,
            Source::Memory { size_bytes }
        );
    }
}

/// C-68: parents first, and the holder's binds by their position in the manifest.
#[test]
fn mounts_are_sorted_by_the_number_of_their_path_elements() {
    let volumes = json!([{"name": "a", "hostPath": {"path": "/a"}}]);
    let mounts = json!([
        {"name": "a", "mountPath": "/etc/app/deep"},
        {"name": "a", "mountPath": "/etc"},
        {"name": "a", "mountPath": "/etc/app"},
    ]);
    let mut fixture = fixture(&volumes, &mounts);
    fixture.files.hosts = Some("/pod/hosts".into());
    let launch = fixture.launch().unwrap();
    let sources: Vec<String> = launch
        .spec
        .mounts()
        .as_ref()
        .unwrap()
        .iter()
        .skip_while(|mount| mount.destination().to_str() != Some("/etc"))
        .map(|mount| mount.source().as_ref().unwrap().display().to_string())
        .collect();
    assert_eq!(
        sources,
        [
            "/run/m/1",
            "/run/vetch/holders/u1/shm",
            "/pod/hosts",
            "/run/m/2",
            "/run/m/0"
        ]
    );
    assert_eq!(launch.volumes.volumes.len(), 1, "each volume once");
    assert_eq!(launch.volumes.mounts.len(), 3);
}

/// C-68: what the pod mounts wins over what every container has.
#[test]
fn a_mount_of_the_pod_takes_the_place_of_a_fixed_one() {
    let volumes = json!([{"name": "a", "hostPath": {"path": "/a"}}]);
    let targets = [
        "/etc/hosts",
        "/etc/hostname",
        "/etc/resolv.conf",
        "/dev/termination-log",
        "/dev/shm",
        "/dev/mqueue",
        "/sys",
    ];
    for target in targets {
        let mounts = json!([{"name": "a", "mountPath": format!("{target}/")}]);
        let mut fixture = fixture(&volumes, &mounts);
        let file = || Some(PathBuf::from("/pod/file"));
        fixture.files.hosts = file();
        fixture.files.hostname = file();
        fixture.files.resolv_conf = file();
        fixture.files.termination_message = file();
        let launch = fixture.launch().unwrap();
        assert_eq!(at(&launch, target).unwrap().0, "/run/m/0", "{target}");
        let others = targets.into_iter().filter(|other| *other != target);
        for other in others {
            assert_ne!(at(&launch, other).unwrap().0, "/run/m/0", "{other}");
        }
        // Below a covered /sys nothing could be mounted any more.
        assert_eq!(at(&launch, "/sys/fs/cgroup").is_none(), target == "/sys");
    }
}

/// V-56.
#[test]
fn a_relative_mount_path_begins_at_the_root() {
    let volumes = json!([{"name": "a", "hostPath": {"path": "/a"}}]);
    for path in [
        "data",
        "/data",
        "//data/",
        "./data/.",
        "x/../data",
        "../../data",
    ] {
        let mounts = json!([{"name": "a", "mountPath": path}]);
        let launch = launch(volumes.clone(), mounts).unwrap();
        assert!(at(&launch, "/data").is_some(), "{path}");
    }
}

/// V-30, V-50, V-51, V-57.
#[test]
fn a_mount_is_as_writable_as_it_may_be() {
    let host = json!({"name": "a", "hostPath": {"path": "/a"}});
    let files = json!({"name": "a", "downwardAPI": {}});
    let image = json!({"name": "model", "image": {"reference": "m"}});
    for (volume, mount, options) in [
        (&host, json!({}), vec!["rbind", "rw"]),
        (&host, json!({"readOnly": true}), vec!["rbind", "ro"]),
        (
            &host,
            json!({"readOnly": true, "recursiveReadOnly": "Disabled"}),
            vec!["rbind", "ro"],
        ),
        (
            &host,
            json!({"readOnly": true, "recursiveReadOnly": "IfPossible"}),
            vec!["rbind", "rro"],
        ),
        (
            &host,
            json!({"readOnly": true, "recursiveReadOnly": "Enabled"}),
            vec!["rbind", "rro"],
        ),
        (&files, json!({}), vec!["rbind", "ro"]),
        (&files, json!({"readOnly": false}), vec!["rbind", "ro"]),
        (&image, json!({}), vec!["rbind", "ro", "noexec"]),
    ] {
        let mut mount = mount;
        mount["name"] = volume["name"].clone();
        mount["mountPath"] = "/v".into();
        let launch = launch(json!([volume]), json!([mount])).unwrap();
        assert_eq!(at(&launch, "/v").unwrap().1, options, "{volume} {mount}");
    }
}

/// V-52: libcontainer ignores propagation options, so there are none in the specification but that of the root.
#[test]
fn propagation_is_the_holders_work() {
    let volumes = json!([{"name": "a", "hostPath": {"path": "/a"}}]);
    for (written, ordered, root) in [
        (json!(null), Propagation::Private, None),
        (json!("None"), Propagation::Private, None),
        (json!("HostToContainer"), Propagation::FromHost, None),
        (json!("Bidirectional"), Propagation::Both, Some("shared")),
    ] {
        let mounts = json!([{"name": "a", "mountPath": "/v", "mountPropagation": written}]);
        let launch = launch(volumes.clone(), mounts).unwrap();
        assert_eq!(launch.volumes.mounts[0].propagation, ordered);
        assert_eq!(at(&launch, "/v").unwrap().1, ["rbind", "rw"]);
        let linux = launch.spec.linux().as_ref().unwrap();
        assert_eq!(linux.rootfs_propagation().as_deref(), root);
    }
}

/// V-53, V-55, C-5.
#[test]
fn a_sub_path_is_expanded_with_the_containers_own_variables() {
    let volumes = json!([{"name": "a", "hostPath": {"path": "/a"}}]);
    let problem = |text: &str| Err(format!("volume \"a\": subPathExpr {text}"));
    for (mount, expected) in [
        (json!({}), Ok(None)),
        (json!({"subPath": ""}), Ok(None)),
        (json!({"subPath": "x/$(WHO)"}), Ok(Some("x/$(WHO)"))),
        (json!({"subPathExpr": "x/$(WHO)"}), Ok(Some("x/me"))),
        (json!({"subPathExpr": "$$(WHO)"}), Ok(Some("$(WHO)"))),
        (
            json!({"subPathExpr": "$(PATH)"}),
            problem("\"$(PATH)\": variable \"PATH\" is missing or empty"),
        ),
        (
            json!({"subPathExpr": "$(NOBODY)"}),
            problem("\"$(NOBODY)\": variable \"NOBODY\" is missing or empty"),
        ),
        (
            json!({"subPathExpr": "$(UP)"}),
            problem("\"$(UP)\" is not relative to the volume, or has '..', with its variables"),
        ),
    ] {
        let mut mount = mount;
        mount["name"] = "a".into();
        mount["mountPath"] = "/v".into();
        let found = launch(volumes.clone(), json!([mount])).map(|l| l.volumes.mounts);
        let expected = expected.map(|path| {
            vec![VolumeMount {
                volume: "a".into(),
                sub_path: path.map(PathBuf::from),
                sub_path_expr: mount["subPathExpr"].as_str().map(str::to_owned),
                propagation: Propagation::Private,
            }]
        });
        assert_eq!(
            found.map_err(|error| error.to_string()),
            expected,
            "{mount}"
        );
    }
}

/// C-35.
#[test]
fn the_group_of_volumes_is_ordered() {
    for (context, group) in [
        (json!({}), None),
        (json!({"fsGroup": 7}), Some((7, false))),
        (
            json!({"fsGroup": 7, "fsGroupChangePolicy": "Always"}),
            Some((7, false)),
        ),
        (
            json!({"fsGroup": 7, "fsGroupChangePolicy": "OnRootMismatch"}),
            Some((7, true)),
        ),
    ] {
        let spec =
            json!({"securityContext": context, "containers": [{"name": "c", "command": ["/x"]}]});
        let launch = Fixture::new(spec, json!({})).launch().unwrap();
        let expected = group.map(|(gid, only_on_root_mismatch)| FsGroup {
            gid,
            only_on_root_mismatch,
        });
        assert_eq!(launch.volumes.fs_group, expected, "{context}");
    }
}
