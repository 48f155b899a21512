use serde_json::json;

use super::*;
use crate::config::Signal;
use crate::figures::pressure::Level;

fn at(boot_ms: u64) -> Stamp {
    let ms = i64::try_from(boot_ms).unwrap();
    Stamp {
        boot_ms,
        wall: Timestamp::from_millisecond(ms).unwrap(),
    }
}

fn shortage(signal: Signal) -> Shortage {
    Shortage {
        signal,
        threshold: Threshold::Share(10_000),
        level: Level {
            available: 50 << 20,
            capacity: 1000 << 20,
        },
    }
}

fn holding(pressure: &Pressure) -> Vec<String> {
    let conditions = pressure.conditions().into_iter();
    let holding = conditions.filter(|c| c.status == "True");
    holding
        .map(|c| format!("{} {}", c.kind, c.last_transition_time.as_millisecond()))
        .collect()
}

/// N-5: seen once, a condition holds for the time of transition, and its own time moves with its status only.
#[test]
fn conditions_stick() {
    let mut pressure = Pressure::new(at(0));
    let mut look = |boot_ms, shortages: Vec<Shortage>| {
        pressure.update(shortages, (Duration::from_millis(300), at(boot_ms)));
        (holding(&pressure), pressure.observe().lasting.len())
    };
    let disk = || vec![shortage(Signal::ImagefsInodesFree)];
    assert_eq!(look(1, Vec::new()), (vec![], 0));
    assert_eq!(look(2, disk()), (vec!["DiskPressure 2".to_owned()], 2));
    assert_eq!(look(200, disk()).0, ["DiskPressure 2"]);
    assert_eq!(look(499, Vec::new()).0, ["DiskPressure 2"]);
    assert_eq!(look(500, Vec::new()).0, [] as [&str; 0]);
    let both = vec![
        shortage(Signal::MemoryAvailable),
        shortage(Signal::PidAvailable),
    ];
    assert_eq!(look(600, both).0, ["MemoryPressure 600", "PIDPressure 600"]);
}

/// D-5: which images a person could remove, as long as that is of use.
#[test]
fn disk_pressure_tells_of_unused_images() {
    let mut pressure = Pressure::new(at(0));
    let message = |pressure: &Pressure| pressure.conditions().swap_remove(1).message;
    let mut look = |boot_ms, shortages: Vec<Shortage>, unused: &str| {
        pressure.update(shortages, (Duration::ZERO, at(boot_ms)));
        pressure.unused += unused;
        message(&pressure)
    };
    let disk = || vec![shortage(Signal::NodefsAvailable)];
    assert_eq!(
        look(1, disk(), "no image is unused"),
        "kubelet has disk pressure; no image is unused"
    );
    assert_eq!(
        look(2, disk(), ""),
        "kubelet has disk pressure; no image is unused"
    );
    assert_eq!(look(3, Vec::new(), ""), "kubelet has no disk pressure");
}

/// N-10.
#[test]
fn the_plan_is_told_when_pods_were_weighed() {
    let mut pressure = Pressure::new(at(0));
    let short = vec![shortage(Signal::NodefsAvailable)];
    pressure.update(short, (Duration::from_secs(300), at(1)));
    assert_eq!(
        pressure.observe().shortage,
        None,
        "nothing is known of pods"
    );
    pressure.weighed = Some(Weighed {
        at_boot_ms: 7,
        pods: json!([
            {"podRef": {"uid": "a"}, "ephemeral-storage": {"usedBytes": 12}},
            {"podRef": {"uid": "b"}},
        ]),
    });
    let told = pressure.observe().shortage.unwrap();
    assert_eq!(told.weighed_at_boot_ms, 7);
    assert_eq!(told.usage.into_values().collect::<Vec<_>>(), [12, 0]);
    assert_eq!(
        told.message,
        "The node was low on resource: ephemeral-storage. Threshold quantity: 100Mi, available: 50Mi."
    );
    pressure.update(Vec::new(), (Duration::from_secs(300), at(2)));
    assert_eq!(pressure.observe().shortage, None);
    assert_eq!(pressure.observe().lasting.len(), 2);
}

#[test]
fn limits_are_told_as_they_were_set() {
    let own = Shortage {
        threshold: Threshold::Amount(100 << 20),
        ..shortage(Signal::MemoryAvailable)
    };
    assert_eq!(limit(&own), "memory.available is below 100Mi");
    assert_eq!(
        limit(&shortage(Signal::NodefsAvailable)),
        "nodefs.available is below 10%"
    );
}
