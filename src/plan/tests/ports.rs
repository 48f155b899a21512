//! What a pod is told that has no port (S-171).

use super::admission::{named, planned, port, with_sandbox};
use super::fixtures::nothing;
use crate::plan::{History, Plan};
use crate::pod::StaticPod;

fn told(plan: &Plan, pod: &StaticPod) -> Option<String> {
    plan.pods[&pod.uid].status.as_ref().unwrap().message.clone()
}

/// Two of its ports are taken, by pods that are admitted one after the other, one of them after it was judged.
#[test]
fn it_is_told_the_same_whoever_was_judged_first() {
    for names in [["a", "b", "c"], ["c", "b", "a"], ["d", "b", "c"]] {
        is_told_the_same(names);
    }
}

fn is_told_the_same([a, b, c]: [&str; 3]) {
    let [a, b] = [(a, 8080), (b, 8081)].map(|(name, number)| named(name, &port(number)));
    let mut c = named(c, &port(8081));
    let ports = c.pod.spec.as_mut().unwrap().containers[0].ports.as_mut();
    let ports = ports.unwrap();
    ports.push(ports[0].clone());
    ports[1].host_port = Some(8080);
    let with_b = with_sandbox(nothing(), &b);
    let history = planned(&[&b], &with_b, &History::default()).history;
    let first = planned(&[&a, &b, &c], &nothing(), &history);
    let second = planned(&[&a, &b, &c], &nothing(), &first.history);
    let text = told(&first, &c).unwrap_or_default();
    assert!(text.contains("8080 belongs to pod"), "{text}");
    assert_eq!(told(&second, &c), told(&first, &c));
}
