use oci_spec::runtime::{Capabilities, Capability};
use serde_json::{Value, json};

use super::{DEFAULT, all_capabilities, localhost_profile};
use crate::holder::proto::{Confinement, Seccomp};
use crate::oci::seccomp::Profile;
use crate::oci::tests::Fixture;
use crate::oci::{ConfigError, Launch};

fn fixture(pod: Value, container: Value) -> Fixture {
    let container = json!({"name": "main", "command": ["/x"], "securityContext": container});
    Fixture::new(
        json!({"securityContext": pod, "containers": [container]}),
        json!({}),
    )
}

fn launch(container: Value) -> Result<Launch, ConfigError> {
    fixture(json!({}), container).launch()
}

fn confinement(container: Value) -> Confinement {
    launch(container).unwrap().confinement
}

/// Without the `CAP_`.
fn capabilities(add: Value, drop: Value) -> Vec<String> {
    let all = confinement(json!({"capabilities": {"add": add, "drop": drop}})).capabilities;
    all.iter()
        .map(|name| name.strip_prefix("CAP_").unwrap().to_owned())
        .collect()
}

fn bounding(launch: &Launch) -> Capabilities {
    let process = launch.spec.process().as_ref().unwrap();
    let sets = process.capabilities().as_ref().unwrap();
    assert_eq!(sets.bounding(), sets.effective());
    assert_eq!(sets.bounding(), sets.permitted());
    assert_eq!(sets.inheritable(), &Some(Capabilities::new()));
    assert_eq!(sets.ambient(), &Some(Capabilities::new()));
    sets.bounding().clone().unwrap()
}

/// C-40.
#[test]
fn the_default_is_everybody_elses_with_mknod_where_devices_are_guarded() {
    for guarded in [true, false] {
        let mut fixture = fixture(json!({}), json!({}));
        fixture.node.device_rules_enforced = guarded;
        let default = fixture.launch().unwrap().confinement.capabilities;
        assert_eq!(default.len(), if guarded { 14 } else { 13 });
        assert_eq!(default.contains(&"CAP_MKNOD".to_owned()), guarded);
        assert!(default.contains(&"CAP_NET_RAW".to_owned()));
    }
}

/// C-41.
#[test]
fn add_and_drop() {
    assert_eq!(
        capabilities(json!(["NET_BIND_SERVICE"]), json!(["ALL"])),
        ["NET_BIND_SERVICE"]
    );
    assert_eq!(
        capabilities(json!(["all"]), json!(["all"])),
        [] as [&str; 0]
    );
    assert_eq!(
        capabilities(json!([]), json!(["ALL", "KILL"])),
        [] as [&str; 0]
    );
    assert_eq!(
        capabilities(
            json!(["sys_time", "CAP_NET_ADMIN", "Net_Admin"]),
            json!(["ALL"])
        ),
        ["NET_ADMIN", "SYS_TIME"]
    );
    assert_eq!(
        capabilities(json!(["CHOWN", "KILL"]), json!(["ALL", "cap_kill"])),
        ["CHOWN"]
    );
    assert_eq!(
        capabilities(json!([]), json!(["NET_RAW"])).len(),
        DEFAULT.len() - 2,
        "neither NET_RAW nor MKNOD"
    );
    let nearly_all = capabilities(json!(["ALL"]), json!(["SYS_MODULE"]));
    assert_eq!(
        nearly_all.len(),
        all_capabilities().len() - 2,
        "neither SYS_MODULE nor MKNOD"
    );
}

#[test]
fn mknod_cannot_be_added_where_devices_are_not_guarded() {
    let context = json!({"capabilities": {"add": ["MKNOD"], "drop": ["ALL"]}});
    for guarded in [true, false] {
        let mut fixture = fixture(json!({}), context.clone());
        fixture.node.device_rules_enforced = guarded;
        let capabilities = fixture.launch().unwrap().confinement.capabilities;
        let expected: &[&str] = if guarded { &["CAP_MKNOD"] } else { &[] };
        assert_eq!(capabilities, expected);
    }
}

/// C-46: the pattern of kubelet's list needs to know the node.
#[test]
fn what_throttles_processors_is_masked_too() {
    for (privileged, masked) in [(false, 13), (true, 0)] {
        let mut fixture = fixture(json!({}), json!({"privileged": privileged}));
        let directory = "/sys/devices/system/cpu/cpu0/thermal_throttle".to_owned();
        fixture.node.thermal_throttle = vec![directory.clone()];
        let launch = fixture.launch().unwrap();
        let linux = launch.spec.linux().as_ref().unwrap();
        let paths = linux.masked_paths().as_ref().unwrap();
        assert_eq!(paths.len(), masked);
        assert_eq!(paths.contains(&directory), !privileged);
    }
}

#[test]
fn unknown_capabilities_are_errors() {
    for (name, message) in [
        ("FLY", "\"FLY\" is no capability"),
        (
            "CAP_NET_ADMN",
            "\"CAP_NET_ADMN\" is no capability (did you mean NET_ADMIN?)",
        ),
    ] {
        for list in ["add", "drop"] {
            let error = launch(json!({"capabilities": {list: ["NET_RAW", name]}})).unwrap_err();
            assert_eq!(error, ConfigError::Capability(message.into()));
        }
    }
}

/// The filter needs SYS_ADMIN to be installed unless no_new_privs is set; both extra ones are dropped by the executor.
#[test]
fn the_specification_has_what_the_executor_needs_and_no_more() {
    let drop_all = json!({"drop": ["ALL"]});
    let wide: Capabilities = [Capability::SysAdmin, Capability::Setpcap].into();
    let none = Capabilities::new();
    for (context, expected) in [
        (json!({"capabilities": drop_all}), &wide),
        (
            json!({"capabilities": drop_all, "allowPrivilegeEscalation": true}),
            &wide,
        ),
        (
            json!({"capabilities": drop_all, "allowPrivilegeEscalation": false}),
            &none,
        ),
        (
            json!({"capabilities": drop_all, "seccompProfile": {"type": "Unconfined"}}),
            &none,
        ),
    ] {
        let launch = launch(context.clone()).unwrap();
        assert_eq!(&bounding(&launch), expected, "{context}");
        assert_eq!(launch.confinement.capabilities, [] as [&str; 0]);
    }
}

/// C-44, and the trap in libcontainer: `false` is not the same as absent.
#[test]
fn no_new_privileges_only_when_escalation_is_forbidden() {
    for (context, expected) in [
        (json!({}), None),
        (json!({"allowPrivilegeEscalation": true}), None),
        (json!({"allowPrivilegeEscalation": false}), Some(true)),
    ] {
        let launch = launch(context).unwrap();
        assert_eq!(launch.confinement.no_new_privileges, expected.is_some());
        assert_eq!(
            launch.spec.process().as_ref().unwrap().no_new_privileges(),
            expected
        );
    }
}

/// C-50 with our default.
#[test]
fn the_containers_profile_goes_before_the_pods() {
    let profile = |kind: &str| json!({"seccompProfile": {"type": kind}});
    for (pod, container, expected) in [
        (json!({}), json!({}), Seccomp::RuntimeDefault),
        (profile("Unconfined"), json!({}), Seccomp::Unconfined),
        (
            profile("Unconfined"),
            profile("RuntimeDefault"),
            Seccomp::RuntimeDefault,
        ),
        (
            profile("RuntimeDefault"),
            profile("Unconfined"),
            Seccomp::Unconfined,
        ),
        (
            profile("RuntimeDefault"),
            json!({"privileged": true}),
            Seccomp::Unconfined,
        ),
    ] {
        let launch = fixture(pod, container).launch().unwrap();
        assert_eq!(launch.confinement.seccomp, expected);
        assert!(launch.spec.linux().as_ref().unwrap().seccomp().is_none());
    }
    let error = launch(profile("Sandboxed")).unwrap_err();
    assert_eq!(error, ConfigError::SeccompType("Sandboxed".into()));
}

/// C-51: the profile is made for the capabilities of the container, and the agent knows which one to read.
#[test]
fn an_administrators_profile_becomes_a_filter() {
    let localhost =
        |name: &str| json!({"seccompProfile": {"type": "Localhost", "localhostProfile": name}});
    let profile = r#"{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [
        {"name": "read", "action": "SCMP_ACT_ALLOW"},
        {"name": "mount", "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"]}}]}"#;
    let filter = |pod: Value, container: Value| {
        let mut fixture = fixture(pod, container);
        fixture.seccomp = Some(Profile::parse(profile).unwrap());
        let launch = fixture.launch().unwrap();
        let read = localhost_profile(&fixture.pod.pod, fixture.input().container);
        assert_eq!(launch.filter.is_some(), read.is_some());
        let is_localhost = launch.confinement.seccomp == Seccomp::Localhost;
        assert_eq!(is_localhost, read.is_some());
        let read = read.map(str::to_owned);
        (read, launch.filter.unwrap_or_default().len())
    };
    let (name, plain) = filter(localhost("a/b.json"), json!({}));
    assert_eq!(name.as_deref(), Some("a/b.json"));
    let (name, own) = filter(localhost("a"), localhost("b"));
    assert_eq!((name.as_deref(), own), (Some("b"), plain));
    let may_mount = json!({"capabilities": {"add": ["SYS_ADMIN"]}});
    let (_, more) = filter(localhost("a"), may_mount);
    assert!(more > plain, "{more} {plain}");
    let unconfined = json!({"seccompProfile": {"type": "Unconfined"}});
    assert_eq!(filter(localhost("a"), unconfined), (None, 0));
    assert_eq!(
        filter(localhost("a"), json!({"privileged": true})),
        (None, 0)
    );
}

#[test]
fn what_the_agent_lacks_nobody_gets() {
    for context in [
        json!({"privileged": true}),
        json!({"capabilities": {"add": ["ALL"]}}),
    ] {
        let mut fixture = fixture(json!({}), context);
        fixture.node.withheld_capabilities = vec!["CAP_SYS_RESOURCE".into(), "CAP_CHOWN".into()];
        let launch = fixture.launch().unwrap();
        for cap in [Capability::SysResource, Capability::Chown] {
            assert!(!bounding(&launch).contains(&cap));
            assert!(
                !launch
                    .confinement
                    .capabilities
                    .contains(&format!("CAP_{cap}"))
            );
        }
    }
}

#[test]
fn every_capability_is_listed_once_and_by_its_kernel_name() {
    let names = super::all_capability_names();
    let mut unique = names.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), 41);
    for name in &names {
        let known = rustix::thread::CapabilitySet::from_name(name.strip_prefix("CAP_").unwrap());
        assert!(
            known.is_some_and(|set| set.bits().count_ones() == 1),
            "{name}"
        );
    }
}

#[test]
fn a_read_only_root_is_in_the_specification() {
    for (context, expected) in [
        (json!({}), Some(false)),
        (json!({"readOnlyRootFilesystem": true}), Some(true)),
    ] {
        let launch = launch(context).unwrap();
        assert_eq!(launch.spec.root().as_ref().unwrap().readonly(), expected);
    }
}
