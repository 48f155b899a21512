//! Sidecars: started before the next, restarted always, stopped last (P-50, P-54…P-56, P-81, P-82, P-110).

use serde_json::{Value, json};

use super::fixtures::*;
use super::story::*;
use crate::holder::proto::HookState;
use crate::plan::{Finished, ProbeVerdict};
use crate::pod::probe::ProbeKind;

fn job_with(sidecar: Value) -> Story {
    let mut log = json!({"name": "log", "restartPolicy": "Always"});
    for (key, value) in sidecar.as_object().unwrap() {
        log[key] = value.clone();
    }
    Story::new(json!({
        "restartPolicy": "Never",
        "initContainers": [log, {"name": "init"}],
        "containers": [{"name": "job"}],
    }))
}

/// P-50: running is enough without a startup probe and a hook; liveness and readiness are not waited for.
#[test]
fn next_container_starts_when_the_sidecar_is_started() {
    let probe = json!({"tcpSocket": {"port": 80}});
    let mut story = job_with(json!({"livenessProbe": probe, "readinessProbe": probe}));
    assert_eq!(story.asks(1, vec![]), ["start log 0"]);
    assert_eq!(story.asks(2, vec![running("log", 0, 1)]), ["start init 0"]);

    let mut story = job_with(json!({"startupProbe": probe}));
    let plan = story.sees(2, vec![running("log", 0, 1)]);
    assert_eq!(action_lines(&plan), NONE);
    assert_eq!(
        note_lines(&plan)[1..],
        [
            "init waits for sidecar log to be started",
            "job waits for sidecar log to be started"
        ]
    );
    assert_eq!(phase(&plan, &story.pod), "Pending");
    story.finds("log-0", ProbeKind::Startup, ProbeVerdict::Success);
    assert_eq!(story.asks(3, vec![running("log", 0, 1)]), ["start init 0"]);

    let mut story = job_with(json!({}));
    let hook = |state| vec![with_post_start(running("log", 0, 1), state)];
    let plan = story.sees(2, hook(HookState::Running));
    assert_eq!(action_lines(&plan), NONE);
    assert_eq!(
        note_lines(&plan)[1],
        "init waits for the postStart hook of container log"
    );
    assert_eq!(story.asks(3, hook(HookState::Done)), ["start init 0"]);
}

/// P-54, P-69: after any exit, with back-off, whatever the pod's policy. P-55: others go on meanwhile.
#[test]
fn sidecar_is_restarted_always_and_holds_up_nobody_who_has_begun() {
    let mut story = job_with(json!({}));
    story.sees(1, vec![running("log", 0, 0), running("init", 0, 1)]);
    for (n, code) in [(0, 0), (1, 1)] {
        let records = vec![exited("log", n, (0, 2), code), running("init", 0, 1)];
        let asked = story.asks(3, records);
        assert_eq!(asked.is_empty(), n == 1, "{asked:?}");
    }
    // In back-off; the init container is done, so the job starts.
    let records = vec![exited("log", 1, (0, 2), 1), exited("init", 0, (1, 4), 0)];
    let plan = story.sees(5, records);
    assert_eq!(action_lines(&plan), ["start job 0"]);
    assert_eq!(waiting_lines(&plan, &story.pod)[0], "log: CrashLoopBackOff");
    let records = vec![
        exited("log", 1, (0, 2), 1),
        exited("init", 0, (1, 4), 0),
        running("job", 0, 5),
    ];
    assert_eq!(story.asks(10_002, records), ["start log 2"]);
}

/// A sidecar that has not come up once is waited for.
#[test]
fn sidecar_that_never_started_holds_up_the_rest() {
    let mut story = job_with(json!({}));
    story.sees(1, vec![exited("log", 0, (0, 1), 1)]);
    let plan = story.sees(3, vec![exited("log", 1, (1, 2), 1)]);
    assert_eq!(action_lines(&plan), NONE);
    assert_eq!(
        waiting_lines(&plan, &story.pod),
        [
            "log: CrashLoopBackOff",
            "init: PodInitializing",
            "job: PodInitializing"
        ]
    );
}

/// P-56: a changed or failing sidecar is replaced, and nothing else is touched.
#[test]
fn sidecar_is_replaced_alone() {
    let all = || {
        vec![
            running("log", 0, 0),
            exited("init", 0, (1, 2), 0),
            running("job", 0, 3),
        ]
    };
    let mut story = job_with(json!({"livenessProbe": {"tcpSocket": {"port": 80}}}));
    story.sees(4, all());
    story.finds("log-0", ProbeKind::Liveness, ProbeVerdict::Failure);
    let plan = story.sees(5, all());
    assert_eq!(action_lines(&plan), ["stop log-0 5000"]);
    assert_eq!(
        stop_reasons(&plan),
        ["Container log failed liveness probe, will be restarted"]
    );

    let mut story = job_with(json!({}));
    story.sees(4, all());
    let spec = story.pod.pod.spec.as_mut().unwrap();
    spec.init_containers.as_mut().unwrap()[0].image = Some("app:2".into());
    assert_eq!(story.asks(5, all()), ["stop log-0 5000"]);
}

/// P-44, P-81, P-110: the pod has ended when its regular containers have, whatever the sidecar is doing and exits with.
#[test]
fn pod_ends_with_its_regular_containers() {
    for (code, expected) in [(0, Finished::Succeeded), (3, Finished::Failed)] {
        let mut story = job_with(json!({}));
        let init = exited("init", 0, (1, 2), 0);
        let job = exited("job", 0, (3, 4), code);
        story.sees(
            3,
            vec![running("log", 0, 0), init.clone(), running("job", 0, 3)],
        );
        let plan = story.sees(5, vec![running("log", 0, 0), init.clone(), job.clone()]);
        assert_eq!(action_lines(&plan), ["stop log-0 5000 after job"]);
        assert_eq!(story.memory().finished, Some(expected));
        let gone = vec![exited("log", 0, (0, 6), 137), init, job];
        let plan = story.sees(7, gone);
        assert_eq!(action_lines(&plan), ["leave"]);
        let shown = if code == 0 { "Succeeded" } else { "Failed" };
        assert_eq!(phase(&plan, &story.pod), shown);
    }
}

/// P-80, P-81: everything is told at once; a sidecar's signal waits for the regular containers and the later sidecars.
#[test]
fn removed_pod_ends_its_sidecars_in_reverse_order() {
    let mut story = Story::new(json!({
        "restartPolicy": "Always",
        "initContainers": [
            {"name": "s1", "restartPolicy": "Always"},
            {"name": "init"},
            {"name": "s2", "restartPolicy": "Always",
             "lifecycle": {"preStop": {"sleep": {"seconds": 2}}}},
        ],
        "containers": [{"name": "a"}, {"name": "b"}],
    }));
    let records = vec![
        running("s1", 0, 0),
        exited("init", 0, (1, 2), 0),
        running("s2", 0, 3),
        running("a", 0, 4),
        running("b", 0, 5),
    ];
    story.sees(6, records);
    let plan = planned(&[], &story.observed, &story.history, 7);
    assert_eq!(
        action_lines(&plan),
        [
            "stop s1-0 5000 after s2 a b",
            "stop s2-0 5000 sleep 2000 after a b",
            "stop a-0 5000",
            "stop b-0 5000"
        ]
    );
}

/// What is found out in a pass counts in that pass: nobody starts behind a sidecar that is about to end.
#[test]
fn a_sidecar_that_is_to_end_is_waited_for_at_once() {
    let mut failed_hook = job_with(json!({}));
    let failed = HookState::Failed {
        message: "exit code 1".into(),
    };
    let record = with_post_start(running("log", 0, 1), failed);
    let plan = failed_hook.sees(2, vec![record]);
    assert_eq!(action_lines(&plan), ["stop log-0 5000"]);
    assert_eq!(
        note_lines(&plan)[1],
        "init waits for sidecar log to be started"
    );

    let probe = json!({"tcpSocket": {"port": 80}});
    let mut failed_probe = job_with(json!({"livenessProbe": probe}));
    failed_probe.finds("log-0", ProbeKind::Liveness, ProbeVerdict::Failure);
    let asked = failed_probe.asks(2, vec![running("log", 0, 1)]);
    assert_eq!(asked, ["stop log-0 5000"]);
}
