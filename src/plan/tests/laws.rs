//! Laws that hold whatever happens to the node.

use proptest::prelude::*;
use proptest::sample::select;

use super::fixtures::{pod, uid, with_image};
use super::sim::World;
use super::sim_node::Luck;
use crate::plan::{Action, Halt, ImagePresence};
use crate::pod::StaticPod;

const IMAGES: [&str; 3] = ["app", "app:2", "app:3"];
const POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];

/// Something that happens to a node.
#[derive(Debug, Clone)]
enum Happening {
    /// The manifest of this slot is written. Slot 0 has a fixed uid.
    Edit {
        slot: usize,
        image: usize,
        containers: usize,
        policy: usize,
    },
    Remove(usize),
    Progress(Luck),
    Exit(usize, i32),
    KillHolder(usize),
    RestartAgent,
    Reboot,
    Image(usize, bool),
    Sources(bool),
    StopAll,
    Wait(u64),
    /// To the time that the last plan asked to be woken at.
    Sleep,
}

fn happening() -> impl Strategy<Value = Happening> {
    let luck = select(vec![
        Luck::Good,
        Luck::Good,
        Luck::Good,
        Luck::Bad,
        Luck::StartError,
    ]);
    prop_oneof![
        4 => (0..3_usize, 0..3_usize, 1..4_usize, 0..3_usize).prop_map(
            |(slot, image, containers, policy)| Happening::Edit { slot, image, containers, policy }
        ),
        2 => (0..3_usize).prop_map(Happening::Remove),
        12 => luck.prop_map(Happening::Progress),
        5 => (0..9_usize, select(vec![0, 1, 1, 139])).prop_map(|(n, code)| Happening::Exit(n, code)),
        1 => (0..3_usize).prop_map(Happening::KillHolder),
        1 => Just(Happening::RestartAgent),
        1 => Just(Happening::Reboot),
        1 => (0..3_usize, any::<bool>()).prop_map(|(n, here)| Happening::Image(n, here)),
        1 => any::<bool>().prop_map(Happening::Sources),
        1 => Just(Happening::StopAll),
        2 => (0..900_000_u64).prop_map(Happening::Wait),
        3 => Just(Happening::Sleep),
    ]
}

fn manifest(slot: usize, image: usize, containers: usize, policy: usize) -> StaticPod {
    let id = match slot {
        0 => "fixed".to_owned(),
        _ => format!("p{slot}-{image}{containers}{policy}"),
    };
    // A policy cannot be edited in place.
    let policy = POLICIES[if slot == 0 { 0 } else { policy }];
    let mut p = pod(&id, policy, &["a", "b", "c"][..containers]);
    p.pod.metadata.name = Some(format!("pod{slot}-node"));
    p.document_hash = format!("{image}{containers}{policy}");
    with_image(p, 0, IMAGES[image])
}

fn happen(world: &mut World, happening: &Happening, wake_at: Option<u64>) {
    match *happening {
        Happening::Edit {
            slot,
            image,
            containers,
            policy,
        } => {
            happen(world, &Happening::Remove(slot), None);
            let p = manifest(slot, image, containers, policy);
            world.desired.insert(p.uid.clone(), p);
        }
        Happening::Remove(slot) => {
            let name = format!("pod{slot}-node");
            world.desired.retain(|_, p| p.name() != name);
        }
        Happening::Progress(luck) => {
            world.progress(luck);
        }
        Happening::Exit(n, code) => world.exit(n, code),
        Happening::KillHolder(n) => world.kill_holder(n),
        Happening::RestartAgent => world.restart_agent(),
        Happening::Reboot => world.reboot(),
        Happening::Image(n, here) => world.set_image(IMAGES[n], presence(here)),
        Happening::Sources(ready) => world.observed.sources_ready = ready,
        Happening::StopAll => world.observed.halt = Halt::AgentStop,
        Happening::Wait(ms) => world.boot_ms += ms,
        Happening::Sleep => world.boot_ms = world.boot_ms.max(wake_at.unwrap_or_default()),
    }
}

fn presence(here: bool) -> ImagePresence {
    if here {
        ImagePresence::Present("sha256:x".into())
    } else {
        ImagePresence::Absent
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each pass keeps the laws (checked in `World::pass`), and in the end the node is as desired.
    #[test]
    fn any_history_ends_in_the_last_desired_state(
        happenings in proptest::collection::vec(happening(), 1..80)
    ) {
        let mut world = World::new();
        let mut wake_at = None;
        for h in &happenings {
            happen(&mut world, h, wake_at);
            wake_at = world.pass().wake_at_boot_ms;
        }
        if world.observed.halt != Halt::No {
            world.settle();
            prop_assert!(world.observed.sandboxes.is_empty());
            world.restart_agent();
        }
        for image in IMAGES {
            world.set_image(image, presence(true));
        }
        world.observed.sources_ready = true;
        world.settle();
        world.check_settled();
    }
}

/// S-161: of 300 quick edits the last one runs.
#[test]
fn of_300_quick_edits_the_last_one_runs() {
    for edits_between_progress in [1, 3, 7] {
        let mut world = World::new();
        for edit in 0..300_usize {
            let image = edit % IMAGES.len();
            let containers = 1 + edit / 3 % 3;
            happen(
                &mut world,
                &Happening::Edit {
                    slot: 1,
                    image,
                    containers,
                    policy: 0,
                },
                None,
            );
            world.pass();
            if edit % edits_between_progress == 0 {
                world.progress(Luck::Good);
            }
        }
        for image in IMAGES {
            world.set_image(image, presence(true));
        }
        world.settle();
        world.check_settled();
        let left: Vec<_> = world.observed.sandboxes.keys().cloned().collect();
        assert_eq!(left, [uid("p1-210")]);
    }
}

/// 12.3: a container that runs 5 s and fails starts at these times.
#[test]
fn back_off_follows_the_test_vector() {
    let mut world = World::new();
    let p = pod("u1", "Always", &["a"]);
    world.desired.insert(p.uid.clone(), p);
    world.pass();
    world.progress(Luck::Good);
    let zero = world.boot_ms;
    let mut starts = Vec::new();
    while starts.len() < 9 {
        let plan = world.pass();
        match plan.actions.last() {
            Some(Action::StartContainer { .. }) => {
                starts.push((world.boot_ms - zero) / 1000);
                world.progress(Luck::Good);
                world.boot_ms += 5000;
                world.exit(0, 1);
            }
            Some(_) => {
                world.progress(Luck::Good);
            }
            None => world.boot_ms = plan.wake_at_boot_ms.unwrap(),
        }
    }
    assert_eq!(starts, [0, 5, 20, 45, 90, 175, 340, 645, 950]);
}
