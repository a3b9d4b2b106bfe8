//! Scripts with their expected traces. A script line is `MILLISECONDS VERB ARGUMENTS`; a trace line is what came of it:
//! an order to the runner, or, after `>`, a statement to the server.

mod adoption;
mod link;
mod random;
mod waits;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};

use super::*;
use crate::own_rule::OwnRule;
use crate::pressure::rules::{ClosedGroup, Group, Reading};
use crate::pressure::signals::Signal;

/// One node: slots browser 1 and shell 2, kinds `qa` and `sh`, leases of 60 s with a first lease of 20 s.
fn options() -> Options {
    Options {
        slots: BTreeMap::from([("browser".to_owned(), 1), ("shell".to_owned(), 2)]),
        kinds: BTreeMap::from([
            ("qa".to_owned(), Duration::from_secs(2)),
            ("sh".to_owned(), Duration::from_secs(2)),
        ]),
        starts: BTreeMap::new(),
    }
}

fn terms(job: &str, token: u64, kind: &str, slots: &str) -> Terms {
    let slots = slots.split(',').filter(|text| !text.is_empty()).map(|text| {
        let (slot, units) = text.split_once(':').unwrap();
        (slot.to_owned(), units.parse().unwrap())
    });
    Terms {
        job: job.to_owned(),
        token: FencingToken(token),
        kind: kind.to_owned(),
        slots: slots.collect(),
        lease: Duration::from_secs(60),
        first_lease: Duration::from_secs(20),
        start_window: Duration::from_secs(10),
        stale_in: None,
    }
}

fn closed(group: Group) -> Arc<Reading> {
    let closed = ClosedGroup {
        group,
        rule: "uid_procs".to_owned(),
        signal: Signal::ProcsUsed,
        observed: 600.0,
        threshold: 550.0,
        since: Mono::ZERO,
        retry_after: Duration::ZERO,
    };
    Arc::new(Reading { generation: 7, closed: vec![closed], ..Reading::default() })
}

/// Runs a script on a machine and returns its trace.
fn trace(mut machine: Holdings, script: &str) -> String {
    let mut out = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let millis: u64 = words[0].parse().unwrap();
        let now = Mono::from_micros(millis * 1_000);
        let token = |index: usize| FencingToken(words[index].parse().unwrap());
        match words[1] {
            "hello" => {
                let (held, unstored) = machine.hello(now);
                machine.next_seq(now);
                writeln!(out, "{millis} hello held={} unstored={}", list(&held), tokens(&unstored)).unwrap();
            }
            "welcome" => machine.welcomed(1, 1, &renewals(&words[2..])).unwrap(),
            "heartbeat" => {
                let seq = machine.next_seq(now);
                writeln!(out, "{millis} heartbeat {seq} held={}", list(&machine.heartbeat(now))).unwrap();
            }
            "grant" => {
                let slots = words.get(6).copied().unwrap_or("");
                let terms = terms(words[2], token(3).0, words[4], slots);
                machine.granted(now, words[5].parse().unwrap(), &terms).unwrap();
            }
            "grant-stale-in-5s" => {
                let mut terms = terms(words[2], token(3).0, words[4], words.get(6).copied().unwrap_or(""));
                terms.stale_in = Some(Duration::from_secs(5));
                machine.granted(now, words[5].parse().unwrap(), &terms).unwrap();
            }
            "renewed" => machine.renewed(words[2].parse().unwrap(), &renewals(&words[3..])).unwrap(),
            "revoke" => machine.revoked(token(2), StopReason::Cancelled),
            "prepared" => machine.prepared(token(2)),
            "unprepared" => machine.never_started(token(2), OwnRule::Workdir),
            "started" => machine.started(now, token(2)),
            "finished" => machine.ended(token(2), words[3], End::Finished),
            "returned" => machine.ended(token(2), words[3], End::Returned),
            "reaped" => machine.reaped(token(2)),
            "unkillable" => machine.unkillable(token(2)),
            "adopt" => {
                let adopted = Adopted {
                    slots: BTreeMap::from([("browser".to_owned(), 1)]),
                    lease: Duration::from_secs(60),
                    grace: Duration::from_secs(2),
                    gone_by: Mono::from_micros(words[4].parse::<u64>().unwrap() * 1_000),
                    started: words.get(5).map(|at| Mono::from_micros(at.parse::<u64>().unwrap() * 1_000)),
                    stopping: words.get(6) == Some(&"stopping"),
                    waiting: words.get(6).filter(|word| **word == "parked").map(|_| super::Waiting {
                        epoch: 1,
                        parked: true,
                        ..super::Waiting::default()
                    }),
                };
                machine.adopted(token(2), words[3], adopted);
            }
            "waits" => machine.waits(token(2), words[3].parse().unwrap(), None),
            "parked" => {
                let kept = words.get(4).map(|slot| BTreeMap::from([((*slot).to_owned(), 1)]));
                machine.waits(token(2), words[3].parse().unwrap(), Some(kept.unwrap_or_default()));
            }
            "over" => machine.wait_over(token(2), words[3].parse().unwrap(), verdict(words[4]), None),
            "resume" => machine.resumed(token(2), words[3].parse().unwrap(), verdict(words[4])),
            "progress" => machine.gets_on(token(2), words[3].parse().unwrap(), String::new()),
            "hand-over" => machine.hand_over(now),
            "leftover" => machine.left_over(token(2), words[3], [("browser".to_owned(), 1)]),
            "stored" => machine.answered(token(2), End::Finished, Verdict::Done),
            "stored-return" => machine.answered(token(2), End::Returned, Verdict::Done),
            "broken" => machine.answered(token(2), End::Finished, Verdict::Broken),
            "drain" => machine.drain(now, now + Duration::from_millis(words[2].parse().unwrap())),
            "undrain" => machine.drain_over(),
            "leave" => machine.leave(now, now + Duration::from_millis(words[2].parse().unwrap())),
            "close" => machine.set_pressure(closed(Group::Slot("browser".to_owned()))),
            "open" => machine.set_pressure(Arc::default()),
            "spool-full" => machine.set_spool_full(true),
            "cut" => machine.disconnected(),
            "tick" => {}
            other => panic!("no such verb: {other}"),
        }
        settle(&mut machine, now, millis, &mut out);
    }
    out
}

/// Lets the machine act until nothing is due, as the session does.
fn settle(machine: &mut Holdings, now: Mono, millis: u64, out: &mut String) {
    loop {
        machine.advance(now);
        let actions = machine.take_actions();
        let statements: Vec<_> = std::iter::from_fn(|| machine.next_statement(now)).collect();
        if actions.is_empty() && statements.is_empty() {
            return;
        }
        for action in actions {
            writeln!(out, "{millis} {}", order(&action)).unwrap();
        }
        for statement in statements {
            writeln!(out, "{millis} > {}", word(&statement)).unwrap();
        }
    }
}

fn order(action: &Action) -> String {
    match action {
        Action::Prepare { token } => format!("prepare {token}"),
        Action::Abandon { token } => format!("abandon {token}"),
        Action::Start { token, gone_by } => format!("start {token} gone_by={}", gone_by.as_micros() / 1_000),
        Action::Extend { token, gone_by } => {
            format!("extend {token} gone_by={}", gone_by.as_micros() / 1_000)
        }
        Action::Stop { token, stop } => format!("stop {token} {:?} at_once={}", stop.reason, stop.at_once),
        Action::Resume { token, epoch, verdict } => format!("resume {token} {epoch} {verdict:?}"),
        Action::Forget { token } => format!("forget {token}"),
        Action::SetAside { token } => format!("set aside {token}"),
    }
}

fn verdict(word: &str) -> super::WaitVerdict {
    if word == "go" { super::WaitVerdict::Go } else { super::WaitVerdict::MustDetach }
}

fn word(statement: &Statement) -> String {
    match statement {
        Statement::Accepted { token, .. } => format!("accepted {token}"),
        Statement::Started { token, .. } => format!("started {token}"),
        Statement::Progress { token, percent, .. } => format!("progress {token} {percent}"),
        Statement::Checkpoint { token, .. } => format!("checkpoint {token}"),
        Statement::Spooled { token } => format!("spooled {token}"),
        Statement::Returned { token, give_back, .. } => {
            let Return { rule, observed, threshold, .. } = give_back;
            format!("returned {token} {rule} {observed}/{threshold}")
        }
        Statement::Reaped { token, .. } => format!("reaped {token}"),
    }
}

fn list(held: &[Listed]) -> String {
    let lines = held.iter().map(|listed| {
        let phase = match listed.phase {
            Phase::Granted => "granted",
            Phase::Accepted | Phase::Starting => "accepted",
            Phase::Started { .. } if listed.parked_in.is_some() => "parked",
            Phase::Started { .. } => "started",
            Phase::Stopping { .. } => "stopping",
            Phase::Finished { .. } => "finished",
            Phase::Unkillable { .. } => "unkillable",
        };
        format!("{}:{phase}", listed.token)
    });
    format!("[{}]", lines.collect::<Vec<_>>().join(" "))
}

fn tokens(unstored: &[(FencingToken, String)]) -> String {
    format!("[{}]", unstored.iter().map(|(token, _)| token.to_string()).collect::<Vec<_>>().join(" "))
}

/// `TOKEN:SECONDS …`
fn renewals(words: &[&str]) -> Vec<(FencingToken, Duration)> {
    let pairs = words.iter().map(|text| text.split_once(':').unwrap());
    pairs
        .map(|(token, length)| {
            (FencingToken(token.parse().unwrap()), Duration::from_secs(length.parse().unwrap()))
        })
        .collect()
}

fn check(script: &str, expected: &Expect) {
    check_with(options(), script, expected);
}

fn check_with(options: Options, script: &str, expected: &Expect) {
    expected.assert_eq(&trace(Holdings::new(options, BTreeMap::new(), 0), script));
}

#[test]
fn a_job_goes_from_grant_to_reaped_and_its_deadline_grows_with_renewals() {
    check(
        "
        1000 hello
        1010 welcome
        2000 grant a 1 qa 1 browser:1
        2005 prepared 1
        2020 started 1
        3000 heartbeat
        3010 renewed 2 1:60
        4000 finished 1 a
        4001 heartbeat
        4050 stored 1
        4100 reaped 1
        5000 heartbeat
        ",
        &expect![[r#"
            1000 hello held=[] unstored=[]
            2000 prepare 1
            2005 > accepted 1
            2005 start 1 gone_by=20000
            2020 > started 1
            3000 heartbeat 2 held=[1:started]
            3010 extend 1 gone_by=60000
            4000 > spooled 1
            4001 heartbeat 3 held=[1:finished]
            4050 forget 1
            4100 > reaped 1
            5000 heartbeat 4 held=[]
        "#]],
    );
}

#[test]
fn until_the_first_renewal_only_the_first_lease_counts() {
    check(
        "
        1000 hello
        1010 welcome
        1500 heartbeat
        1600 grant a 1 sh 2
        1601 prepared 1
        1602 started 1
        2000 heartbeat
        2010 renewed 3 1:20
        2500 renewed 2 1:60
        2600 renewed 3 1:600
        ",
        &expect![[r#"
            1000 hello held=[] unstored=[]
            1500 heartbeat 2 held=[]
            1600 prepare 1
            1601 > accepted 1
            1601 start 1 gone_by=20500
            1602 > started 1
            2000 heartbeat 3 held=[1:started]
            2010 extend 1 gone_by=21000
            2500 extend 1 gone_by=58500
            2600 extend 1 gone_by=59000
        "#]],
    );
}

#[test]
fn a_grant_is_given_back_with_what_was_read() {
    check(
        "
        1000 hello
        1010 welcome
        2000 grant a 1 qa 1 browser:1
        2001 grant b 2 qa 1 browser:1
        2002 grant c 3 none 1
        2003 grant a 4 sh 1
        2004 close
        2005 grant d 5 sh 1 shell:1
        2006 grant e 6 sh 1 browser:1
        2007 revoke 1
        2008 grant e 7 sh 1 browser:1
        2009 open
        2010 grant e 8 sh 1 browser:1
        2011 spool-full
        2012 grant f 9 sh 1 shell:1
        11001 grant g 10 sh 1 shell:1
        ",
        &expect![[r#"
            1000 hello held=[] unstored=[]
            2000 prepare 1
            2001 > returned 2 slots 1/1
            2002 > returned 3 kind 0/0
            2003 > returned 4 not_reaped 0/0
            2005 prepare 5
            2006 > returned 6 slots 1/1
            2007 abandon 1
            2007 > returned 1 revoked 0/0
            2008 > returned 7 uid_procs 600/550
            2010 prepare 8
            2012 > returned 9 spool_full 0/0
            11001 > returned 10 stale_grant 10.001/10
        "#]],
    );
}

#[test]
fn a_grant_is_taken_once_and_never_before_welcome() {
    check(
        "
        1000 hello
        1001 grant a 1 sh 1
        1010 welcome
        1011 grant b 2 sh 1
        1012 grant b 2 sh 1
        1013 heartbeat
        ",
        &expect![[r#"
            1000 hello held=[] unstored=[]
            1011 prepare 2
            1013 heartbeat 2 held=[2:granted]
        "#]],
    );
}

#[test]
fn what_became_stale_while_it_waited_never_starts() {
    let rate = StartRate { count: 1, per: Duration::from_secs(8) };
    let starts = BTreeMap::from([("shell".to_owned(), rate)]);
    check_with(
        Options { starts, ..options() },
        "
        1000 hello
        1010 welcome
        1020 grant a 1 sh 1 shell:1
        1021 prepared 1
        1030 grant-stale-in-5s b 2 sh 1 shell:1
        1100 prepared 2
        1200 started 1
        1300 finished 1 a
        1301 reaped 1
        1400 grant c 3 sh 1 shell:1
        1401 prepared 3
        5999 tick
        6000 tick
        9021 tick
        ",
        &expect![[r#"
            1000 hello held=[] unstored=[]
            1020 prepare 1
            1021 > accepted 1
            1021 start 1 gone_by=20000
            1030 prepare 2
            1100 > accepted 2
            1200 > started 1
            1300 > spooled 1
            1301 > reaped 1
            1400 prepare 3
            1401 > accepted 3
            6000 abandon 2
            6000 > returned 2 stale 0/0
            9021 start 3 gone_by=20000
        "#]],
    );
}

#[test]
fn what_cannot_be_prepared_is_given_back() {
    check(
        "
        1000 hello
        1010 welcome
        1020 grant a 1 qa 1 browser:1
        1030 unprepared 1
        1031 prepared 1
        1040 grant b 2 qa 1 browser:1
        ",
        &expect![[r#"
            1000 hello held=[] unstored=[]
            1020 prepare 1
            1030 abandon 1
            1030 > returned 1 workdir 0/0
            1040 prepare 2
        "#]],
    );
}

#[test]
fn cut_off_nothing_starts_and_after_welcome_all_is_said() {
    check(
        "
        1000 hello
        1010 welcome
        1020 grant a 1 sh 1 shell:1
        1021 prepared 1
        1022 started 1
        1030 grant b 2 sh 1 shell:1
        1040 cut
        1050 prepared 2
        1060 finished 1 a
        1070 reaped 1
        1500 hello
        1510 tick
        1520 welcome 2:60
        1530 stored 1
        ",
        &expect![[r#"
            1000 hello held=[] unstored=[]
            1020 prepare 1
            1021 > accepted 1
            1021 start 1 gone_by=20000
            1022 > started 1
            1030 prepare 2
            1500 hello held=[2:accepted] unstored=[1]
            1520 start 2 gone_by=58500
            1520 > spooled 1
            1520 > reaped 1
            1530 forget 1
        "#]],
    );
}

#[test]
fn what_could_not_start_in_time_is_given_back() {
    check(
        "
        1000 hello
        1010 welcome
        1020 grant a 1 sh 1 shell:1
        1040 cut
        1050 prepared 1
        16999 tick
        17000 tick
        20000 hello
        20010 welcome
        20020 heartbeat
        ",
        &expect![[r#"
            1000 hello held=[] unstored=[]
            1020 prepare 1
            17000 abandon 1
            20000 hello held=[1:accepted] unstored=[]
            20010 > returned 1 cut_off 0/0
            20020 heartbeat 2 held=[]
        "#]],
    );
}

#[test]
fn a_job_stopped_for_want_of_a_server_is_a_return_once_its_tree_is_gone() {
    check(
        "
        1000 hello
        1010 welcome
        1020 grant a 1 qa 1 browser:1
        1021 prepared 1
        1022 started 1
        1040 cut
        19000 returned 1 a
        20000 hello
        20010 welcome
        20020 grant b 2 qa 1 browser:1
        20030 stored-return 1
        ",
        &expect![[r#"
            1000 hello held=[] unstored=[]
            1020 prepare 1
            1021 > accepted 1
            1021 start 1 gone_by=20000
            1022 > started 1
            20000 hello held=[] unstored=[1]
            20010 > spooled 1
            20020 prepare 2
            20030 forget 1
        "#]],
    );
}

#[test]
fn a_revoke_is_obeyed_once_and_an_order_to_hurry_again() {
    check(
        "
        1000 hello
        1010 welcome
        1020 grant a 1 qa 1 browser:1
        1021 revoke 1
        1030 grant b 2 qa 1 browser:1
        1031 prepared 2
        1032 revoke 2
        1033 started 2
        1034 revoke 2
        1035 revoke 9
        1040 heartbeat
        1050 finished 2 b
        1060 unkillable 2
        1070 heartbeat
        1080 reaped 2
        ",
        &expect![[r#"
            1000 hello held=[] unstored=[]
            1020 prepare 1
            1021 abandon 1
            1021 > returned 1 revoked 0/0
            1030 prepare 2
            1031 > accepted 2
            1031 start 2 gone_by=20000
            1032 stop 2 Cancelled at_once=false
            1033 > started 2
            1040 heartbeat 2 held=[2:stopping]
            1050 > spooled 2
            1070 heartbeat 3 held=[2:unkillable]
            1080 > reaped 2
        "#]],
    );
}

#[test]
fn a_drain_gives_back_what_waits_and_stops_the_rest_at_its_deadline_until_it_is_over() {
    check(
        "
        1000 hello
        1010 welcome
        1020 grant a 1 qa 1 browser:1
        1021 prepared 1
        1022 started 1
        1030 grant b 2 sh 1
        1040 drain 3000
        1050 grant c 3 sh 1
        4040 tick
        4050 returned 1 a
        4060 grant d 4 sh 1
        4070 undrain
        4080 grant e 5 sh 1
        ",
        &expect![[r#"
            1000 hello held=[] unstored=[]
            1020 prepare 1
            1021 > accepted 1
            1021 start 1 gone_by=20000
            1022 > started 1
            1030 prepare 2
            1040 abandon 2
            1040 > returned 2 draining 0/0
            1050 > returned 3 draining 0/0
            4040 stop 1 Drained at_once=false
            4050 > spooled 1
            4060 > returned 4 draining 0/0
            4080 prepare 5
        "#]],
    );
}

#[test]
fn a_drain_that_is_over_before_its_deadline_stops_nothing() {
    check(
        "
        1000 hello
        1010 welcome
        1020 grant a 1 qa 1 browser:1
        1021 prepared 1
        1022 started 1
        1040 drain 3000
        1050 undrain
        1060 undrain
        1070 grant b 2 sh 1
        4040 tick
        ",
        &expect![[r#"
            1000 hello held=[] unstored=[]
            1020 prepare 1
            1021 > accepted 1
            1021 start 1 gone_by=20000
            1022 > started 1
            1070 prepare 2
        "#]],
    );
}

#[test]
fn the_agents_own_end_outlives_a_welcome_and_the_end_of_the_servers_drain() {
    check(
        "
        1000 hello
        1010 welcome
        1011 grant a 1 qa 1 browser:1
        1012 prepared 1
        1013 started 1
        1020 leave 5000
        1021 drain 1000
        1030 cut
        1040 hello
        1050 welcome 1:20
        1060 drain 1000
        1070 undrain
        1080 grant b 2 sh 1
        2100 tick
        6019 tick
        6020 tick
        9000 grant c 3 sh 1
        ",
        &expect![[r#"
            1000 hello held=[] unstored=[]
            1011 prepare 1
            1012 > accepted 1
            1012 start 1 gone_by=20000
            1013 > started 1
            1040 hello held=[1:started] unstored=[]
            1050 extend 1 gone_by=20040
            1080 > returned 2 draining 0/0
            6020 stop 1 Drained at_once=false
            9000 > returned 3 draining 0/0
        "#]],
    );
}
