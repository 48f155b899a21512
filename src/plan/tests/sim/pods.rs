//! Manifests by chance: every part that a pod's life has.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::super::fixtures::uid;
use super::dice::Dice;
use crate::pod::{Origin, StaticPod};

pub const SLOTS: usize = 4;
pub const VARIANTS: usize = 4;
pub const IMAGES: [&str; 3] = ["app", "app:2", "app:3"];

/// Every manifest of a story: by slot, then by variant. The pods of slot 0 have one UID, those of others one each.
pub fn library(dice: &mut Dice) -> Vec<Vec<StaticPod>> {
    let slot = |slot| (0..VARIANTS).map(|v| manifest((slot, v), dice)).collect();
    (0..SLOTS).map(slot).collect()
}

fn manifest((slot, variant): (usize, usize), dice: &mut Dice) -> StaticPod {
    let id = match slot {
        0 => "fixed".to_owned(),
        _ => format!("p{slot}-{variant}"),
    };
    let name = format!("pod{slot}-node");
    let spec = spec(slot, dice);
    StaticPod {
        uid: uid(&id),
        pod: serde_json::from_value::<Pod>(json!({
            "metadata": {"name": name, "namespace": "default", "uid": id},
            "spec": spec,
        }))
        .unwrap()
        .into(),
        document_hash: format!("{slot}-{variant}"),
        origin: Origin {
            file: "web.yaml".into(),
            line: 1,
        },
        diagnostics: Vec::new(),
    }
}

fn spec(slot: usize, dice: &mut Dice) -> Value {
    let policy = dice.pick(&["Always", "Always", "OnFailure", "Never"]);
    let init: Vec<Value> = (0..dice.below(4))
        .map(|n| init_container(&name(slot, n), dice))
        .collect();
    let first = u64::try_from(init.len()).unwrap();
    let regular: Vec<Value> = (0..1 + dice.below(3))
        .map(|n| regular_container(&name(slot, first + n), dice))
        .collect();
    let mut spec = json!({
        "restartPolicy": policy,
        "terminationGracePeriodSeconds": dice.pick(&[0, 5, 30, 200]),
        "priority": dice.pick(&[0, 0, 1500]),
        "initContainers": init,
        "containers": regular,
    });
    if dice.one_in(6) {
        spec["activeDeadlineSeconds"] = json!(dice.pick(&[30, 600, 7200, 100_000]));
    }
    if dice.one_in(20) {
        spec["nodeSelector"] = json!({"disk": "ssd"});
    }
    spec
}

/// In slot 0 a name can be an init container's in one variant and a regular one's in the next.
fn name(slot: usize, n: u64) -> String {
    let all = ["a", "b", "c", "d", "e", "f", "g"];
    let shift = if slot == 0 { n } else { n + 1 };
    all[usize::try_from(shift).unwrap() % all.len()].to_owned()
}

fn container(name: &str, dice: &mut Dice) -> Value {
    let mut container = json!({
        "name": name,
        "image": dice.pick(&IMAGES),
        "imagePullPolicy": "IfNotPresent",
    });
    if dice.one_in(6) {
        container["restartPolicyRules"] = json!([{
            "action": dice.pick(&["Restart", "RestartAllContainers"]),
            "exitCodes": dice.pick(&[
                json!({"operator": "In", "values": [42]}),
                json!({"operator": "NotIn", "values": [0]}),
            ]),
        }]);
        container["restartPolicy"] = json!(dice.pick(&["Never", "OnFailure"]));
    }
    container
}

fn init_container(name: &str, dice: &mut Dice) -> Value {
    if dice.one_in(2) {
        return container(name, dice);
    }
    let mut sidecar = lasting_container(name, dice);
    sidecar["restartPolicy"] = json!("Always");
    sidecar
        .as_object_mut()
        .unwrap()
        .remove("restartPolicyRules");
    sidecar
}

fn regular_container(name: &str, dice: &mut Dice) -> Value {
    lasting_container(name, dice)
}

fn lasting_container(name: &str, dice: &mut Dice) -> Value {
    let mut container = container(name, dice);
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if dice.one_in(3) {
            container[kind] = probe(kind, dice);
        }
    }
    let mut lifecycle = json!({});
    for kind in ["postStart", "preStop"] {
        if dice.one_in(3) {
            lifecycle[kind] = hook(dice);
        }
    }
    container["lifecycle"] = lifecycle;
    if dice.one_in(5) {
        container["ports"] = json!([{"containerPort": 80, "hostPort": dice.pick(&[8080, 8081])}]);
    }
    container
}

fn hook(dice: &mut Dice) -> Value {
    if dice.one_in(2) {
        json!({"exec": {"command": ["x"]}})
    } else {
        json!({"sleep": {"seconds": dice.below(20)}})
    }
}

fn probe(kind: &str, dice: &mut Dice) -> Value {
    let mut probe = json!({
        "exec": {"command": ["x"]},
        "periodSeconds": dice.pick(&[5, 10, 60]),
        "failureThreshold": 1 + dice.below(3),
        "initialDelaySeconds": dice.pick(&[0, 0, 20]),
    });
    if kind == "startupProbe" {
        probe["failureThreshold"] = json!(40);
    } else if kind == "livenessProbe" && dice.one_in(3) {
        probe["terminationGracePeriodSeconds"] = json!(dice.pick(&[1, 90]));
    }
    probe
}
