use super::*;

const HYBRID: &str = "\
25 1 0:23 / /sys/fs/cgroup ro,nosuid shared:4 - tmpfs tmpfs ro,mode=755
26 25 0:24 / /sys/fs/cgroup/unified rw shared:5 - cgroup2 cgroup2 rw
27 25 0:25 / /sys/fs/cgroup/cpu,cpuacct rw shared:6 - cgroup cgroup rw,cpu,cpuacct
28 25 0:26 / /sys/fs/cgroup/memory rw shared:7 - cgroup cgroup rw,memory
";

#[test]
fn hybrid_is_not_unified_and_its_controllers_are_known() {
    assert!(!is_unified(HYBRID));
    assert_eq!(v1_controllers(HYBRID), ["cpu,cpuacct", "memory"]);
    assert!(is_unified(
        "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    ));
}

#[test]
fn without_a_route_the_first_own_address_counts() {
    let trie = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.1
           /32 host LOCAL
     +-- 192.168.4.0/24 2 0 2
        |-- 192.168.4.0
           /24 link UNICAST
        |-- 192.168.4.7
           /32 host LOCAL
";
    assert_eq!(first_local(trie), "192.168.4.7".parse().ok());
    assert_eq!(first_local(""), None);
}

/// J-11.
#[test]
fn every_node_has_the_usual_labels_and_its_own() {
    let mut config = Config::new("edge-1".to_owned());
    config.node_labels.insert("disk".into(), "ssd".into());
    config
        .node_labels
        .insert("kubernetes.io/arch".into(), "mine".into());
    let labels = labels(&config, "arm64");
    let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(
        labels,
        [
            "beta.kubernetes.io/arch=arm64",
            "beta.kubernetes.io/os=linux",
            "disk=ssd",
            "kubernetes.io/arch=mine",
            "kubernetes.io/hostname=edge-1",
            "kubernetes.io/os=linux",
        ]
    );
}

/// N-20.
#[test]
fn what_is_reserved_is_not_for_pods_and_what_is_unknown_is_no_limit() {
    let mut node = NodeFacts {
        cpus: 4,
        memory_bytes: 4000,
        reserved_cpu_milli: 500,
        reserved_memory: 5000,
        ..NodeFacts::default()
    };
    let got = allocatable(110, &node);
    assert_eq!((got.cpu_milli, got.memory, got.pods), (3500, 0, 110));
    node.cpus = 0;
    assert_eq!(allocatable(110, &node).cpu_milli, u64::MAX);
}

/// C-49
#[test]
fn a_node_that_does_not_enforce_device_rules_says_what_to_do() {
    let said = |unified_cgroups, device_rules_enforced| {
        device_rules_condition(&NodeFacts {
            unified_cgroups,
            device_rules_enforced,
            ..NodeFacts::default()
        })
    };
    assert_eq!(said(true, true), None);
    assert_eq!(said(false, true), None);
    assert!(said(true, false).unwrap().contains("CONFIG_CGROUP_BPF"));
    assert!(said(false, false).unwrap().contains("devices controller"));
}
