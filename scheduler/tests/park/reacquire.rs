//! Parents that want their slots back.

use expect_test::expect;

use crate::support::check;

/// What it gave back it never took again: neither does it go on, nor is forgotten what it gave, whatever it asks for.
#[test]
fn who_must_detach_cannot_park_anew() {
    check(
        "
        slot s 1
        kind p needs=s:1 reacquire=60s
        kind c
        kind hog needs=s:1
        node n1
        enqueue a kind=p
        tick
        run a
        enqueue b kind=c parent=a
        enqueue h kind=hog
        park a children=b
        tick
        run h
        run b
        done b
        tick
        advance 60s
        park a children=b epoch=2
        enqueue c kind=c parent=a
        park a children=c epoch=3
        done h
        park a children=b epoch=4
        detach a children=b state
        reaped a
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            parked a token=1.1 wait=1 gives back s:1
            a wait: Parked
            granted b -> n1 token=1.2
            granted h -> n1 token=1.3
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            lease 1.1 wants back what it gave
            earmarked s:1 on n1 for a within 0ns
            60s: unparked a token=1.1 must_detach
            60s: earmark dropped of a on n1: left
            60s: n1 < resume 1.1 wait=1 must_detach
            60s: a wait: Over(MustDetach)
            60s: a wait: Over(MustDetach)
            60s: ended h token=1.3 succeeded (exit) -> succeeded
            60s: lease 1.3 gone
            60s: a wait: Over(MustDetach)
            60s: ended a token=1.1 detached (exit) -> queued
            60s: lease 1.1 gone
            60s: granted c -> n1 token=1.4
            60s: granted a -> n1 token=1.5
        "#]],
    );
}

#[test]
fn a_parked_parent_that_does_not_get_back_what_it_gave_is_to_detach() {
    check(
        "
        slot s 1
        kind p needs=s:1 reacquire=60s
        kind c
        kind hog needs=s:1
        node n1
        enqueue a kind=p
        tick
        run a
        enqueue b kind=c parent=a
        enqueue h kind=hog
        park a children=b
        tick
        run h
        run b
        done b
        tick
        advance 59s
        why a
        advance 1s
        job a
        park a children=b
        enqueue c kind=c parent=a
        tick
        detach a children=c state
        reaped a
        done h
        done c
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            parked a token=1.1 wait=1 gives back s:1
            a wait: Parked
            granted b -> n1 token=1.2
            granted h -> n1 token=1.3
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            lease 1.1 wants back what it gave
            earmarked s:1 on n1 for a within 0ns
            59s: a waits: slot_busy slot s 1/1 for 59s, tried 0
            59s:   waiting_children children: 1 times, 59s
            60s: unparked a token=1.1 must_detach
            60s: earmark dropped of a on n1: left
            60s: n1 < resume 1.1 wait=1 must_detach
            60s: a running round=1 attempt=1
            60s:   waited children: 1 times, 60s
            60s: a wait: Over(MustDetach)
            60s: granted c -> n1 token=1.4
            60s: ended a token=1.1 detached (exit) -> waiting
            60s: lease 1.1 gone
            60s: ended h token=1.3 succeeded (exit) -> succeeded
            60s: lease 1.3 gone
            60s: ended c token=1.4 succeeded (exit) -> succeeded
            60s: lease 1.4 gone
            60s: wait of a over
            60s: granted a -> n1 token=1.5
        "#]],
    );
}

/// volcano#5805: a parent wants its slots back while a tenant of zero share has fresh jobs: the parent first. Of the fresh
/// jobs that of the tenant without a share comes before that of the one whose x1 still runs; once that has ended, the older.
#[test]
fn a_parent_that_wants_its_slots_back_comes_before_every_fresh_job() {
    check(
        "
        slot s node
        kind p needs=s:2
        kind c needs=s:1
        node n1 slots=s:2
        enqueue a kind=p tenant=old
        tick
        run a
        enqueue b kind=c parent=a tenant=old
        enqueue x1 kind=c tenant=fresh priority=100
        park a children=b
        tick
        run x1
        run b
        enqueue x2 kind=c tenant=fresh priority=100
        enqueue x3 kind=c tenant=new priority=100
        done b
        tick
        why x2
        done x1
        tick
        done a
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            parked a token=1.1 wait=1 gives back s:2
            a wait: Parked
            granted x1 -> n1 token=1.2
            granted b -> n1 token=1.3
            ended b token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            lease 1.1 wants back what it gave
            earmarked s:2 on n1 for a within 0ns
            deferred x3 earmarked: slot s on n1 earmarked for a
            deferred x2 earmarked: slot s on n1 earmarked for a
            x2 waits: earmarked slot s on n1 earmarked for a for 0ns, tried 1
              earmarked slot s on n1 earmarked: 1 times, 0ns
            ended x1 token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            unparked a token=1.1 go
            earmark dropped of a on n1: used
            deferred x2 slot_busy: slot s on n1 2/2
            deferred x3 slot_busy: slot s on n1 2/2
            n1 < resume 1.1 wait=1 go
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            granted x2 -> n1 token=1.4
            granted x3 -> n1 token=1.5
        "#]],
    );
}

#[test]
fn deeper_parents_get_their_slots_back_first() {
    check(
        "
        slot s 2
        kind p needs=s:2
        kind c
        kind hog needs=s:1
        node n1
        enqueue a kind=p
        tick
        run a
        enqueue b kind=p parent=a
        enqueue a1 kind=c parent=a
        park a children=a1
        tick
        run b
        enqueue b1 kind=c parent=b
        park b children=b1
        enqueue h1 kind=hog
        enqueue h2 kind=hog
        tick
        run h1
        run h2
        run a1
        run b1
        done a1
        tick
        done b1
        done h1
        tick
        done h2
        tick
        done b
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            parked a token=1.1 wait=1 gives back s:2
            a wait: Parked
            granted b -> n1 token=1.2
            granted a1 -> n1 token=1.3
            parked b token=1.2 wait=1 gives back s:2
            b wait: Parked
            granted b1 -> n1 token=1.4
            granted h1 -> n1 token=1.5
            granted h2 -> n1 token=1.6
            ended a1 token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            lease 1.1 wants back what it gave
            earmarked s:2 on n1 for a within 0ns
            ended b1 token=1.4 succeeded (exit) -> succeeded
            lease 1.4 gone
            ended h1 token=1.5 succeeded (exit) -> succeeded
            lease 1.5 gone
            lease 1.2 wants back what it gave
            earmarked s:2 on n1 for b within 0ns
            ended h2 token=1.6 succeeded (exit) -> succeeded
            lease 1.6 gone
            unparked b token=1.2 go
            earmark dropped of b on n1: used
            n1 < resume 1.2 wait=1 go
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            unparked a token=1.1 go
            earmark dropped of a on n1: used
            n1 < resume 1.1 wait=1 go
        "#]],
    );
}
