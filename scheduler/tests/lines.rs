//! The order within kinds and keys: strict order, and how many jobs of one key run at once.

use expect_test::expect;

use crate::support::check;

#[test]
fn a_kind_in_strict_order_starts_its_jobs_as_they_were_enqueued_over_all_classes() {
    check(
        "
        slot a 1
        slot b 1
        kind k fifo
        node n1
        enqueue first kind=k needs=a:1
        tick
        run first
        enqueue second kind=k needs=a:1 priority=-50
        enqueue third kind=k needs=b:1 priority=100 tenant=other
        enqueue fourth kind=k
        tick
        why second
        why third
        explain fourth
        done first
        tick
        ",
        expect![[r#"
            granted first -> n1 token=1.1
            deferred third behind: behind 1 others
            deferred fourth behind: behind 2 others
            deferred second slot_busy: slot a 1/1
            second waits: slot_busy slot a 1/1 for 0ns, tried 1
              slot_busy slot a 1/1: 1 times, 0ns
            third waits: behind behind 1 others for 0ns, tried 1
              behind behind 1 others: 1 times, 0ns
            fourth: behind 2 others, 2 ahead second third
              It waits for its turn; 2 jobs of its class are before it.
              node n1: fits
              > the 2 ahead of it start
            ended first token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            granted second -> n1 token=1.2
            granted third -> n1 token=1.3
            granted fourth -> n1 token=1.4
        "#]],
    );
}

/// kueue#4809: a strict-FIFO queue whose head could not be admitted held up queues of others.
#[test]
fn a_blocked_kind_in_strict_order_blocks_nothing_but_itself() {
    check(
        "
        slot gpu 1
        slot shell 5
        kind strict fifo
        kind free needs=shell:1
        node n1
        enqueue g1 kind=strict needs=gpu:1
        tick
        run g1
        enqueue g2 kind=strict needs=gpu:1 priority=100
        enqueue s1 kind=strict needs=shell:1
        enqueue f1 kind=free
        enqueue f2 kind=free tenant=other priority=-100
        tick
        cancel g2
        tick
        ",
        expect![[r#"
            granted g1 -> n1 token=1.1
            deferred g2 slot_busy: slot gpu 1/1
            deferred s1 behind: behind 1 others
            granted f1 -> n1 token=1.2
            granted f2 -> n1 token=1.3
            ended g2 -> cancelled [cancelled by request]
            granted s1 -> n1 token=1.4
        "#]],
    );
}

#[test]
fn what_comes_back_takes_its_old_place_in_line() {
    check(
        "
        slot f 1
        kind k fifo needs=f:1
        node n1
        enqueue a kind=k
        enqueue b kind=k
        tick
        return a
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b slot_busy: slot f 1/1
            ended a token=1.1 returned (headroom) -> queued [returned by its node: headroom]
            masked k on n1 (headroom)
            deferred a masked: returned by n1 (headroom)
        "#]],
    );
}

#[test]
fn strict_order_comes_and_goes_with_the_fleet_file() {
    check(
        "
        slot f 1
        kind k needs=f:1
        node n1
        enqueue a kind=k
        tick
        run a
        enqueue b kind=k
        enqueue c kind=k priority=9
        show applied
        kind k needs=f:1 fifo
        done a
        tick
        run b
        enqueue d kind=k priority=10
        kind k needs=f:1
        done b
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            kind k: fifo
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            granted b -> n1 token=1.2
            deferred c slot_busy: slot f 1/1
            kind k: fifo
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            granted d -> n1 token=1.3
            deferred c slot_busy: slot f 1/1
        "#]],
    );
}

#[test]
fn of_the_jobs_with_one_key_so_many_run_at_once() {
    check(
        "
        kind chat concurrency=1
        node n1
        enqueue a1 kind=chat ckey=a
        enqueue a2 kind=chat ckey=a
        enqueue b1 kind=chat ckey=b
        enqueue free1 kind=chat
        enqueue free2 kind=chat
        enqueue a1-of-other kind=chat ckey=a tenant=other
        tick
        why a2
        run a1
        finish a1 ok
        tick
        reaped a1
        tick
        ",
        expect![[r#"
            granted a1 -> n1 token=1.1
            granted b1 -> n1 token=1.2
            granted free1 -> n1 token=1.3
            granted free2 -> n1 token=1.4
            deferred a2 concurrency_key: 1 with key a runs
            granted a1-of-other -> n1 token=1.5
            a2 waits: concurrency_key 1 with key a runs for 0ns, tried 1
              concurrency_key 1 with key a runs: 1 times, 0ns
            ended a1 token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            granted a2 -> n1 token=1.6
        "#]],
    );
}

/// Whatever it asks for: a key is one over all classes of its kind and tenant.
#[test]
fn a_key_is_shared_by_the_classes_of_a_kind() {
    check(
        "
        slot f 9
        kind chat concurrency=1
        node n1
        enqueue a1 kind=chat ckey=a needs=f:1
        enqueue a2 kind=chat ckey=a needs=f:2
        enqueue a3 kind=chat ckey=a priority=5
        enqueue b1 kind=chat ckey=b needs=f:2
        tick
        run a3
        done a3
        tick
        run a1
        done a1
        tick
        ",
        expect![[r#"
            granted a3 -> n1 token=1.1
            deferred a1 concurrency_key: 1 with key a runs
            granted b1 -> n1 token=1.2
            deferred a2 concurrency_key: 1 with key a runs
            ended a3 token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            granted a1 -> n1 token=1.3
            deferred a2 concurrency_key: 1 with key a runs
            ended a1 token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            granted a2 -> n1 token=1.4
        "#]],
    );
}

/// The head of the one class came back late and waits in a low band; with its key taken by the other class, the next
/// one stands there, which has waited for longer.
#[test]
fn a_class_whose_head_loses_its_key_stands_where_its_next_job_does() {
    check(
        "
        kind chat concurrency=1 hard=24h
        kind other
        enqueue late kind=chat ckey=a run_at=16m
        enqueue old kind=chat ckey=b
        enqueue first kind=chat ckey=a hard=1h priority=1
        enqueue third kind=other priority=-1
        advance 17m
        node n1
        show granted
        tick
        ",
        expect![[r#"
            1s: deferred first no_matching_node: no node runs this kind
            1s: deferred old no_matching_node: no node runs this kind
            1s: deferred third no_matching_node: no node runs this kind
            30s: deferred first no_matching_node: no node runs this kind
            30s: deferred old no_matching_node: no node runs this kind
            30s: deferred third no_matching_node: no node runs this kind
            960s: ready late
            1020s: granted first -> n1 token=1.1
            1020s: granted old -> n1 token=1.2
            1020s: granted third -> n1 token=1.3
            1020s: deferred late concurrency_key: 1 with key a runs
        "#]],
    );
}

#[test]
fn a_limit_by_key_changes_live_and_stops_nothing() {
    check(
        "
        kind chat concurrency=2
        node n1
        enqueue a1 kind=chat ckey=a
        enqueue a2 kind=chat ckey=a
        enqueue a3 kind=chat ckey=a
        enqueue a4 kind=chat ckey=a
        tick
        run a1
        run a2
        show applied
        kind chat concurrency=1
        tick
        done a1
        tick
        kind chat concurrency=3
        tick
        kind chat
        tick
        enqueue late kind=chat ckey=a
        kind chat concurrency=2
        done a2
        done a3
        enqueue a5 kind=chat ckey=a
        tick
        ",
        expect![[r#"
            granted a1 -> n1 token=1.1
            granted a2 -> n1 token=1.2
            deferred a3 concurrency_key: 2 with key a run
            kind chat: concurrency
            deferred a3 concurrency_key: 1 with key a runs
            ended a1 token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            kind chat: concurrency
            granted a3 -> n1 token=1.3
            granted a4 -> n1 token=1.4
            kind chat: concurrency
            refused late INVALID_FIELD: job.concurrency_key: limits nothing: kind chat has no concurrency
            kind chat: concurrency
            ended a2 token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            ended a3 token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            granted a5 -> n1 token=1.5
        "#]],
    );
}

#[test]
fn a_key_is_held_until_its_lease_is_over_under_the_next_leader_too() {
    check(
        "
        kind chat concurrency=1 lease=10s
        node n1
        enqueue a1 kind=chat ckey=a
        enqueue a2 kind=chat ckey=a
        tick
        run a1
        finish a1 ok
        reload
        hello n1
        tick
        reaped a1
        tick
        run a2
        enqueue a3 kind=chat ckey=a
        mute n1
        advance 13s
        why a3
        why a2
        ",
        expect![[r#"
            granted a1 -> n1 token=1.1
            deferred a2 concurrency_key: 1 with key a runs
            ended a1 token=1.1 succeeded (exit) -> succeeded
            deferred a2 concurrency_key: 1 with key a runs
            lease 1.1 gone
            granted a2 -> n1 token=2.1
            1s: deferred a3 concurrency_key: 1 with key a runs
            7s: suspect n1
            12.5s: ended a2 token=2.1 lost (lease_expired) -> queued [its lease ended in silence]
            12.5s: deferred a2 suspect: n1 silent
            13s: a3 waits: suspect n1 silent for 500ms, tried 2
            13s:   concurrency_key 1 with key a runs: 1 times, 11.5s
            13s:   suspect n1 silent: 1 times, 500ms
            13s: a2 waits: suspect n1 silent for 500ms, tried 1
            13s:   suspect n1 silent: 1 times, 500ms
            13s:   concurrency_key 1 with key a runs: 1 times, 0ns
        "#]],
    );
}

#[test]
fn in_strict_order_a_key_at_its_limit_blocks_its_kind() {
    check(
        "
        kind chat concurrency=1 fifo
        node n1
        enqueue a1 kind=chat ckey=a
        enqueue a2 kind=chat ckey=a
        enqueue b1 kind=chat ckey=b
        tick
        run a1
        done a1
        tick
        ",
        expect![[r#"
            granted a1 -> n1 token=1.1
            deferred a2 concurrency_key: 1 with key a runs
            ended a1 token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            granted a2 -> n1 token=1.2
            granted b1 -> n1 token=1.3
        "#]],
    );
}

/// A tenant floods one key: what waits for it is not looked at again for each job, nor does it hold up the next key.
#[test]
fn a_blocked_key_holds_up_no_other_key() {
    let flood: String = (0..200).map(|n| format!("enqueue a{n} kind=chat ckey=a priority=9\n")).collect();
    check(
        &format!(
            "
            kind chat concurrency=1
            node n1
            {flood}
            tick
            enqueue b kind=chat ckey=b
            tick
            why a199
            "
        ),
        expect![[r#"
            granted a0 -> n1 token=1.1
            deferred a1 concurrency_key: 1 with key a runs
            granted b -> n1 token=1.2
            deferred a1 concurrency_key: 1 with key a runs
            a199 waits: concurrency_key 1 with key a runs for 0ns, tried 2
              concurrency_key 1 with key a runs: 2 times, 0ns
        "#]],
    );
}

#[test]
fn a_limit_of_a_kind_and_a_capacity_change_live_and_stop_nothing() {
    check(
        "
        slot n node
        slot f 3
        kind k needs=f:1,n:1 max_running=3
        node n1 slots=n:3
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        enqueue d kind=k
        tick
        run a
        run b
        run c
        kind k needs=f:1,n:1 max_running=1
        capacity f 1
        hello n1 slots=n:0
        done a
        tick
        why d
        done b
        tick
        kind k needs=f:1,n:1 max_running=2
        capacity f 2
        tick
        hello n1 slots=n:2
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            deferred d slot_busy: slot f 3/3
            session 1 of n1 is closed: SUPERSEDED_SESSION
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            deferred d slot_busy: slot f 2/1
            d waits: slot_busy slot f 2/1 for 0ns, tried 2
              slot_busy slot f 2/1: 2 times, 0ns
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            deferred d slot_busy: slot f 1/1
            deferred d impossible: needs 1 of slot n, the most is 0
            session 2 of n1 is closed: SUPERSEDED_SESSION
            granted d -> n1 token=1.4
        "#]],
    );
}
