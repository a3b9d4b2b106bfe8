//! Large workflows end slice by slice: a bounded number of members a turn, in order, and on through a change of leaders.

use expect_test::expect;

use super::KIND;
use crate::support::check;

#[test]
fn a_cancel_goes_on_in_the_next_ticks_and_nobody_begins_meanwhile() {
    check(
        &format!(
            "limits moves=2
            {KIND}
            workflow w group(a,b,c,chain(d,e),f) kind=k
            tick
            run a
            workflow v group(g,h,i,j,k) kind=k
            cancel-workflow v
            flow v
            turn
            flow v
            turn
            flow v
            cancel-workflow w
            flow w
            turn
            flow w
            tick
            flow w
            "
        ),
        expect![[r#"
            granted a -> n1 token=2.1
            granted b -> n1 token=2.2
            granted c -> n1 token=2.3
            granted d -> n1 token=2.4
            granted f -> n1 token=2.5
            cancel requested workflow v
            ended g -> cancelled [its workflow was cancelled]
            ended h -> cancelled [its workflow was cancelled]
            v running round=1 2/5 [cancelled by request]
            ended i -> cancelled [its workflow was cancelled]
            ended j -> cancelled [its workflow was cancelled]
            ended k -> cancelled [its workflow was cancelled]
            v running round=1 5/5 [cancelled by request]
            workflow v -> cancelled: cancelled by request
            v cancelled round=1 5/5 [cancelled by request]
            cancel requested workflow w
            cancel requested a
            revoked 2.1 cancelled
            cancel requested b
            revoked 2.2 cancelled
            w running round=1 0/6 [cancelled by request]
            cancel requested c
            revoked 2.3 cancelled
            cancel requested d
            revoked 2.4 cancelled
            w running round=1 0/6 [cancelled by request]
            ended e -> cancelled [its workflow was cancelled]
            cancel requested f
            revoked 2.5 cancelled
            w running round=1 1/6 [cancelled by request]
        "#]],
    );
}

#[test]
fn a_cancel_goes_on_under_the_next_leader() {
    check(
        &format!(
            "limits moves=1
            {KIND}
            workflow w group(a,b,chain(c,d)) kind=k
            cancel-workflow w
            flow w
            reload
            turn
            flow w
            turn
            turn
            flow w
            "
        ),
        expect![[r#"
            cancel requested workflow w
            ended a -> cancelled [its workflow was cancelled]
            w running round=1 1/4 [cancelled by request]
            ended b -> cancelled [its workflow was cancelled]
            deferred c warming_up: server warming up
            w running round=1 2/4 [cancelled by request]
            ended c -> cancelled [its workflow was cancelled]
            ended d -> cancelled [its workflow was cancelled]
            workflow w -> cancelled: cancelled by request
            w cancelled round=1 4/4 [cancelled by request]
        "#]],
    );
}

#[test]
fn a_deadline_ends_who_is_late_slice_by_slice_also_under_the_next_leader() {
    check(
        &format!(
            "limits moves=2
            {KIND}
            workflow w chord(a,b,c,d,e,f)s:always:deadline:10s kind=k
            tick
            run a
            done a
            run b
            run c
            run d
            run e
            run f
            wall +10s
            turn
            flow w
            reload
            turn
            flow w
            turn
            flow w
            inputs s
            "
        ),
        expect![[r#"
            granted a -> n1 token=2.1
            granted b -> n1 token=2.2
            granted c -> n1 token=2.3
            granted d -> n1 token=2.4
            granted e -> n1 token=2.5
            granted f -> n1 token=2.6
            ended a token=2.1 succeeded (exit) -> succeeded
            lease 2.1 gone
            gate 0 of workflow w opened partial without [1, 2, 3, 4, 5]
            cancel requested b
            revoked 2.2 cancelled
            cancel requested c
            revoked 2.3 cancelled
            w running round=1 1/7 partial
            unblocked s
            cancel requested d
            revoked 2.4 cancelled
            deferred s warming_up: server warming up
            w running round=1 1/7 partial
            cancel requested e
            revoked 2.5 cancelled
            cancel requested f
            revoked 2.6 cancelled
            w running round=1 1/7 partial
            s gets a succeeded b open c open d open e open f open
        "#]],
    );
}
