//! Workflows: chains, groups and chords, what each policy does about failures, deadlines, cancels and requeues.

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
fn a_requeued_member_brings_back_what_is_behind_it() {
    check(
        &four(
            "",
            "done a
            done c
            done d
            tick
            requeue b
            requeue-member a
            requeue-member b
            job s
            flow w
            tick
            run b
            done b
            tick
            inputs s
            run s
            done s
            tick
            flow w
            requeue-member b",
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended b token=1.2 failed_permanent (exit) -> dead [exit]
            lease 1.2 gone
            ended s -> cancelled [it wants all before it: member 1 dead]
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            ended c token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            ended d token=1.4 succeeded (exit) -> succeeded
            lease 1.4 gone
            workflow w -> dead: member 1 dead
            refused b JOB_OF_WORKFLOW: job b is a member of workflow w, through which this is done
            refused a JOB_FINAL: job a is succeeded
            requeued workflow w round=2
            requeued b round=2
            requeued s round=2
            s blocked round=2 attempt=1
            w running round=2 3/5
            granted b -> n1 token=1.5
            ended b token=1.5 succeeded (exit) -> succeeded
            lease 1.5 gone
            unblocked s
            granted s -> n1 token=1.6
            s gets a succeeded b succeeded c succeeded d succeeded
            ended s token=1.6 succeeded (exit) -> succeeded
            lease 1.6 gone
            workflow w -> succeeded
            w succeeded round=2 5/5
            refused b JOB_FINAL: job b is succeeded
        "#]],
    );
}

#[test]
fn nobody_comes_back_to_a_workflow_of_which_a_member_is_gone() {
    check(
        &format!(
            "{KIND}
            workflow w chain(a,b) kind=k
            tick
            run a
            done a
            tick
            run b
            finish b permanent
            reaped b
            tick
            requeue-member b
            tick
            run b
            finish b permanent
            reaped b
            tick
            delete a
            requeue-member b
            reload
            requeue-member b
            job b
            flow w
            workflow v group(c,d) kind=k
            cancel-workflow v
            tick
            sweep d
            requeue-member c
            flow v"
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            unblocked b
            granted b -> n1 token=1.2
            ended b token=1.2 failed_permanent (exit) -> dead [exit]
            lease 1.2 gone
            workflow w -> dead: member 1 dead
            requeued workflow w round=2
            requeued b round=2
            granted b -> n1 token=1.3
            ended b token=1.3 failed_permanent (exit) -> dead [exit]
            lease 1.3 gone
            workflow w -> dead: member 1 dead
            deleted a
            refused b MEMBER_GONE: job a of workflow w is not stored any more
            refused b MEMBER_GONE: job a of workflow w is not stored any more
            b dead round=2 attempt=2 failures=1 [exit]
            w dead round=2 2/2 [member 1 dead]
            cancel requested workflow v
            ended c -> cancelled [its workflow was cancelled]
            ended d -> cancelled [its workflow was cancelled]
            workflow v -> cancelled: cancelled by request
            deleted d
            d swept 1 jobs, 0 results
            refused c MEMBER_GONE: job d of workflow v is not stored any more
            v cancelled round=1 2/2 [cancelled by request]
        "#]],
    );
}

#[test]
fn a_requeued_synthesis_runs_on_what_is_there() {
    check(
        &four(
            "",
            "done a
            done c
            done d
            tick
            requeue-member s
            tick
            inputs s
            run s
            requeue-member b
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
            ended s -> cancelled [it wants all before it: member 1 dead]
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            ended c token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            ended d token=1.4 succeeded (exit) -> succeeded
            lease 1.4 gone
            workflow w -> dead: member 1 dead
            requeued workflow w round=2
            requeued s round=2
            granted s -> n1 token=1.5
            s gets a succeeded b dead c succeeded d succeeded
            refused b RESULT_TAKEN: job s, which is running, took the result of job b
            ended s token=1.5 succeeded (exit) -> succeeded
            lease 1.5 gone
            workflow w -> succeeded
            w succeeded round=2 5/5 partial
        "#]],
    );
}

#[test]
fn cancel_ends_all_members_and_a_requeue_brings_one_chain_back() {
    check(
        &format!(
            "{KIND}
            workflow w group(chain(a,b),c) kind=k
            tick
            run a
            run c
            done c
            cancel-workflow w
            cancel-workflow w
            requeue-member b
            finish a revoked
            reaped a
            tick
            flow w
            cancel-workflow w
            requeue-member a
            tick
            run a
            done a
            tick
            run b
            done b
            tick
            flow w
            cancel-workflow w"
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted c -> n1 token=1.2
            ended c token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            cancel requested workflow w
            cancel requested a
            revoked 1.1 cancelled
            ended b -> cancelled [its workflow was cancelled]
            w unchanged running
            refused b WORKFLOW_FINAL: workflow w is being cancelled
            ended a token=1.1 cancelled (revoked) -> cancelled
            lease 1.1 gone
            workflow w -> cancelled: cancelled by request
            w cancelled round=1 3/3 [cancelled by request]
            w unchanged cancelled
            requeued workflow w round=2
            requeued a round=2
            requeued b round=2
            granted a -> n1 token=1.3
            ended a token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            unblocked b
            granted b -> n1 token=1.4
            ended b token=1.4 succeeded (exit) -> succeeded
            lease 1.4 gone
            workflow w -> succeeded
            w succeeded round=2 3/3
            refused w WORKFLOW_FINAL: workflow w is succeeded
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

/// A live workflow has all of its members, also one that comes back.
#[test]
fn a_workflow_of_which_a_member_is_gone_does_not_come_back() {
    let script = |gone: &str| {
        format!(
            "{KIND}
            workflow w chain(a,b) kind=k
            tick
            run a
            done a
            tick
            run b
            finish b permanent
            reaped b
            tick
            {gone}
            flow w
            tick"
        )
    };
    check(
        &script("sweep a\nrequeue-member b"),
        expect![[r#"
        granted a -> n1 token=1.1
        ended a token=1.1 succeeded (exit) -> succeeded
        lease 1.1 gone
        unblocked b
        granted b -> n1 token=1.2
        ended b token=1.2 failed_permanent (exit) -> dead [exit]
        lease 1.2 gone
        workflow w -> dead: member 1 dead
        deleted a
        a swept 1 jobs, 0 results
        refused b MEMBER_GONE: job a of workflow w is not stored any more
        w dead round=1 2/2 [member 1 dead]
    "#]],
    );
    check(
        &script("begin\ndelete a\nrequeue-member b\ncommit"),
        expect![[r#"
        granted a -> n1 token=1.1
        ended a token=1.1 succeeded (exit) -> succeeded
        lease 1.1 gone
        unblocked b
        granted b -> n1 token=1.2
        ended b token=1.2 failed_permanent (exit) -> dead [exit]
        lease 1.2 gone
        workflow w -> dead: member 1 dead
        deleted a
        refused b MEMBER_GONE: job a of workflow w is not stored any more
        w dead round=1 2/2 [member 1 dead]
    "#]],
    );
    check(
        &script("begin\ndelete a\nenqueue a kind=k\nrequeue-member b\ncommit"),
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            unblocked b
            granted b -> n1 token=1.2
            ended b token=1.2 failed_permanent (exit) -> dead [exit]
            lease 1.2 gone
            workflow w -> dead: member 1 dead
            deleted a
            refused b MEMBER_GONE: job a of workflow w is not stored any more
            w dead round=1 2/2 [member 1 dead]
            granted a -> n1 token=1.3
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
