//! What a person sees of pods that change.

#[expect(dead_code, reason = "the harness has more than is needed here")]
mod support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use support::agent::TestAgent;
use support::manifest::{LIVES, manifest};
use support::wait::can_run;

/// One line for each change, over a restart of the agent too.
#[test]
fn get_pods_with_w_follows_changes_over_a_restart_of_the_agent() {
    if !can_run() {
        return;
    }
    let mut agent = TestAgent::start();
    agent.put("web.yaml", &manifest("web", 1, LIVES));
    agent.text(&["wait", "--for=condition=Ready", "pod/web"]);
    let mut follower = agent
        .vetch(&["get", "pods", "-w"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("start vetch");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let mut words = |count: usize| -> String {
        let line = lines.next().expect("a line").expect("text");
        let words: Vec<&str> = line.split_whitespace().take(count).collect();
        words.join(" ")
    };
    assert_eq!(words(5), "NAME READY STATUS RESTARTS AGE");
    assert_eq!(words(4), "web-box 1/1 Running 0");
    agent.kill();
    agent.spawn();
    agent.text(&["wait", "--for=condition=Ready", "pod/web"]);
    agent.remove("web.yaml");
    assert_eq!(words(4), "web-box 1/1 Terminating 0");
    while words(3) != "web-box 0/1 Deleted" {}
    follower.kill().expect("kill");
    follower.wait().expect("wait");
    assert_eq!(agent.text(&["get", "pods", "-o", "name"]), "");
}
