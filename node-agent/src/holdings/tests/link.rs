//! What the stream to the server may say, and how long the agent may be without it.

use super::*;

#[test]
fn the_server_may_not_name_what_was_never_sent_nor_skip_a_number() {
    let mut machine = Holdings::new(options(), BTreeMap::new(), 0);
    let now = Mono::from_micros(1);
    machine.hello(now);
    machine.next_seq(now);
    assert_eq!(machine.renewed(2, &[]), Err(Violation::AnchorNeverSent { anchor: 2, sent: 1 }));
    assert_eq!(machine.receive(1), Ok(()));
    assert_eq!(machine.receive(3), Err(Violation::OutOfOrder { got: 3, seen: 1 }));
    assert_eq!(machine.seen(), 1);
}

#[test]
fn the_highest_epoch_is_remembered_from_tokens_and_welcomes() {
    let mut machine = Holdings::new(options(), BTreeMap::new(), 3);
    let now = Mono::from_micros(1);
    machine.hello(now);
    machine.next_seq(now);
    machine.welcomed(5, 1, &[]).unwrap();
    assert_eq!(machine.max_epoch_seen(), 5);
    machine.granted(now, 1, &terms("a", 9 << 40 | 1, "none", "")).unwrap();
    assert_eq!(machine.max_epoch_seen(), 9);
}

#[test]
fn a_reconnect_is_bounded_by_a_quarter_of_the_shortest_lease() {
    let mut machine = Holdings::new(options(), BTreeMap::new(), 0);
    let now = Mono::from_micros(1);
    machine.hello(now);
    machine.next_seq(now);
    machine.welcomed(1, 1, &[]).unwrap();
    assert_eq!(machine.reconnect_within(), None);
    machine.granted(now, 1, &terms("a", 1, "sh", "")).unwrap();
    assert_eq!(machine.reconnect_within(), Some(Duration::from_secs(5)));
    machine.renewed(1, &[(FencingToken(1), Duration::from_secs(60))]).unwrap();
    assert_eq!(machine.reconnect_within(), Some(Duration::from_secs(15)));
}

#[test]
fn the_nearer_the_end_of_a_lease_the_shorter_a_pause() {
    let mut machine = Holdings::new(options(), BTreeMap::new(), 0);
    let now = Mono::from_micros(1);
    assert_eq!(machine.pause_within(now), None);
    let lease = Duration::from_secs(600);
    let adopted = Adopted {
        slots: BTreeMap::new(),
        lease,
        grace: Duration::from_secs(2),
        gone_by: now + Duration::from_secs(19),
        started: Some(now),
        stopping: false,
        waiting: None,
    };
    machine.adopted(FencingToken(1), "a", adopted);
    machine.hello(now);
    machine.next_seq(now);
    machine.welcomed(1, 1, &[(FencingToken(1), lease)]).unwrap();
    let pause = |after: u64| machine.pause_within(now + Duration::from_secs(after)).unwrap();
    let pauses: Vec<Duration> = [0, 300, 500, 540, 560, 700].map(pause).into();
    assert!(pauses.is_sorted_by(|earlier, later| earlier >= later), "{pauses:?}");
    assert!(pauses[0] > Duration::from_secs(130) && pauses[3] < Duration::from_secs(8), "{pauses:?}");
    assert_eq!(pauses[5], Duration::from_secs(2), "its shim has ended it, and nobody has said so yet");
}
