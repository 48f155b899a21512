use oci_spec::runtime::Mount;
use serde_json::{Value, json};

use crate::oci::tests::Fixture;
use crate::oci::{ManagedFiles, NodeFacts};

fn mounts(context: Value, change: impl FnOnce(&mut Fixture)) -> Vec<Mount> {
    let container = json!({"name": "main", "command": ["/x"], "securityContext": context,
        "terminationMessagePath": "/dev/last-words"});
    let mut fixture = Fixture::new(json!({"containers": [container]}), json!({}));
    change(&mut fixture);
    fixture.launch().unwrap().spec.mounts().clone().unwrap()
}

/// `source → options`.
fn at<'a>(mounts: &'a [Mount], target: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let mut found = mounts
        .iter()
        .filter(|mount| mount.destination().to_str() == Some(target));
    let mount = found.next()?;
    assert!(found.next().is_none(), "{target} is mounted twice");
    let options = mount.options().as_ref().unwrap();
    let source = mount.source().as_ref().unwrap().to_str().unwrap();
    Some((source, options.iter().map(String::as_str).collect()))
}

fn all_files(fixture: &mut Fixture) {
    fixture.files = ManagedFiles {
        hosts: Some("/p/etc-hosts".into()),
        hostname: Some("/p/hostname".into()),
        resolv_conf: Some("/p/resolv.conf".into()),
        termination_message: Some("/p/message".into()),
        shm: "/h/shm".into(),
    };
}

/// P-187, P-190, P-208, C-66, C-67.
#[test]
fn managed_files_are_bound_where_they_belong() {
    let mounts = mounts(json!({}), all_files);
    for (target, source) in [
        ("/etc/hosts", "/p/etc-hosts"),
        ("/etc/hostname", "/p/hostname"),
        ("/etc/resolv.conf", "/p/resolv.conf"),
        ("/dev/last-words", "/p/message"),
    ] {
        assert_eq!(
            at(&mounts, target),
            Some((source, vec!["rbind", "rw"])),
            "{target}"
        );
    }
    let shm = at(&mounts, "/dev/shm").unwrap();
    assert_eq!(
        shm,
        ("/h/shm", vec!["rbind", "nosuid", "nodev", "noexec", "rw"])
    );
}

#[test]
fn files_that_are_not_given_are_not_mounted() {
    let mounts = mounts(json!({}), |_| {});
    assert!(
        mounts
            .iter()
            .all(|mount| !mount.destination().starts_with("/etc"))
    );
    assert_eq!(at(&mounts, "/dev/last-words"), None);
}

/// C-45.
#[test]
fn a_read_only_root_makes_all_but_the_hosts_file_read_only() {
    let mounts = mounts(json!({"readOnlyRootFilesystem": true}), all_files);
    assert_eq!(at(&mounts, "/etc/hosts").unwrap().1, ["rbind", "rw"]);
    assert_eq!(at(&mounts, "/etc/hostname").unwrap().1, ["rbind", "ro"]);
    assert_eq!(at(&mounts, "/etc/resolv.conf").unwrap().1, ["rbind", "ro"]);
    assert_eq!(at(&mounts, "/dev/last-words").unwrap().1, ["rbind", "rw"]);
}

#[test]
fn on_v1_only_limits_are_shown_and_only_the_containers_own() {
    let v1 = |fixture: &mut Fixture| {
        fixture.node = NodeFacts {
            v1_controllers: ["cpu,cpuacct", "memory", "devices", "systemd"]
                .map(str::to_owned)
                .into(),
            ..NodeFacts::default()
        };
    };
    let mounts = mounts(json!({}), v1);
    let below: Vec<&str> = mounts
        .iter()
        .filter_map(|mount| mount.destination().to_str())
        .filter(|target| target.starts_with("/sys/fs/cgroup"))
        .collect();
    assert_eq!(
        below,
        [
            "/sys/fs/cgroup",
            "/sys/fs/cgroup/cpu",
            "/sys/fs/cgroup/cpuacct",
            "/sys/fs/cgroup/memory"
        ]
    );
    let (source, _) = at(&mounts, "/sys/fs/cgroup/cpuacct").unwrap();
    assert_eq!(
        source,
        "/sys/fs/cgroup/cpu,cpuacct/vetch/besteffort/podu1/c1"
    );
    let (source, options) = at(&mounts, "/sys/fs/cgroup/memory").unwrap();
    assert_eq!(source, "/sys/fs/cgroup/memory/vetch/besteffort/podu1/c1");
    assert!(options.contains(&"ro"));
}

#[test]
fn on_v1_without_controllers_there_is_nothing_to_show() {
    let mounts = mounts(json!({}), |fixture| fixture.node = NodeFacts::default());
    assert_eq!(at(&mounts, "/sys/fs/cgroup"), None);
}

/// C-68.
#[test]
fn parents_come_before_what_is_below_them() {
    for unified in [true, false] {
        let mounts = mounts(json!({"privileged": true}), |fixture| {
            all_files(fixture);
            fixture.node.unified_cgroups = unified;
            fixture.node.v1_controllers = vec!["cpu".into(), "pids".into()];
        });
        for (index, mount) in mounts.iter().enumerate() {
            let target = mount.destination();
            assert!(
                mounts[index + 1..]
                    .iter()
                    .all(|later| !target.starts_with(later.destination()))
            );
        }
    }
}

/// C-68: libcontainer makes /dev as always, and what is to be seen of it waits; nothing is made in the volume for us.
#[test]
fn a_volume_on_dev_waits_with_what_is_below() {
    let container = json!({"name": "main", "command": ["/x"], "volumeMounts": [
        {"name": "v", "mountPath": "/dev/", "readOnly": true},
        {"name": "w", "mountPath": "/dev/net"},
        {"name": "w", "mountPath": "/devices"},
    ]});
    let host = |name, path| json!({"name": name, "hostPath": {"path": path}});
    let spec = json!({"containers": [container], "volumes": [host("v", "/dev"), host("w", "/w")]});
    let mut fixture = Fixture::new(spec, json!({}));
    all_files(&mut fixture);
    let spec = fixture.launch().unwrap().spec;
    let mounts = spec.mounts().as_ref().unwrap();
    let targets = mounts.iter().map(|m| m.destination().to_str().unwrap());
    let below_dev: Vec<&str> = targets.filter(|at| at.starts_with("/dev")).collect();
    let expected = [
        "/dev",
        "/devices",
        "/dev/.volume",
        "/dev/.volume/shm",
        "/dev/.volume/net",
    ];
    let sorted = |list: &[&str]| {
        let mut list: Vec<String> = list.iter().map(|&at| at.to_owned()).collect();
        list.sort();
        list
    };
    assert_eq!(sorted(&below_dev), sorted(&expected));
    let position = |at: &str| below_dev.iter().position(|&other| other == at);
    assert!(position("/dev/.volume") < position("/dev/.volume/shm"));
    assert_eq!(at(mounts, "/dev").unwrap().0, "tmpfs");
    assert_eq!(at(mounts, "/dev/.volume").unwrap().1, ["rbind", "ro"]);
}
