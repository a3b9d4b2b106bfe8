//! Workflows: chains, groups and chords, what each policy does about failures, deadlines, cancels and requeues.

mod requeue;
mod slices;

use expect_test::expect;

use crate::support::check;

const KIND: &str = "
    kind k max_failures=1 max_losses=1
    node n1
";

/// A chord with four members, of which `b` dies.
fn four(rule: &str, script: &str) -> String {
    format!(
        "{KIND}
        workflow w chord(a,b,c,d)s{rule} kind=k
        tick
        run a
        run b
        run c
        run d
        finish b permanent
        reaped b
        tick
        {script}"
    )
}

#[test]
fn a_chain_runs_one_after_the_other() {
    check(
        &format!(
            "{KIND}
            workflow w chain(a,b,c) kind=k
            tick
            why b
            run a
            done a
            tick
            inputs b
            flow w
            run b
            done b
            tick
            run c
            done c
            flow w
            tick
            flow w
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            b waits: blocked waits for 1 member of its workflow for 0ns, tried 0
              blocked members before it: 1 times, 0ns
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            unblocked b
            granted b -> n1 token=1.2
            b gets a succeeded
            w running round=1 1/3
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            unblocked c
            granted c -> n1 token=1.3
            ended c token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            w running round=1 3/3
            workflow w -> succeeded
            w succeeded round=1 3/3
        "#]],
    );
}

#[test]
fn at_least_three_of_four_run_the_synthesis_once_with_one_failure_in_declared_order() {
    check(
        &four(
            ":at_least:3",
            "done d
            done a
            tick
            flow w
            done c
            tick
            inputs s
            run s
            done s
            tick
            flow w",
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended b token=1.2 failed_permanent (exit) -> dead [exit]
            lease 1.2 gone
            ended d token=1.4 succeeded (exit) -> succeeded
            lease 1.4 gone
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            w running round=1 3/5
            ended c token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            unblocked s
            granted s -> n1 token=1.5
            s gets a succeeded b dead c succeeded d succeeded
            ended s token=1.5 succeeded (exit) -> succeeded
            lease 1.5 gone
            workflow w -> succeeded
            w succeeded round=1 5/5
        "#]],
    );
}

#[test]
fn a_synthesis_that_wants_all_never_runs_and_the_workflow_dies_naming_who_failed() {
    check(
        &four(
            "",
            "job s
            flow w
            done a
            done c
            done d
            tick
            flow w",
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended b token=1.2 failed_permanent (exit) -> dead [exit]
            lease 1.2 gone
            ended s -> cancelled [it wants all before it: member 1 dead]
            s cancelled round=1 attempt=1 [it wants all before it: member 1 dead]
              waited members before it: 1 times, 0ns
            w running round=1 2/5
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            ended c token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            ended d token=1.4 succeeded (exit) -> succeeded
            lease 1.4 gone
            workflow w -> dead: member 1 dead
            w dead round=1 5/5 [member 1 dead]
        "#]],
    );
}

#[test]
fn at_its_deadline_a_synthesis_runs_on_what_is_there_and_the_rest_is_cancelled() {
    check(
        &four(
            ":deadline:30s",
            "done a
            done c
            tick
            flow w
            advance 30s
            inputs s
            flow w
            finish d revoked
            reaped d
            inputs s
            run s
            done s
            tick
            flow w",
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended b token=1.2 failed_permanent (exit) -> dead [exit]
            lease 1.2 gone
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            ended c token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            w running round=1 3/5
            30s: gate 0 of workflow w opened partial without [3]
            30s: cancel requested d
            30s: revoked 1.4 cancelled
            30s: unblocked s
            30s: granted s -> n1 token=1.5
            30s: s gets a succeeded b dead c succeeded d open
            30s: w running round=1 3/5 partial
            30s: ended d token=1.4 cancelled (revoked) -> cancelled
            30s: lease 1.4 gone
            30s: s gets a succeeded b dead c succeeded d open
            30s: ended s token=1.5 succeeded (exit) -> succeeded
            30s: lease 1.5 gone
            30s: workflow w -> succeeded
            30s: w succeeded round=1 5/5 partial
        "#]],
    );
}

/// Its deadline is an instant of the wall clock: set back, that comes later.
#[test]
fn a_deadline_that_passes_at_once_waits_for_a_wall_clock_that_is_set_back() {
    check(
        &format!(
            "{KIND}
            workflow w chord(a,b)s:always:deadline:0s kind=k
            wall -5s
            tick
            flow w
            run a
            done a
            advance 4s
            flow w
            advance 2s
            inputs s
            flow w
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            w running round=1 0/3
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            4s: w running round=1 1/3
            5s: revoked 1.2 unanswered
            5s: gate 0 of workflow w opened partial without [1]
            5s: cancel requested b
            5s: revoked 1.2 cancelled
            5s: unblocked s
            5s: deferred s unanswered: n1 behind with its messages (1 grants unanswered)
            6s: s gets a succeeded b open
            6s: w running round=1 1/3 partial
        "#]],
    );
}

/// The wait is over, and in the same tick the job is, since the synthesis begins without it.
#[test]
fn a_deadline_ends_a_member_whose_wait_is_over_in_the_same_tick() {
    check(
        &format!(
            "{KIND}
            workflow w chord(a,b)s:deadline:30s kind=k
            tick
            run a
            run b
            done b
            enqueue c kind=k parent=a
            tick
            run c
            detach a children=c max_wait=30s
            reaped a
            advance 29s
            job a
            advance 1s
            inputs s
            finish c revoked
            reaped c
            run s
            done s
            tick
            flow w
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            granted c -> n1 token=1.3
            ended a token=1.1 detached (exit) -> waiting
            lease 1.1 gone
            29s: a waiting round=1 attempt=1
            30s: wait of a over
            30s: gate 0 of workflow w opened partial without [0]
            30s: ended a -> cancelled [the synthesis of its workflow began without it]
            30s: cancel requested c
            30s: revoked 1.3 cancelled
            30s: unblocked s
            30s: granted s -> n1 token=1.4
            30s: s gets a open b succeeded
            30s: ended c token=1.3 cancelled (revoked) -> cancelled
            30s: lease 1.3 gone
            30s: ended s token=1.4 succeeded (exit) -> succeeded
            30s: lease 1.4 gone
            30s: workflow w -> succeeded
            30s: w succeeded round=1 3/3 partial
        "#]],
    );
}

#[test]
fn with_a_deadline_less_than_all_is_better_than_nothing_once_all_have_ended() {
    check(
        &four(":deadline:30s", "done a\n done c\n done d\n tick\n inputs s\n flow w"),
        expect![[r#"
        granted a -> n1 token=1.1
        granted b -> n1 token=1.2
        granted c -> n1 token=1.3
        granted d -> n1 token=1.4
        ended b token=1.2 failed_permanent (exit) -> dead [exit]
        lease 1.2 gone
        ended a token=1.1 succeeded (exit) -> succeeded
        lease 1.1 gone
        ended c token=1.3 succeeded (exit) -> succeeded
        lease 1.3 gone
        ended d token=1.4 succeeded (exit) -> succeeded
        lease 1.4 gone
        gate 0 of workflow w opened partial without []
        unblocked s
        granted s -> n1 token=1.5
        s gets a succeeded b dead c succeeded d succeeded
        w running round=1 4/5 partial
    "#]],
    );
}

#[test]
fn a_synthesis_of_any_begins_with_the_first_success() {
    check(
        &four(":any:leave", "done c\n tick\n inputs s\n done d\n inputs s\n flow w"),
        expect![[r#"
        granted a -> n1 token=1.1
        granted b -> n1 token=1.2
        granted c -> n1 token=1.3
        granted d -> n1 token=1.4
        ended b token=1.2 failed_permanent (exit) -> dead [exit]
        lease 1.2 gone
        ended c token=1.3 succeeded (exit) -> succeeded
        lease 1.3 gone
        gate 0 of workflow w opened without [0, 3]
        unblocked s
        granted s -> n1 token=1.5
        s gets a open b dead c succeeded d open
        ended d token=1.4 succeeded (exit) -> succeeded
        lease 1.4 gone
        s gets a open b dead c succeeded d open
        w running round=1 3/5
    "#]],
    );
}

#[test]
fn a_synthesis_that_always_runs_waits_for_all_ends() {
    check(
        &four(":always", "done a\n done c\n tick\n finish d permanent\n tick\n inputs s\n flow w"),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended b token=1.2 failed_permanent (exit) -> dead [exit]
            lease 1.2 gone
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            ended c token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            ended d token=1.4 failed_permanent (exit) -> dead [exit]
            unblocked s
            granted s -> n1 token=1.5
            s gets a succeeded b dead c succeeded d dead
            w running round=1 4/5
        "#]],
    );
}

#[test]
fn what_never_runs_takes_everything_behind_it_along() {
    check(
        &format!(
            "{KIND}
            workflow w chord(chain(a,b,c),d)s:at_least:1 kind=k
            tick
            run a
            finish a permanent
            reaped a
            tick
            run d
            done d
            tick
            inputs s
            run s
            done s
            tick
            flow w"
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted d -> n1 token=1.2
            ended a token=1.1 failed_permanent (exit) -> dead [exit]
            lease 1.1 gone
            ended b -> cancelled [it wants all before it: member 0 dead]
            ended c -> cancelled [it wants all before it: member 0 dead]
            ended d token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            unblocked s
            granted s -> n1 token=1.3
            s gets c cancelled d succeeded
            ended s token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            workflow w -> succeeded
            w succeeded round=1 5/5
        "#]],
    );
}

#[test]
fn a_workflow_is_refused_whole() {
    check(
        "
        kind k cap=4
        node n1
        show enqueued
        enqueue a kind=k
        workflow w group(b,c,d,e) kind=k
        workflow w group(b,c,d) kind=k c=nope
        workflow w chain(b,c) kind=k delay=5s
        workflow w chain(b,c,d) kind=k
        workflow w chain(b,c,d) kind=k
        workflow w chain(b,c,d) kind=k payload=1
        workflow w chain(b,c,d) kind=k producer=q
        enqueue f kind=k
        health k
        ",
        expect![[r#"
            enqueued a queued
            refused w QUEUE_FULL: member 3: the queue of kind k is full: 4 of 4, retry after 30s
            refused w KIND_NOT_FOUND: member 1: kind nope is not declared
            refused w INVALID_FIELD: member 1: job.run_at: cannot be asked for by a member that waits for others
            workflow w submitted members=3
            enqueued b queued
            enqueued c blocked
            enqueued d blocked
            w unchanged running
            refused w WORKFLOW_ID_REUSED: workflow id w was used for another workflow
            refused w WORKFLOW_ID_REUSED: workflow id w was used for another workflow
            refused f QUEUE_FULL: the queue of kind k is full: 4 of 4, retry after 30s
            k Moving depth=2 scheduled=0 running=0 able=1 oldest=0ns head: next turn
        "#]],
    );
}

#[test]
fn members_and_their_results_are_kept_while_the_workflow_lives() {
    check(
        &format!(
            "{KIND}
            workflow w chain(a,b) kind=k
            tick
            run a
            finish a ok result
            reaped a
            tick
            sweep a
            delete a
            reload
            inputs b
            hello n1 inc=2
            advance 30s
            run b
            done b
            tick
            sweep a
            flow w
            delete b
            sweep none
            flow w"
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            unblocked b
            granted b -> n1 token=1.2
            a swept 0 jobs, 0 results
            refused a JOB_OF_WORKFLOW: job a is a member of workflow w, through which this is done
            b gets a succeeded
            30s: ended b token=1.2 succeeded (exit) -> succeeded
            30s: lease 1.2 gone
            30s: workflow w -> succeeded
            30s: deleted a
            30s: a swept 1 jobs, 0 results
            30s: w succeeded round=1 2/2
            30s: deleted b
            30s: deleted workflow w
            30s: none swept 0 jobs, 0 results, 1 workflows
            30s: w is not stored
        "#]],
    );
}

#[test]
fn a_member_that_is_not_started_in_time_counts_as_failed() {
    check(
        &format!(
            "{KIND}
            workflow w chain(a,b) kind=k stale_after=20s
            tick
            run a
            advance 20s
            done a
            tick
            flow w"
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            20s: ended b -> expired [not started within its stale_after]
            20s: ended a token=1.1 succeeded (exit) -> succeeded
            20s: lease 1.1 gone
            20s: workflow w -> dead: member 1 expired
            20s: w dead round=1 2/2 [member 1 expired]
        "#]],
    );
}

#[test]
fn a_member_that_was_set_aside_is_let_go_when_it_is_freed() {
    check(
        &format!(
            "{KIND}
            workflow w chain(a,b) kind=k
            tick
            run a
            aside b
            done a
            tick
            why b
            requeue b
            tick
            run b
            cancel-workflow w
            done b
            tick
            flow w"
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            set aside b
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            b waits: broken set aside for 0ns, tried 0
              broken set aside: 1 times, 0ns
            requeued b round=1
            unblocked b
            granted b -> n1 token=1.2
            cancel requested workflow w
            cancel requested b
            revoked 1.2 cancelled
            ended b token=1.2 cancelled (exit) -> cancelled
            lease 1.2 gone
            workflow w -> cancelled: cancelled by request
            w cancelled round=1 2/2 [cancelled by request]
        "#]],
    );
}

#[test]
fn a_chain_of_groups_hands_on_all_results() {
    check(
        &format!(
            "{KIND}
            workflow w chain(group(a,b),group(c,d),e) kind=k
            tick
            done b
            tick
            done a
            tick
            inputs d
            done c
            done d
            tick
            inputs e
            cancel e
            tick
            flow w"
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            unblocked c
            unblocked d
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            d gets a succeeded b succeeded
            ended c token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            ended d token=1.4 succeeded (exit) -> succeeded
            lease 1.4 gone
            unblocked e
            granted e -> n1 token=1.5
            e gets c succeeded d succeeded
            cancel requested e
            revoked 1.5 cancelled
            w running round=1 4/5
        "#]],
    );
}
