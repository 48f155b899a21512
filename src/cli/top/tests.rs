use jiff::Timestamp;

use super::*;
use crate::figures::summary::{ContainerStats, CpuStats, MemoryStats, PodReference, ProcessStats};

fn usage(nano_cores: u64, memory: u64) -> Usage {
    let time = Timestamp::UNIX_EPOCH;
    Usage {
        cpu: Some(CpuStats {
            time,
            usage_nano_cores: Some(nano_cores),
            usage_core_nano_seconds: 0,
            psi: None,
        }),
        memory: Some(MemoryStats {
            time,
            available_bytes: Some((1 << 30) - memory),
            usage_bytes: memory,
            working_set_bytes: memory,
            rss_bytes: 0,
            page_faults: 0,
            major_page_faults: 0,
            psi: None,
        }),
        ..Usage::default()
    }
}

fn pod(namespace: &str, name: &str, usage: &Usage) -> PodStats {
    let container = |name: &str| ContainerStats {
        name: name.to_owned(),
        start_time: None,
        usage: usage.clone(),
        rootfs: None,
        logs: None,
    };
    PodStats {
        pod_ref: PodReference {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            uid: name.to_owned(),
        },
        start_time: None,
        containers: vec![container("main"), container("side")],
        usage: usage.clone(),
        network: None,
        volumes: Vec::new(),
        ephemeral_storage: None,
        processes: ProcessStats { process_count: 0 },
    }
}

#[test]
fn tables_are_kubectls() {
    let small = usage(1, 3 << 19);
    let pods = [pod("default", "web-box", &small)];
    assert_eq!(
        pod_table(&pods, false),
        "NAME      CPU(cores)   MEMORY(bytes)\nweb-box   1m           1Mi\n"
    );
    assert_eq!(
        pod_table(&[pod("edge", "web-box", &Usage::default())], true),
        "NAMESPACE   POD       NAME   CPU(cores)   MEMORY(bytes)
edge        web-box   main   <unknown>    <unknown>
edge        web-box   side   <unknown>    <unknown>
"
    );
}

#[test]
fn shares_of_the_node_are_of_what_pods_can_have() {
    let node = NodeStats {
        node_name: "box".to_owned(),
        system_containers: Vec::new(),
        start_time: Timestamp::UNIX_EPOCH,
        usage: usage(250_000_000, 1 << 28),
        network: None,
        fs: None,
        runtime: None,
        rlimit: None,
    };
    let allocatable = Allocatable {
        cpu_milli: 500,
        ephemeral_storage: 0,
        memory: 1 << 29,
        pods: 1,
    };
    let table = node_table(&node, Some(allocatable));
    let row = table.lines().nth(1).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells, ["box", "250m", "50%", "256Mi", "50%"]);
    let alone = node_table(&node, None);
    assert!(alone.contains("256Mi           25%"), "{alone}");
}
