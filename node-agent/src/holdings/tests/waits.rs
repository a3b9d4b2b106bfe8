//! Attempts that wait for others, and how they get on.

use super::*;

#[test]
fn a_process_that_waits_leaves_its_slot_to_others_and_is_listed_as_parked_once_the_server_says_so() {
    check(
        "
        0 hello
        0 welcome
        10 grant a 1 qa 1 browser:1
        20 prepared 1
        30 started 1
        40 waits 1 1
        50 heartbeat
        60 grant b 2 qa 1 browser:1
        70 parked 1 1
        80 heartbeat
        90 resume 1 1 go
        95 resume 1 1 go
        99 heartbeat
        ",
        &expect![[r#"
            0 hello held=[] unstored=[]
            10 prepare 1
            20 > accepted 1
            20 start 1 gone_by=19000
            30 > started 1
            50 heartbeat 2 held=[1:started]
            60 prepare 2
            80 heartbeat 3 held=[1:parked 2:granted]
            90 resume 1 1 Go
            99 heartbeat 4 held=[1:started 2:granted]
        "#]],
    );
}

#[test]
fn what_is_kept_stays_taken_and_a_process_that_must_detach_holds_no_more() {
    check(
        "
        0 hello
        0 welcome
        10 grant a 1 qa 1 browser:1
        20 prepared 1
        30 started 1
        40 waits 1 1
        50 parked 1 1 browser
        60 grant b 2 qa 1 browser:1
        70 grant c 3 qa 1 browser:1
        80 resume 1 1 detach
        85 heartbeat
        90 finished 1 a
        ",
        &expect![[r#"
            0 hello held=[] unstored=[]
            10 prepare 1
            20 > accepted 1
            20 start 1 gone_by=19000
            30 > started 1
            60 > returned 2 slots 1/1
            70 > returned 3 slots 1/1
            80 resume 1 1 MustDetach
            85 heartbeat 2 held=[1:started]
            90 > spooled 1
        "#]],
    );
}

#[test]
fn a_wait_that_is_over_is_not_begun_again_by_a_late_word_of_it() {
    check(
        "
        0 hello
        0 welcome
        10 grant a 1 qa 1 browser:1
        20 prepared 1
        30 started 1
        40 waits 1 1
        50 resume 1 1 go
        60 parked 1 1
        70 heartbeat
        80 over 1 1 go
        90 waits 1 2
        95 parked 1 2
        99 heartbeat
        ",
        &expect![[r#"
            0 hello held=[] unstored=[]
            10 prepare 1
            20 > accepted 1
            20 start 1 gone_by=19000
            30 > started 1
            50 resume 1 1 Go
            70 heartbeat 2 held=[1:started]
            99 heartbeat 3 held=[1:parked]
        "#]],
    );
}

#[test]
fn an_adopted_process_that_was_parked_is_listed_as_that() {
    check(
        "
        0 adopt 1 a 50000 10 parked
        10 hello
        10 welcome 1:60
        20 grant b 2 qa 1 browser:1
        30 resume 1 1 go
        ",
        &expect![[r#"
            10 hello held=[1:parked] unstored=[]
            10 extend 1 gone_by=57010
            20 prepare 2
            30 resume 1 1 Go
        "#]],
    );
}

#[test]
fn the_newest_progress_is_said_once_and_again_on_a_new_stream() {
    check(
        "
        0 hello
        0 welcome
        10 grant a 1 qa 1 browser:1
        20 prepared 1
        25 progress 1 5
        30 started 1
        40 progress 1 10
        50 progress 1 20
        60 cut
        70 progress 1 30
        80 hello
        90 welcome 1:60
        99 finished 1 a
        99 progress 1 99
        ",
        &expect![[r#"
            0 hello held=[] unstored=[]
            10 prepare 1
            20 > accepted 1
            20 start 1 gone_by=19000
            30 > started 1
            40 > progress 1 10
            50 > progress 1 20
            80 hello held=[1:started] unstored=[]
            90 extend 1 gone_by=57080
            90 > progress 1 30
            99 > spooled 1
        "#]],
    );
}
