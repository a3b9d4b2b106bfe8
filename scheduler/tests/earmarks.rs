//! Earmarks: a large job that is blocked for long gets the units that it needs kept, on one node, in one order.

mod bound;
mod moves;
mod rivals;
mod turns;

use expect_test::expect;

use crate::support::check;

#[test]
fn a_stream_of_small_jobs_does_not_starve_a_large_one() {
    check(
        "
        slot gpu node
        kind small needs=gpu:1 hard=60s
        kind large needs=gpu:2 hard=60s
        node n1 slots=gpu:2
        enqueue a kind=small
        tick
        run a
        advance 20s
        enqueue b kind=small
        tick
        run b
        enqueue big kind=large
        enqueue c kind=small
        tick
        advance 20s
        done a
        tick
        run c
        advance 10s
        enqueue d kind=small
        enqueue e kind=small
        advance 10s
        done b
        tick
        why d
        advance 10s
        done c
        tick
        done big
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            20s: granted b -> n1 token=1.2
            20s: deferred big slot_busy: slot gpu on n1 2/2
            20s: deferred c slot_busy: slot gpu on n1 2/2
            30s: deferred big slot_busy: slot gpu on n1 2/2
            30s: deferred c slot_busy: slot gpu on n1 2/2
            40s: ended a token=1.1 succeeded (exit) -> succeeded
            40s: lease 1.1 gone
            40s: deferred big slot_busy: slot gpu on n1 1/2
            40s: granted c -> n1 token=1.3
            50s: earmarked gpu:2 on n1 for big within 60s
            51s: deferred d slot_busy: slot gpu on n1 2/2
            60s: ended b token=1.2 succeeded (exit) -> succeeded
            60s: lease 1.2 gone
            60s: deferred big slot_busy: slot gpu on n1 1/2
            60s: deferred d earmarked: slot gpu on n1 earmarked for big
            60s: d waits: earmarked slot gpu on n1 earmarked for big for 0ns, tried 2
            60s:   slot_busy slot gpu on n1 2/2: 1 times, 9s
            60s:   earmarked slot gpu on n1 earmarked: 1 times, 0ns
            70s: ended c token=1.3 succeeded (exit) -> succeeded
            70s: lease 1.3 gone
            70s: granted big -> n1 token=1.4
            70s: earmark dropped of big on n1: used
            70s: deferred d slot_busy: slot gpu on n1 2/2
            70s: ended big token=1.4 succeeded (exit) -> succeeded
            70s: lease 1.4 gone
            70s: granted d -> n1 token=1.5
            70s: granted e -> n1 token=1.6
        "#]],
    );
}

#[test]
fn a_job_that_ends_in_time_uses_earmarked_units_and_no_other_does() {
    check(
        "
        slot gpu node
        kind small needs=gpu:1 hard=10m
        kind quick needs=gpu:1 hard=560s
        kind large needs=gpu:2 hard=10m
        node n1 slots=gpu:2
        enqueue a kind=small
        enqueue z kind=small
        tick
        run a
        run z
        enqueue big kind=large
        tick
        advance 30s
        done z
        enqueue too-long kind=small hard=561s
        tick
        enqueue in-time kind=quick
        tick
        run in-time
        advance 9m10s
        done a
        done in-time
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted z -> n1 token=1.2
            deferred big slot_busy: slot gpu on n1 2/2
            30s: deferred big slot_busy: slot gpu on n1 2/2
            30s: earmarked gpu:2 on n1 for big within 580s
            30s: ended z token=1.2 succeeded (exit) -> succeeded
            30s: lease 1.2 gone
            30s: deferred big slot_busy: slot gpu on n1 1/2
            30s: deferred too-long earmarked: slot gpu on n1 earmarked for big
            30s: granted in-time -> n1 token=1.3
            580s: ended a token=1.1 succeeded (exit) -> succeeded
            580s: lease 1.1 gone
            580s: ended in-time token=1.3 succeeded (exit) -> succeeded
            580s: lease 1.3 gone
            580s: granted big -> n1 token=1.4
            580s: earmark dropped of big on n1: used
            580s: deferred too-long slot_busy: slot gpu on n1 2/2
        "#]],
    );
}
