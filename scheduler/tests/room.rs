//! What fits where, what is charged, and where work goes when a node will not have it. Faults that were reported of other
//! schedulers, told in our words: each names the report.

use expect_test::expect;

use crate::support::{Rng, Script, check};

/// dask/distributed#9108: a resource of 10 took three tasks of 4.
#[test]
fn a_slot_of_ten_takes_two_jobs_of_four_and_not_three() {
    check(
        "
        slot mem node
        kind k needs=mem:4
        node n1 slots=mem:10
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        run a
        run b
        advance 10s
        explain c
        done a
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            deferred c slot_busy: slot mem on n1 8/10
            10s: c: slot mem on n1 8/10, 0 ahead
            10s:   It waits for 4 units of slot mem on one node (8/10 taken on 1 node).
            10s:   slot mem on n1: needs 4 of 8/10
            10s:     a holds 4 for 10s
            10s:     b holds 4 for 10s
            10s:   node n1: slot mem on n1 8/10
            10s:   > 2 more units of slot mem on node n1 or another: holders end, or a node that runs kind k and offers mem:4 joins
            10s:   > 2 leases hold slot mem; they are listed
            10s: ended a token=1.1 succeeded (exit) -> succeeded
            10s: lease 1.1 gone
            10s: granted c -> n1 token=1.3
        "#]],
    );
}

/// dask/distributed, re-registration: a worker that registered again with the same resources had them all free again,
/// while its tasks ran on.
#[test]
fn a_second_hello_with_the_same_slots_frees_nothing_that_runs() {
    check(
        "
        slot shell node
        kind k needs=shell:1
        node n1 slots=shell:3
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        enqueue d kind=k
        tick
        run a
        run b
        run c
        hello n1
        tick
        explain d
        hello n1 slots=shell:3
        tick
        done b
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            deferred d slot_busy: slot shell on n1 3/3
            session 1 of n1 is closed: SUPERSEDED_SESSION
            deferred d slot_busy: slot shell on n1 3/3
            d: slot shell on n1 3/3, 0 ahead
              It waits for 1 unit of slot shell on one node (3/3 taken on 1 node).
              slot shell on n1: needs 1 of 3/3
                a holds 1 for 0ns
                b holds 1 for 0ns
                c holds 1 for 0ns
              node n1: slot shell on n1 3/3
              > 1 more unit of slot shell on node n1 or another: holders end, or a node that runs kind k and offers shell:1 joins
              > 3 leases hold slot shell; they are listed
            session 2 of n1 is closed: SUPERSEDED_SESSION
            deferred d slot_busy: slot shell on n1 3/3
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            granted d -> n1 token=1.4
        "#]],
    );
}

/// volcano#4261: scheduling with no node known panicked.
#[test]
fn without_any_node_jobs_wait_and_nothing_is_called_impossible() {
    check(
        "
        slot shell node
        slot f 1
        kind k needs=shell:1000000
        kind plain
        kind both needs=shell:1,f:1 selector=os:linux
        enqueue a kind=k
        enqueue b kind=plain
        enqueue c kind=both
        tick
        advance 1m
        reload
        tick
        advance 1m
        explain a
        explain c
        node n1 slots=shell:1 labels=os:linux
        tick
        enqueue d kind=k
        ",
        expect![[r#"
            deferred a no_matching_node: no node runs this kind
            deferred b no_matching_node: no node runs this kind
            deferred c no_matching_node: no node runs this kind with os=linux
            30s: deferred a no_matching_node: no node runs this kind
            30s: deferred b no_matching_node: no node runs this kind
            30s: deferred c no_matching_node: no node runs this kind with os=linux
            60s: deferred a no_matching_node: no node runs this kind
            60s: deferred b no_matching_node: no node runs this kind
            60s: deferred c no_matching_node: no node runs this kind with os=linux
            90s: deferred a no_matching_node: no node runs this kind
            90s: deferred b no_matching_node: no node runs this kind
            90s: deferred c no_matching_node: no node runs this kind with os=linux
            120s: a: no node runs this kind, 0 ahead
            120s:   It does not start: no node runs this kind.
            120s:   > a node that runs kind k and offers shell:1000000 joins
            120s: c: no node runs this kind with os=linux, 0 ahead
            120s:   It does not start: no node runs this kind with os=linux.
            120s:   slot f: needs 1 of 0/1
            120s:   > a node that runs kind both, carries os=linux and offers shell:1 joins
            120s: deferred a impossible: needs 1000000 of slot shell, the most is 1
            120s: granted b -> n1 token=2.1
            120s: granted c -> n1 token=2.2
            120s: refused d IMPOSSIBLE_NEEDS: no node and no fleet capacity can ever satisfy the needs; shell 1000000 of 1
        "#]],
    );
}

/// kubernetes#106884: a pod that was to end was counted out before its processes had gone, and the next was admitted on
/// top of them.
#[test]
fn what_finished_and_is_not_reaped_keeps_its_slots_and_its_retry_waits() {
    check(
        "
        slot mem node
        kind k needs=mem:1 retry=1s
        node n1 slots=mem:1
        node n2 slots=mem:1
        cordon n2
        enqueue a kind=k
        tick
        run a
        finish a fail
        enqueue b kind=k
        advance 1s
        why a
        why b
        uncordon n2
        tick
        reaped a
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            1s: ready a
            1s: deferred b slot_busy: slot mem on n1 1/1
            1s: a waits: not_reaped earlier execution on n1 not gone for 0ns, tried 0
            1s:   backoff back-off: 1 times, 1s
            1s:   not_reaped earlier execution on n1 not gone: 1 times, 0ns
            1s: b waits: slot_busy slot mem on n1 1/1 for 0ns, tried 1
            1s:   slot_busy slot mem on n1 1/1: 1 times, 0ns
            1s: granted b -> n2 token=1.2
            1s: lease 1.1 gone
            1s: granted a -> n1 token=1.3
        "#]],
    );
}

/// kubernetes#94245: a node under pressure refused a pod, and was given the next one at once, again and again.
#[test]
fn a_node_that_refused_under_pressure_is_not_offered_the_same_before_a_newer_reading() {
    check(
        "
        kind k
        kind other
        node n1
        enqueue a kind=k
        enqueue b kind=k
        tick
        return a rule=mem_low generation=4 retry_after=9h
        tick
        press n1 gen=3
        tick
        press n1 gen=4
        tick
        enqueue c kind=k
        enqueue d kind=other
        tick
        press n1 gen=5 close=kind:k:mem_low:1:2
        tick
        press n1 gen=6
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            ended a token=1.1 returned (mem_low) -> queued [returned by its node: mem_low]
            masked k on n1 (mem_low)
            deferred a masked: returned by n1 (mem_low)
            granted d -> n1 token=1.3
            unmasked k on n1
            deferred a node_pressure: mem_low on n1 (1, closes at 2)
            granted a -> n1 token=1.4
            granted c -> n1 token=1.5
        "#]],
    );
}

/// nomad#25808: a node that could start nothing looked empty, and so was given everything, for ever.
#[test]
fn a_node_that_refuses_every_grant_is_passed_by() {
    check(
        "
        slot shell node
        kind k needs=shell:1
        node good slots=shell:2
        node hole slots=shell:1
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        return a rule=broken
        tick
        run b
        run c
        advance 29s
        done b
        tick
        run a
        advance 10s
        ",
        expect![[r#"
            granted a -> hole token=1.1
            granted b -> good token=1.2
            granted c -> good token=1.3
            ended a token=1.1 returned (broken) -> queued [returned by its node: broken]
            masked k on hole (broken)
            deferred a slot_busy: slot shell on good 2/2
            29s: ended b token=1.2 succeeded (exit) -> succeeded
            29s: lease 1.2 gone
            29s: granted a -> good token=1.4
            30s: unmasked k on hole
        "#]],
    );
}

/// dask/distributed#4446: what was taken of a worker and given back to it drifted apart, until nothing fitted on it or too
/// much did. Refusals, cancels, ends reported twice, Hellos in the middle: in the end everything is free again, and in
/// between used is the sum of what is held (an invariant that holds after every line).
#[test]
fn a_storm_of_refusals_cancels_and_double_ends_leaves_every_unit_free() {
    for seed in 1..=6 {
        let mut rng = Rng::new(seed);
        let mut run = Script::new();
        run.lines(
            "
            slot f 5
            slot s node
            kind one needs=s:1,f:1 retry=1s max_failures=9
            kind two needs=s:2 retry=1s max_failures=9
            kind lone needs=f:2 max_running=2 retry=1s max_failures=9
            node n1 slots=s:3
            node n2 slots=s:2
            ",
        );
        for n in 0..60 {
            let kind = rng.pick(&["one", "two", "lone"]).unwrap();
            run.lines(&format!("enqueue j{n} kind={kind}\ntick"));
            for _ in 0..4 {
                let job = format!("j{}", rng.below(n + 1));
                let line = match rng.below(11) {
                    0 => format!("cancel {job}"),
                    1 => "hello n1".to_owned(),
                    2 => "advance 1s".to_owned(),
                    _ if !run.is_granted(&job) => continue,
                    3 => format!("return {job} rule=headroom retry_after=1s"),
                    4 | 5 => format!("run {job}"),
                    6 => format!("finish {job} fail"),
                    7 => format!("reaped {job}"),
                    8 => format!("done {job}\ndone {job}"),
                    9 => format!("finish {job} ok\nfinish {job} fail\nreaped {job}\nreaped {job}"),
                    _ => format!("accepted {job}\naccepted {job}"),
                };
                run.lines(&line);
            }
        }
        // Whatever is left ends, and everybody hears of it.
        for round in 0..40 {
            run.lines("tick");
            for n in 0..60 {
                if run.is_granted(&format!("j{n}")) {
                    run.lines(&format!("done j{n}"));
                }
            }
            if round % 10 == 0 {
                run.lines("advance 2s");
            }
        }
        for (slot, free, all) in run.world.free_units() {
            assert_eq!(free, all, "seed {seed}: {slot} drifted");
        }
        assert!(run.world.state.durable().leases.is_empty(), "seed {seed}");
    }
}
