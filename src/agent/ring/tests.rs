use super::*;
use crate::pod::PodUid;

fn event(reason: &str, message: &str) -> Event {
    Event {
        uid: PodUid::try_from("u".to_owned()).unwrap(),
        namespace: "default".into(),
        name: "web".into(),
        container: None,
        warning: false,
        reason: reason.into(),
        message: message.into(),
    }
}

fn at(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second).unwrap()
}

#[test]
fn repeats_are_counted_and_become_the_newest() {
    let mut ring = Ring::default();
    assert_eq!(ring.record(event("Started", "a"), at(1)), Recorded::New);
    assert_eq!(ring.record(event("Killing", "a"), at(2)), Recorded::New);
    assert_eq!(ring.record(event("Started", "a"), at(3)), Recorded::Repeat);
    let seen: Vec<_> = ring
        .iter()
        .map(|r| {
            (
                r.sequence,
                r.event.reason.as_str(),
                r.count,
                r.first,
                r.last,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (2, "Killing", 1, at(2), at(2)),
            (3, "Started", 2, at(1), at(3))
        ]
    );
}

#[test]
fn another_message_is_another_event() {
    let mut ring = Ring::default();
    ring.record(event("Failed", "a"), at(1));
    assert_eq!(ring.record(event("Failed", "b"), at(1)), Recorded::New);
    assert_eq!(ring.iter().count(), 2);
}

#[test]
fn the_oldest_goes_when_full() {
    let mut ring = Ring::default();
    for n in 0..1001 {
        ring.record(event(&n.to_string(), ""), at(n));
    }
    assert_eq!(ring.iter().count(), 1000);
    assert_eq!(ring.iter().next().unwrap().event.reason, "1");
}

#[test]
fn of_many_alike_the_newest_are_kept_and_nothing_else_goes() {
    let mut ring = Ring::default();
    ring.record(event("Started", "a"), at(0));
    for n in 0..100 {
        ring.record(event("Unhealthy", &n.to_string()), at(n));
    }
    let messages: Vec<_> = ring.iter().map(|r| r.event.message.as_str()).collect();
    let newest = ["90", "91", "92", "93", "94", "95", "96", "97", "98", "99"];
    assert_eq!(messages[0], "a");
    assert_eq!(messages[1..], newest);
}

#[test]
fn long_messages_push_out_the_oldest() {
    let mut ring = Ring::default();
    let long = "x".repeat(10 << 10);
    for n in 0..1000 {
        ring.record(event(&n.to_string(), &long), at(n));
    }
    let bytes: usize = ring.iter().map(|r| r.event.message.len()).sum();
    assert!(bytes <= 1 << 20);
    assert_eq!(ring.iter().count(), (1 << 20) / long.len());
    assert_eq!(ring.iter().last().unwrap().event.reason, "999");
}
