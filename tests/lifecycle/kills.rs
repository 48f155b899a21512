//! The agent is killed at every step of a start and of an end: the next one goes on, and nothing happens twice.

use super::support::agent::TestAgent;
use super::support::manifest::container;
use super::support::wait::{can_run, extent, wait_for};
use super::*;

/// What the containers tell until all run: init containers, a sidecar with a startup probe, a postStart hook.
const START: [&str; 6] = ["a", "proxy", "b", "one", "one-begun", "two"];
/// What they tell while they end.
const END: [&str; 4] = ["one-hook", "one-end", "two-end", "proxy-end"];

/// When the agent is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// A container has told this.
    Told(&'static str),
    /// The agent has said so many lines more than before.
    Said(usize),
    /// A sandbox is being made.
    Holder,
}

const WHILE_IT_STARTS: [Moment; 21] = [
    Moment::Said(1),
    Moment::Told("a"),
    Moment::Told("one"),
    Moment::Said(4),
    Moment::Told("proxy"),
    Moment::Holder,
    Moment::Said(5),
    Moment::Told("one-begun"),
    Moment::Said(10),
    Moment::Told("b"),
    Moment::Said(2),
    Moment::Said(3),
    Moment::Said(6),
    Moment::Said(7),
    Moment::Said(8),
    Moment::Said(9),
    Moment::Said(11),
    Moment::Said(12),
    Moment::Said(13),
    Moment::Said(14),
    Moment::Told("two"),
];

const WHILE_IT_ENDS: [Moment; 8] = [
    Moment::Said(1),
    Moment::Told("one-hook"),
    Moment::Told("two-end"),
    Moment::Told("one-end"),
    Moment::Told("proxy-end"),
    Moment::Said(0),
    Moment::Said(2),
    Moment::Said(3),
];

fn hook(witness: &Witness, kind: &str, word: &str) -> String {
    let script = witness.tell(word);
    format!("{kind}: {{exec: {{command: [sh, -c, {script:?}]}}}}")
}

fn manifest(witness: &Witness) -> String {
    let lives = |name| tells_its_end(witness, name, 0);
    let probe = "    startupProbe: {periodSeconds: 1, exec: {command: [\"true\"]}}\n";
    let init = [
        container("a", &witness.tell("a")),
        sidecar("proxy", &lives("proxy")) + probe,
        container("b", &witness.tell("b")),
    ];
    let hooks = format!(
        "    lifecycle:\n      {}\n      {}\n",
        hook(witness, "postStart", "one-begun"),
        hook(witness, "preStop", "one-hook"),
    );
    let regular = [
        container("one", &lives("one")) + &hooks,
        container("two", &lives("two")),
    ];
    staged("web", "", &init, &regular)
}

/// Kills the agent at this moment, or when everything of this kind has happened already; starts the next one.
fn kill_at(
    agent: &mut TestAgent,
    witness: &Witness,
    (moment, lines, all): (Moment, usize, &[&str]),
) {
    wait_for(&format!("{moment:?}"), || {
        let has_come = match moment {
            Moment::Told(word) => witness.count(word) > 0,
            Moment::Said(more) => agent.log().lines().count() >= lines + more,
            Moment::Holder => std::fs::read_dir(agent.paths.holders())
                .ok()?
                .next()
                .is_some(),
        };
        let is_late = || all.iter().all(|word| witness.count(word) > 0);
        (has_come || is_late()).then_some(())
    });
    agent.kill();
    agent.spawn();
}

fn assert_each_once(witness: &Witness, words: &[&str], moment: Moment) {
    for word in words {
        let told = witness.told();
        assert_eq!(witness.count(word), 1, "{word} after {moment:?}: {told:?}");
    }
}

/// P-87.
#[test]
fn an_agent_that_dies_at_any_step_is_followed_by_one_that_goes_on() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    let moments = WHILE_IT_STARTS.iter().cycle();
    let moments = moments.zip(WHILE_IT_ENDS.iter().cycle());
    let rounds = usize::try_from(extent(50, 5)).unwrap();
    for (start, end) in moments.take(rounds) {
        let witness = Witness::start();
        let lines = agent.log().lines().count();
        agent.put("web.yaml", &manifest(&witness));
        kill_at(&mut agent, &witness, (*start, lines, &START));
        let status = wait_for_condition(&agent, "web", "Ready", "True");
        witness.wait_for("two");
        assert_each_once(&witness, &START, *start);
        assert_eq!(agent.holder_pids().len(), 1, "{start:?}");
        for name in ["a", "proxy", "b", "one", "two"] {
            let one = container_status(&status, name);
            assert_eq!(one["restartCount"], 0, "{start:?}: {one}");
        }
        let lines = agent.log().lines().count();
        agent.remove("web.yaml");
        kill_at(&mut agent, &witness, (*end, lines, &END));
        agent.wait_for_no_pods();
        assert_each_once(&witness, &START, *end);
        assert_each_once(&witness, &END, *end);
        assert_eq!(witness.told().last().unwrap(), "proxy-end", "{end:?}");
        assert!(agent.container_pids().is_empty(), "{end:?}");
        assert!(agent.holder_pids().is_empty(), "{end:?}");
    }
}
