//! Slots: all or nothing, no wake-up lost, capacities that change while leases run, pauses.

use expect_test::expect;

use crate::support::check;

#[test]
fn nothing_is_taken_unless_everything_is_free() {
    check(
        "
        slot f 2
        slot n node
        kind both needs=f:1,n:1
        kind fleet needs=f:1
        node n1 slots=n:1
        enqueue a kind=both
        enqueue b kind=both   # Its fleet slot is free, its node slot is not: it takes neither.
        enqueue c kind=fleet
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b slot_busy: slot n on n1 1/1
            granted c -> n1 token=1.2
        "#]],
    );
}

#[test]
fn a_wake_up_is_not_lost_when_the_reason_of_a_wait_changes_unseen() {
    // Blocked on a node slot; the fleet slot runs dry; a node frees (skipped: dry); the fleet frees.
    check(
        "
        slot f 2
        slot n node
        kind both needs=f:1,n:1
        kind fleet needs=f:1
        kind node needs=n:1
        node n1 slots=n:1
        enqueue holder kind=node
        tick
        enqueue a kind=both
        tick
        enqueue x kind=fleet
        enqueue y kind=fleet
        tick
        run holder
        done holder
        tick
        why a
        run x
        done x
        tick
        ",
        expect![[r#"
            granted holder -> n1 token=1.1
            deferred a slot_busy: slot n on n1 1/1
            granted x -> n1 token=1.2
            granted y -> n1 token=1.3
            ended holder token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            deferred a slot_busy: slot f 2/2
            a waits: slot_busy slot f 2/2 for 0ns, tried 2
              slot_busy slot n on n1 1/1: 1 times, 0ns
              slot_busy slot f 2/2: 1 times, 0ns
            ended x token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            granted a -> n1 token=1.4
        "#]],
    );
}

#[test]
fn a_freed_unit_goes_to_the_first_that_fits_and_not_to_the_first() {
    check(
        "
        slot n node
        kind k needs=n:1
        node n1 slots=n:2
        enqueue a kind=k
        enqueue b kind=k
        tick
        run a
        enqueue large kind=k needs=n:2
        enqueue small kind=k
        tick
        done a
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            deferred large slot_busy: slot n on n1 2/2
            deferred small slot_busy: slot n on n1 2/2
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            deferred large slot_busy: slot n on n1 1/2
            granted small -> n1 token=1.3
        "#]],
    );
}

#[test]
fn a_capacity_cut_under_its_use_lets_leases_run_and_grants_nothing() {
    check(
        "
        slot f 3
        kind k needs=f:1
        node n1
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        enqueue d kind=k
        tick
        run a
        run b
        run c
        capacity f 1
        capacity f 1
        tick
        why d
        done a
        tick
        done b
        tick
        why d
        capacity f 2
        tick
        capacity n 1
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            deferred d slot_busy: slot f 3/3
            f unchanged
            deferred d slot_busy: slot f 3/1
            d waits: slot_busy slot f 3/1 for 0ns, tried 2
              slot_busy slot f 3/1: 2 times, 0ns
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            deferred d slot_busy: slot f 2/1
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            deferred d slot_busy: slot f 1/1
            d waits: slot_busy slot f 1/1 for 0ns, tried 4
              slot_busy slot f 1/1: 4 times, 0ns
            granted d -> n1 token=1.4
            refused n SLOT_NOT_FOUND: slot n is not declared, near [f]
        "#]],
    );
}

#[test]
fn a_node_that_comes_back_smaller_keeps_what_runs() {
    check(
        "
        slot n node
        kind k needs=n:1
        node n1 slots=n:2
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        run a
        run b
        hello n1 slots=n:1
        tick
        done a
        tick
        done b
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            deferred c slot_busy: slot n on n1 2/2
            session 1 of n1 is closed: SUPERSEDED_SESSION
            deferred c slot_busy: slot n on n1 2/1
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            deferred c slot_busy: slot n on n1 1/1
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            granted c -> n1 token=1.3
        "#]],
    );
}

#[test]
fn a_slot_of_a_node_may_be_capped_by_its_pressure_rules() {
    check(
        "
        slot n node
        kind k needs=n:1
        node n1 slots=n:3
        press n1 caps=n:1
        enqueue a kind=k
        enqueue b kind=k
        tick
        press n1 caps=n:2
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b slot_busy: slot n on n1 1/1
            granted b -> n1 token=1.2
        "#]],
    );
}

#[test]
fn a_paused_slot_holds_its_jobs_until_it_is_resumed_or_its_time_is_over() {
    check(
        "
        slot f 1
        slot n node
        kind k needs=f:1
        kind node needs=n:1
        node n1 slots=n:1
        pause slot f
        pause slot f
        pause slot n 10s
        enqueue a kind=k
        enqueue b kind=node
        tick
        resume slot f
        resume slot f
        tick
        run a
        advance 9s999999us
        why b
        advance 1us
        pause slot nowhere
        ",
        expect![[r#"
            f unchanged
            deferred a slot_paused: slot f paused
            deferred b slot_paused: slot n paused
            f unchanged
            granted a -> n1 token=1.1
            deferred b slot_paused: slot n paused
            9.999999s: b waits: slot_paused slot n paused for 9.999999s, tried 2
            9.999999s:   slot_paused slot n paused: 2 times, 9.999999s
            10s: granted b -> n1 token=1.2
            10s: refused nowhere SLOT_NOT_FOUND: slot nowhere is not declared, near []
        "#]],
    );
}

#[test]
fn a_pause_of_a_slot_ends_in_time_after_a_takeover_too() {
    check(
        "
        slot f 1
        kind k needs=f:1
        node n1
        pause slot f 10s
        enqueue a kind=k
        reload
        hello n1
        advance 9s
        advance 1s
        ",
        expect![[r#"
            1s: deferred a slot_paused: slot f paused
            10s: granted a -> n1 token=2.1
        "#]],
    );
}

#[test]
fn an_apply_may_make_a_fleet_slot_a_node_slot_once_nobody_holds_it() {
    check(
        "
        slot s 2
        kind k needs=s:1
        node n1
        enqueue a kind=k
        enqueue b kind=k needs=s:2
        tick
        run a
        slot s node
        done a
        slot s node
        tick
        hello n1 slots=s:2
        tick
        slot s 1
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b slot_busy: slot s 1/2
            conflict: slot s changes between node and fleet while leases hold it
            refused s FLEET_CONFLICT: the fleet file cannot be applied
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            deferred b impossible: needs 2 of slot s, the most is 0
            session 1 of n1 is closed: SUPERSEDED_SESSION
            granted b -> n1 token=1.2
            conflict: slot s is a fleet slot in the file, and connected nodes report it as their own
            conflict: slot s changes between node and fleet while leases hold it
            refused s FLEET_CONFLICT: the fleet file cannot be applied
        "#]],
    );
}

#[test]
fn an_apply_that_would_orphan_something_is_refused_with_the_list() {
    check(
        "
        slot f 1
        slot n node
        kind k needs=f:1
        kind other
        node n1 slots=n:1
        enqueue a kind=k
        enqueue b kind=other needs=n:1
        enqueue c kind=other
        aside c
        tick
        drop kind k
        drop slot f
        drop slot n
        cancel b
        drop kind other
        cancel c
        drop kind other
        ",
        expect![[r#"
            set aside c
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            conflict: kind k is gone from the file and has 1 live jobs
            refused kind FLEET_CONFLICT: the fleet file cannot be applied
            conflict: kind k needs slot f, which is not declared
            conflict: slot f is gone from the file while leases hold it
            refused slot FLEET_CONFLICT: the fleet file cannot be applied
            conflict: slot n is gone from the file while leases hold it
            conflict: slot n is gone from the file and 1 live jobs need it
            refused slot FLEET_CONFLICT: the fleet file cannot be applied
            cancel requested b
            revoked 1.2 cancelled
            conflict: kind other is gone from the file and has 2 live jobs
            refused kind FLEET_CONFLICT: the fleet file cannot be applied
            ended c -> cancelled [cancelled by request]
            conflict: kind other is gone from the file and has 1 live jobs
            refused kind FLEET_CONFLICT: the fleet file cannot be applied
        "#]],
    );
}

#[test]
fn a_new_need_of_a_kind_moves_its_queue_with_its_history() {
    check(
        "
        slot f 1
        slot g 1
        kind k needs=f:1
        node n1
        enqueue a kind=k
        enqueue b kind=k
        tick
        run a
        advance 5s
        kind k needs=g:1
        tick
        job b
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b slot_busy: slot f 1/1
            5s: granted b -> n1 token=1.2
            5s: b running round=1 attempt=1
            5s:   waited slot f 1/1: 1 times, 5s
        "#]],
    );
}

#[test]
fn a_kind_without_needs_runs_wherever_it_may() {
    check(
        "
        kind k
        node n1
        node n2 kinds=
        enqueue a kind=k
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
        "#]],
    );
}

#[test]
fn a_kind_runs_no_more_of_its_jobs_than_its_limit() {
    check(
        "
        slot n node
        kind few needs=n:1 max_running=1
        kind free needs=n:1
        node n1 slots=n:9
        enqueue a kind=few
        enqueue b kind=few priority=9
        enqueue c kind=few needs=n:2   # Own needs do not get a job around it.
        enqueue d kind=free
        tick
        why a
        run b
        done b
        tick
        ",
        expect![[r#"
            granted b -> n1 token=1.1
            deferred a slot_busy: slot kind:few 1/1
            deferred c slot_busy: slot kind:few 1/1
            granted d -> n1 token=1.2
            a waits: slot_busy slot kind:few 1/1 for 0ns, tried 1
              slot_busy slot kind:few 1/1: 1 times, 0ns
            ended b token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            granted a -> n1 token=1.3
            deferred c slot_busy: slot kind:few 1/1
        "#]],
    );
}

#[test]
fn a_limit_that_comes_while_jobs_run_counts_them_and_stops_none() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        kind k max_running=2
        enqueue d kind=k
        tick
        run a
        done a
        tick
        run b
        done b
        tick
        kind k max_running=1
        run c
        done c
        enqueue e kind=k
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            deferred d slot_busy: slot kind:k 3/2
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            deferred d slot_busy: slot kind:k 2/2
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            granted d -> n1 token=1.4
            ended c token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            deferred e slot_busy: slot kind:k 1/1
        "#]],
    );
}

#[test]
fn a_limit_that_goes_and_comes_back_counts_each_job_once() {
    check(
        "
        kind k max_running=1
        node n1
        enqueue a kind=k
        tick
        enqueue b kind=k
        tick
        kind k
        tick
        kind k max_running=3
        enqueue c kind=k
        enqueue d kind=k
        tick
        why d
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b slot_busy: slot kind:k 1/1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            deferred d slot_busy: slot kind:k 3/3
            d waits: slot_busy slot kind:k 3/3 for 0ns, tried 1
              slot_busy slot kind:k 3/3: 1 times, 0ns
        "#]],
    );
}

#[test]
fn the_slot_of_a_kind_is_paused_and_changed_like_any_other() {
    check(
        "
        kind k max_running=1
        node n1
        pause slot kind:k
        enqueue a kind=k
        enqueue b kind=k
        tick
        resume slot kind:k
        tick
        capacity kind:k 2
        tick
        ",
        expect![[r#"
            deferred a slot_paused: slot kind:k paused
            granted a -> n1 token=1.1
            deferred b slot_busy: slot kind:k 1/1
            granted b -> n1 token=1.2
        "#]],
    );
}
