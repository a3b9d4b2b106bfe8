use std::{fmt::Write as _, time::Duration};

use expect_test::{Expect, expect};
use tenure_scheduler::{CronName, Fleet, MissedPolicy};

use crate::config::{Retention, parse_fleet};

fn of(entry: &str) -> Result<Fleet, String> {
    let text = format!(
        "[slots]\ngpu = 2\n[kinds.k]\n[kinds.report]\nconcurrency = {{ key = \"site\", limit = 2 }}\n[cron.e]\n{entry}"
    );
    parse_fleet(&text, &Retention::default()).map_err(|problems| {
        problems.iter().fold(String::new(), |mut text, problem| {
            writeln!(text, "{problem}").expect("a text");
            text
        })
    })
}

fn refused(entry: &str, want: Expect) {
    want.assert_eq(&of(entry).expect_err(entry));
}

#[test]
fn an_entry_says_little_or_much() {
    let fleet = of("kind = \"k\"\nwhen = \"0 8 * * *\"").unwrap();
    let entry = &fleet.crons[&CronName::new("e")];
    assert_eq!((&*entry.zone, entry.missed, entry.jitter), ("UTC", MissedPolicy::Skip, Duration::ZERO));
    assert_eq!((entry.job.tenant.as_str(), &*entry.job.payload, entry.singleton), ("default", "", false));
    assert_eq!(entry.job.needs, None);
    let fleet = of(r#"
        kind = "report"
        when = "  0  8 * *   1-5 "
        zone = "Europe/Berlin"
        missed = { catch_up = 3 }
        jitter = "5m"
        singleton = true
        payload = '{"mode": "full"}'
        content_type = "application/json"
        tenant = "site"
        priority = -3
        labels = { team = "ops" }
        needs = { gpu = 1 }
        selector = { os = "linux" }
        stale_after = "4h"
        hard_time_limit = "10m"
        concurrency_key = "site"
        "#)
    .unwrap();
    let entry = &fleet.crons[&CronName::new("e")];
    assert_eq!((&*entry.when, &*entry.zone), ("0 8 * * 1-5", "Europe/Berlin"));
    assert_eq!((entry.missed, entry.singleton), (MissedPolicy::CatchUp(3), true));
    assert_eq!((&*entry.job.payload, entry.job.priority), (r#"{"mode": "full"}"#, Some(-3)));
    assert_eq!(
        (entry.job.labels["team"].as_str(), entry.job.selector.to_string()),
        ("ops", "os=linux".into())
    );
    assert!(fleet.all_slots().keys().any(|slot| slot.as_str() == "cron:e"));
}

#[test]
fn what_is_wrong_is_told_by_line_and_key() {
    refused(
        r#"
kind = "reprot"
when = "0 25 * * *"
missed = "catch_up"
jitter = "25h"
singleton = "yes"
payload = 5
tenant = "Site"
priority = 101
needs = { gpuu = 1 }
zone_ = "UTC"
labels = { "cron.instant" = "now" }
concurrency_key = ""
"#,
        expect![[r#"
            line 8: cron.e.kind: names a kind that is not declared; did you mean "report"?
            line 9: cron.e.when: is no timetable: its hour, "25": Number out of bounds
            line 10: cron.e.missed: needs a number: write { catch_up = 3 }
            line 11: cron.e.jitter: must be at most 1day
            line 12: cron.e.singleton: must be true or false, not a string
            line 13: cron.e.payload: must be a text, not an integer
            line 14: cron.e.tenant: is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen
            line 15: cron.e.priority: must be -100 to 100
            line 16: cron.e.needs.gpuu: names a slot that is not declared; did you mean "gpu"?
            line 17: cron.e.zone_: is unknown; did you mean "zone"?
            line 18: cron.e.labels."cron.instant": is the label that tells a job its instant
            line 19: cron.e.concurrency_key: must be 1 to 256 bytes without NUL
        "#]],
    );
    refused(
        "kind = \"k\"\nwhen = \"* * * *\"\nzone = \"UTC\"",
        expect![[r#"
        line 8: cron.e.when: is no timetable: it has 4 fields, and 5 or 6 are needed
    "#]],
    );
    refused(
        "kind = \"k\"\nwhen = \"0 8 * * *\"\nzone = \"Europe/Berln\"",
        expect![[r#"
        line 9: cron.e.zone: is no time zone; did you mean Europe/Berlin?
    "#]],
    );
    refused(
        "kind = \"k\"\nwhen = \"0 0 31 2 *\"",
        expect![[r#"
        line 8: cron.e.when: names no instant within 40 years
    "#]],
    );
    refused(
        "kind = \"k\"\nwhen = \"*/10 * * * *\"\njitter = \"10m\"",
        expect![[r#"
        line 9: cron.e.jitter: must be shorter than the time between two firings, which is 10m
    "#]],
    );
    refused(
        "kind = \"k\"\nwhen = \"0 8 * * *\"\nconcurrency_key = \"a\"\nhard_time_limit = \"2h\"",
        expect![[r#"
            line 9: cron.e.concurrency_key: limits nothing: its kind has no concurrency
            line 10: cron.e.hard_time_limit: may only shorten that of its kind, which is 1h
        "#]],
    );
    refused(
        "kind = \"k\"\nwhen = \"0 8 * * *\"\nmissed = { catch_up = 101 }",
        expect![[r#"
        line 9: cron.e.missed.catch_up: must be 1 to 100
    "#]],
    );
}
