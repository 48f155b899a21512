use std::os::fd::AsFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::super::proto::{
    ContainerRecord, Exit, HookState, InstanceState, PROTO_VERSION, ProcessId,
};
use super::*;

fn state(messages: &[&str]) -> HolderState {
    let container = |message: &&str| ContainerRecord {
        user: None,
        id: "a".repeat(64),
        name: "c".into(),
        restart_count: 0,
        hash: String::new(),
        image: String::new(),
        image_id: String::new(),
        log: "/x".into(),
        stop_signal: 15,
        resources: Default::default(),
        post_start: HookState::None,
        pre_stop: HookState::None,
        state: InstanceState::Exited(Exit {
            started_at: None,
            finished_at: crate::sys::clock::now(),
            code: 1,
            signal: None,
            reason: "Error".into(),
            message: Some((*message).to_owned()),
        }),
    };
    HolderState {
        version: PROTO_VERSION,
        release: "0".into(),
        uid: "u".to_owned().try_into().unwrap(),
        process: ProcessId {
            pid: 1,
            start_ticks: 1,
        },
        containers: messages.iter().map(container).collect(),
        creating: [].into(),
        volumes: Default::default(),
        log_trouble: None,
        log_flaw: None,
        record_trouble: None,
    }
}

#[test]
fn a_state_that_is_too_long_loses_its_longest_messages_only() {
    let long = "\u{1}".repeat(packet::MAX_PACKET / 6);
    let bytes = encode(state(&["short", &long]));
    assert!(bytes.len() <= packet::MAX_PACKET);
    let FromHolder::State(got) = serde_json::from_slice(&bytes).unwrap() else {
        panic!("no state");
    };
    let message = |i: usize| match &got.containers[i].state {
        InstanceState::Exited(exit) => exit.message.clone(),
        InstanceState::Running { .. } | InstanceState::Stopping { .. } => panic!("not exited"),
    };
    assert_eq!(message(0).as_deref(), Some("short"));
    assert_eq!(message(1).as_deref(), Some(""));
}

#[test]
fn a_peer_that_does_not_read_is_dropped_and_one_that_does_sees_the_state_first() {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let pair = || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let bytes = encode(state(&[]));

    let (ours, peer) = pair();
    let mut connection = Connection::new(ours);
    connection.reply(7, Reply::Done, None);
    assert!(connection.flush(&bytes));
    assert_eq!(packet::receive(peer.as_fd()).unwrap().unwrap().bytes, bytes);
    assert!(packet::receive(peer.as_fd()).unwrap().is_some());

    let mut alive = 0;
    while connection.flush(&bytes) {
        connection.reply(alive, Reply::Done, None);
        alive += 1;
        assert!(alive < 100_000, "never dropped");
    }
}
