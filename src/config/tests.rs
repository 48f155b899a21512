use std::path::Path;
use std::time::Duration;

use super::load::{Overrides, merge};
use super::{Config, Loaded, Reserved, ShutdownTurn, Threshold};
use crate::pod::duration;

fn load(text: &str, flags: Overrides) -> Result<Loaded, String> {
    merge(Path::new("/c.yaml"), text, flags, "Edge-1").map_err(|error| error.to_string())
}

fn config(text: &str) -> Config {
    load(text, Overrides::default()).unwrap().config
}

fn refusal(text: &str) -> String {
    load(text, Overrides::default()).unwrap_err()
}

#[test]
fn an_empty_file_gives_the_defaults_and_the_host_name() {
    assert_eq!(config(""), Config::new("edge-1".to_owned()));
    assert_eq!(config("# nothing\n"), config(""));
}

fn turns(turns: &[(i32, u64)]) -> Vec<ShutdownTurn> {
    let turns = turns.iter();
    let turn = |&(priority, grace_ms)| ShutdownTurn { priority, grace_ms };
    turns.map(turn).collect()
}

#[test]
fn every_field_of_the_file_is_taken() {
    let got = config(
        r#"apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: /srv/pods
fileCheckFrequency: 1m30s
containerLogMaxSize: 2Mi
containerLogMaxFiles: 3
resolvConf: /run/resolv.conf
crashLoopBackOff:
  maxContainerRestartPeriod: 60s
maxPods: 20
systemReserved: {cpu: 100m, memory: 64Mi, pid: "100"}
kubeReserved: {cpu: "0.5", memory: 1Mi}
shutdownGracePeriod: 30s
shutdownGracePeriodCriticalPods: 10s
allowedUnsafeSysctls: [net.core.somaxconn, kernel/msg*]
evictionPressureTransitionPeriod: 30s
vetch:
  cdiSpecDirs: [/opt/cdi]
  nodeLabels: {disk: ssd}
  initialContainerRestartPeriod: 2s
  evictStaticPods: true
  rootDir: /data/vetch
  runDir: /run/v
  logDir: /data/log
  cgroupRoot: /edge/vetch/
  nodeName: Box.Example
"#,
    );
    let mut want = Config::new("box.example".to_owned());
    want.pod_manifest_path = "/srv/pods".into();
    want.file_check_frequency = Duration::from_secs(90);
    want.container_log_max_size = 2 << 20;
    want.container_log_max_files = 3;
    want.resolv_conf = "/run/resolv.conf".into();
    want.backoff.max = Duration::from_secs(60);
    want.backoff.start = Duration::from_secs(2);
    want.max_pods = 20;
    want.reserved = Reserved {
        cpu_milli: 600,
        memory: 65 << 20,
    };
    want.node_labels.insert("disk".to_owned(), "ssd".to_owned());
    want.shutdown = turns(&[(0, 20_000), (2_000_000_000, 10_000)]);
    want.allowed_unsafe_sysctls = ["net.core.somaxconn", "kernel.msg*"].map(Into::into).into();
    want.cdi_spec_dirs = vec!["/opt/cdi".into()];
    want.eviction.transition = Duration::from_secs(30);
    want.eviction.of_pods = true;
    want.paths.root_dir = "/data/vetch".into();
    want.paths.run_dir = "/run/v".into();
    want.paths.log_dir = "/data/log".into();
    want.cgroup_root = "/edge/vetch".to_owned();
    assert_eq!(got, want);
}

#[test]
fn flags_win_over_the_file() {
    let flags = Overrides {
        pod_manifest_path: Some("/flag".into()),
        node_name: Some("flag".to_owned()),
        cgroup_root: Some("/flag".to_owned()),
        node_labels: vec!["a=flag".to_owned(), "example.com/b=".to_owned()],
        ..Overrides::default()
    };
    let text = "staticPodPath: /file\nvetch: {nodeName: file, cgroupRoot: /file, runDir: /file, nodeLabels: {a: file, c: file}}\n";
    let got = load(text, flags).unwrap().config;
    assert_eq!(got.pod_manifest_path, Path::new("/flag"));
    assert_eq!(got.node_name, "flag");
    assert_eq!(got.cgroup_root, "/flag");
    let labels: Vec<(&str, &str)> = got
        .node_labels
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        labels,
        [("a", "flag"), ("c", "file"), ("example.com/b", "")]
    );
    assert_eq!(got.paths.run_dir, Path::new("/file"));
}

#[test]
fn unknown_fields_are_named_with_the_file() {
    let loaded = load(
        "evictionSoft: {}\nvetch: {rootDirr: /x}\n",
        Overrides::default(),
    )
    .unwrap();
    assert_eq!(
        loaded.warnings,
        [
            "/c.yaml: evictionSoft: unknown field, it has no effect",
            "/c.yaml: vetch.rootDirr: unknown field, it has no effect"
        ]
    );
}

#[test]
fn fields_that_are_accepted_without_effect_are_named() {
    let text = "systemReserved: {cpu: 1, pid: 100}\nkubeReserved: {ephemeral-storage: 1Gi}\n";
    assert_eq!(
        load(text, Overrides::default()).unwrap().warnings,
        [
            "/c.yaml: systemReserved.pid: is not reserved here, it has no effect",
            "/c.yaml: kubeReserved.ephemeral-storage: is not reserved here, it has no effect"
        ]
    );
}

#[test]
fn values_that_cannot_be_used_are_refused_with_file_and_field() {
    assert_eq!(
        refusal("kind: Pod"),
        "/c.yaml: kind: must be KubeletConfiguration"
    );
    assert_eq!(
        refusal("vetch: {cdiSpecDirs: [cdi]}"),
        "/c.yaml: vetch.cdiSpecDirs: must be absolute paths"
    );
    assert!(
        refusal("allowedUnsafeSysctls: [vm.swappiness]").starts_with(
            "/c.yaml: allowedUnsafeSysctls: \"vm.swappiness\" must be a sysctl of its own in each pod"
        )
    );
    assert_eq!(
        refusal("containerLogMaxFiles: 1"),
        "/c.yaml: containerLogMaxFiles: must be at least 2"
    );
    assert_eq!(
        refusal("containerLogMaxSize: ten"),
        "/c.yaml: containerLogMaxSize: must be a size above 0, written like 10Mi"
    );
    assert_eq!(
        refusal("fileCheckFrequency: 20"),
        "/c.yaml: fileCheckFrequency: \"20\" is no duration; write it like 20s, 1m30s or 250ms"
    );
    assert_eq!(
        refusal("staticPodPath: pods"),
        "/c.yaml: staticPodPath: must be an absolute path"
    );
    assert_eq!(
        refusal("crashLoopBackOff: {maxContainerRestartPeriod: 301s}"),
        "/c.yaml: crashLoopBackOff.maxContainerRestartPeriod: must be between 1s and 300s"
    );
    for root in ["vetch", "/", "/a/../b", "/a//b"] {
        let message = refusal(&format!("vetch: {{cgroupRoot: {root}}}"));
        assert!(
            message.starts_with("/c.yaml: vetch.cgroupRoot: "),
            "{message}"
        );
    }
}

/// P-67.
#[test]
fn sizes_are_quantities() {
    for (text, bytes) in [("1048576", 1 << 20), ("1.5Mi", 3 << 19), ("1e6", 1_000_000)] {
        let got = config(&format!("containerLogMaxSize: \"{text}\""));
        assert_eq!(got.container_log_max_size, bytes, "{text}");
    }
}

/// Half of a configuration would be another one.
#[test]
fn a_file_that_is_far_too_large_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len((1 << 20) + 1).unwrap();
    let refused = super::load(Some(file.path()), Overrides::default());
    assert!(matches!(refused, Err(super::ConfigError::Read { .. })));
}

#[test]
fn a_cap_below_the_first_delay_becomes_the_first_delay() {
    let backoff = config("crashLoopBackOff: {maxContainerRestartPeriod: 3s}").backoff;
    assert_eq!(backoff.start, Duration::from_secs(3));
    assert_eq!(backoff.max, Duration::from_secs(3));
}

/// N-26.
#[test]
fn turns_of_a_node_shutdown() {
    let shutdown = |text: &str| config(text).shutdown;
    assert_eq!(
        shutdown(""),
        turns(&[(0, u64::MAX), (2_000_000_000, u64::MAX)]),
        "each pod with its own grace, critical ones last"
    );
    assert_eq!(shutdown("shutdownGracePeriod: 0s"), shutdown(""));
    assert_eq!(
        shutdown("shutdownGracePeriod: 1m"),
        turns(&[(0, 60_000), (2_000_000_000, 0)])
    );
    let table = "shutdownGracePeriodByPodPriority:
- {priority: 100, shutdownGracePeriodSeconds: 5}
- {priority: 0, shutdownGracePeriodSeconds: 10}
- {priority: -5, shutdownGracePeriodSeconds: 0}
";
    assert_eq!(shutdown(table), turns(&[(-5, 0), (0, 10_000), (100, 5000)]));
    for (text, message) in [
        (
            format!("shutdownGracePeriod: 1s\n{table}"),
            "/c.yaml: shutdownGracePeriodByPodPriority: cannot be set together with shutdownGracePeriod",
        ),
        (
            format!("{table}- {{priority: 0, shutdownGracePeriodSeconds: 1}}"),
            "/c.yaml: shutdownGracePeriodByPodPriority: must name each priority once",
        ),
        (
            "shutdownGracePeriod: 5s\nshutdownGracePeriodCriticalPods: 6s".to_owned(),
            "/c.yaml: shutdownGracePeriodCriticalPods: is a part of shutdownGracePeriod and cannot be longer",
        ),
        (
            "shutdownGracePeriod: 10ms".to_owned(),
            "/c.yaml: shutdownGracePeriod: must be 0 or at least 1s",
        ),
    ] {
        assert_eq!(refusal(&text), message);
    }
}

#[test]
fn labels_and_reservations_are_checked() {
    assert_eq!(
        refusal("vetch: {nodeLabels: {-a: b}}"),
        "/c.yaml: vetch.nodeLabels[-a]: must be a label, written like example.com/disk=ssd"
    );
    assert_eq!(
        refusal("systemReserved: {memory: much}"),
        "/c.yaml: systemReserved.memory: must be an amount, written like 500m or 100Mi"
    );
    for label in ["a", "=b", "a=b c"] {
        let flags = Overrides {
            node_labels: vec![label.to_owned()],
            ..Overrides::default()
        };
        let message = load("", flags).unwrap_err();
        assert!(message.starts_with("--node-labels: "), "{message}");
    }
    assert_eq!(
        refusal("vetch: {initialContainerRestartPeriod: 301s}"),
        "/c.yaml: vetch.initialContainerRestartPeriod: must be between 1s and the longest back-off"
    );
}

/// N-1, N-2.
#[test]
fn thresholds_of_node_pressure() {
    let signals = |text: &str| -> Vec<(&str, Threshold)> {
        let eviction = config(text).eviction;
        let all = eviction.thresholds.into_iter();
        all.map(|(signal, threshold)| (signal.as_str(), threshold))
            .collect()
    };
    let usual = [
        ("memory.available", Threshold::Amount(100 << 20)),
        ("nodefs.available", Threshold::Share(10_000)),
        ("nodefs.inodesFree", Threshold::Share(5000)),
        ("imagefs.available", Threshold::Share(15_000)),
        ("imagefs.inodesFree", Threshold::Share(5000)),
    ];
    assert_eq!(signals(""), usual);
    assert_eq!(signals("evictionHard: {}"), []);
    let own = "evictionHard: {memory.available: 1Gi, nodefs.available: 12.5%, pid.available: \"100\", imagefs.available: 0%}\n";
    assert_eq!(
        signals(own),
        [
            ("memory.available", Threshold::Amount(1 << 30)),
            ("nodefs.available", Threshold::Share(12_500)),
            ("pid.available", Threshold::Amount(100)),
        ]
    );
    let merged = signals(&format!("{own}mergeDefaultEvictionSettings: true\n"));
    assert_eq!(merged.len(), 5);
    assert_eq!(merged[2], usual[2]);
    assert_eq!(Threshold::Share(12_500).of(800), 100);
    for (text, field) in [
        ("{disk: 1%}", "disk"),
        ("{memory.available: 101%}", "memory.available"),
        ("{memory.available: -1%}", "memory.available"),
        ("{memory.available: \"0\"}", "memory.available"),
        ("{memory.available: much}", "memory.available"),
    ] {
        let message = refusal(&format!("evictionHard: {text}"));
        let start = format!("/c.yaml: evictionHard[{field}]: ");
        assert!(message.starts_with(&start), "{message}");
    }
}

/// S-74.
#[test]
fn a_host_name_that_is_no_node_name_is_refused_with_the_way_out() {
    let refused = merge(Path::new("/c.yaml"), "", Overrides::default(), "my_box").unwrap_err();
    let message = refused.to_string();
    assert!(message.starts_with("host name \"my_box\": "), "{message}");
    assert!(message.contains("--hostname-override"), "{message}");
}

#[test]
fn durations_are_read_as_go_writes_them() {
    let cases = [
        ("20s", 20_000),
        ("1m30s", 90_000),
        ("1.5h", 5_400_000),
        ("250ms", 250),
        ("2h0m0s", 7_200_000),
        ("0", 0),
        ("0s", 0),
    ];
    for (text, millis) in cases {
        assert_eq!(
            duration::parse(text),
            Ok(Duration::from_millis(millis)),
            "{text}"
        );
    }
    for text in [
        "",
        "20",
        "s",
        "-1s",
        "1x",
        "1s2",
        "1..2s",
        "99999999999999999999h",
    ] {
        assert!(duration::parse(text).is_err(), "{text}");
    }
}

/// N-56, N-58, C-72, C-74, C-77.
#[test]
fn limits_are_set_by_kubelets_fields() {
    let got = config(
        "cpuCFSQuotaPeriod: 10ms\npodPidsLimit: 64\nsingleProcessOOMKill: true\n\
         enforceNodeAllocatable: []\nmemorySwap: {swapBehavior: NoSwap}\n",
    );
    assert_eq!((got.cpu_period_us, got.pod_pids), (Some(10_000), Some(64)));
    assert!(got.single_process_oom_kill && !got.enforces_allocatable);
    let got = config("cpuCFSQuota: false\npodPidsLimit: -1\nenforceNodeAllocatable: [pods]\n");
    assert_eq!((got.cpu_period_us, got.pod_pids), (None, None));
    assert!(got.enforces_allocatable);
    for (text, message) in [
        (
            "cpuCFSQuotaPeriod: 2s",
            "cpuCFSQuotaPeriod: must be between 1ms and 1s",
        ),
        (
            "podPidsLimit: 0",
            "podPidsLimit: must be above 0, or -1 for no limit",
        ),
        (
            "enforceNodeAllocatable: [system-reserved]",
            "enforceNodeAllocatable: must be [pods], or [] for nothing; other cgroups are not ours",
        ),
        (
            "memorySwap: {swapBehavior: LimitedSwap}",
            "memorySwap.swapBehavior: must be NoSwap: containers do not swap",
        ),
    ] {
        assert_eq!(refusal(text), format!("/c.yaml: {message}"));
    }
}
