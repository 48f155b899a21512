//! Who is taken by the node, who is not and why, and who comes first.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::fixtures::{
    at, desired, event_lines, note_lines, nothing, pod, pod_record, ready, rules,
};
use crate::plan::{Action, Halt, History, Observed, Plan, Rules, Sandbox, StartProblem, plan};
use crate::pod::StaticPod;

mod affinity;

/// A pod of this name with a spec and labels.
pub(super) fn named(name: &str, patch: &Value) -> StaticPod {
    let mut pod = pod(name, "Always", &["c"]);
    let mut text = serde_json::to_value(&pod.pod).unwrap();
    text["metadata"]["name"] = json!(name);
    merge(&mut text, patch);
    pod.pod = serde_json::from_value::<Pod>(text).unwrap().into();
    pod
}

fn merge(to: &mut Value, patch: &Value) {
    match (to, patch) {
        (Value::Object(to), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(to.entry(key).or_insert(Value::Null), value);
            }
        }
        (to, patch) => *to = patch.clone(),
    }
}

fn spec(patch: Value) -> Value {
    json!({ "spec": patch })
}

/// One container with this port.
pub(super) fn port(number: u16) -> Value {
    spec(json!({"containers": [
        {"name": "c", "image": "app", "ports": [{"containerPort": 80, "hostPort": number}]}]}))
}

fn requests(amounts: &Value) -> Value {
    spec(json!({"containers": [
        {"name": "c", "image": "app", "resources": {"requests": amounts}}]}))
}

fn node() -> Rules {
    let labels = [
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/hostname", "node"),
        ("disk", "ssd"),
        ("size", "7"),
    ];
    Rules {
        labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        ..rules()
    }
}

pub(super) fn planned(wanted: &[&StaticPod], observed: &Observed, history: &History) -> Plan {
    plan(&desired(wanted), observed, history, &node(), at(0))
}

pub(super) fn with_sandbox(mut observed: Observed, pod: &StaticPod) -> Observed {
    let sandbox = Sandbox {
        record: pod_record(pod, 0),
        state: ready(Vec::new()),
    };
    observed.sandboxes.insert(pod.uid.clone(), sandbox);
    observed
}

/// Names of the pods that get a sandbox.
fn started(plan: &Plan) -> Vec<&str> {
    let mut uids = Vec::new();
    for action in &plan.actions {
        if let Action::StartSandbox { uid, .. } = action {
            uids.push(uid.as_str());
        }
    }
    uids
}

fn reason(plan: &Plan, pod: &StaticPod) -> Option<String> {
    plan.pods[&pod.uid].status.as_ref().unwrap().reason.clone()
}

/// The reason and message with which a single pod is refused.
fn refusal(patch: &Value) -> Option<(String, String)> {
    let pod = named("web", patch);
    let plan = planned(&[&pod], &nothing(), &History::default());
    let status = plan.pods[&pod.uid].status.clone().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    assert_eq!(started(&plan).is_empty(), status.reason.is_some());
    Some((status.reason?, status.message?))
}

/// C-54.
#[test]
fn a_pod_that_asks_for_apparmor_needs_a_node_that_has_it() {
    let of_container = |kind: &str| {
        spec(json!({"initContainers": [{"name": "i", "image": "app",
            "securityContext": {"appArmorProfile": {"type": kind}}}]}))
    };
    let of_pod = |kind: &str| spec(json!({"securityContext": {"appArmorProfile": {"type": kind}}}));
    for kind in ["RuntimeDefault", "Localhost"] {
        for patch in [of_container(kind), of_pod(kind)] {
            let (reason, message) = refusal(&patch).unwrap();
            assert_eq!(reason, "AppArmor");
            let kubelets = "Cannot enforce AppArmor: AppArmor is not enabled on the host";
            assert_eq!(message, format!("Pod was rejected: {kubelets}"));
            let rules = Rules {
                apparmor: true,
                ..node()
            };
            let pod = named("web", &patch);
            let plan = plan(
                &desired(&[&pod]),
                &nothing(),
                &History::default(),
                &rules,
                at(0),
            );
            assert_eq!(started(&plan), [pod.uid.as_str()]);
        }
    }
    assert_eq!(refusal(&of_container("Unconfined")), None);
    assert_eq!(refusal(&of_pod("Unconfined")), None);
}

/// S-175; S-174: a taint is no matter of ours.
#[test]
fn another_operating_system_is_not_supported() {
    let reason = |patch: &Value| refusal(patch).map(|(reason, _)| reason);
    assert_eq!(reason(&spec(json!({"os": {"name": "linux"}}))), None);
    assert_eq!(
        reason(&spec(json!({"os": {"name": "windows"}}))).as_deref(),
        Some("PodOSNotSupported")
    );
    let labelled = |os: &str| json!({"metadata": {"labels": {"kubernetes.io/os": os}}});
    assert_eq!(reason(&labelled("linux")), None);
    assert_eq!(
        reason(&labelled("windows")).as_deref(),
        Some("PodOSSelectorNodeLabelDoesNotMatch")
    );
}

/// S-170.
#[test]
fn requests_beyond_the_node_are_refused() {
    assert_eq!(
        refusal(&requests(&json!({"cpu": "4", "memory": "1Gi"}))),
        None
    );
    let (reason, message) = refusal(&requests(&json!({"cpu": "4001m"}))).unwrap();
    assert_eq!(reason, "OutOfcpu");
    assert_eq!(
        message,
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 4001, used: 0, capacity: 4000"
    );
    let (reason, _) = refusal(&requests(&json!({"memory": "1073741825"}))).unwrap();
    assert_eq!(reason, "OutOfmemory");
}

/// S-170: all that has a sandbox counts; a pod that asks for nothing is taken even when nothing is left.
#[test]
fn requests_of_active_pods_count_together() {
    let [old, big] = ["old", "big"].map(|name| named(name, &requests(&json!({"cpu": "3"}))));
    let (small, free) = (
        named("small", &requests(&json!({"cpu": "1"}))),
        named("z-free", &json!({})),
    );
    let observed = with_sandbox(nothing(), &old);
    let plan = planned(&[&old, &big, &small, &free], &observed, &History::default());
    assert_eq!(started(&plan), ["small", "z-free"]);
    assert_eq!(reason(&plan, &big).as_deref(), Some("OutOfcpu"));
}

/// S-170.
#[test]
fn space_on_the_disk_counts_too() {
    let space = |amount: &str| requests(&json!({"ephemeral-storage": amount}));
    let (a, b) = (named("a", &space("800Mi")), named("b", &space("300Mi")));
    let plan = planned(&[&a, &b], &nothing(), &History::default());
    assert_eq!(started(&plan), ["a"]);
    assert_eq!(reason(&plan, &b).as_deref(), Some("OutOfephemeral-storage"));
}

/// S-170.
#[test]
fn a_node_takes_no_more_than_its_number_of_pods() {
    let [a, b, c] = ["a", "b", "c"].map(|name| named(name, &json!({})));
    let mut rules = node();
    rules.allocatable.pods = 2;
    let wanted = desired(&[&a, &b, &c]);
    let observed = with_sandbox(nothing(), &c);
    let plan = plan(&wanted, &observed, &History::default(), &rules, at(0));
    assert_eq!(started(&plan), ["a"]);
    assert_eq!(reason(&plan, &b).as_deref(), Some("OutOfpods"));
}

/// S-171: the first by name wins, unless another has a higher priority or runs already.
#[test]
fn the_winner_of_a_port_is_determined() {
    let [a, b] = ["a", "b"].map(|name| named(name, &port(8080)));
    let wanted = [&a, &b];
    let both = planned(&wanted, &nothing(), &History::default());
    assert_eq!(started(&both), ["a"]);
    assert_eq!(reason(&both, &b).as_deref(), Some("NodePorts"));

    let observed = with_sandbox(nothing(), &b);
    let running = planned(&wanted, &observed, &History::default());
    assert_eq!(started(&running), [""; 0]);
    assert_eq!(reason(&running, &a).as_deref(), Some("NodePorts"));

    let mut important = b.clone();
    important.pod.spec.as_mut().unwrap().priority = Some(1);
    let by_priority = planned(&[&a, &important], &nothing(), &History::default());
    assert_eq!(started(&by_priority), ["b"]);
}

/// D-3, S-171: also one that is still ending has its port; the other starts in the very pass that sees it gone.
#[test]
fn a_refused_pod_starts_when_the_cause_has_gone() {
    let [a, b] = ["a", "b"].map(|name| named(name, &port(8080)));
    let observed = with_sandbox(nothing(), &a);
    let before = planned(&[&a, &b], &observed, &History::default());
    assert_eq!(
        event_lines(&before),
        [
            "NodePorts - Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports (TCP 8080 belongs to pod default/a)"
        ]
    );
    assert!(
        note_lines(&before)
            .iter()
            .any(|note| note.contains("not taken (NodePorts)"))
    );
    let ending = planned(&[&b], &observed, &before.history);
    assert_eq!(started(&ending), [""; 0]);
    assert_eq!(event_lines(&ending), [""; 0], "announced once");
    let after = planned(&[&b], &nothing(), &ending.history);
    assert_eq!(started(&after), ["b"]);
    assert_eq!(reason(&after, &b), None);
}

/// Who owns the port, or how much others use, changes often; an event tells that the pod waits.
#[test]
fn a_refusal_is_announced_once_whoever_stands_in_the_way() {
    let [a, b, c] = ["a", "b", "c"].map(|name| named(name, &port(8080)));
    let by = |owner, history: &History| planned(&[&b], &with_sandbox(nothing(), owner), history);
    let first = by(&a, &History::default());
    let second = by(&c, &first.history);
    assert_eq!(reason(&second, &b).as_deref(), Some("NodePorts"));
    let about_b = second.events.iter().filter(|e| e.uid == b.uid);
    assert_eq!(about_b.count(), 0);
}

/// Whoever was admitted keeps its place when its sandbox is lost, but not over a reboot.
#[test]
fn a_lost_sandbox_costs_no_port() {
    let [a, b] = ["a", "b"].map(|name| named(name, &port(8080)));
    let with_b = with_sandbox(nothing(), &b);
    let history = planned(&[&a, &b], &with_b, &History::default()).history;
    let lost = planned(&[&a, &b], &nothing(), &history);
    assert_eq!(started(&lost), ["b"]);
    let rebooted = Rules {
        boot_id: "boot-2".into(),
        ..node()
    };
    let anew = plan(&desired(&[&a, &b]), &nothing(), &history, &rebooted, at(0));
    assert_eq!(started(&anew), ["a"]);
}

/// S-157: an edited pod waits for its old self, and loses its port to nobody meanwhile.
#[test]
fn an_edited_pod_keeps_its_port() {
    let rival = named("a-rival", &port(8080));
    let old = named("web", &port(8080));
    let mut new = old.clone();
    new.uid = super::fixtures::uid("web-2");
    let observed = with_sandbox(nothing(), &old);
    let before = planned(&[&rival, &old], &observed, &History::default());
    let edited = planned(&[&rival, &new], &observed, &before.history);
    assert_eq!(reason(&edited, &new), None);
    assert_eq!(reason(&edited, &rival).as_deref(), Some("NodePorts"));
    let gone = planned(&[&rival, &new], &nothing(), &edited.history);
    assert_eq!(started(&gone), ["web-2"]);
}

/// While nothing starts anyway, nobody is refused.
#[test]
fn nobody_is_judged_before_all_manifests_are_known_or_while_all_pods_end() {
    let far = named("far", &spec(json!({"nodeSelector": {"disk": "hdd"}})));
    let early = Observed {
        sources_ready: false,
        ..nothing()
    };
    let late = Observed {
        halt: Halt::AgentStop,
        ..nothing()
    };
    for observed in [early, late] {
        let plan = planned(&[&far], &observed, &History::default());
        assert_eq!(reason(&plan, &far), None);
        assert_eq!(started(&plan), [""; 0]);
    }
}

/// One that is over in this very pass leaves its place in it: no news follow.
#[test]
fn a_pod_whose_time_is_over_holds_no_port() {
    let [mut a, b] = ["a", "b"].map(|name| named(name, &port(8080)));
    a.pod.spec.as_mut().unwrap().active_deadline_seconds = Some(1);
    let wanted = desired(&[&a, &b]);
    let mut observed = nothing();
    let problem = StartProblem {
        reason: "FailedCreatePodSandBox".into(),
        message: "it failed".into(),
        at_boot_ms: 0,
        failures: 1,
    };
    observed.sandbox_problems.insert(a.uid.clone(), problem);
    let first = plan(&wanted, &observed, &History::default(), &node(), at(0));
    assert_eq!(started(&first), [""; 0]);
    let over = plan(&wanted, &observed, &first.history, &node(), at(1000));
    assert_eq!(started(&over), ["b"]);
}

/// S-160: it is another one, and judged like any other.
#[test]
fn a_pod_that_comes_back_after_it_had_finished_is_judged_anew() {
    let mut a = named("a", &json!({}));
    a.pod.spec.as_mut().unwrap().active_deadline_seconds = Some(1);
    let observed = with_sandbox(nothing(), &a);
    let wanted = desired(&[&a]);
    let pass = |wanted, observed, history: &History, boot_ms| {
        plan(wanted, observed, history, &node(), at(boot_ms)).history
    };
    let runs = pass(&wanted, &observed, &History::default(), 0);
    let finished = pass(&wanted, &observed, &runs, 1000);
    let removed = pass(&desired(&[]), &observed, &finished, 1001);
    let selector = [("disk".to_owned(), "none".to_owned())].into();
    a.pod.spec.as_mut().unwrap().node_selector = Some(selector);
    let back = plan(&desired(&[&a]), &nothing(), &removed, &node(), at(1002));
    assert_eq!(started(&back), [""; 0]);
    assert_eq!(reason(&back, &a).as_deref(), Some("NodeAffinity"));
}
