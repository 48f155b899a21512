use k8s_openapi::api::core::v1::Pod;

use super::{Requests, effective_requests};
use crate::pod::manifest::parse;

fn pod(spec: &str) -> Pod {
    let text = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {{{spec}}}\n");
    let parsed = parse("f", text.as_bytes(), "node");
    assert_eq!(parsed.pods.len(), 1, "{:?}", parsed.diagnostics);
    Pod::clone(&parsed.pods[0].pod)
}

/// Each container as `name cpu memory`, `-` for none, in start order: init, sidecars (`+`), regular ones (`=`).
fn requests(containers: &str, rest: &str) -> (u64, u64) {
    let (mut init, mut regular) = (String::new(), String::new());
    for written in containers.split(", ") {
        let [name, cpu, memory] = written
            .split(' ')
            .collect::<Vec<_>>()
            .try_into()
            .expect("three words");
        let amount = |key: &str, value: &str| match value {
            "-" => String::new(),
            value => format!("{key}: {value},"),
        };
        let amounts = amount("cpu", cpu) + &amount("memory", memory);
        let head = format!("image: b, resources: {{requests: {{{amounts}}}}}");
        match (name.strip_suffix('+'), name.strip_suffix('=')) {
            (Some(name), _) => {
                init += &format!("{{name: {name}, {head}, restartPolicy: Always}},");
            }
            (_, Some(name)) => regular += &format!("{{name: {name}, {head}}},"),
            (None, None) => init += &format!("{{name: {name}, {head}}},"),
        }
    }
    let spec = format!("initContainers: [{init}], containers: [{regular}], {rest}");
    let Requests {
        cpu_milli, memory, ..
    } = effective_requests(&pod(&spec));
    (cpu_milli, memory)
}

#[test]
fn the_most_that_is_needed_at_any_time_counts() {
    for (containers, expected) in [
        ("c= - -", (0, 0)),
        ("c= 100m 64Mi", (100, 64 << 20)),
        ("c= 100m 1, d= 1 2", (1100, 3)),
        // Rounded up.
        ("c= 0.0001 0.5", (1, 1)),
        // An init container that needs more, or less, than all that comes later.
        ("i 1 -, c= 100m 1", (1000, 1)),
        ("i 50m -, c= 100m 1", (100, 1)),
        ("i 60m 3, j 120m 2, c= 100m 1", (120, 3)),
        // A sidecar stays, so what starts after it comes on top; what comes before does not.
        ("s+ 200m -, i 50m -, c= 100m 1", (300, 1)),
        ("s+ 200m -, i 150m -, c= 100m 1", (350, 1)),
        ("i 250m -, s+ 200m -, c= 100m 1", (300, 1)),
        ("s+ 9E 16Ei, c= 9E 16Ei", (u64::MAX, u64::MAX)),
    ] {
        assert_eq!(requests(containers, ""), expected, "{containers}");
    }
}

/// S-88 and S-100.
#[test]
fn limits_and_the_whole_pod_count_too() {
    for (rest, expected) in [
        ("resources: {requests: {cpu: 2}}", (2000, 7)),
        ("resources: {limits: {memory: 9}}", (100, 7)),
        (
            "resources: {limits: {cpu: 9, memory: 9}, requests: {memory: 8}}",
            (100, 8),
        ),
        ("overhead: {cpu: 5m, memory: 1}", (105, 8)),
    ] {
        assert_eq!(requests("c= 100m 7", rest), expected, "{rest}");
    }
    assert_eq!(
        requests("c= - -", "resources: {limits: {cpu: 1}}"),
        (1000, 0)
    );
    let limited = pod("containers: [{name: c, image: b, resources: {limits: {cpu: 1}}}]");
    assert_eq!(effective_requests(&limited).cpu_milli, 1000);
    assert_eq!(effective_requests(&Pod::default()), Requests::default());
}
