//! Who goes first when several jobs want the same units, and who may use what is kept meanwhile.

use expect_test::expect;

use crate::support::check;

#[test]
fn an_older_job_takes_the_place_of_a_younger_one_that_waited_less() {
    check(
        "
        slot gpu node
        kind small needs=gpu:1 hard=10m
        kind patient needs=gpu:2 hard=10m reserve_after=1m
        kind hasty needs=gpu:2 hard=10m reserve_after=5s
        node n1 slots=gpu:2
        enqueue a kind=small
        enqueue b kind=small
        tick
        run a
        run b
        enqueue old kind=patient
        enqueue young kind=hasty
        tick
        advance 1m
        done a
        done b
        tick
        done old
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            deferred old slot_busy: slot gpu on n1 2/2
            deferred young slot_busy: slot gpu on n1 2/2
            5s: earmarked gpu:2 on n1 for young within 605s
            30s: deferred young slot_busy: slot gpu on n1 2/2
            30s: deferred old slot_busy: slot gpu on n1 2/2
            60s: earmark dropped of young on n1: superseded
            60s: earmarked gpu:2 on n1 for old within 550s
            60s: deferred old slot_busy: slot gpu on n1 2/2
            60s: deferred young slot_busy: slot gpu on n1 2/2
            60s: ended a token=1.1 succeeded (exit) -> succeeded
            60s: lease 1.1 gone
            60s: ended b token=1.2 succeeded (exit) -> succeeded
            60s: lease 1.2 gone
            60s: granted old -> n1 token=1.3
            60s: earmark dropped of old on n1: used
            60s: deferred young slot_busy: slot gpu on n1 2/2
            60s: ended old token=1.3 succeeded (exit) -> succeeded
            60s: lease 1.3 gone
            60s: granted young -> n1 token=1.4
        "#]],
    );
}

#[test]
fn large_jobs_that_follow_each_other_do_not_starve_an_older_small_one() {
    check(
        "
        slot gpu node
        kind small needs=gpu:1 hard=100s
        kind large needs=gpu:2 hard=100s reserve_after=5s
        node n1 slots=gpu:2
        enqueue l1 kind=large
        tick
        run l1
        enqueue old kind=small
        tick
        advance 10s
        enqueue l2 kind=large
        enqueue l3 kind=large
        tick
        advance 15s
        done l1
        tick
        run l2
        advance 15s
        done l2
        tick
        run old
        advance 10s
        done old
        tick
        ",
        expect![[r#"
            granted l1 -> n1 token=1.1
            deferred old slot_busy: slot gpu on n1 2/2
            10s: deferred l2 slot_busy: slot gpu on n1 2/2
            15s: earmarked gpu:2 on n1 for l2 within 95s
            25s: ended l1 token=1.1 succeeded (exit) -> succeeded
            25s: lease 1.1 gone
            25s: granted l2 -> n1 token=1.2
            25s: earmark dropped of l2 on n1: used
            25s: deferred old slot_busy: slot gpu on n1 2/2
            25s: deferred l3 slot_busy: slot gpu on n1 2/2
            30s: deferred old slot_busy: slot gpu on n1 2/2
            30s: deferred l3 slot_busy: slot gpu on n1 2/2
            30s: earmarked gpu:2 on n1 for l3 within 105s
            30s: earmark dropped of l3 on n1: superseded
            30s: earmarked gpu:1 on n1 for old within 105s
            30s: deferred old slot_busy: slot gpu on n1 2/2
            30s: deferred l3 slot_busy: slot gpu on n1 2/2
            40s: ended l2 token=1.2 succeeded (exit) -> succeeded
            40s: lease 1.2 gone
            40s: granted old -> n1 token=1.3
            40s: earmark dropped of old on n1: used
            40s: deferred l3 slot_busy: slot gpu on n1 1/2
            40s: earmarked gpu:2 on n1 for l3 within 110s
            50s: ended old token=1.3 succeeded (exit) -> succeeded
            50s: lease 1.3 gone
            50s: granted l3 -> n1 token=1.4
            50s: earmark dropped of l3 on n1: used
        "#]],
    );
}

/// Of one class both would be: the first, which does not end in time, would stand before the one that does.
#[test]
fn a_job_that_ends_in_time_does_not_wait_behind_one_of_its_kind_that_does_not() {
    check(
        "
        slot gpu node
        kind small needs=gpu:1 hard=10m
        kind large needs=gpu:2 hard=10m
        node n1 slots=gpu:2
        enqueue a kind=small
        enqueue b kind=small
        tick
        run a
        run b
        enqueue big kind=large
        tick
        advance 30s
        enqueue long kind=small
        enqueue short kind=small hard=33s
        done a
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            deferred big slot_busy: slot gpu on n1 2/2
            30s: deferred big slot_busy: slot gpu on n1 2/2
            30s: earmarked gpu:2 on n1 for big within 580s
            30s: ended a token=1.1 succeeded (exit) -> succeeded
            30s: lease 1.1 gone
            30s: deferred big slot_busy: slot gpu on n1 1/2
            30s: deferred long earmarked: slot gpu on n1 earmarked for big
            30s: granted short -> n1 token=1.3
        "#]],
    );
}
