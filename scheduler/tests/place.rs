//! Placement: order, selectors, scores, masks, pressure, credits; and what a job is told while it waits.

use expect_test::expect;

use crate::support::check;

#[test]
fn higher_priority_comes_first_then_age_over_all_kinds() {
    check(
        "
        slot f 1
        kind one needs=f:1
        kind two needs=f:1
        node n1
        enqueue a kind=one
        enqueue b kind=two priority=5
        enqueue c kind=one
        enqueue d kind=two priority=5 tenant=other
        priority c 6
        tick
        run c
        done c
        tick
        run b
        done b
        tick
        run d
        done d
        tick
        ",
        expect![[r#"
            reprioritized c 6
            granted c -> n1 token=1.1
            deferred b slot_busy: slot f 1/1
            deferred d slot_busy: slot f 1/1
            deferred a slot_busy: slot f 1/1
            ended c token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            granted b -> n1 token=1.2
            deferred d slot_busy: slot f 1/1
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            granted d -> n1 token=1.3
            deferred a slot_busy: slot f 1/1
            ended d token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            granted a -> n1 token=1.4
        "#]],
    );
}

#[test]
fn a_tick_has_a_budget_and_says_that_there_is_more() {
    check(
        "
        limits budget=2
        kind k
        node n1
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        enqueue d kind=k
        enqueue e kind=k priority=1
        tick
        ",
        expect![[r#"
            granted e -> n1 token=2.1
            granted a -> n1 token=2.2
            granted b -> n1 token=2.3
            granted c -> n1 token=2.4
            granted d -> n1 token=2.5
        "#]],
    );
}

#[test]
fn selectors_of_kind_and_job_must_both_hold() {
    check(
        "
        kind k selector=os:linux
        node n1 labels=os:linux,zone:east
        node n2 labels=os:mac,zone:west
        enqueue a kind=k
        enqueue b kind=k selector=zone:west
        enqueue c kind=k selector=os:mac
        tick
        run a
        advance 30s
        why b
        explain c
        node n3 labels=os:linux,zone:west
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b no_matching_node: no node runs this kind with os=linux,zone=west
            deferred c no_matching_node: no node runs this kind with os=linux,os=mac
            30s: deferred b no_matching_node: no node runs this kind with os=linux,zone=west
            30s: deferred c no_matching_node: no node runs this kind with os=linux,os=mac
            30s: b waits: no_matching_node no node runs this kind with os=linux,zone=west for 30s, tried 2
            30s:   no_matching_node no node runs this kind with os=linux,zone=west: 2 times, 30s
            30s: c: no node runs this kind with os=linux,os=mac, 0 ahead
            30s:   It does not start: no node runs this kind with os=linux,os=mac.
            30s:   node n1: no node runs this kind with os=linux,os=mac
            30s:   node n2: no node runs this kind with os=linux,os=mac
            30s:   > a node that runs kind k and carries os=linux,os=mac joins
            30s: granted b -> n3 token=1.2
            30s: deferred c no_matching_node: no node runs this kind with os=linux,os=mac
        "#]],
    );
}

#[test]
fn a_job_goes_where_it_wastes_least() {
    check(
        "
        slot gpu node
        slot shell node
        kind shell needs=shell:1
        kind other needs=shell:1
        node big slots=gpu:1,shell:4
        node idle slots=shell:4
        node tight slots=shell:1
        enqueue a kind=shell
        enqueue b kind=shell
        press idle weight=3
        enqueue c kind=shell
        tick
        ",
        expect![[r#"
            granted a -> tight token=1.1
            granted b -> idle token=1.2
            granted c -> idle token=1.3
        "#]],
    );
}

#[test]
fn a_job_that_failed_somewhere_goes_elsewhere_if_it_can() {
    check(
        "
        kind k retry=1s max_failures=9
        node n1
        node n2
        enqueue a kind=k
        tick
        run a
        finish a fail
        reaped a
        advance 1s
        run a
        finish a fail
        reaped a
        cordon n1
        advance 1s
        ",
        expect![[r#"
            granted a -> n2 token=1.1
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            lease 1.1 gone
            1s: ready a
            1s: granted a -> n1 token=1.2
            1s: ended a token=1.2 failed_retryable (exit) -> scheduled [exit]
            1s: lease 1.2 gone
            2s: ready a
            2s: granted a -> n2 token=1.3
        "#]],
    );
}

#[test]
fn a_returned_class_is_masked_until_its_time_is_over() {
    check(
        "
        kind k
        kind other
        node n1
        enqueue a kind=k
        tick
        return a rule=uid_procs observed=600 threshold=550
        enqueue b kind=k
        enqueue c kind=other
        tick
        attempts a
        run c
        why a
        advance 29s999999us
        advance 1us
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 returned (uid_procs) -> queued [returned by its node: uid_procs (600 against 550)]
            masked k on n1 (uid_procs)
            deferred a masked: returned by n1 (uid_procs)
            granted c -> n1 token=1.2
            a round=1 attempt=1 1.1 on n1: returned uid_procs returned by its node: uid_procs (600 against 550)
            a waits: masked returned by n1 (uid_procs) for 0ns, tried 1
              masked returned by n1 (uid_procs): 1 times, 0ns
            30s: unmasked k on n1
            30s: granted a -> n1 token=1.3
            30s: granted b -> n1 token=1.4
        "#]],
    );
}

#[test]
fn a_mask_ends_with_a_newer_generation_a_hello_or_its_own_retry_after() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        tick
        return a rule=mem_low generation=1
        press n1 gen=1
        tick
        press n1 gen=2
        tick
        return a rule=mem_low generation=2
        hello n1
        tick
        return a rule=mem_low generation=2 retry_after=5s
        advance 5s
        return a rule=mem_low generation=2 retry_after=9999h
        mute n1
        advance 59m59s
        advance 1s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 returned (mem_low) -> queued [returned by its node: mem_low]
            masked k on n1 (mem_low)
            deferred a masked: returned by n1 (mem_low)
            unmasked k on n1
            granted a -> n1 token=1.2
            ended a token=1.2 returned (mem_low) -> queued [returned by its node: mem_low]
            masked k on n1 (mem_low)
            session 1 of n1 is closed: SUPERSEDED_SESSION
            granted a -> n1 token=1.3
            ended a token=1.3 returned (mem_low) -> queued [returned by its node: mem_low]
            masked k on n1 (mem_low)
            1s: deferred a masked: returned by n1 (mem_low)
            5s: unmasked k on n1
            5s: granted a -> n1 token=1.4
            5s: ended a token=1.4 returned (mem_low) -> queued [returned by its node: mem_low]
            5s: masked k on n1 (mem_low)
            6s: deferred a masked: returned by n1 (mem_low)
            17s: suspect n1
            17s: deferred a suspect: n1 silent
            30s: deferred a suspect: n1 silent
            3605s: unmasked k on n1
            3605s: deferred a suspect: n1 silent
        "#]],
    );
}

#[test]
fn a_mask_of_a_class_without_jobs_loses_no_wake_up() {
    check(
        "
        kind k
        node n1
        node n2
        cordon n2
        enqueue a kind=k
        tick
        return a rule=mem_low
        tick
        cancel a
        close n2
        uncordon n2
        tick
        hello n2
        tick
        enqueue b kind=k
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 returned (mem_low) -> queued [returned by its node: mem_low]
            masked k on n1 (mem_low)
            deferred a masked: returned by n1 (mem_low)
            ended a -> cancelled [cancelled by request]
            granted b -> n2 token=1.2
        "#]],
    );
}

#[test]
fn the_other_node_takes_what_one_returned() {
    check(
        "
        kind k
        node n1
        node n2
        enqueue a kind=k
        tick
        return a rule=mem_low
        tick
        return a rule=mem_low
        tick
        explain a
        ",
        expect![[r#"
            granted a -> n2 token=1.1
            ended a token=1.1 returned (mem_low) -> queued [returned by its node: mem_low]
            masked k on n2 (mem_low)
            granted a -> n1 token=1.2
            ended a token=1.2 returned (mem_low) -> queued [returned by its node: mem_low]
            masked k on n1 (mem_low)
            deferred a masked: returned by n2 (mem_low)
            a: returned by n2 (mem_low), 0 ahead
              It does not start: returned by n2 (mem_low).
              node n1: returned by n1 (mem_low)
              node n2: returned by n2 (mem_low)
              > the mask of node n2 ends, or another node can take it
        "#]],
    );
}

#[test]
fn a_closed_group_stops_exactly_its_grants() {
    check(
        "
        slot browser node
        slot anthropic 9
        kind crawl needs=browser:1
        kind chat needs=anthropic:1
        kind plain
        node n1 slots=browser:9
        press n1 close=slot:browser:mem_low:5:10;kind:plain:headroom:1:1
        enqueue a kind=crawl
        enqueue b kind=chat
        enqueue c kind=plain
        tick
        press n1 close=slot:anthropic:net:1:1
        enqueue d kind=chat
        tick
        press n1 close=*:uid_procs:600:550
        enqueue e kind=plain
        tick
        explain e
        press n1
        tick
        ",
        expect![[r#"
            deferred a node_pressure: mem_low on n1 (5, closes at 10)
            granted b -> n1 token=1.1
            deferred c node_pressure: headroom on n1 (1, closes at 1)
            granted a -> n1 token=1.2
            granted c -> n1 token=1.3
            deferred d node_pressure: net on n1 (1, closes at 1)
            deferred d node_pressure: uid_procs on n1 (600, closes at 550)
            deferred e node_pressure: uid_procs on n1 (600, closes at 550)
            e: uid_procs on n1 (600, closes at 550), 0 ahead
              It does not start: uid_procs on n1 (600, closes at 550).
              node n1: uid_procs on n1 (600, closes at 550)
              > rule uid_procs on node n1 opens again (it closes at 550), or another node can take it
            granted d -> n1 token=1.4
            granted e -> n1 token=1.5
        "#]],
    );
}

#[test]
fn a_kind_of_workers_of_which_none_is_attached_says_so() {
    check(
        "
        kind plain
        node n1
        press n1 close=kind:plain:worker:0:1
        enqueue a kind=plain
        tick
        explain a
        ",
        expect![[r#"
            deferred a node_pressure: no worker process is attached on n1
            a: no worker process is attached on n1, 0 ahead
              It does not start: no worker process is attached on n1.
              node n1: no worker process is attached on n1
              > a worker process of this kind attaches on node n1, or another node can take it
        "#]],
    );
}

#[test]
fn a_reading_that_is_too_old_lets_nothing_start() {
    // Reports keep the node from being suspect; only a heartbeat brings a reading.
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        tick
        run a
        mute n1
        advance 8s
        progress a
        advance 7s
        progress a
        advance 1us
        enqueue b kind=k
        tick
        beat n1
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            15.000001s: deferred b suspect: n1 silent
            15.000001s: granted b -> n1 token=1.2
        "#]],
    );
}

#[test]
fn a_node_gets_no_more_grants_than_it_takes_unanswered() {
    check(
        "
        kind k
        node n1 credits=1
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        accepted a
        tick
        return b rule=draining
        tick
        block n1
        tick
        accepted b
        tick
        unblock n1
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b unanswered: n1 behind with its messages (1 grants unanswered)
            granted b -> n1 token=1.2
            deferred c unanswered: n1 behind with its messages (1 grants unanswered)
            ended b token=1.2 returned (draining) -> queued [returned by its node: draining]
            granted b -> n1 token=1.3
            deferred c unanswered: n1 behind with its messages (1 grants unanswered)
            deferred c unanswered: n1 behind with its messages (1 grants unanswered)
            deferred c unanswered: n1 behind with its messages (0 grants unanswered)
            granted c -> n1 token=1.4
        "#]],
    );
}

#[test]
fn a_silent_node_is_suspect_after_two_intervals_and_two_seconds() {
    check(
        "
        kind k lease=12s
        node n1
        enqueue early kind=k
        tick
        run early
        show messages
        beat n1
        mute n1
        advance 7s999999us
        advance 1us
        enqueue a kind=k
        tick
        beat n1
        tick
        ",
        expect![[r#"
            granted early -> n1 token=1.1
            n1 < renewed anchor=4 1.1 for 12s
            8s: suspect n1
            8s: deferred a suspect: n1 silent
            8s: n1 < renewed anchor=5 1.1 for 12s
            8s: granted a -> n1 token=1.2
            8s: n1 < grant a 1.2 attempt=1 lease=12s first=12s window=6s hard=3600s stale_in=None anchor=5
        "#]],
    );
}

#[test]
fn a_new_leader_is_warm_once_every_node_that_it_knows_is_back() {
    check(
        "
        slot gpu node
        kind k needs=gpu:2
        node n1 slots=gpu:1
        node n2 slots=gpu:2
        enqueue a kind=k
        tick
        done a
        close n1
        close n2
        reload
        enqueue b kind=k
        tick
        hello n1
        tick
        why b
        forget n2 lost
        tick
        why b
        enqueue c kind=k
        ",
        expect![[r#"
            granted a -> n2 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            deferred b warming_up: server warming up
            b waits: warming_up server warming up for 0ns, tried 1
              warming_up server warming up: 1 times, 0ns
            node n2 forgotten
            deferred b impossible: needs 2 of slot gpu, the most is 1
            b waits: impossible needs 2 of slot gpu, the most is 1 for 0ns, tried 2
              warming_up server warming up: 1 times, 0ns
              impossible needs 2 of slot gpu, the most is 1: 1 times, 0ns
            refused c IMPOSSIBLE_NEEDS: no node and no fleet capacity can ever satisfy the needs; gpu 2 of 1
        "#]],
    );
}

#[test]
fn a_return_of_a_node_that_goes_away_masks_nothing() {
    for rule in ["draining", "cut_off", "stale", "revoked", "superseded", "terminated"] {
        let script = format!(
            "
            kind k
            node n1
            enqueue a kind=k
            tick
            return a rule={rule}
            tick
            "
        );
        let expected = format!(
            "granted a -> n1 token=1.1\nended a token=1.1 returned ({rule}) -> queued [returned by its node: {rule}]\n\
             granted a -> n1 token=1.2\n"
        );
        let mut run = crate::support::Script::new();
        run.lines(&script);
        assert_eq!(run.trace, expected);
    }
}
