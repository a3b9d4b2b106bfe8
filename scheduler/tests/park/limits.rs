//! Parked parents and what bounds a slot or a key: a capacity that goes, a key that a child needs, tokens, a provider that
//! throttles.

use expect_test::expect;

use crate::support::check;

#[test]
fn a_slot_that_a_parked_lease_takes_again_cannot_go() {
    check(
        "
        slot s 1
        kind p needs=s:1
        kind c
        node n1
        enqueue a kind=p
        tick
        run a
        enqueue b kind=c parent=a
        park a children=b
        kind p
        drop slot s
        kind q keep=nothing
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            parked a token=1.1 wait=1 gives back s:1
            a wait: Parked
            conflict: slot s is gone from the file while leases hold it
            refused slot FLEET_CONFLICT: the fleet file cannot be applied
            conflict: kind q keeps slot nothing, which is not declared
            refused q FLEET_CONFLICT: the fleet file cannot be applied
        "#]],
    );
}

/// Its execution goes on while it is parked: nobody else gets its key. Others get what it gave, its tenant is charged for
/// it no more, and to take it back takes no tokens.
#[test]
fn a_parked_parent_keeps_its_key_and_takes_back_what_it_gave_without_tokens() {
    check(
        "
        slot f 1 rate=1/min
        kind p needs=f:1 concurrency=1
        kind c
        node n1
        enqueue a kind=p ckey=x
        enqueue a2 kind=p ckey=x
        tick
        run a
        enqueue b kind=c parent=a
        park a children=b
        tick
        why a2
        run b
        done b
        tick
        why a2
        done a
        tick
        advance 1m
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred a2 concurrency_key: 1 with key x runs
            parked a token=1.1 wait=1 gives back f:1
            a wait: Parked
            granted b -> n1 token=1.2
            deferred a2 concurrency_key: 1 with key x runs
            a2 waits: concurrency_key 1 with key x runs for 0ns, tried 2
              concurrency_key 1 with key x runs: 2 times, 0ns
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            lease 1.1 wants back what it gave
            earmarked f:1 on n1 for a within 0ns
            unparked a token=1.1 go
            earmark dropped of a on n1: used
            n1 < resume 1.1 wait=1 go
            a2 waits: concurrency_key 1 with key x runs for 0ns, tried 2
              concurrency_key 1 with key x runs: 2 times, 0ns
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            deferred a2 rate_limit: rate of slot f
            30s: deferred a2 rate_limit: rate of slot f
            60s: granted a2 -> n1 token=1.3
        "#]],
    );
}

/// A child of the same key as its parked parent, which holds the only place: it could never start, so the parent is to
/// detach. A stranger that waits for the key is no reason.
#[test]
fn a_parked_parent_whose_key_its_child_needs_is_to_detach() {
    check(
        "
        kind p concurrency=1
        kind c
        node n1
        enqueue a kind=p ckey=x
        tick
        run a
        enqueue b kind=c parent=a
        park a children=b
        enqueue stranger kind=p ckey=x
        tick
        job a
        run b
        enqueue d kind=p ckey=x parent=b priority=1
        tick
        job a
        park b children=d
        tick
        job a
        detach a children=b
        reaped a
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            parked a token=1.1 wait=1 gives back nothing
            a wait: Parked
            granted b -> n1 token=1.2
            deferred stranger concurrency_key: 1 with key x runs
            a waiting round=1 attempt=1
            a waiting round=1 attempt=1
            parked b token=1.2 wait=1 gives back nothing
            b wait: Parked
            unparked a token=1.1 must_detach
            n1 < resume 1.1 wait=1 must_detach
            a running round=1 attempt=1
              waited children: 1 times, 0ns
            ended a token=1.1 detached (exit) -> waiting
            lease 1.1 gone
            granted d -> n1 token=1.3
            deferred stranger concurrency_key: 1 with key x runs
        "#]],
    );
}

/// What a provider wants no more of for a while nobody takes, neither who had it before.
#[test]
fn a_parked_parent_does_not_take_back_what_its_provider_throttles() {
    check(
        "
        slot f 2
        kind p needs=f:1 reacquire=1h
        kind q needs=f:1
        kind c
        node n1
        enqueue a kind=p
        enqueue t kind=q
        tick
        run a
        run t
        enqueue b kind=c parent=a
        park a children=b
        tick
        run b
        finish t fail throttled=f:30s
        reaped t
        done b
        tick
        why a
        advance 30s
        job a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted t -> n1 token=1.2
            parked a token=1.1 wait=1 gives back f:1
            a wait: Parked
            granted b -> n1 token=1.3
            ended t token=1.2 failed_retryable (exit) -> scheduled [exit]
            lease 1.2 gone
            ended b token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            lease 1.1 wants back what it gave
            earmarked f:1 on n1 for a within 0ns
            a waits: slot_paused slot f paused for 0ns, tried 0
              waiting_children children: 1 times, 0ns
            30s: ready t
            30s: unparked a token=1.1 go
            30s: earmark dropped of a on n1: used
            30s: granted t -> n1 token=1.4
            30s: n1 < resume 1.1 wait=1 go
            30s: a running round=1 attempt=1
            30s:   waited children: 1 times, 30s
        "#]],
    );
}
