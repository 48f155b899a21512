//! The order of init containers (P-50…P-53, P-57), and what a new sandbox means for them (P-33, P-36).

use serde_json::json;

use super::fixtures::*;
use super::story::*;
use crate::plan::Finished;

fn two_then_app() -> Story {
    Story::new(json!({
        "restartPolicy": "Always",
        "initContainers": [{"name": "one"}, {"name": "two"}],
        "containers": [{"name": "app"}],
    }))
}

/// P-50, P-131.
#[test]
fn init_containers_run_one_after_another_and_then_the_rest() {
    let mut story = two_then_app();
    let plan = story.sees(1, vec![]);
    assert_eq!(action_lines(&plan), ["start one 0"]);
    assert_eq!(
        waiting_lines(&plan, &story.pod),
        [
            "one: PodInitializing",
            "two: PodInitializing",
            "app: PodInitializing"
        ]
    );
    assert_eq!(
        note_lines(&plan),
        [
            "one starts now",
            "two waits for init container one to succeed",
            "app waits for init container one to succeed"
        ]
    );
    assert_eq!(story.asks(2, vec![running("one", 0, 1)]), NONE);
    let one = exited("one", 0, (1, 3), 0);
    assert_eq!(story.asks(4, vec![one.clone()]), ["start two 0"]);
    let two = exited("two", 0, (4, 5), 0);
    let init = vec![one, two];
    assert_eq!(story.asks(6, init.clone()), ["start app 0"]);
    let all = [init, vec![running("app", 0, 7)]].concat();
    let plan = story.sees(8, all);
    assert_eq!(action_lines(&plan), NONE);
    assert_eq!(phase(&plan, &story.pod), "Running");
}

/// P-53: retried with back-off, also under `Always`; with `Never` the pod has failed.
#[test]
fn failed_init_container_is_retried_unless_the_policy_is_never() {
    for (policy, code, expected) in [
        ("Always", 1, &["start one 1"][..]),
        ("OnFailure", 1, &["start one 1"]),
        ("Never", 1, &["leave"]),
        ("Never", 0, &["start app 0"]),
    ] {
        let mut story = Story::new(json!({
            "restartPolicy": policy,
            "initContainers": [{"name": "one"}],
            "containers": [{"name": "app"}],
        }));
        story.sees(1, vec![]);
        let asked = story.asks(3, vec![exited("one", 0, (1, 2), code)]);
        assert_eq!(asked, expected, "{policy} {code}");
        let is_failed = story.memory().finished == Some(Finished::Failed);
        assert_eq!(is_failed, policy == "Never" && code == 1);
    }
}

/// P-53, P-71: the followers wait for the init container, which waits for its back-off.
#[test]
fn init_container_in_back_off_holds_up_the_rest() {
    let mut story = two_then_app();
    story.sees(1, vec![exited("one", 0, (0, 1), 1)]);
    let plan = story.sees(2000, vec![exited("one", 1, (1000, 2000), 1)]);
    assert_eq!(action_lines(&plan), NONE);
    assert_eq!(plan.wake_at_boot_ms, Some(12_000));
    assert_eq!(
        waiting_lines(&plan, &story.pod),
        [
            "one: CrashLoopBackOff",
            "two: PodInitializing",
            "app: PodInitializing"
        ]
    );
    let due = story.asks(12_000, vec![exited("one", 1, (1000, 2000), 1)]);
    assert_eq!(due, ["start one 2"]);
}

/// P-51, P-52: who has begun is looked at, not whose record is still there.
#[test]
fn passed_init_containers_are_never_looked_at_again() {
    let mut story = two_then_app();
    // Nothing is known of the first two, or one has even failed.
    let app = running("app", 0, 5);
    assert_eq!(story.asks(6, vec![app.clone()]), NONE);
    let mut story = two_then_app();
    let failed = exited("one", 3, (0, 1), 1);
    assert_eq!(story.asks(6, vec![failed, app]), NONE);
    let crashed = exited("app", 0, (5, 7), 1);
    assert_eq!(story.asks(8, vec![crashed]), ["start app 1"]);
    let mut story = two_then_app();
    assert_eq!(
        story.asks(6, vec![exited("two", 0, (1, 2), 0)]),
        ["start app 0"]
    );
}

/// P-57: another image for a finished init container is for the next sandbox. P-40: for a running one it is for now.
#[test]
fn image_of_an_init_container_changes() {
    let mut story = two_then_app();
    story.sees(1, vec![exited("one", 0, (0, 1), 0)]);
    let spec = story.pod.pod.spec.as_mut().unwrap();
    spec.init_containers.as_mut().unwrap()[0].image = Some("app:2".into());
    let two = running("two", 0, 2);
    assert_eq!(
        story.asks(3, vec![exited("one", 0, (0, 1), 0), two.clone()]),
        NONE
    );
    let spec = story.pod.pod.spec.as_mut().unwrap();
    spec.init_containers.as_mut().unwrap()[1].image = Some("app:2".into());
    assert_eq!(
        story.asks(4, vec![exited("one", 0, (0, 1), 0), two]),
        ["stop two-0 5000"]
    );
}

/// P-33, P-36: a new sandbox begins at the first init container; restart counts go on (P-47).
#[test]
fn new_sandbox_runs_init_containers_again() {
    let mut story = two_then_app();
    let done = || {
        vec![
            exited("one", 0, (0, 1), 0),
            exited("two", 0, (1, 2), 0),
            running("app", 0, 3),
        ]
    };
    story.sees(4, done());
    assert_eq!(story.memory().epoch, 1);
    story.state(dead(done()));
    assert_eq!(action_lines(&story.pass(5)), ["clean"]);
    let uid = story.pod.uid.clone();
    let mut sandbox = story.observed.sandboxes.remove(&uid).unwrap();
    assert_eq!(action_lines(&story.pass(6)), ["sandbox 1"]);
    sandbox.record.attempt = 1;
    story.observed.sandboxes.insert(uid, sandbox);
    let plan = story.sees(7, vec![]);
    assert_eq!(action_lines(&plan), ["start one 1"]);
    assert_eq!(story.memory().epoch, 2);
    // The agent may restart at any point: the epoch is that of the sandbox.
    story.sees(8, vec![running("one", 1, 7)]);
    let done = vec![exited("one", 1, (7, 9), 0)];
    assert_eq!(story.asks(10, done.clone()), ["start two 1"]);
    let done = [done, vec![exited("two", 1, (10, 11), 0)]].concat();
    assert_eq!(story.asks(12, done), ["start app 1"]);
    assert_eq!(story.memory().epoch, 2);
}

/// P-32: in a new sandbox only what policy wants again runs again; if that is nothing, there is none.
#[test]
fn new_sandbox_is_not_made_for_what_is_done() {
    let spec = json!({
        "restartPolicy": "OnFailure",
        "initContainers": [{"name": "one"}],
        "containers": [{"name": "a"}, {"name": "b"}],
    });
    let records = vec![
        exited("one", 0, (0, 1), 0),
        exited("a", 0, (2, 3), 0),
        running("b", 0, 3),
    ];
    let mut story = Story::new(spec);
    story.sees(4, records.clone());
    story.state(dead(records));
    assert_eq!(action_lines(&story.pass(5)), ["clean"]);
    let uid = story.pod.uid.clone();
    let sandbox = story.observed.sandboxes.get_mut(&uid).unwrap();
    sandbox.record.attempt = 1;
    assert_eq!(story.asks(6, vec![]), ["start one 1"]);
    assert_eq!(
        story.asks(8, vec![exited("one", 1, (6, 7), 0)]),
        ["start b 1"]
    );
}

/// An init container that was told to stop has not succeeded, whatever it exits with.
#[test]
fn interrupted_init_container_runs_again() {
    let mut story = two_then_app();
    story.sees(1, vec![running("one", 0, 0)]);
    // Somebody else told the holder.
    story.sees(2, vec![stopping("one", 0, 9000)]);
    assert_eq!(
        story.asks(4, vec![exited("one", 0, (0, 3), 0)]),
        ["start one 1"]
    );
}

/// P-51: what a container did before an edit made it an init container does not fail the pod.
#[test]
fn container_that_becomes_an_init_container_behind_others_has_passed() {
    let mut story = Story::new(json!({
        "restartPolicy": "Always",
        "containers": [{"name": "a"}, {"name": "s"}],
    }));
    story.sees(1, vec![running("a", 0, 0), running("s", 0, 0)]);
    story.pod.pod.spec = pod_of(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "a"}, {"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "new"}],
    }))
    .pod
    .spec
    .clone();
    let plan = story.sees(3, vec![exited("a", 0, (0, 2), 1), running("s", 0, 0)]);
    assert_eq!(action_lines(&plan), ["start new 0"]);
    assert_eq!(phase(&plan, &story.pod), "Pending");
    assert_eq!(story.memory().finished, None);
}
