//! Workflows and members that come back.

use expect_test::expect;

use super::{KIND, four};
use crate::support::check;

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
fn what_a_requeued_synthesis_does_not_wait_for_goes_on_whoever_leads_at_its_deadline() {
    let script = |reload: &str| {
        format!(
            "{KIND}
            workflow w chord(a,b)s:at_least:2:deadline:10s kind=k
            tick
            run a
            run b
            finish a permanent
            reaped a
            tick
            requeue-member s
            tick
            run s
            wall +10s
            tick
            {reload}
            tick
            job b
            flow w"
        )
    };
    check(
        &script(""),
        expect![[r#"
        granted a -> n1 token=1.1
        granted b -> n1 token=1.2
        ended a token=1.1 failed_permanent (exit) -> dead [exit]
        lease 1.1 gone
        ended s -> cancelled [it wants at least 2 of 2 before it: member 0 dead]
        requeued workflow w round=1
        requeued s round=2
        granted s -> n1 token=1.3
        b running round=1 attempt=1
        w running round=1 1/3 partial
    "#]],
    );
    check(
        &script("reload"),
        expect![[r#"
        granted a -> n1 token=1.1
        granted b -> n1 token=1.2
        ended a token=1.1 failed_permanent (exit) -> dead [exit]
        lease 1.1 gone
        ended s -> cancelled [it wants at least 2 of 2 before it: member 0 dead]
        requeued workflow w round=1
        requeued s round=2
        granted s -> n1 token=1.3
        b running round=1 attempt=1
        w running round=1 1/3 partial
    "#]],
    );
}
