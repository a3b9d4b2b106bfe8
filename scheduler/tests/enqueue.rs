//! Every way to say no to an enqueue, in order, and what answers for a job that was there before.

use expect_test::expect;

use crate::support::{Script, check};

/// Two slots, a kind, a node; and a kind that cannot be full, paused or stale.
const FLEET: &str = "
    slot anthropic 2
    slot browser node
    kind crawl needs=browser:1,anthropic:1
    kind chat
    node n1 slots=browser:1
";

#[test]
fn a_job_waits_until_every_slot_is_free() {
    check(
        "
        slot anthropic 1
        slot browser node
        kind crawl needs=browser:1,anthropic:1
        node n1 slots=browser:1
        enqueue a kind=crawl
        enqueue b kind=crawl
        tick
        run a
        advance 7s
        done a
        tick
        job b
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b slot_busy: slot anthropic 1/1
            7s: ended a token=1.1 succeeded (exit) -> succeeded
            7s: lease 1.1 gone
            7s: granted b -> n1 token=1.2
            7s: b running round=1 attempt=1
            7s:   waited slot anthropic 1/1: 1 times, 7s
        "#]],
    );
}

#[test]
fn an_unknown_kind_is_refused_with_the_nearest_names() {
    check(
        &format!("{FLEET} \n enqueue a kind=crawls \n enqueue b kind=nothing-like-it \n job a"),
        expect![[r#"
            refused a KIND_NOT_FOUND: kind crawls is not declared, near [crawl]
            refused b KIND_NOT_FOUND: kind nothing-like-it is not declared
            a is not stored
        "#]],
    );
}

#[test]
fn a_hard_limit_may_only_shorten_the_kinds() {
    check(
        "
        kind k hard=60s
        node n1
        enqueue a kind=k hard=61s
        enqueue b kind=k hard=30s
        show messages
        tick
        ",
        expect![[r#"
            refused a INVALID_FIELD: job.hard_time_limit: may only shorten the kind's, which is 60 s
            granted b -> n1 token=1.1
            n1 < grant b 1.1 attempt=1 lease=120s first=20s window=10s hard=30s stale_in=None anchor=1
        "#]],
    );
}

#[test]
fn the_same_call_is_answered_with_the_same_job_live_final_and_after_a_restart() {
    check(
        &format!(
            "{FLEET}
            enqueue a kind=chat payload=x
            enqueue a kind=chat payload=x
            tick
            run a
            enqueue a kind=chat payload=x
            done a
            enqueue a kind=chat payload=x
            reload
            enqueue a kind=chat payload=x
            "
        ),
        expect![[r#"
            a deduplicated -> a queued
            granted a -> n1 token=1.1
            a deduplicated -> a running
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            a deduplicated -> a succeeded
            a deduplicated -> a succeeded
        "#]],
    );
}

#[test]
fn a_job_id_with_another_payload_or_from_another_producer_is_refused() {
    check(
        &format!(
            "{FLEET}
            enqueue a kind=chat payload=x
            enqueue a kind=chat payload=y
            enqueue a kind=chat payload=x producer=other
            tick
            run a
            done a
            enqueue a kind=chat payload=y
            "
        ),
        expect![[r#"
            refused a JOB_ID_REUSED: job id a was used for another job
            refused a JOB_ID_REUSED: job id a was used for another job
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            refused a JOB_ID_REUSED: job id a was used for another job
        "#]],
    );
}

#[test]
fn a_retained_dedupe_key_answers_until_its_job_is_deleted() {
    check(
        &format!(
            "{FLEET}
            enqueue a kind=chat key=k
            enqueue b kind=chat key=k
            enqueue c kind=chat key=k tenant=other
            enqueue d kind=crawl key=k
            tick
            run a
            done a
            enqueue b kind=chat key=k
            reload
            enqueue b kind=chat key=k
            delete a
            enqueue b kind=chat key=k
            job b
            "
        ),
        expect![[r#"
            b deduplicated -> a queued
            granted a -> n1 token=1.1
            granted c -> n1 token=1.2
            granted d -> n1 token=1.3
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            b deduplicated -> a succeeded
            b deduplicated -> a succeeded
            deleted a
            b queued round=1 attempt=1
        "#]],
    );
}

#[test]
fn a_live_dedupe_key_is_free_once_its_job_is_final() {
    check(
        "
        kind k dedupe=live
        node n1
        enqueue a kind=k key=x
        enqueue b kind=k key=x
        tick
        run a
        begin
        finish a ok
        enqueue b kind=k key=x   # Freed and taken in one turn.
        commit
        enqueue c kind=k key=x
        ",
        expect![[r#"
            b deduplicated -> a queued
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            c deduplicated -> b queued
        "#]],
    );
}

#[test]
fn a_requeued_job_takes_its_live_key_again_if_it_is_free() {
    check(
        "
        kind k dedupe=live
        enqueue a kind=k key=x
        cancel a
        requeue a
        enqueue b kind=k key=x
        cancel a
        enqueue c kind=k key=x
        requeue a
        cancel c
        enqueue d kind=k key=x
        ",
        expect![[r#"
            ended a -> cancelled [cancelled by request]
            requeued a round=2
            b deduplicated -> a queued
            ended a -> cancelled [cancelled by request]
            requeued a round=3
            ended c -> cancelled [cancelled by request]
        "#]],
    );
}

#[test]
fn ten_thousand_duplicates_of_a_final_job_store_nothing() {
    let mut run = Script::new();
    run.lines(FLEET);
    run.lines("enqueue a kind=chat key=k \n tick \n run a \n done a \n reload");
    run.world.paranoid = false;
    run.trace.clear();
    let commits = run.world.store.commits;
    for n in 0..10_000 {
        run.lines(&format!("enqueue j{n} kind=chat key=k"));
    }
    assert_eq!(run.trace.matches("deduplicated -> a succeeded").count(), 10_000);
    assert_eq!(run.world.store.commits, commits, "a duplicate commits nothing");
    assert_eq!(run.world.store.jobs.len(), 1);
}

#[test]
fn an_undeclared_slot_is_refused_with_the_nearest_name() {
    check(
        &format!("{FLEET} \n enqueue a kind=chat needs=browsr:1"),
        expect![[r#"
            refused a SLOT_NOT_FOUND: slot browsr is not declared, near [browser]
        "#]],
    );
}

#[test]
fn needs_beyond_every_node_or_the_fleet_are_impossible() {
    check(
        "
        slot anthropic 2
        slot browser node
        kind k
        enqueue early kind=k needs=browser:9   # No node was ever heard of: it may come.
        node n1 slots=browser:1
        node n2 slots=browser:2
        enqueue a kind=k needs=browser:3
        enqueue b kind=k needs=anthropic:3
        enqueue c kind=k needs=browser:3,anthropic:3
        enqueue d kind=k needs=browser:2,anthropic:2
        close n2
        cordon n1
        enqueue e kind=k needs=browser:2
        tick
        advance 30s
        why early
        ",
        expect![[r#"
            refused a IMPOSSIBLE_NEEDS: no node and no fleet capacity can ever satisfy the needs; browser 3 of 2
            refused b IMPOSSIBLE_NEEDS: no node and no fleet capacity can ever satisfy the needs; anthropic 3 of 2
            refused c IMPOSSIBLE_NEEDS: no node and no fleet capacity can ever satisfy the needs; anthropic 3 of 2; browser 3 of 2
            deferred early impossible: needs 9 of slot browser, the most is 2
            deferred d suspect: n2 silent
            deferred e suspect: n2 silent
            30s: deferred early impossible: needs 9 of slot browser, the most is 2
            30s: deferred d suspect: n2 silent
            30s: deferred e suspect: n2 silent
            30s: early waits: impossible needs 9 of slot browser, the most is 2 for 30s, tried 2
            30s:   impossible needs 9 of slot browser, the most is 2: 2 times, 30s
        "#]],
    );
}

#[test]
fn a_paused_kind_holds_or_refuses() {
    check(
        &format!(
            "{FLEET}
            pause kind chat hold
            enqueue a kind=chat
            tick
            pause kind chat reject
            enqueue b kind=chat
            pause kind chat reject
            resume kind chat
            resume kind chat
            tick
            "
        ),
        expect![[r#"
            deferred a kind_paused: kind paused
            refused b KIND_PAUSED: kind chat is paused and takes no jobs
            chat unchanged
            chat unchanged
            granted a -> n1 token=1.1
        "#]],
    );
}

#[test]
fn the_twenty_first_job_is_refused_with_the_time_until_there_is_room() {
    let mut run = Script::new();
    run.lines("slot s 1 \n kind k needs=s:1 cap=20 \n node n1");
    for n in 0..20 {
        run.lines(&format!("enqueue j{n} kind=k delay=1h"));
    }
    run.lines("enqueue last kind=k \n job last \n cancel j0 \n enqueue last kind=k \n tick");
    run.lines("run last \n advance 30s \n done last");
    // One grant in 30 s: the next place is 30 s away.
    run.lines("enqueue x kind=k delay=1h \n enqueue y kind=k");
    expect![[r#"
        refused last QUEUE_FULL: the queue of kind k is full: 20 of 20, retry after 30s
        last is not stored
        ended j0 -> cancelled [cancelled by request]
        granted last -> n1 token=1.1
        30s: ended last token=1.1 succeeded (exit) -> succeeded
        30s: lease 1.1 gone
        30s: refused y QUEUE_FULL: the queue of kind k is full: 20 of 20, retry after 30s
    "#]]
    .assert_eq(&run.trace);
}

#[test]
fn a_cap_counts_what_waits_and_never_refuses_a_retry_a_return_or_a_requeue() {
    check(
        "
        kind k cap=1
        node n1
        enqueue a kind=k
        tick
        enqueue b kind=k
        run a
        finish a fail
        reaped a
        enqueue c kind=k
        cancel b
        enqueue c kind=k
        requeue b
        health k
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            lease 1.1 gone
            refused c QUEUE_FULL: the queue of kind k is full: 2 of 1, retry after 20s
            ended b -> cancelled [cancelled by request]
            refused c QUEUE_FULL: the queue of kind k is full: 1 of 1, retry after 10s
            requeued b round=2
            k Moving depth=1 scheduled=1 running=0 able=1 oldest=0ns head: next turn
        "#]],
    );
}

#[test]
fn a_run_at_in_the_past_means_now_and_a_later_one_is_waited_for() {
    check(
        &format!(
            "{FLEET}
            enqueue now kind=chat run_at=0s
            enqueue later kind=chat delay=10s
            tick
            why later
            advance 9s999999us
            advance 1us
            job later
            "
        ),
        expect![[r#"
            granted now -> n1 token=1.1
            later waits: run_at start time for 0ns, tried 0
              run_at start time: 1 times, 0ns
            5s: revoked 1.1 unanswered
            10s: ready later
            10s: granted later -> n1 token=1.2
            10s: later running round=1 attempt=1
            10s:   waited start time: 1 times, 10s
        "#]],
    );
}

#[test]
fn a_start_time_follows_the_wall_clock_and_a_back_off_does_not() {
    check(
        "
        kind k retry=30s
        node n1
        enqueue a kind=k
        enqueue b kind=k delay=1h
        tick
        run a
        finish a fail
        reaped a
        wall +2h
        tick
        advance 29s
        advance 1s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            lease 1.1 gone
            ready b
            granted b -> n1 token=1.2
            5s: revoked 1.2 unanswered
            28s: ended b token=1.2 returned (undelivered) -> queued [its first lease ended without a word from its node]
            28s: granted b -> n1 token=1.3
            30s: ready a
            30s: granted a -> n1 token=1.4
        "#]],
    );
}

#[test]
fn a_job_that_is_stale_before_it_could_start_is_refused() {
    check(
        &format!(
            "{FLEET}
            enqueue a kind=chat delay=10s stale_after=10s
            enqueue b kind=chat stale_after=0s
            enqueue c kind=chat delay=10s stale_after=10s1us
            "
        ),
        expect![[r#"
            refused a ALREADY_STALE: the job would expire before its earliest start
            refused b ALREADY_STALE: the job would expire before its earliest start
        "#]],
    );
}

#[test]
fn a_parent_must_be_a_live_job_of_the_same_producer() {
    check(
        &format!(
            "{FLEET}
            enqueue a kind=chat
            enqueue b kind=chat parent=nobody
            enqueue c kind=chat parent=a producer=other
            enqueue d kind=chat parent=a
            cancel a
            enqueue e kind=chat parent=a
            "
        ),
        expect![[r#"
            refused b PARENT_NOT_LIVE: parent nobody is not a live job of this producer
            refused c PARENT_NOT_LIVE: parent a is not a live job of this producer
            ended a -> cancelled [cancelled by request]
            ended d -> cancelled [its parent was cancelled]
            refused e PARENT_NOT_LIVE: parent a is not a live job of this producer
        "#]],
    );
}

/// Or its parent would wait for work that others of its own rank overtake. Whatever else is said of it: not by its own
/// wish, and not because its parent rose far over its root.
#[test]
fn a_child_is_of_no_lower_band_than_its_parent() {
    check(
        "
        kind k
        enqueue a kind=k priority=25
        enqueue b kind=k parent=a priority=-100
        enqueue c kind=k
        enqueue d kind=k parent=c priority=-100
        priority d 60
        enqueue e kind=k parent=d
        enqueue f kind=k parent=d priority=55
        enqueue g kind=k priority=-50
        enqueue h kind=k parent=g priority=-99
        job b
        job d
        job e
        job f
        job h
        ",
        expect![[r#"
            reprioritized d 60
            b queued round=1 attempt=1 priority=20
            d queued round=1 attempt=1 priority=60
            e queued round=1 attempt=1 priority=50
            f queued round=1 attempt=1 priority=50
            h queued round=1 attempt=1 priority=-99
        "#]],
    );
}

/// Its parent pays for it. One that asks for another tenant is refused; dedupe keys are those of the tenant that it has.
#[test]
fn a_child_is_of_the_tenant_of_its_parent() {
    check(
        "
        slot f 2
        kind k needs=f:1
        node n1
        enqueue a kind=k tenant=t
        enqueue b kind=k parent=a key=x
        enqueue c kind=k parent=b tenant=t
        enqueue d kind=k parent=a tenant=u
        enqueue e kind=k tenant=t key=x
        enqueue f kind=k key=x
        enqueue g kind=k parent=a key=x
        enqueue h kind=k parent=a producer=q key=x
        tick
        ",
        expect![[r#"
            refused d INVALID_FIELD: job.tenant: is not that of its parent, which is t
            e deduplicated -> b queued
            g deduplicated -> b queued
            refused h PARENT_NOT_LIVE: parent a is not a live job of this producer
            granted c -> n1 token=1.1
            granted f -> n1 token=1.2
            deferred b slot_busy: slot f 2/2
        "#]],
    );
}

#[test]
fn a_child_is_one_over_its_parent_and_three_over_its_root_at_the_most() {
    check(
        "
        kind k priority=5
        enqueue a kind=k
        enqueue b kind=k parent=a
        enqueue c kind=k parent=b
        enqueue d kind=k parent=c
        enqueue e kind=k parent=d
        enqueue f kind=k parent=e priority=-7
        enqueue g kind=k parent=f priority=60
        enqueue high kind=k priority=100
        enqueue child kind=k parent=high
        job a
        job b
        job c
        job d
        job e
        job f
        job g
        job child
        ",
        expect![[r#"
            a queued round=1 attempt=1 priority=5
            b queued round=1 attempt=1 priority=6
            c queued round=1 attempt=1 priority=7
            d queued round=1 attempt=1 priority=8
            e queued round=1 attempt=1 priority=8
            f queued round=1 attempt=1 priority=-7
            g queued round=1 attempt=1 priority=8
            child queued round=1 attempt=1 priority=100
        "#]],
    );
}

/// A child does not rise over what its producer may give, nor keep its producer in a tenant that it may use no more. By
/// somebody else's wish its parent may have more; then a child still stands in the band of its parent.
#[test]
fn a_child_keeps_to_the_limits_of_its_producer() {
    check(
        "
        kind k
        enqueue a kind=k priority=49 tenant=t
        enqueue b kind=k parent=a most=49 may=t
        enqueue c kind=k parent=b most=49
        enqueue d kind=k parent=a most=30
        enqueue keyed kind=k parent=a key=x
        enqueue e kind=k parent=a may=u,v
        enqueue f kind=k parent=a may=u,v key=x
        enqueue g kind=k parent=nobody key=x
        priority a 60
        enqueue h kind=k parent=a most=10
        job b
        job c
        job d
        job h
        ",
        expect![[r#"
            refused e NOT_ALLOWED: producer p may not enqueue jobs for tenant t
            refused f NOT_ALLOWED: producer p may not enqueue jobs for tenant t
            refused g PARENT_NOT_LIVE: parent nobody is not a live job of this producer
            reprioritized a 60
            b queued round=1 attempt=1 priority=49
            c queued round=1 attempt=1 priority=49
            d queued round=1 attempt=1 priority=30
            h queued round=1 attempt=1 priority=50
        "#]],
    );
}

#[test]
fn a_tree_of_jobs_has_guards() {
    check(
        "
        limits depth=2 children=2 descendants=4
        kind k
        enqueue a kind=k
        enqueue b kind=k parent=a
        enqueue c kind=k parent=b
        enqueue deep kind=k parent=c
        enqueue d kind=k parent=a
        enqueue many kind=k parent=a
        enqueue e kind=k parent=b
        enqueue wide kind=k parent=d
        cancel c       # A live descendant less; but never a child less.
        enqueue wide kind=k parent=d
        enqueue many kind=k parent=a
        ",
        expect![[r#"
            refused deep TREE_LIMIT: the tree of jobs is at its limit: depth 2
            refused many TREE_LIMIT: the tree of jobs is at its limit: children 2
            refused wide TREE_LIMIT: the tree of jobs is at its limit: descendants 4
            ended c -> cancelled [cancelled by request]
            refused many TREE_LIMIT: the tree of jobs is at its limit: children 2
        "#]],
    );
}

#[test]
fn classes_and_live_jobs_are_bounded() {
    check(
        "
        limits classes=2 live=3
        kind k
        enqueue a kind=k
        enqueue b kind=k tenant=other
        enqueue c kind=k tenant=third
        enqueue c kind=k
        enqueue d kind=k
        cancel a
        enqueue d kind=k
        ",
        expect![[r#"
            refused c CLASS_LIMIT: too many distinct combinations of kind, needs, selector and tenant: 2
            refused d STORE_FULL: the job table is full: 3 live jobs
            ended a -> cancelled [cancelled by request]
        "#]],
    );
}

#[test]
fn refusals_come_in_their_order() {
    // Everything is wrong with one call; each line mends what was told before.
    check(
        "
        limits classes=1
        slot anthropic 1
        slot browser node
        kind other
        enqueue first kind=other
        enqueue x kind=other payload=x key=held
        kind k cap=1 hard=60s
        node n1 slots=browser:1
        enqueue full kind=other tenant=default
        pause kind k reject
        enqueue x kind=kk payload=y key=held hard=2h needs=browsr:9 parent=nobody stale_after=0s tenant=t
        enqueue x kind=k payload=y key=held hard=2h needs=browsr:9 parent=nobody stale_after=0s tenant=t
        enqueue y kind=other key=held hard=2h needs=browsr:9 parent=nobody stale_after=0s
        enqueue y kind=other key=held hard=2h needs=browsr:9 stale_after=0s
        enqueue y kind=k key=held hard=2h needs=browsr:9 stale_after=0s tenant=t
        enqueue y kind=k needs=browsr:9 stale_after=0s tenant=t
        enqueue y kind=k needs=browser:9 stale_after=0s tenant=t
        enqueue y kind=k stale_after=0s tenant=t
        resume kind k
        limits classes=9
        enqueue z kind=k delay=1h
        limits classes=1
        enqueue y kind=k stale_after=0s tenant=t
        cancel z
        enqueue y kind=k stale_after=0s tenant=t
        enqueue y kind=k tenant=t
        ",
        expect![[r#"
            refused x KIND_NOT_FOUND: kind kk is not declared, near [k]
            refused x JOB_ID_REUSED: job id x was used for another job
            refused y PARENT_NOT_LIVE: parent nobody is not a live job of this producer
            y deduplicated -> x queued
            refused y INVALID_FIELD: job.hard_time_limit: may only shorten the kind's, which is 60 s
            refused y SLOT_NOT_FOUND: slot browsr is not declared, near [browser]
            refused y IMPOSSIBLE_NEEDS: no node and no fleet capacity can ever satisfy the needs; browser 9 of 1
            refused y KIND_PAUSED: kind k is paused and takes no jobs
            refused y QUEUE_FULL: the queue of kind k is full: 1 of 1, retry after 30s
            ended z -> cancelled [cancelled by request]
            refused y ALREADY_STALE: the job would expire before its earliest start
            refused y CLASS_LIMIT: too many distinct combinations of kind, needs, selector and tenant: 1
        "#]],
    );
}
