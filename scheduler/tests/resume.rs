//! Parents that come back: what a resume is given, and what becomes of those that cannot wait, come late or are set aside.

use expect_test::expect;

use crate::{support::check, waits::family};

#[test]
fn an_execution_that_waits_for_what_is_not_its_own_has_failed() {
    family(
        "
        enqueue other kind=c
        detach a children=b,other
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 failed_retryable (bad_wait) -> scheduled [job other is not a child of it]
        "#]],
    );
    family(
        "detach a children=b,c,b",
        expect![[r#"
        granted a -> n1 token=1.1
        granted b -> n1 token=1.2
        granted c -> n1 token=1.3
        granted d -> n1 token=1.4
        ended a token=1.1 failed_retryable (bad_wait) -> scheduled [names a child twice]
    "#]],
    );
    family(
        "finish a detached",
        expect![[r#"
        granted a -> n1 token=1.1
        granted b -> n1 token=1.2
        granted c -> n1 token=1.3
        granted d -> n1 token=1.4
        ended a token=1.1 failed_retryable (bad_wait) -> scheduled [it detached, and does not say for what]
    "#]],
    );
    check(
        "
        limits children=2
        kind p
        node n1
        enqueue a kind=p
        tick
        run a
        detach a children=b,c,d
        ",
        expect![[r#"
            granted a -> n1 token=2.1
            ended a token=2.1 failed_retryable (bad_wait) -> scheduled [waits for 3 children, at most 2 can be]
        "#]],
    );
}

#[test]
fn what_an_older_agent_cannot_hand_on_waits_for_another_and_the_rest_runs_there() {
    family(
        "
        enqueue e kind=c
        detach a children=b state
        reaped a
        done b
        done c
        done d
        hello n1 old
        tick
        why a
        explain a
        node n2 all-kinds old
        tick
        why a
        hello n2
        tick
        run a
        finish a lost
        reaped a
        close n2
        tick
        reload
        hello n1 old
        advance 60s
        why a
        hello n1
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 detached (exit) -> waiting
            lease 1.1 gone
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            ended c token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            ended d token=1.4 succeeded (exit) -> succeeded
            lease 1.4 gone
            session 1 of n1 is closed: SUPERSEDED_SESSION
            wait of a over
            deferred a old_agent: agent of n1 too old for its inputs
            granted e -> n1 token=1.5
            a waits: old_agent agent of n1 too old for its inputs for 0ns, tried 1
              waiting_children children: 1 times, 0ns
              old_agent agent of n1 too old for its inputs: 1 times, 0ns
            a: agent of n1 too old for its inputs, 0 ahead
              It does not start: agent of n1 too old for its inputs.
              node n1: agent of n1 too old for its inputs
              > the agent of node n1 is upgraded, or another node can take it
            deferred a old_agent: agent of n2 too old for its inputs
            a waits: old_agent agent of n2 too old for its inputs for 0ns, tried 2
              waiting_children children: 1 times, 0ns
              old_agent agent of n1 too old for its inputs: 1 times, 0ns
              old_agent agent of n2 too old for its inputs: 1 times, 0ns
            session 3 of n2 is closed: SUPERSEDED_SESSION
            granted a -> n2 token=1.6
            a 1.6 resumes from 1.1 with its state: b succeeded
            ended a token=1.6 lost (shim_died) -> queued [shim_died]
            lease 1.6 gone
            deferred a old_agent: agent of n1 too old for its inputs
            1s: deferred a old_agent: agent of n1 too old for its inputs
            30s: deferred a old_agent: agent of n1 too old for its inputs
            60s: a waits: old_agent agent of n1 too old for its inputs for 59s, tried 2
            60s:   old_agent agent of n1 too old for its inputs: 3 times, 59s
            60s:   waiting_children children: 1 times, 0ns
            60s:   old_agent agent of n2 too old for its inputs: 1 times, 0ns
            60s:   not_reaped earlier execution on n2 not gone: 1 times, 0ns
            60s: session 5 of n1 is closed: SUPERSEDED_SESSION
            60s: granted a -> n1 token=2.1
            60s: a 2.1 resumes from 1.1 with its state: b succeeded
        "#]],
    );
}

#[test]
fn members_after_others_run_where_they_can_be_handed_their_results() {
    check(
        "
        kind k
        node n1 old
        workflow w chain(a,b) kind=k
        tick
        run a
        done a
        tick
        why b
        node n2
        tick
        inputs b
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            unblocked b
            deferred b old_agent: agent of n1 too old for its inputs
            b waits: old_agent agent of n1 too old for its inputs for 0ns, tried 1
              blocked members before it: 1 times, 0ns
              old_agent agent of n1 too old for its inputs: 1 times, 0ns
            granted b -> n2 token=1.2
            b gets a succeeded
        "#]],
    );
}

#[test]
fn a_resume_that_is_lost_or_fails_is_followed_by_one_that_is_given_the_same() {
    family(
        "
        detach a children=b state
        reaped a
        done b
        tick
        run a
        finish a lost
        reaped a
        tick
        run a
        finish a fail
        reaped a
        reload
        hello n1
        advance 60s
        detach a children=c state
        reaped a
        done c
        tick
        run a
        done a
        attempts a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 detached (exit) -> waiting
            lease 1.1 gone
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            wait of a over
            granted a -> n1 token=1.5
            a 1.5 resumes from 1.1 with its state: b succeeded
            ended a token=1.5 lost (shim_died) -> queued [shim_died]
            lease 1.5 gone
            granted a -> n1 token=1.6
            a 1.6 resumes from 1.1 with its state: b succeeded
            ended a token=1.6 failed_retryable (exit) -> scheduled [exit]
            lease 1.6 gone
            60s: ready a
            60s: granted a -> n1 token=2.1
            60s: a 2.1 resumes from 1.1 with its state: b succeeded
            60s: ended a token=2.1 detached (exit) -> waiting
            60s: lease 2.1 gone
            60s: ended c token=1.3 succeeded (exit) -> succeeded
            60s: lease 1.3 gone
            60s: wait of a over
            60s: granted a -> n1 token=2.2
            60s: a 2.2 resumes from 2.1 with its state: c succeeded
            60s: ended a token=2.2 succeeded (exit) -> succeeded
            60s: lease 2.2 gone
            60s: a round=1 attempt=1 1.1 on n1: detached exit exit=79
            60s: a round=1 attempt=1 1.5 on n1: lost shim_died
            60s: a round=1 attempt=2 1.6 on n1: failed_retryable exit
            60s: a round=1 attempt=3 2.1 on n1: detached exit exit=79
            60s: a round=1 attempt=3 2.2 on n1: succeeded exit
        "#]],
    );
}

#[test]
fn a_resume_goes_to_its_node_if_it_asked_for_that() {
    for (same, node) in [("same", "n2"), ("", "n1")] {
        let mut run = crate::support::Script::new();
        run.lines(&format!(
            "
            slot s node
            kind p needs=s:1
            kind c
            node n1 slots=s:1
            cordon n1
            node n2 slots=s:9
            enqueue a kind=p
            tick
            run a
            uncordon n1
            enqueue b kind=c parent=a
            tick
            run b
            detach a children=b {same}
            reaped a
            done b
            tick
            "
        ));
        let last = run.trace.lines().last().unwrap_or_default().to_owned();
        assert!(last.contains(&format!("granted a -> {node}")), "{same}: {last}");
    }
}

#[test]
fn a_detach_that_comes_late_replaces_the_loss_and_is_answered_once() {
    family(
        "
        mute n1
        close n1
        advance 10m
        hello n1
        detach a children=b
        detach a children=b
        job a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            128s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            128s: ended b token=1.2 lost (lease_expired) -> dead [its lease ended in silence]
            128s: ended c token=1.3 lost (lease_expired) -> dead [its lease ended in silence]
            128s: ended d token=1.4 lost (lease_expired) -> dead [its lease ended in silence]
            128s: n1 backs off c for 10s
            128s: deferred a suspect: n1 silent
            138s: deferred a suspect: n1 silent
            600s: loss replaced a token=1.1 detached -> queued
            600s: a queued round=1 attempt=1
            600s:   waited n1 silent: 2 times, 472s
        "#]],
    );
    family(
        "
        detach a children=b,c
        reaped a
        show messages
        detach a children=b
        hide messages
        done b
        done c
        tick
        run a
        detach a children=d token=1.1
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 detached (exit) -> waiting
            lease 1.1 gone
            n1 < Finished 1.1 Stored (waiting)
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            ended c token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            wait of a over
            granted a -> n1 token=1.5
            a 1.5 resumes from 1.1: b succeeded c succeeded
            n1 < Finished 1.1 LEASE_LOST STALE_TOKEN (running)
        "#]],
    );
}

#[test]
fn what_a_child_left_is_kept_for_as_long_as_its_parent_lives() {
    family(
        "
        finish b ok result
        reaped b
        sweep b
        detach a children=b,c state
        reaped a
        sweep a b
        cancel a
        sweep a b
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            b swept 0 jobs, 0 results
            ended a token=1.1 detached (exit) -> waiting
            lease 1.1 gone
            a swept 0 jobs, 0 results
            ended a -> cancelled [cancelled by request]
            cancel requested c
            revoked 1.3 cancelled
            cancel requested d
            revoked 1.4 cancelled
            deleted a
            deleted b
            a swept 2 jobs, 0 results
        "#]],
    );
}

#[test]
fn a_waiting_parent_is_no_part_of_the_depth_and_its_resume_is_not_refused() {
    check(
        "
        kind p cap=1
        kind c
        node n1
        enqueue a kind=p
        tick
        run a
        enqueue b kind=c parent=a
        detach a children=b
        reaped a
        health p
        enqueue x kind=p
        enqueue y kind=p
        cancel b
        tick
        health p
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 detached (exit) -> waiting
            lease 1.1 gone
            p Idle depth=0 scheduled=0 running=0 able=1
            refused y QUEUE_FULL: the queue of kind p is full: 1 of 1, retry after 10s
            ended b -> cancelled [cancelled by request]
            wait of a over
            granted a -> n1 token=1.2
            granted x -> n1 token=1.3
            p Idle depth=0 scheduled=0 running=2 able=1
        "#]],
    );
}

#[test]
fn a_waiting_parent_that_was_set_aside_waits_for_an_operator() {
    family(
        "
        detach a children=b
        reaped a
        aside a
        done b
        tick
        why a
        requeue a
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 detached (exit) -> waiting
            lease 1.1 gone
            set aside a
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            a waits: broken set aside for 0ns, tried 0
              broken set aside: 1 times, 0ns
            requeued a round=1
            granted a -> n1 token=1.5
            a 1.5 resumes from 1.1: b open
        "#]],
    );
}
