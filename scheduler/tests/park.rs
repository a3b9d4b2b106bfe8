//! Parents whose process stays while they wait: what they give back, what they keep, and how they get it again.

mod limits;
mod reacquire;

use expect_test::expect;

use crate::support::check;

/// ray#5790: with one gpu, a parent on it that waits for a child on it. Both finish.
#[test]
fn a_parent_that_parks_leaves_its_slots_to_its_child_and_gets_them_back() {
    check(
        "
        slot gpu node
        slot api 1
        kind p needs=gpu:1,api:1
        kind c needs=gpu:1,api:1
        node n1 slots=gpu:1
        enqueue a kind=p
        tick
        run a
        enqueue b kind=c parent=a
        tick
        park a children=b
        park a children=b
        job a
        why a
        tick
        run b
        finish b ok
        tick
        why a
        explain a
        reaped b
        tick
        job a
        park a children=b
        done a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b slot_busy: slot api 1/1
            parked a token=1.1 wait=1 gives back api:1,gpu:1
            a wait: Parked
            a wait: Parked
            a waiting round=1 attempt=1
            a waits: waiting_children waits for 1 child for 0ns, tried 0
              waiting_children children: 1 times, 0ns
            granted b -> n1 token=1.2
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.1 wants back what it gave
            earmarked api:1,gpu:1 on n1 for a within 0ns
            a waits: slot_busy slot gpu on n1 1/1 for 0ns, tried 0
              waiting_children children: 1 times, 0ns
            a: slot gpu on n1 1/1, 0 ahead
              It waits for 1 unit of slot gpu on one node.
              > 1 more unit of slot gpu on node n1 or another: holders end, or a node that runs kind p and offers gpu:1 joins
            lease 1.2 gone
            unparked a token=1.1 go
            earmark dropped of a on n1: used
            n1 < resume 1.1 wait=1 go
            a running round=1 attempt=1
              waited children: 1 times, 0ns
            a wait: Over(Go)
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
        "#]],
    );
}

/// ray#5790, held on purpose: the parent keeps the only gpu while it waits, so that the child could never start. Refused
/// at its enqueue; where another node has one, it is not.
#[test]
fn a_child_that_could_never_run_beside_what_its_parent_keeps_is_refused() {
    check(
        "
        slot gpu node
        slot api 2
        kind p needs=gpu:1,api:1 keep=gpu,api
        kind c needs=gpu:1
        kind d needs=api:1
        kind e needs=api:2
        node n1 slots=gpu:1
        enqueue a kind=p
        enqueue early kind=c parent=a
        cancel early
        tick
        run a
        enqueue b kind=c parent=a
        enqueue d kind=d parent=a
        enqueue e kind=e parent=a
        enqueue other kind=c
        tick
        run d
        enqueue grandchild kind=e parent=d
        node n2 slots=gpu:1 kinds=c
        enqueue b kind=c parent=a
        ",
        expect![[r#"
            ended early -> cancelled [cancelled by request]
            granted a -> n1 token=1.1
            refused b WOULD_DEADLOCK: the child needs 1 of slot gpu, and a keeps so much of it while it waits that it could never start
            refused e WOULD_DEADLOCK: the child needs 2 of slot api, and a keeps so much of it while it waits that it could never start
            granted d -> n1 token=1.2
            deferred other slot_busy: slot gpu on n1 1/1
            refused grandchild WOULD_DEADLOCK: the child needs 2 of slot api, and a keeps so much of it while it waits that it could never start
        "#]],
    );
}

#[test]
fn parked_leases_leave_enough_of_what_they_keep_for_any_child() {
    check(
        "
        slot mem node
        kind p needs=mem:2 keep=mem
        kind c needs=mem:3
        node n1 slots=mem:7
        enqueue a kind=p
        enqueue b kind=p
        enqueue x kind=p
        tick
        run a
        run b
        run x
        enqueue a1 kind=c parent=a
        enqueue b1 kind=c parent=b
        enqueue x1 kind=c parent=x
        park a children=a1
        park b children=b1
        park x children=x1
        detach x children=x1
        reaped x
        tick
        hello n1 slots=mem:6
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted x -> n1 token=1.3
            parked a token=1.1 wait=1 gives back nothing
            a wait: Parked
            parked b token=1.2 wait=1 gives back nothing
            b wait: Parked
            x wait: Over(MustDetach)
            ended x token=1.3 detached (exit) -> waiting
            lease 1.3 gone
            granted a1 -> n1 token=1.4
            deferred b1 slot_busy: slot mem on n1 7/7
            session 1 of n1 is closed: SUPERSEDED_SESSION
            unparked b token=1.2 must_detach
            deferred b1 slot_busy: slot mem on n1 7/6
            n1 < resume 1.2 wait=1 must_detach
        "#]],
    );
}

#[test]
fn a_parent_goes_on_at_once_when_it_has_nothing_to_wait_for() {
    check(
        "
        kind p
        kind c
        node n1
        enqueue a kind=p
        tick
        run a
        enqueue b kind=c parent=a
        tick
        run b
        done b
        park a children=b
        park a children=b,a
        park a children=b token=1.9
        enqueue other kind=c
        park a children=other
        cancel a
        park a children=b epoch=2
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            a wait: Over(Go)
            refused a INVALID_FIELD: children: job a is not a child of it
            refused a LEASE_LOST: lease 1.9 is gone: STALE_TOKEN
            refused a INVALID_FIELD: children: job other is not a child of it
            cancel requested a
            revoked 1.1 cancelled
            refused a LEASE_LOST: lease 1.1 is gone: CANCELLED
        "#]],
    );
}

#[test]
fn a_parked_parent_goes_on_after_its_longest_wait_under_a_later_leader_too() {
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
        park a children=b max_wait=60s
        tick
        run b
        advance 20s
        reload
        hello n1
        why a
        advance 39s
        advance 2s
        job a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            parked a token=1.1 wait=1 gives back s:1
            a wait: Parked
            granted b -> n1 token=1.2
            20s: a waits: waiting_children waits for 1 child for 0ns, tried 0
            20s:   waiting_children children: 1 times, 0ns
            60s: lease 1.1 wants back what it gave
            60s: earmarked s:1 on n1 for a within 0ns
            60s: unparked a token=1.1 go
            60s: earmark dropped of a on n1: used
            60s: n1 < resume 1.1 wait=1 go
            61s: a running round=1 attempt=1
            61s:   waited children: 1 times, 40s
        "#]],
    );
}

#[test]
fn what_a_parked_lease_was_told_is_told_again_until_its_node_knows() {
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
        tick
        run b
        deaf n1
        done b
        tick
        close n1
        hearing n1
        reload
        hello n1
        beat n1
        tick
        job a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            parked a token=1.1 wait=1 gives back s:1
            a wait: Parked
            granted b -> n1 token=1.2
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            lease 1.1 wants back what it gave
            earmarked s:1 on n1 for a within 0ns
            unparked a token=1.1 go
            earmark dropped of a on n1: used
            n1 < resume 1.1 wait=1 go
            n1 < resume 1.1 wait=1 go
            a running round=1 attempt=1
              waited children: 1 times, 0ns
        "#]],
    );
}

#[test]
fn a_parked_parent_that_is_lost_loses_what_it_kept_and_children_follow_as_they_asked() {
    check(
        "
        slot s node
        slot f 1
        kind p needs=s:1,f:1 keep=s
        kind c needs=f:1
        node n1 slots=s:2
        node n2
        enqueue a kind=p
        tick
        run a
        enqueue kept kind=c parent=a
        enqueue gone kind=c parent=a on_lost=cancel
        park a children=kept,gone
        tick
        run kept
        mute n1
        close n1
        advance 3m
        job a
        job kept
        hello n1
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            parked a token=1.1 wait=1 gives back f:1
            a wait: Parked
            granted kept -> n2 token=1.2
            deferred gone slot_busy: slot f 1/1
            30s: deferred gone slot_busy: slot f 1/1
            128s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            128s: ended gone -> cancelled [an execution of its parent was lost]
            128s: deferred a slot_busy: slot f 1/1
            180s: a queued round=1 attempt=2 losses=1 [its lease ended in silence]
            180s:   waited children: 1 times, 128s
            180s: kept running round=1 attempt=1 priority=1
        "#]],
    );
}

#[test]
fn a_cancel_of_a_parked_parent_stops_it_and_ends_its_children() {
    check(
        "
        slot s 1
        kind p needs=s:1
        kind c needs=s:1
        node n1
        enqueue a kind=p
        tick
        run a
        enqueue b kind=c parent=a
        park a children=b
        cancel a
        cancel a
        tick
        finish a revoked
        reaped a
        job a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            parked a token=1.1 wait=1 gives back s:1
            a wait: Parked
            cancel requested a
            revoked 1.1 cancelled
            ended b -> cancelled [its parent was cancelled]
            a unchanged waiting
            ended a token=1.1 cancelled (revoked) -> cancelled
            lease 1.1 gone
            a cancelled round=1 attempt=1 [cancelled by request]
              waited children: 1 times, 0ns
        "#]],
    );
}

#[test]
fn a_parked_process_that_ends_by_itself_ends_its_attempt() {
    check(
        "
        slot s 1
        kind p needs=s:1
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
        finish a fail
        tick
        reaped a
        done h
        advance 10s
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
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            earmark dropped of a on n1: left
            lease 1.1 gone
            ended h token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            10s: ready a
            10s: granted a -> n1 token=1.4
        "#]],
    );
}

#[test]
fn a_limit_that_comes_while_a_parent_is_parked_is_taken_when_it_goes_on() {
    check(
        "
        kind p
        kind c
        node n1
        enqueue a kind=p
        tick
        run a
        enqueue b kind=c parent=a
        park a children=b
        kind p max_running=1
        enqueue x kind=p
        tick
        run x
        run b
        done b
        tick
        done x
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            parked a token=1.1 wait=1 gives back nothing
            a wait: Parked
            granted b -> n1 token=1.2
            granted x -> n1 token=1.3
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            lease 1.1 wants back what it gave
            earmarked kind:p:1 on n1 for a within 0ns
            ended x token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            unparked a token=1.1 go
            earmark dropped of a on n1: used
            n1 < resume 1.1 wait=1 go
        "#]],
    );
}

/// ray#3644: 500 parents with ten children each on four slots. How many are parked at once stays bounded by what they
/// keep, and all end.
#[test]
fn many_parents_with_many_children_on_few_slots_all_end() {
    let mut run = crate::support::Script::new();
    run.world.paranoid = false;
    run.lines(
        "
        slot cpu node
        slot mem node
        kind p needs=cpu:1,mem:1 keep=mem
        kind c needs=cpu:1,mem:1
        node n1 slots=cpu:4,mem:8
        ",
    );
    for parent in 0..PARENTS {
        run.lines(&format!("enqueue p{parent} kind=p"));
    }
    let mut most = 0;
    for _ in 0..20 * PARENTS {
        run.lines("tick");
        let rows = run.world.state.durable();
        if rows.jobs.is_empty() {
            // All but one of the eight units of mem, which any child needs.
            assert!((1..=7).contains(&most), "{most} parked at once");
            return;
        }
        most = most.max(rows.leases.values().filter(|lease| lease.waits().is_some()).count());
        run.get_on(10);
    }
    panic!("not at rest: {} jobs", run.world.state.durable().jobs.len());
}

/// Fewer than in the report, for the oracle looks at every job in every tick.
const PARENTS: usize = 40;
