//! Laws that hold whatever happens to the node.

use super::fixtures::{pod, with_image};
use super::sim::World;
use super::sim::pods::IMAGES;
use crate::pod::StaticPod;

/// Stories by chance; with `VETCH_TEST_FULL` many more, or the one of `VETCH_TEST_SEED`.
#[test]
fn whatever_happens_the_laws_hold_and_the_end_is_as_desired() {
    let is_full = std::env::var_os("VETCH_TEST_FULL").is_some_and(|full| full != "0");
    let (seeds, steps) = if is_full {
        ((0..60).collect(), 10_000)
    } else {
        // In the last one two agents ask for the same start.
        (vec![0, 1, 2, 3, 14], 1500)
    };
    if let Ok(seed) = std::env::var("VETCH_TEST_SEED") {
        let mut world = World::new(seed.parse().unwrap());
        world.is_loud = true;
        return story(world, steps);
    }
    for seed in seeds {
        println!("VETCH_TEST_SEED={seed}");
        story(World::new(seed), steps);
    }
}

fn story(mut world: World, steps: u64) {
    let mut next_rest = 300;
    for step in 0..steps {
        world.step();
        if step == next_rest {
            next_rest += 700;
            world.settle();
            world.dice.is_calm = false;
        }
    }
    world.settle();
    println!("{} passes", world.passes);
}

/// A node without faults.
fn calm() -> World {
    let mut world = World::new(0);
    world.calm_down();
    world
}

/// S-161: of 300 quick edits the last one runs.
#[test]
fn of_300_quick_edits_the_last_one_runs() {
    for edits_between_progress in [1, 3, 7] {
        let mut world = calm();
        let edits: Vec<StaticPod> = (0..300_usize)
            .map(|n| {
                let names = &["a", "b", "c"][..=n / 3 % 3];
                let id = format!("p{}", n % 30);
                with_image(pod(&id, "Always", names), 0, IMAGES[n % 3])
            })
            .collect();
        for (n, edit) in edits.iter().enumerate() {
            world.put(edit.clone());
            if n % edits_between_progress == 0 {
                world.advance(2);
            }
            world.turn();
        }
        world.settle();
        let wanted: Vec<_> = world.desired.values().collect();
        assert_eq!(wanted, [&edits[299]]);
    }
}

/// 12.3: a container that runs 5 s and fails starts at these times.
#[test]
fn back_off_follows_the_test_vector() {
    let mut world = calm();
    world.put(pod("u1", "Always", &["a"]));
    let mut starts: Vec<u64> = Vec::new();
    while starts.len() < 9 {
        world.advance(1000);
        world.turn();
        if let Some(since_ms) = world.running_since("a") {
            starts.push(since_ms);
            let until_ms = since_ms + 5000;
            while world.boot_ms < until_ms {
                world.advance(until_ms - world.boot_ms);
                world.turn();
            }
            world.end_container("a", 1);
        }
    }
    let seconds: Vec<u64> = starts.iter().map(|at| (at - starts[0]) / 1000).collect();
    assert_eq!(seconds, [0, 5, 20, 45, 90, 175, 340, 645, 950]);
}
