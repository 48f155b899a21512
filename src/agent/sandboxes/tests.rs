use async_channel::Receiver;

use super::*;
use crate::holder::proto::{
    Exit, HookState, InstanceState, PROTO_VERSION, ProcessId, Request, SandboxSpec, Stamp,
};
use crate::pod::{Origin, StaticPod};

fn uid() -> PodUid {
    PodUid::try_from("u".to_owned()).unwrap()
}

fn stamp() -> Stamp {
    Stamp {
        boot_ms: 1,
        wall: jiff::Timestamp::UNIX_EPOCH,
    }
}

fn holding() -> (Holding, Receiver<Parcel>) {
    let record = PodRecord {
        version: PROTO_VERSION,
        pod: StaticPod {
            uid: uid(),
            pod: Default::default(),
            document_hash: String::new(),
            origin: Origin {
                file: "web.yaml".into(),
                line: 1,
            },
            diagnostics: Vec::new(),
        },
        attempt: 0,
        sandbox: SandboxSpec {
            holder_cgroup: "/t/holders/u".into(),
            pod_cgroup: "/t/podu".into(),
            host_network: true,
            hostname: String::new(),
            host_ipc: false,
            pid: Default::default(),
            sysctls: Default::default(),
            trash: "/trash".into(),
        },
    };
    let (requests, asked) = async_channel::bounded(MAX_WAITING);
    let id = SandboxId {
        uid: uid(),
        serial: 1,
    };
    (Holding::new(id, record, requests), asked)
}

fn state(ids: &[&str]) -> Box<HolderState> {
    let exit = Exit {
        started_at: None,
        finished_at: stamp(),
        code: 0,
        signal: None,
        reason: "Completed".into(),
        message: None,
    };
    Box::new(HolderState {
        version: PROTO_VERSION,
        release: "0".into(),
        uid: uid(),
        process: ProcessId {
            pid: 1,
            start_ticks: 1,
        },
        containers: ids
            .iter()
            .map(|id| ContainerRecord {
                user: None,
                id: (*id).to_owned(),
                name: "web".into(),
                restart_count: 0,
                hash: String::new(),
                image: String::new(),
                image_id: String::new(),
                log: "/log".into(),
                stop_signal: 15,
                resources: Default::default(),
                post_start: HookState::None,
                pre_stop: HookState::None,
                state: InstanceState::Exited(exit.clone()),
            })
            .collect(),
        creating: [].into(),
        volumes: Default::default(),
        log_trouble: None,
        log_flaw: None,
        record_trouble: None,
    })
}

fn create() -> Asked {
    Asked::Create {
        container: "web".into(),
        id: "i1".into(),
    }
}

fn creating(holding: &Holding) -> BTreeSet<String> {
    match holding.observe().state {
        SandboxState::Ready { creating, .. } => creating,
        other @ (SandboxState::Starting | SandboxState::Dead { .. }) => panic!("{other:?}"),
    }
}

/// A container must never be asked for twice because the answer came before the state.
#[test]
fn a_create_is_open_until_the_state_shows_it() {
    let (mut holding, _asked) = holding();
    holding.see(state(&[]));
    holding.ask(create(), Request::Shutdown, 0).unwrap();
    assert_eq!(creating(&holding), ["web".to_owned()].into());
    assert_eq!(holding.hear(1, Reply::Started { pid: 7 }), None);
    assert!(holding.see(state(&[])).is_empty());
    assert_eq!(creating(&holding).len(), 1);
    assert_eq!(holding.see(state(&["i1"])), ["web"]);
    assert!(creating(&holding).is_empty());
}

#[test]
fn a_start_error_is_told_by_the_state_and_a_create_error_by_the_answer() {
    let failed = |kind| Reply::Failed {
        kind,
        message: "why".into(),
    };
    let (mut holding, _asked) = holding();
    holding.see(state(&[]));
    holding.ask(create(), Request::Shutdown, 0).unwrap();
    assert_eq!(holding.hear(1, failed(FailureKind::Start)), None);
    assert_eq!(creating(&holding).len(), 1);
    let failure = CreateFailure {
        container: "web".to_owned(),
        reason: "CreateContainerError",
        message: "why".to_owned(),
    };
    let heard = holding.hear(1, failed(FailureKind::Create));
    assert_eq!(heard, Some(Failure::Create(failure)));
    assert!(creating(&holding).is_empty());
    assert_eq!(holding.hear(1, failed(FailureKind::Create)), None);
}

#[test]
fn an_unanswered_create_fails_at_its_deadline() {
    let (mut holding, _asked) = holding();
    holding.see(state(&[]));
    holding.ask(create(), Request::Shutdown, 5).unwrap();
    let deadline = holding.next_deadline().unwrap();
    assert!(holding.expire(deadline - 1).is_empty());
    assert_eq!(holding.expire(deadline).len(), 1);
    assert_eq!(holding.next_deadline(), None);
}

#[test]
fn only_a_shorter_stop_is_worth_a_second_request() {
    let stop = |grace_ms| Asked::Stop {
        id: "i1".into(),
        grace_ms,
    };
    let (mut holding, _asked) = holding();
    holding.ask(stop(30_000), Request::Shutdown, 0).unwrap();
    assert!(holding.is_open(&stop(30_000)));
    assert!(holding.is_open(&stop(40_000)));
    assert!(!holding.is_open(&stop(2_000)));
    assert!(!holding.is_open(&create()));
    holding.hear(1, Reply::Done);
    assert!(!holding.is_open(&stop(30_000)));
}

#[test]
fn a_link_that_takes_no_more_says_so() {
    let (mut holding, _asked) = holding();
    for _ in 0..MAX_WAITING {
        holding.ask(Asked::Leave, Request::Shutdown, 0).unwrap();
    }
    let refused = holding.ask(Asked::Leave, Request::Shutdown, 0);
    assert_eq!(refused, Err(Congested));
}

#[test]
fn death_closes_every_request() {
    let (mut holding, _asked) = holding();
    holding.see(state(&["i1"]));
    holding.ask(Asked::Leave, Request::Shutdown, 0).unwrap();
    assert!(holding.is_leaving());
    holding.bury(Dead {
        containers: Vec::new(),
        cgroup_empty: true,
        cleaning: false,
    });
    assert!(!holding.is_leaving());
    assert_eq!(holding.next_deadline(), None);
}
