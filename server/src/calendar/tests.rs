//! Timetables against a clock that is watched second by second, and what is said of those that are none.

use std::collections::BTreeSet;

use jiff::{Timestamp, Zoned, civil};
use tenure_scheduler::{CronEntry, CronJob, CronName, CronPolicy, KindName, MissedPolicy, Selector, Tenant};

use super::*;

fn wall(text: &str) -> Wall {
    Wall(text.parse::<Timestamp>().unwrap().as_microsecond())
}

fn some(when: &str, zone: &str, after: &str, most: usize) -> Vec<String> {
    let table = Timetable::new(when, zone).unwrap();
    let found = table.after(wall(after)).take(most);
    found.map(|at| table.local(at)).collect()
}

#[test]
fn a_local_time_that_is_skipped_fires_right_after_and_one_that_comes_twice_fires_once() {
    assert_eq!(
        some("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", 3),
        ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
    );
    assert_eq!(
        some("30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00Z", 3),
        ["2026-10-24T02:30:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]
    );
    // Also if somebody asks from between the two.
    assert_eq!(some("30 2 * * *", "Europe/Berlin", "2026-10-25T00:45:00Z", 1), ["2026-10-26T02:30:00+01:00"]);
    // Several that are skipped are one, and so is one with what is due there anyhow.
    assert_eq!(
        some("0,15,30 2,3 * * *", "Europe/Berlin", "2026-03-29T00:59:59Z", 4),
        [
            "2026-03-29T03:00:00+02:00",
            "2026-03-29T03:15:00+02:00",
            "2026-03-29T03:30:00+02:00",
            "2026-03-30T02:00:00+02:00"
        ]
    );
    // Half an hour, on an island.
    assert_eq!(
        some("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 2),
        ["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"]
    );
}

#[test]
fn intervals_go_on_by_elapsed_time() {
    assert_eq!(
        some("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:15:00Z", 3),
        ["2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"]
    );
    assert_eq!(
        some("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:15:00Z", 4),
        [
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T02:00:00+01:00",
            "2026-10-25T02:30:00+01:00",
            "2026-10-25T03:00:00+01:00"
        ]
    );
}

#[test]
fn leap_days_last_days_and_weekdays_are_found() {
    assert_eq!(
        some("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", 2),
        ["2028-02-29T00:00:00+00:00", "2032-02-29T00:00:00+00:00"]
    );
    assert_eq!(some("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", 1), ["2104-02-29T00:00:00+00:00"]);
    assert_eq!(some("0 12 L * *", "UTC", "2026-02-01T00:00:00Z", 1), ["2026-02-28T12:00:00+00:00"]);
    assert_eq!(some("0 12 * * FRI#2", "UTC", "2026-11-01T00:00:00Z", 1), ["2026-11-13T12:00:00+00:00"]);
    assert_eq!(some("@daily", "Asia/Kathmandu", "2026-11-01T00:00:00Z", 1), ["2026-11-02T00:00:00+05:45"]);
    assert_eq!(some("0 0 30 2 *", "UTC", "2026-01-01T00:00:00Z", 1), [""; 0]);
}

#[test]
fn what_is_none_is_told_with_what_is_near() {
    let of = |when, zone| Timetable::new(when, zone).unwrap_err();
    assert_eq!(of("0 8 * * *", "Europe/Berlinn"), Invalid::Zone(vec!["Europe/Berlin".into()]));
    assert_eq!(of("0 8 * * *", "berlin"), Invalid::Zone(vec!["Europe/Berlin".into()]));
    assert_eq!(of("0 8 * * *", "no such place"), Invalid::Zone(Vec::new()));
    for when in ["", "x", "* * * *", "60 * * * *", "* * * * * * *", "0 25 * * *", "0 0 * * * *  2027"] {
        assert!(matches!(of(when, "UTC"), Invalid::When(_)), "{when}");
    }
}

/// Whether a clock on the wall shows a time that a timetable names. Fields: numbers with commas, `*` and `*/n`.
fn shows(when: &str, at: &civil::DateTime) -> bool {
    let fields: Vec<&str> = when.split(' ').collect();
    let weekday = i64::from(at.weekday().to_sunday_zero_offset());
    let values = [
        (i64::from(at.second()), 0),
        (i64::from(at.minute()), 0),
        (i64::from(at.hour()), 0),
        (i64::from(at.day()), 1),
        (i64::from(at.month()), 1),
        (weekday, 0),
    ];
    let matches = |field: &str, (value, first): (i64, i64)| {
        field.split(',').any(|part| match part.strip_prefix("*/") {
            Some(step) => (value - first) % step.parse::<i64>().unwrap() == 0,
            None => part == "*" || part.parse::<i64>().unwrap() == value,
        })
    };
    let all: Vec<bool> = fields.iter().zip(values).map(|(field, value)| matches(field, value)).collect();
    let [second, minute, hour, day, month, weekday] = all[..] else { panic!("six fields: {when}") };
    // As everywhere: where both days are restricted, one of them is enough.
    let either = fields[3] != "*" && fields[5] != "*";
    let days = if either { day || weekday } else { day && weekday };
    second && minute && hour && days && month
}

/// The instants from `from` on and before `to`, in seconds: every one is looked at, and its clock compared with the one
/// before.
fn watched(when: &str, zone: &TimeZone, from: i64, to: i64) -> Vec<i64> {
    let fixed = when.split(' ').take(3).all(|field| !field.contains('*'));
    let local = |at: i64| Timestamp::from_second(at).unwrap().to_zoned(zone.clone());
    let mut found = BTreeSet::new();
    let mut shown = local(from - 1);
    for at in from..to {
        let now: Zoned = local(at);
        let step = now.datetime().duration_since(shown.datetime()).as_secs();
        if fixed && step > 1 {
            let gap = (1..step).map(|n| shown.datetime() + jiff::SignedDuration::from_secs(n));
            if gap.into_iter().any(|skipped| shows(when, &skipped)) {
                found.insert(at);
            }
        }
        if shows(when, &now.datetime()) {
            let first = zone.to_ambiguous_timestamp(now.datetime()).earlier().unwrap().as_second();
            if !fixed || first == at {
                found.insert(at);
            }
        }
        shown = now;
    }
    found.into_iter().collect()
}

#[test]
fn every_timetable_is_what_a_watched_clock_says() {
    const ZONES_TRIED: [&str; 6] = [
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "UTC",
        "Africa/Casablanca",
    ];
    let seed = std::env::var("TENURE_SEED").map_or(20_260_329, |seed| seed.parse::<u64>().unwrap());
    println!("TENURE_SEED={seed}");
    let mut state = seed;
    let mut below = move |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut changes = 0;
    for round in 0..80 {
        let zone = ZONES_TRIED[usize::try_from(below(6)).unwrap()];
        let mut field = |most: u64, stars: u64, least: u64| match below(10) {
            n if n < stars => "*".to_owned(),
            n if n < stars + 2 => format!("*/{}", 2 + below(most / 2)),
            n if n < stars + 4 => format!("{},{}", least + below(most), least + below(most)),
            _ => (least + below(most)).to_string(),
        };
        let second = if round % 3 == 0 { field(60, 0, 0) } else { "0".to_owned() };
        let (minute, hour) = (field(60, 2, 0), if round % 2 == 0 { field(4, 1, 0) } else { field(24, 5, 0) });
        let (day, month) = (field(28, 8, 1), field(12, 9, 1));
        let weekday = field(7, 8, 0);
        let when = format!("{second} {minute} {hour} {day} {month} {weekday}");
        let table = Timetable::new(&when, zone).unwrap();
        // Around a change of the clock, or anywhere if there is none.
        let year = 1990 + below(60);
        let begin = wall(&format!("{year}-{:02}-{:02}T00:00:00Z", 1 + below(12), 1 + below(28)));
        let begin = Timestamp::from_microsecond(begin.0).unwrap();
        let change = table.zone.following(begin).next();
        changes += usize::from(change.is_some());
        let middle = change.map_or(begin, |change| change.timestamp()).as_second();
        let length = i64::try_from(below(20_000)).unwrap();
        let (from, to) = (middle - length, middle + 9_000);
        let found: Vec<i64> = table
            .after(Wall((from - 1) * 1_000_000))
            .map(|at| at.0 / 1_000_000)
            .take_while(|at| *at < to)
            .collect();
        assert_eq!(
            found,
            watched(&when, &table.zone, from, to),
            "{when} {zone} from {from}, TENURE_SEED={seed}"
        );
        // It does not matter where a walk begins.
        let half = from + length / 2;
        let later = table.after(Wall(half * 1_000_000 + 999_999)).next().map(|at| at.0 / 1_000_000);
        let expected = found.iter().copied().find(|at| *at > half);
        assert!(expected.is_none() || later == expected, "{when} {zone} after {half}, TENURE_SEED={seed}");
    }
    assert!(changes > 35, "changes of the clock are what it is about: {changes}");
}

fn entry(when: &str, last: &str) -> CronEntry {
    let job = CronJob {
        payload: "".into(),
        content_type: "".into(),
        tenant: Tenant::new("default"),
        priority: None,
        labels: Default::default(),
        needs: None,
        selector: Selector::default(),
        stale_after: None,
        hard_time_limit: None,
        concurrency_key: None,
    };
    let policy = CronPolicy {
        kind: KindName::new("k"),
        when: when.into(),
        zone: "UTC".into(),
        missed: MissedPolicy::Skip,
        jitter: std::time::Duration::ZERO,
        singleton: false,
        job,
    };
    CronEntry::new(CronName::new("e"), policy, wall(last))
}

#[test]
fn a_plan_has_what_is_over_and_some_more_and_never_very_much() {
    let now = wall("2026-09-30T12:00:30Z");
    let fresh = plan(&entry("* * * * *", "2026-09-30T12:00:00Z"), now);
    assert_eq!((fresh.instants.len(), fresh.ends), (AHEAD, false));
    assert_eq!(fresh.instants[0], wall("2026-09-30T12:01:00Z"));
    let away = plan(&entry("*/10 * * * *", "2026-09-30T11:20:00Z"), now);
    assert_eq!(away.instants.len(), 4 + AHEAD);
    for when in ["* * * * * *", "* * * * *", "0 * * * *", "0 0 * * *", "0 0 29 2 *"] {
        let years = plan(&entry(when, "1990-01-01T00:00:00Z"), now);
        let over = years.instants.iter().filter(|at| **at <= now).count();
        let all = when == "0 0 29 2 *";
        assert!(if all { over == 9 } else { (ENOUGH..5_000).contains(&over) }, "{when}: {over}");
        assert!(years.instants.is_sorted() && years.instants.len() == over + AHEAD, "{when}");
    }
    assert!(plan(&entry("0 0 31 2 *", "2026-09-30T11:20:00Z"), now).ends);
}
