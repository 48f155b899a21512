use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{
    Controllers, CpuQuota, LimitRules, Limits, Missing, missing, of_class, of_container, of_pod,
    page_size, shares, weight,
};
use crate::oci::NodeFacts;

const MIB: u64 = 1 << 20;

/// A kernel that can limit everything.
pub fn able() -> NodeFacts {
    NodeFacts {
        controllers: Controllers {
            cpu: true,
            cpu_quota: true,
            memory: true,
            swap: true,
            pids: true,
            huge_pages: vec!["2MB".to_owned()],
        },
        memory_bytes: 1 << 30,
        ..NodeFacts::default()
    }
}

fn pod(spec: Value) -> Pod {
    serde_json::from_value(json!({"spec": spec})).unwrap()
}

/// Of one container with these resources, in a pod with those.
fn container(own: Value, whole: Value) -> Limits {
    let pod = pod(json!({"containers": [{"name": "main", "resources": own}], "resources": whole}));
    of_container(&pod, &pod.spec.as_ref().unwrap().containers[0], &able())
}

/// C-70 and C-71: the vectors of 12.1.
#[test]
fn requests_are_shares_and_weights() {
    for (milli, expected_shares, expected_weight) in [
        (0, 2, 1),
        (1, 2, 1),
        (10, 10, 4),
        (50, 51, 11),
        (100, 102, 17),
        (200, 204, 29),
        (250, 256, 35),
        (500, 512, 59),
        (1000, 1024, 100),
        (1500, 1536, 138),
        (2000, 2048, 174),
        (4000, 4096, 303),
        (100_000, 102_400, 4429),
        (256_000, 262_144, 10_000),
        (u64::MAX, 262_144, 10_000),
    ] {
        assert_eq!(shares(milli), expected_shares, "{milli}");
        assert_eq!(weight(expected_shares), expected_weight, "{milli}");
    }
    assert_eq!(weight(0), 1);
}

/// C-70.
#[test]
fn a_limit_counts_as_request_where_there_is_none() {
    for (resources, expected) in [
        (json!({}), 2),
        (json!({"limits": {"cpu": "500m"}}), 512),
        (
            json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "0"}}),
            512,
        ),
        (
            json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}),
            102,
        ),
    ] {
        let limits = container(resources.clone(), Value::Null);
        assert_eq!(limits.cpu_shares, Some(expected), "{resources}");
    }
}

/// C-72: the vectors of 12.1.
#[test]
fn limits_of_cpu_are_quotas() {
    for (limit, expected) in [
        ("0", None),
        ("1m", Some(1000)),
        ("10m", Some(1000)),
        ("100m", Some(10_000)),
        ("1", Some(100_000)),
        ("2500m", Some(250_000)),
    ] {
        let limits = container(json!({"limits": {"cpu": limit}}), Value::Null);
        let period = 100_000;
        let expected = expected.map(|quota| CpuQuota { quota, period });
        assert_eq!(limits.cpu_quota, expected, "{limit}");
    }
}

/// C-72.
#[test]
fn the_configuration_says_whether_and_in_which_periods_cpu_is_limited() {
    let pod = pod(json!({"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]}));
    let main = &pod.spec.as_ref().unwrap().containers[0];
    let mut node = able();
    node.limit_rules.cpu_period = Some(5000);
    let quota = of_container(&pod, main, &node).cpu_quota;
    assert_eq!(
        quota,
        Some(CpuQuota {
            quota: 10_000,
            period: 5000
        })
    );
    node.limit_rules.cpu_period = None;
    let limits = of_container(&pod, main, &node);
    assert_eq!((limits.cpu_quota, limits.cpu_shares), (None, Some(2048)));
    assert_eq!(of_pod(&pod, &node).cpu_quota, None);
}

/// C-73, S-100.
#[test]
fn a_container_without_a_limit_has_that_of_its_pod() {
    let memory = |own: Value, whole: Value| container(own, whole).memory;
    let limit = |memory: &str| json!({"limits": {"memory": memory}});
    for (own, whole, expected) in [
        (json!({}), Value::Null, None),
        (limit("64Mi"), Value::Null, Some(64 * MIB)),
        (json!({}), limit("1Gi"), Some(1024 * MIB)),
        (limit("64Mi"), limit("1Gi"), Some(64 * MIB)),
        (limit("0"), limit("1Gi"), Some(1024 * MIB)),
    ] {
        assert_eq!(
            memory(own.clone(), whole.clone()),
            expected,
            "{own} {whole}"
        );
    }
}

/// C-76.
#[test]
fn huge_pages_that_are_not_asked_for_are_not_to_be_had() {
    assert_eq!(page_size("hugepages-2Mi").as_deref(), Some("2MB"));
    assert_eq!(page_size("hugepages-1Gi").as_deref(), Some("1GB"));
    assert_eq!(page_size("hugepages-64Ki").as_deref(), Some("64KB"));
    assert_eq!(page_size("memory"), None);
    let pages = |resources: Value| container(resources, Value::Null).huge_pages;
    let asked = pages(json!({"limits": {"hugepages-2Mi": "6Mi", "hugepages-1Gi": "1Gi"}}));
    assert_eq!(asked, [("2MB".to_owned(), 6 * MIB)].into());
    assert_eq!(pages(json!({})), [("2MB".to_owned(), 0)].into());
}

/// C-88.
#[test]
fn a_pod_has_quota_and_memory_only_if_all_its_containers_are_limited() {
    let all = |cpu: &str, memory: &str| json!({"limits": {"cpu": cpu, "memory": memory}});
    let half = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}});
    let none = json!({});
    for (init, regular, whole, (milli, quota, memory)) in [
        (vec![], vec![none.clone()], Value::Null, (0, None, None)),
        (
            vec![],
            vec![all("1", "8Mi"), all("500m", "4Mi")],
            Value::Null,
            (1500, Some(1500), Some(12)),
        ),
        (
            vec![],
            vec![all("1", "8Mi"), none.clone()],
            Value::Null,
            (1000, None, None),
        ),
        (
            vec![],
            vec![all("1", "8Mi"), half],
            Value::Null,
            (1100, Some(2000), None),
        ),
        // An init container that may use more than all that comes later; one without a limit.
        (
            vec![all("2", "4Mi")],
            vec![all("1", "8Mi")],
            Value::Null,
            (2000, Some(2000), Some(8)),
        ),
        (
            vec![none.clone()],
            vec![all("1", "8Mi")],
            Value::Null,
            (1000, None, None),
        ),
        // The pod as a whole.
        (
            vec![],
            vec![none.clone()],
            all("3", "9Mi"),
            (3000, Some(3000), Some(9)),
        ),
        (
            vec![],
            vec![all("1", "8Mi")],
            all("3", "9Mi"),
            (1000, Some(3000), Some(9)),
        ),
    ] {
        let written = parsed(&init, &regular, &whole);
        let limits = of_pod(&written, &able());
        let period = 100_000;
        let expected = Limits {
            cpu_shares: Some(shares(milli)),
            cpu_quota: quota.map(|milli: u64| CpuQuota {
                quota: milli * 100,
                period,
            }),
            memory: memory.map(|mib: u64| mib * MIB),
            pids: None,
            huge_pages: [("2MB".to_owned(), 0)].into(),
        };
        assert_eq!(limits, expected, "{written:#?}");
    }
}

/// As the reader of manifests gives it: with requests filled in (S-88).
fn parsed(init: &[Value], regular: &[Value], whole: &Value) -> Pod {
    let named = |prefix: &str, list: &[Value]| -> Vec<Value> {
        let list = list.iter().enumerate();
        list.map(|(n, r)| json!({"name": format!("{prefix}{n}"), "image": "b", "resources": r}))
            .collect()
    };
    let spec = json!({
        "initContainers": named("i", init),
        "containers": named("c", regular),
        "resources": whole,
    });
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec});
    let parsed = crate::pod::manifest::parse("f", pod.to_string().as_bytes(), "node");
    Pod::clone(&parsed.pods[0].pod)
}

/// C-77: per pod, and not per container.
#[test]
fn processes_are_limited_for_the_whole_pod() {
    let mut node = able();
    node.limit_rules = LimitRules {
        pod_pids: Some(64),
        ..LimitRules::default()
    };
    let pod = pod(json!({"containers": [{"name": "main"}]}));
    assert_eq!(of_pod(&pod, &node).pids, Some(64));
    let main = &pod.spec.as_ref().unwrap().containers[0];
    assert_eq!(of_container(&pod, main, &node).pids, None);
}

/// C-86, C-87.
#[test]
fn a_class_has_shares_and_nothing_else() {
    let limits = of_class(1500, &able());
    assert_eq!(limits.cpu_shares, Some(1536));
    assert_eq!(
        (limits.memory, limits.cpu_quota, limits.pids),
        (None, None, None)
    );
    assert_eq!(of_class(0, &able()).cpu_shares, Some(2));
}

#[test]
fn what_the_kernel_lacks_is_left_out_and_said_where_it_is_asked_for() {
    let resources = json!({"limits": {"cpu": "1", "memory": "8Mi", "hugepages-2Mi": "2Mi"}});
    let greedy = pod(json!({"containers": [{"name": "main", "resources": resources}]}));
    let modest = pod(json!({"containers": [{"name": "main"}]}));
    let mut node = NodeFacts::default();
    node.limit_rules.pod_pids = Some(9);
    assert_eq!(of_pod(&greedy, &node), Limits::default());
    assert_eq!(missing(&modest, &node), [Missing::Pids]);
    assert_eq!(
        missing(
            &pod(json!({"containers": [{"name": "main", "resources": {
                "limits": {"cpu": "1", "memory": "8Mi", "hugepages-2Mi": "2Mi"},
                "requests": {"cpu": "1", "hugepages-2Mi": "2Mi"},
            }}]})),
            &node
        ),
        [
            Missing::Cpu,
            Missing::CpuQuota,
            Missing::Memory,
            Missing::Pids,
            Missing::HugePages
        ]
    );
    let mut node = able();
    assert_eq!(missing(&greedy, &node), []);
    node.controllers.swap = false;
    assert_eq!(missing(&greedy, &node), []);
    node.has_swap = true;
    assert_eq!(missing(&greedy, &node), [Missing::Swap]);
    assert_eq!(missing(&modest, &node), []);
}
