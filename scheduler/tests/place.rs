//! Placement: order, selectors, scores, masks, pressure, credits; and what a job is told while it waits.

use expect_test::expect;

use crate::support::{Script, check};

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
            deferred a slot_busy: slot f 1/1
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
            deferred b warming_up: server warming up
            deferred c warming_up: server warming up
            30s: deferred b no_matching_node: no node runs this kind with os=linux,zone=west
            30s: deferred c no_matching_node: no node runs this kind with os=mac
            30s: b waits: no_matching_node no node runs this kind with os=linux,zone=west for 0ns, tried 2
            30s:   warming_up server warming up: 1 times, 30s
            30s:   no_matching_node no node runs this kind with os=linux,zone=west: 1 times, 0ns
            30s: c: no node runs this kind with os=mac, 0 ahead
            30s:   node n1: no node runs this kind with os=mac
            30s:   node n2: no node runs this kind with os=mac
            30s:   > a node that runs this kind and carries the labels joins
            30s: granted b -> n3 token=1.2
            30s: deferred c no_matching_node: no node runs this kind with os=mac
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
              node n1: uid_procs on n1 (600, closes at 550)
              > rule uid_procs on node n1 opens again (it closes at 550), or another node can take it
            granted d -> n1 token=1.4
            granted e -> n1 token=1.5
        "#]],
    );
}

#[test]
fn the_history_still_tells_of_the_pressure_once_the_job_runs() {
    check(
        "
        kind k
        node n1
        press n1 close=*:uid_procs:600:550
        enqueue a kind=k
        tick
        advance 5s
        press n1 close=*:uid_procs:620:550
        tick
        why a
        advance 5s
        press n1
        tick
        job a
        ",
        expect![[r#"
            deferred a node_pressure: uid_procs on n1 (600, closes at 550)
            5s: deferred a node_pressure: uid_procs on n1 (620, closes at 550)
            5s: a waits: node_pressure uid_procs on n1 (620, closes at 550) for 5s, tried 2
            5s:   node_pressure uid_procs on n1 (620, closes at 550): 2 times, 5s
            10s: granted a -> n1 token=1.1
            10s: a running round=1 attempt=1
            10s:   waited uid_procs on n1 (620, closes at 550): 2 times, 10s
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
fn each_job_is_told_its_own_part_of_what_its_class_waited_for() {
    check(
        "
        slot f 1
        slot n node
        kind k needs=f:1,n:1
        kind fleet needs=f:1
        node n1 slots=n:1
        enqueue x kind=fleet
        tick
        run x
        enqueue a kind=k
        advance 10s
        enqueue b kind=k
        tick
        press n1 close=*:mem_low:1:2
        done x
        advance 20s
        why a
        why b
        press n1
        tick
        job a
        run a
        advance 5s
        explain b
        done a
        tick
        job b
        ",
        expect![[r#"
            granted x -> n1 token=1.1
            1s: deferred a slot_busy: slot f 1/1
            10s: ended x token=1.1 succeeded (exit) -> succeeded
            10s: lease 1.1 gone
            11s: deferred a node_pressure: mem_low on n1 (1, closes at 2)
            30s: deferred a node_pressure: mem_low on n1 (1, closes at 2)
            30s: a waits: node_pressure mem_low on n1 (1, closes at 2) for 19s, tried 3
            30s:   node_pressure mem_low on n1 (1, closes at 2): 2 times, 19s
            30s:   slot_busy slot f 1/1: 1 times, 10s
            30s: b waits: node_pressure mem_low on n1 (1, closes at 2) for 19s, tried 2
            30s:   node_pressure mem_low on n1 (1, closes at 2): 2 times, 19s
            30s:   slot_busy slot f 1/1: 0 times, 1s
            30s: granted a -> n1 token=1.2
            30s: deferred b slot_busy: slot f 1/1
            30s: a running round=1 attempt=1
            30s:   waited mem_low on n1 (1, closes at 2): 2 times, 19s
            30s:   waited slot f 1/1: 1 times, 10s
            35s: b: slot f 1/1, 0 ahead
            35s:   slot f: needs 1 of 1/1
            35s:     a holds 1 for 5s
            35s:   slot n on n1: needs 1 of 1/1
            35s:     a holds 1 for 5s
            35s:   node n1: slot n on n1 1/1
            35s:   > a holder of fleet slot f ends, or its capacity is raised
            35s:   > 1 leases hold slot f; they are listed
            35s:   > 1 leases hold slot n; they are listed
            35s: ended a token=1.2 succeeded (exit) -> succeeded
            35s: lease 1.2 gone
            35s: granted b -> n1 token=1.3
            35s: b running round=1 attempt=1
            35s:   waited mem_low on n1 (1, closes at 2): 2 times, 19s
            35s:   waited slot f 1/1: 1 times, 6s
        "#]],
    );
}

#[test]
fn what_a_job_waited_for_survives_a_takeover() {
    check(
        "
        slot f 1
        kind k needs=f:1
        node n1
        enqueue x kind=k
        enqueue a kind=k
        tick
        run x
        advance 10s
        reload
        hello n1
        advance 5s
        why a
        done x
        tick
        job a
        ",
        expect![[r#"
            granted x -> n1 token=1.1
            deferred a slot_busy: slot f 1/1
            11s: deferred a slot_busy: slot f 1/1
            15s: a waits: slot_busy slot f 1/1 for 4s, tried 2
            15s:   slot_busy slot f 1/1: 2 times, 14s
            15s: ended x token=1.1 succeeded (exit) -> succeeded
            15s: lease 1.1 gone
            15s: granted a -> n1 token=2.1
            15s: a running round=1 attempt=1
            15s:   waited slot f 1/1: 2 times, 14s
        "#]],
    );
}

#[test]
fn timelines_are_saved_and_go_with_their_class() {
    let mut run = Script::new();
    run.lines("slot f 1 \n kind k needs=f:1 \n node n1");
    run.lines("enqueue x kind=k \n enqueue a kind=k \n tick \n run x \n advance 2s");
    assert_eq!(run.world.store.class_rows(), 1);
    run.lines("done x \n tick");
    assert_eq!(run.world.store.class_rows(), 0, "nobody waits in it any more");
    run.lines("enqueue b kind=k \n tick \n advance 2s");
    assert_eq!(run.world.store.class_rows(), 1);
    run.lines("cancel b");
    assert_eq!(run.world.store.class_rows(), 0);
}

#[test]
fn a_saved_timeline_that_no_job_needs_after_a_takeover_is_removed() {
    let mut run = Script::new();
    run.lines("slot f 1 \n slot g 1 \n kind k needs=f:1 \n node n1");
    run.lines("enqueue x kind=k \n enqueue a kind=k \n tick \n run x \n advance 2s");
    assert_eq!(run.world.store.class_rows(), 1);
    // The leader ends with a turn that was to remove the row together with its last job.
    run.lines("begin \n cancel a \n lose \n tick");
    assert_eq!(run.world.store.class_rows(), 1, "its job still waits");
    run.lines("begin \n kind k needs=g:1 \n commit \n reload \n tick");
    assert_eq!(run.world.store.class_rows(), 0, "its job waits in another class");
}

#[test]
fn explain_names_every_node_with_its_own_reason_and_who_stands_ahead() {
    check(
        "
        slot f 2
        slot n node
        kind k needs=f:1,n:1
        kind other
        node away slots=n:1
        node busy slots=n:1
        node closed slots=n:1
        node cordoned slots=n:1
        node draining slots=n:1
        node other slots=n:1 kinds=other
        node small
        cordon cordoned
        drain draining 1h
        close away
        press closed close=*:mem_low:1:2
        enqueue h kind=k
        tick
        run h
        advance 30s
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        explain c
        explain h
        explain nobody
        ",
        expect![[r#"
            granted h -> busy token=1.1
            30s: deferred a slot_busy: slot n on busy 1/1
            30s: c: slot n on busy 1/1, 2 ahead a b
            30s:   slot f: needs 1 of 1/2
            30s:     h holds 1 for 30s
            30s:   slot n on away: needs 1 of 0/1
            30s:   slot n on busy: needs 1 of 1/1
            30s:     h holds 1 for 30s
            30s:   slot n on closed: needs 1 of 0/1
            30s:   slot n on cordoned: needs 1 of 0/1
            30s:   slot n on draining: needs 1 of 0/1
            30s:   node away: away silent
            30s:   node busy: slot n on busy 1/1
            30s:   node closed: mem_low on closed (1, closes at 2)
            30s:   node cordoned: cordoned cordoned
            30s:   node draining: draining draining
            30s:   node other: no node runs this kind
            30s:   node small: needs 1 of slot n, the most is 0
            30s:   > a holder of slot n ends, or a node with more of it joins
            30s:   > 1 leases hold slot n; they are listed
            30s: h: runs, 0 ahead
            30s: nobody is not live
        "#]],
    );
}

#[test]
fn a_stuck_head_is_told_from_a_burst_and_from_a_busy_slot() {
    let mut run = Script::new();
    run.lines(
        "slot f 1 \n slot n node \n kind stuck needs=n:1 \n kind burst needs=f:1 \n kind busy needs=f:1",
    );
    run.lines("enqueue s1 kind=stuck \n enqueue s2 kind=stuck \n enqueue s3 kind=stuck \n node n1");
    run.lines("enqueue w kind=busy \n tick \n run w \n enqueue w2 kind=busy \n advance 40s");
    for n in 0..12 {
        run.lines(&format!("enqueue b{n} kind=burst"));
    }
    run.lines("tick \n advance 20s");
    run.trace.clear();
    run.lines("health stuck \n health burst \n health busy");
    run.world.state.snapshot(run.world.now()).attention.iter().for_each(|line| run.say(line));
    expect![[r#"
        60s: stuck Stuck depth=3 scheduled=0 running=0 able=0 oldest=60s head: needs 1 of slot n, the most is 0
        60s: burst Burst depth=12 scheduled=0 running=0 able=1 oldest=20s head: slot f 1/1
        60s: busy Moving depth=1 scheduled=0 running=1 able=1 oldest=60s head: slot f 1/1
        60s: kind stuck is stuck: 3 queued, needs 1 of slot n, the most is 0
    "#]]
    .assert_eq(&run.trace);
}
