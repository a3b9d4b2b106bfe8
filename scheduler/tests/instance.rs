//! Another instance or boot of a node: what its leases from before come to.

use expect_test::expect;

use crate::{session::HOLDER, support::check};

#[test]
fn another_instance_is_refused_while_the_older_stream_is_heard() {
    check(
        &format!(
            "{HOLDER}
            hello n1 instance=copy inc=1
            mute n1
            advance 11s
            hello n1 instance=copy inc=1
            advance 1s
            forget-held n1
            hello n1 instance=copy inc=1
            enqueue c kind=k
            capacity f 3
            tick
            explain a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            refused n1 NODE_NAME_IN_USE: node name n1 is held by another live instance
            11s: refused n1 NODE_NAME_IN_USE: node name n1 is held by another live instance
            12s: suspect n1
            12s: lease 1.1 orphaned
            12s: lease 1.2 orphaned
            12s: session 1 of n1 is closed: SUPERSEDED_SESSION
            12s: granted c -> n1 token=1.3
            12s: a: runs, 0 ahead
        "#]],
    );
}

#[test]
fn leases_of_another_instance_run_out_charge_the_fleet_only_and_are_never_renewed() {
    check(
        &format!(
            "{HOLDER}
            mute n1
            close n1
            show messages
            hello n1 instance=copy inc=1
            hide messages
            enqueue c kind=k
            tick
            show messages
            beat n1          # It lists what it cannot have: nothing is renewed.
            hide messages
            advance 106s999999us
            advance 1us
            job a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            lease 1.1 orphaned
            lease 1.2 orphaned
            n1 < welcome epoch=1 every=5s anchor=1
            n1 < revoke 1.1 not_live, 1.2 not_live
            deferred c slot_busy: slot f 2/2
            n1 < renewed anchor=2
            n1 < revoke 1.1 not_live, 1.2 not_live
            12s: suspect n1
            30s: deferred c slot_busy: slot f 2/2
            107s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            107s: ended b token=1.2 lost (lease_expired) -> queued [its lease ended in silence]
            107s: deferred a suspect: n1 silent
            107s: a queued round=1 attempt=2 losses=1 [its lease ended in silence]
        "#]],
    );
}

#[test]
fn what_a_new_instance_does_not_list_of_an_older_one_runs_out_however_often_it_says_hello() {
    check(
        &format!(
            "{HOLDER}
            finish b ok
            mute n1
            close n1
            forget-held n1
            hello n1 instance=copy inc=1
            hello n1
            beat n1
            tick
            job a
            advance 106s999999us
            hello n1
            job a
            advance 1us
            job a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.1 orphaned
            lease 1.2 orphaned
            session 2 of n1 is closed: SUPERSEDED_SESSION
            a running round=1 attempt=1
            12s: suspect n1
            106.999999s: session 3 of n1 is closed: SUPERSEDED_SESSION
            106.999999s: a running round=1 attempt=1
            107s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            107s: lease 1.2 gone
            107s: granted a -> n1 token=1.3
            107s: a running round=1 attempt=2 losses=1 [its lease ended in silence]
        "#]],
    );
}

#[test]
fn a_lease_of_an_instance_that_is_gone_runs_out_under_the_next_leader_too() {
    check(
        &format!(
            "{HOLDER}
            mute n1
            close n1
            forget-held n1
            hello n1 instance=copy inc=1
            advance 50s
            reload
            hello n1
            enqueue c kind=k
            tick             # The process of the old instance may still run: nothing is granted in its place.
            advance 106s999999us
            hello n1
            job a
            advance 1us
            job a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            lease 1.1 orphaned
            lease 1.2 orphaned
            12s: suspect n1
            50s: deferred c slot_busy: slot f 2/2
            62s: suspect n1
            80s: deferred c slot_busy: slot f 2/2
            156.999999s: session 3 of n1 is closed: SUPERSEDED_SESSION
            156.999999s: a running round=1 attempt=1
            157s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            157s: ended b token=1.2 lost (lease_expired) -> queued [its lease ended in silence]
            157s: granted a -> n1 token=2.1
            157s: granted b -> n1 token=2.2
            157s: deferred c slot_busy: slot f 2/2
            157s: a running round=1 attempt=2 losses=1 [its lease ended in silence]
        "#]],
    );
}

#[test]
fn a_report_of_a_lease_that_runs_out_starts_nothing_and_its_end_is_heard() {
    check(
        &format!(
            "{HOLDER}
            mute n1
            close n1
            hello n1 instance=copy inc=1
            show messages
            accepted a       # By its token it is the old holder that speaks.
            finish a ok
            reaped a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            lease 1.1 orphaned
            lease 1.2 orphaned
            n1 < revoke 1.1 not_live
            ended a token=1.1 succeeded (exit) -> succeeded
            n1 < Finished 1.1 Stored (succeeded)
            lease 1.1 gone
            n1 < Reaped 1.1 Stored (succeeded)
        "#]],
    );
}

#[test]
fn after_a_reboot_what_ran_runs_out_and_so_does_what_was_finished() {
    check(
        &format!(
            "{HOLDER}
            finish b ok
            mute n1
            close n1
            forget-held n1
            hello n1 boot=boot-2 inc=2
            enqueue c kind=k
            enqueue d kind=k
            tick
            advance 107s
            job a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.1 orphaned
            lease 1.2 orphaned
            deferred c slot_busy: slot f 2/2
            12s: suspect n1
            30s: deferred c slot_busy: slot f 2/2
            107s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            107s: lease 1.2 gone
            107s: deferred a suspect: n1 silent
            107s: a queued round=1 attempt=2 losses=1 [its lease ended in silence]
        "#]],
    );
}

#[test]
fn after_a_reboot_a_spooled_report_is_still_heard() {
    check(
        &format!(
            "{HOLDER}
            close n1
            spool a ok
            forget-held n1
            hello n1 boot=boot-2 inc=2
            finish a ok
            job a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            slots of 1.1 freed
            lease 1.2 orphaned
            ended a token=1.1 succeeded (exit) -> succeeded
            a succeeded round=1 attempt=1
        "#]],
    );
}
