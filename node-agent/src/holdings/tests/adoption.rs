//! What an earlier agent leaves to the next one.

use super::*;

#[test]
fn trees_of_an_earlier_agent_are_held_until_they_are_reaped() {
    check(
        "
        1000 leftover 5 a
        1001 hello
        1010 welcome
        1011 grant b 6 qa 1 browser:1
        1020 unkillable 5
        1030 heartbeat
        1040 finished 5 a
        1050 reaped 5
        1060 broken 5
        ",
        &expect![[r#"
            1001 hello held=[5:stopping] unstored=[]
            1011 > returned 6 slots 1/1
            1030 heartbeat 2 held=[5:unkillable]
            1040 > spooled 5
            1050 > reaped 5
            1060 set aside 5
        "#]],
    );
}

#[test]
fn an_adopted_lease_is_listed_renewed_and_ended_like_any_other() {
    check(
        "
        70000 adopt 5 a 95000 40000
        70001 hello
        70010 welcome 5:60
        70020 grant a 6 qa 1
        70021 grant b 7 qa 1 browser:1
        72000 heartbeat
        72010 renewed 2 5:60
        73000 finished 5 a
        73001 heartbeat
        73010 reaped 5
        73020 stored 5
        ",
        &expect![[r#"
            70001 hello held=[5:started] unstored=[]
            70010 extend 5 gone_by=127001
            70020 > returned 6 not_reaped 0/0
            70021 > returned 7 slots 1/1
            72000 heartbeat 2 held=[5:started]
            72010 extend 5 gone_by=129000
            73000 > spooled 5
            73001 heartbeat 3 held=[5:finished]
            73010 > reaped 5
            73020 forget 5
        "#]],
    );
}

#[test]
fn an_adopted_lease_keeps_its_later_deadline_and_obeys_orders() {
    check(
        "
        70000 adopt 5 a 200000 40000
        70001 hello
        70010 welcome 5:60
        71000 heartbeat
        71010 revoke 5
        71020 revoke 5
        71500 heartbeat
        72000 returned 5 a
        72010 stored-return 5
        ",
        &expect![[r#"
            70001 hello held=[5:started] unstored=[]
            71000 heartbeat 2 held=[5:started]
            71010 stop 5 Cancelled at_once=false
            71500 heartbeat 3 held=[5:stopping]
            72000 > spooled 5
            72010 forget 5
        "#]],
    );
}

#[test]
fn what_had_not_started_or_was_being_stopped_is_adopted_as_that() {
    check(
        "
        70000 adopt 5 a 95000
        70000 adopt 6 b 95000 40000 stopping
        70001 hello
        70010 welcome 5:60 6:60
        70500 started 5
        71000 heartbeat
        ",
        &expect![[r#"
            70001 hello held=[5:accepted 6:stopping] unstored=[]
            70010 extend 5 gone_by=127001
            70010 extend 6 gone_by=127001
            70500 > started 5
            71000 heartbeat 2 held=[5:started 6:stopping]
        "#]],
    );
}

#[test]
fn an_end_that_stands_in_the_spool_already_is_said_once() {
    let unstored = Unstored { job: "a".to_owned(), end: End::Finished };
    let machine = Holdings::new(options(), BTreeMap::from([(FencingToken(5), unstored)]), 0);
    let script = "
        70000 adopt 5 a 95000 40000
        70001 hello
        70010 welcome 5:60
        70020 finished 5 a
        70030 reaped 5
        70040 stored 5
        ";
    expect![[r#"
        70001 hello held=[5:finished] unstored=[5]
        70010 extend 5 gone_by=127001
        70010 > spooled 5
        70030 > reaped 5
        70040 forget 5
    "#]]
    .assert_eq(&trace(machine, script));
}

#[test]
fn an_agent_that_hands_over_gives_back_what_has_not_started_and_stops_nothing() {
    check(
        "
        1000 hello
        1010 welcome
        1011 grant a 1 qa 1 browser:1
        1012 prepared 1
        1013 started 1
        1014 grant b 2 sh 1 shell:1
        1020 hand-over
        1021 grant c 3 sh 1 shell:1
        5000 heartbeat
        5010 cut
        ",
        &expect![[r#"
            1000 hello held=[] unstored=[]
            1011 prepare 1
            1012 > accepted 1
            1012 start 1 gone_by=20000
            1013 > started 1
            1014 prepare 2
            1020 abandon 2
            1020 > returned 2 draining 0/0
            1021 > returned 3 draining 0/0
            5000 heartbeat 2 held=[1:started]
        "#]],
    );
    let mut machine = Holdings::new(options(), BTreeMap::new(), 0);
    assert!(!machine.is_handed_over());
    machine.hand_over(Mono::ZERO);
    assert!(machine.is_handed_over(), "there is nobody to hear anything");
}
