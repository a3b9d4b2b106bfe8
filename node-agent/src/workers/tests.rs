use super::*;

fn workers() -> Workers {
    let kinds = BTreeMap::from([("a".to_owned(), 0), ("b".to_owned(), 0)]);
    Workers::new(Options { kinds, ..Options::default() })
}

/// A process that is nobody's any more.
fn nobody() -> Identity {
    Identity { pid: i32::MAX, start: 0 }
}

fn takes(kinds: &[&str], concurrency: usize) -> Takes {
    Takes { kinds: kinds.iter().map(|&name| name.to_owned()).collect(), concurrency, ..Takes::default() }
}

fn closed(workers: &Workers) -> Vec<String> {
    workers.room().borrow().closed.keys().cloned().collect()
}

#[test]
fn a_kind_has_room_while_a_worker_takes_more_and_each_change_counts_once() {
    let workers = workers();
    assert_eq!(closed(&workers), ["a", "b"]);
    assert!(workers.reserve("a", FencingToken(1), false).is_none());
    let (first, _queue, _over) = workers.attach(nobody(), takes(&["a"], 1));
    assert_eq!(closed(&workers), ["b"]);
    let (_, _second_queue, _) = workers.attach(nobody(), takes(&["a", "b"], 2));
    assert_eq!((closed(&workers).len(), workers.room().borrow().changes), (0, 2));
    let places: Vec<_> = (1..=3).map(|token| workers.reserve("a", FencingToken(token), false)).collect();
    assert!(places.iter().all(Option::is_some));
    assert_eq!(closed(&workers), ["a", "b"]);
    assert!(workers.reserve("b", FencingToken(4), false).is_none());
    drop(places);
    assert_eq!(closed(&workers).len(), 0);
    let changes = workers.room().borrow().changes;
    workers.leaving(first);
    workers.detach(first);
    assert_eq!((closed(&workers).len(), workers.room().borrow().changes), (0, changes));
}

#[test]
fn who_waits_for_others_leaves_its_place_to_them_and_may_come_back_above_it() {
    let workers = workers();
    let (_, _queue, _) = workers.attach(nobody(), takes(&["a"], 1));
    let parent = workers.reserve("a", FencingToken(1), false).unwrap();
    assert_eq!(closed(&workers), ["a", "b"]);
    parent.waits(true);
    parent.waits(true);
    assert_eq!(closed(&workers), ["b"]);
    let child = workers.reserve("a", FencingToken(2), false).unwrap();
    assert_eq!(closed(&workers), ["a", "b"]);
    parent.waits(false);
    assert_eq!(closed(&workers), ["a", "b"], "there is one more than it said");
    drop(child);
    assert_eq!(closed(&workers), ["a", "b"]);
    parent.waits(true);
    drop(parent);
    assert_eq!(closed(&workers), ["b"]);
    assert!(workers.reserve("a", FencingToken(3), false).is_some_and(|place| !place.sockets));
}

#[tokio::test]
async fn inputs_are_for_who_takes_them_and_wait_for_who_does_not_read() {
    let workers = workers();
    let (_, _queue, _) = workers.attach(nobody(), takes(&["a"], 9));
    assert!(workers.reserve("a", FencingToken(1), true).is_none(), "an old library takes none");
    let (id, mut queue, _) = workers.attach(nobody(), Takes { inputs: true, ..takes(&["a"], 1) });
    let place = workers.reserve("a", FencingToken(1), true).unwrap();
    assert_eq!(place.worker, id);
    let inputs = || WorkInputs { token: 1, ..WorkInputs::default() };
    for _ in 0..INPUTS {
        assert!(place.give(inputs()).await);
    }
    let mut third = Box::pin(place.give(inputs()));
    assert!(futures_util::poll!(third.as_mut()).is_pending());
    drop(queue.recv().await.unwrap());
    assert!(third.await);
    drop(queue);
    assert!(!place.give(inputs()).await, "nobody reads any more");
}

#[tokio::test]
async fn who_loses_its_worker_hears_it_and_whose_fault_it_was() {
    let workers = workers();
    let (id, _queue, over) = workers.attach(nobody(), takes(&["a"], 3));
    let mut places: Vec<_> =
        (1..=3).map(|token| workers.reserve("a", FencingToken(token), false).unwrap()).collect();
    let handed = |place: &Place| place.hand_over(Work { token: place.token.0, ..Work::default() });
    assert!(!workers.ended(id, WorkEnded { token: 3, ..WorkEnded::default() }), "it was not told of it");
    assert!(places.iter().all(handed));
    let ended = |token| WorkEnded { token, ..WorkEnded::default() };
    assert!(workers.ended(id, ended(3)) && !workers.ended(id, ended(4)));
    assert!(matches!(places[2].next().await, Word::Ended(ended) if ended.token == 3));
    places[1].condemn();
    assert!(over.is_cancelled() && workers.reserve("a", FencingToken(5), false).is_none());
    workers.detach(id);
    assert_eq!(workers.attempts().len(), 3, "the end of one is not in the spool yet");
    assert!(matches!(places[0].next().await, Word::Over { for_another: true }));
    assert!(matches!(places[1].next().await, Word::Over { for_another: false }));
    assert!(!places[0].say(Body::Deadline(Default::default())) || over.is_cancelled());
}
