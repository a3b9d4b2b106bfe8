//! Cron entries: what becomes of each instant of a timetable, whatever fails or is changed meanwhile.

use std::collections::BTreeSet;

use expect_test::expect;
use tenure_scheduler::{Command, CronName, CronPlan, Event, INSTANT_LABEL, Mono, Now, State, Wall};

use crate::support::{Rng, Script, check};

#[test]
fn every_instant_fires_once() {
    check(
        "
        kind k
        cron e kind=k every=10s
        advance 25s
        reload                        # Nothing of it is fired again.
        advance 10s
        cron? e
        ",
        expect![[r#"
            10s: cron e fired e.1
            10s: deferred e.1 no_matching_node: no node runs this kind
            20s: cron e fired e.2
            26s: deferred e.1 no_matching_node: no node runs this kind
            30s: cron e fired e.3
            35s: e settled up to 30s, fired 3, missed 0
        "#]],
    );
}

#[test]
fn a_server_that_was_down_over_three_firings_skips_them() {
    check(
        "
        kind k
        cron e kind=k every=10m
        advance 10m
        wall +31m                     # As if it had been away.
        advance 1s
        cron? e
        advance 9m
        ",
        expect![[r#"
            600s: cron e fired e.1
            600s: deferred e.1 no_matching_node: no node runs this kind
            600s: cron e missed 2 LATE: nobody fired it in time
            600s: cron e fired e.2
            601s: e settled up to 2400s, fired 2, missed 2
            601s:   2 from 1200s to 1800s: LATE (nobody fired it in time)
            1140s: cron e fired e.3
        "#]],
    );
}

#[test]
fn a_server_that_was_down_over_three_firings_fires_once_for_all_of_them() {
    check(
        "
        kind k
        cron e kind=k every=10m missed=coalesce
        advance 10m
        wall +32m
        advance 1s
        cron? e
        wall +28m                     # The newest is in time: it stands for the two that are not.
        advance 1s
        cron? e
        ",
        expect![[r#"
            600s: cron e fired e.1
            600s: deferred e.1 no_matching_node: no node runs this kind
            600s: cron e missed 2 COALESCED: a later firing stands for it
            600s: cron e fired e.2
            601s: e settled up to 2400s, fired 2, missed 2
            601s:   2 from 1200s to 1800s: COALESCED (a later firing stands for it)
            601s: cron e missed 2 COALESCED: a later firing stands for it
            601s: cron e fired e.3
            602s: e settled up to 4200s, fired 3, missed 4
            602s:   4 from 1200s to 3600s: COALESCED (a later firing stands for it)
        "#]],
    );
}

#[test]
fn a_server_that_was_down_over_three_firings_catches_up_as_many_as_it_may() {
    check(
        "
        kind k
        cron e kind=k every=10m missed=2
        cron f kind=k every=10m missed=100
        advance 10m
        wall +32m
        advance 1s
        cron? e
        cron? f
        ",
        expect![[r#"
            600s: cron e fired e.1
            600s: cron f fired f.1
            600s: deferred e.1 no_matching_node: no node runs this kind
            600s: cron e missed 1 LATE: nobody fired it in time
            600s: cron e fired e.2
            600s: cron e fired e.3
            600s: cron f fired f.2
            600s: cron f fired f.3
            600s: cron f fired f.4
            601s: e settled up to 2400s, fired 3, missed 1
            601s:   1 from 1200s to 1200s: LATE (nobody fired it in time)
            601s: f settled up to 2400s, fired 4, missed 0
        "#]],
    );
}

#[test]
fn an_instant_is_late_until_the_next_one_but_for_a_minute_at_the_most() {
    check(
        "
        kind k
        cron slow kind=k every=1h
        cron fast kind=k every=10s
        cron rush kind=k every=1s
        wall +3609s                   # Nine seconds after the hour: within the hour's minute.
        advance 1us
        cron? slow
        cron? fast
        cron? rush
        ",
        expect![[r#"
            1µs: cron rush missed 3604 LATE: nobody fired it in time
            1µs: cron rush fired rush.1
            1µs: cron rush fired rush.2
            1µs: cron rush fired rush.3
            1µs: cron rush fired rush.4
            1µs: cron rush fired rush.5
            1µs: cron fast missed 359 LATE: nobody fired it in time
            1µs: cron fast fired fast.1
            1µs: cron slow fired slow.1
            1µs: deferred rush.1 no_matching_node: no node runs this kind
            1µs: slow settled up to 3600s, fired 1, missed 0
            1µs: fast settled up to 3600s, fired 1, missed 359
            1µs:   359 from 10s to 3590s: LATE (nobody fired it in time)
            1µs: rush settled up to 3609s, fired 5, missed 3604
            1µs:   3604 from 1s to 3604s: LATE (nobody fired it in time)
        "#]],
    );
}

#[test]
fn what_is_refused_is_missed_with_the_reason() {
    check(
        "
        kind k cap=1
        kind p
        cron full kind=k every=10s
        cron held kind=p every=10s
        pause kind p reject
        advance 35s
        cron? full
        cron? held
        resume kind p
        advance 10s
        cron? held
        ",
        expect![[r#"
            10s: cron full fired full.1
            10s: cron held missed 1 KIND_PAUSED: kind p is paused and takes no jobs
            10s: deferred full.1 no_matching_node: no node runs this kind
            20s: cron full missed 1 QUEUE_FULL: the queue of kind k is full: 1 of 1
            20s: cron held missed 1 KIND_PAUSED: kind p is paused and takes no jobs
            30s: deferred full.1 no_matching_node: no node runs this kind
            30s: cron full missed 1 QUEUE_FULL: the queue of kind k is full: 1 of 1
            30s: cron held missed 1 KIND_PAUSED: kind p is paused and takes no jobs
            35s: full settled up to 30s, fired 1, missed 2
            35s:   2 from 20s to 30s: QUEUE_FULL (the queue of kind k is full: 1 of 1)
            35s: held settled up to 30s, fired 0, missed 3
            35s:   3 from 10s to 30s: KIND_PAUSED (kind p is paused and takes no jobs)
            40s: cron full missed 1 QUEUE_FULL: the queue of kind k is full: 1 of 1
            40s: cron held fired held.1
            40s: deferred held.1 no_matching_node: no node runs this kind
            45s: held settled up to 40s, fired 1, missed 3
            45s:   3 from 10s to 30s: KIND_PAUSED (kind p is paused and takes no jobs)
        "#]],
    );
}

#[test]
fn a_paused_entry_fires_nothing_and_makes_up_for_nothing() {
    check(
        "
        kind k
        cron e kind=k every=10s missed=100
        advance 15s
        pause cron e
        pause cron e
        advance 30s
        cron? e
        reload
        advance 10s
        resume cron e
        resume cron e
        advance 10s
        cron? e
        pause cron ee
        ",
        expect![[r#"
            10s: cron e fired e.1
            10s: deferred e.1 no_matching_node: no node runs this kind
            15s: cron e paused by ops
            15s: e unchanged
            30s: deferred e.1 no_matching_node: no node runs this kind
            45s: e settled up to 10s, fired 1, missed 0, paused by ops since 15s
            46s: deferred e.1 no_matching_node: no node runs this kind
            55s: cron e resumed
            55s: e unchanged
            60s: cron e fired e.2
            65s: e settled up to 60s, fired 2, missed 0
            65s: refused ee CRON_NOT_FOUND: cron entry ee is not declared, near [e]
        "#]],
    );
}

#[test]
fn an_operator_may_run_it_whenever_he_likes_and_a_repeated_call_is_the_same() {
    check(
        "
        kind k cap=2
        cron e kind=k at=1h
        cron f kind=k at=1h
        pause cron e
        fire cron e a
        fire cron e a
        fire cron f a                 # The id of somebody else's job.
        fire cron e b
        fire cron e c                 # The queue is full.
        fire cron nobody d
        cancel a
        fire cron e a                 # It is final, and answers still.
        cron? e
        ",
        expect![[r#"
            cron e paused by ops
            cron e run by hand a
            a deduplicated -> a queued
            refused a JOB_ID_REUSED: job id a was used for another job
            cron e run by hand b
            refused c QUEUE_FULL: the queue of kind k is full: 2 of 2, retry after 30s
            refused d CRON_NOT_FOUND: cron entry nobody is not declared, near []
            ended a -> cancelled [cancelled by request]
            a deduplicated -> a cancelled
            e settled up to 0ns, fired 2, missed 0, paused by ops since 0ns
        "#]],
    );
}

#[test]
fn of_a_singleton_one_job_runs_at_once() {
    check(
        "
        slot s 5
        kind k needs=s:1
        cron e kind=k every=10s singleton
        cron e2 kind=k every=10s
        node n1
        advance 20s
        run e.1
        why e.2
        done e.1
        tick
        cron e kind=k every=10s       # The second job needs the slot.
        drop cron e
        done e.2
        drop cron e
        ",
        expect![[r#"
            10s: cron e fired e.1
            10s: cron e2 fired e2.1
            10s: granted e.1 -> n1 token=1.1
            10s: granted e2.1 -> n1 token=1.2
            15s: revoked 1.1 unanswered
            15s: revoked 1.2 unanswered
            20s: cron e fired e.2
            20s: cron e2 fired e2.2
            20s: deferred e.2 slot_busy: slot cron:e 1/1
            20s: granted e2.2 -> n1 token=1.3
            20s: e.2 waits: slot_busy slot cron:e 1/1 for 0ns, tried 1
            20s:   slot_busy slot cron:e 1/1: 1 times, 0ns
            20s: ended e.1 token=1.1 succeeded (exit) -> succeeded
            20s: lease 1.1 gone
            20s: granted e.2 -> n1 token=1.4
            20s: conflict: cron e is gone from the file, or is no singleton any more, and 1 live jobs of it need its slot
            20s: refused e FLEET_CONFLICT: the fleet file cannot be applied
            20s: conflict: cron e is gone from the file, or is no singleton any more, and 1 live jobs of it need its slot
            20s: refused cron FLEET_CONFLICT: the fleet file cannot be applied
            20s: ended e.2 token=1.4 succeeded (exit) -> succeeded
            20s: lease 1.4 gone
            20s: cron e removed
        "#]],
    );
}

#[test]
fn a_changed_timetable_counts_from_then_on_and_a_changed_job_does_not_disturb_it() {
    check(
        "
        show applied
        kind k
        cron e kind=k every=10m
        cron e kind=k every=10m payload=x priority=7
        advance 10m
        cron e kind=k every=10m payload=x priority=7 zone=Europe/Berlin
        advance 5m
        cron e kind=k at=12m,16m,30m
        advance 5m
        cron? e
        job e.2
        drop kind k
        drop cron e
        advance 1h
        ",
        expect![[r#"
            kind k declared
            cron e declared: +10m UTC
            cron e: payload, priority
            600s: cron e fired e.1
            600s: deferred e.1 no_matching_node: no node runs this kind
            600s: cron e: zone UTC -> Europe/Berlin
            900s: cron e: when +10m -> 12m,16m,30m, zone Europe/Berlin -> UTC, payload, priority
            960s: cron e fired e.2
            1200s: e settled up to 960s, fired 2, missed 0
            1200s: e.2 queued round=1 attempt=1
            1200s: conflict: cron e enqueues kind k, which is not declared
            1200s: conflict: kind k is gone from the file and has 2 live jobs
            1200s: refused kind FLEET_CONFLICT: the fleet file cannot be applied
            1200s: cron e removed
            1200s: cron e removed
        "#]],
    );
}

#[test]
fn jitter_puts_off_by_the_same_length_on_every_server() {
    check(
        "
        kind k
        cron e kind=k every=10m jitter=5m
        advance 10m
        reload
        advance 20m
        cron? e
        ",
        expect![[r#"
            758.208239s: cron e fired e.1
            758.208239s: deferred e.1 no_matching_node: no node runs this kind
            1211.771404s: cron e fired e.2
            1800s: e settled up to 1200s, fired 2, missed 0
        "#]],
    );
}

#[test]
fn a_wall_clock_that_is_set_back_fires_nothing_again() {
    check(
        "
        kind k
        cron e kind=k every=10m
        advance 20m
        wall -15m
        advance 14m
        cron? e
        advance 2m
        ",
        expect![[r#"
            600s: cron e fired e.1
            600s: deferred e.1 no_matching_node: no node runs this kind
            1200s: cron e fired e.2
            2040s: e settled up to 1200s, fired 2, missed 0
        "#]],
    );
}

#[test]
fn a_firing_whose_commit_is_lost_comes_again() {
    check(
        "
        kind k
        cron e kind=k every=10m
        advance 599s
        begin
        wall +1s
        tick
        lose
        advance 1ms
        cron? e
        ",
        expect![[r#"
            599s: cron e fired e.1
            599s: deferred e.1 no_matching_node: no node runs this kind
            599.001s: cron e fired e.2
            599.001s: deferred e.2 no_matching_node: no node runs this kind
            599.001s: e settled up to 600s, fired 1, missed 0
        "#]],
    );
}

#[test]
fn a_timetable_may_end() {
    check(
        "
        kind k
        cron e kind=k at=10s,20s
        advance 1h
        cron? e
        ",
        expect![[r#"
            10s: cron e fired e.1
            10s: deferred e.1 no_matching_node: no node runs this kind
            20s: cron e fired e.2
            30s: deferred e.1 no_matching_node: no node runs this kind
            3600s: e settled up to 20s, fired 2, missed 0
        "#]],
    );
}

#[test]
fn a_job_knows_its_instant_and_what_the_entry_says_of_it() {
    let mut script = Script::new();
    script.lines(
        "
        slot s 5
        kind k
        cron e kind=k at=90s payload=hello tenant=t priority=7 needs=s:2 labels=a:b stale_after=1h hard=5m
        advance 90s
        ",
    );
    let rows = script.world.state.durable();
    let job = rows.jobs.values().next().expect("it was fired");
    assert_eq!((job.producer.as_str(), job.tenant.as_str(), job.priority), ("cron:e", "t", 7));
    assert_eq!(job.producer.cron_entry(), Some("e"));
    assert_eq!(job.labels[INSTANT_LABEL], "2026-09-30T12:01:30Z");
    assert_eq!((job.labels["a"].as_str(), job.payload_size), ("b", 5));
    assert_eq!(job.needs.as_ref().map(ToString::to_string).as_deref(), Some("s:2"));
    assert_eq!(job.id.0.get_version_num(), 7);
}

#[test]
fn a_plan_for_what_is_not_in_force_any_more_changes_nothing() {
    let mut script = Script::new();
    script.lines("kind k\ncron e kind=k every=10s");
    let state: &mut State = &mut script.world.state;
    let now = Now { mono: Mono(0), wall: state.cron(&CronName::new("e")).unwrap().last_instant };
    let entry = state.cron(&CronName::new("e")).unwrap().clone();
    let good = CronPlan {
        entry: entry.name.clone(),
        when: entry.policy.when.clone(),
        zone: entry.policy.zone.clone(),
        after: entry.last_instant,
        instants: vec![now.wall.after(std::time::Duration::from_secs(1))],
        ends: true,
    };
    for wrong in [
        CronPlan { entry: CronName::new("other"), ..good.clone() },
        CronPlan { when: "+11s".into(), ..good.clone() },
        CronPlan { zone: "Asia/Kathmandu".into(), ..good.clone() },
        CronPlan { after: Wall(good.after.0 - 1), ..good.clone() },
    ] {
        let applied = state.apply(now, Command::PlanCron(Box::new(wrong))).unwrap();
        assert_eq!(applied.events, []);
    }
    assert_eq!(state.unplanned_crons(9).count(), 1);
    let applied = state.apply(now, Command::PlanCron(Box::new(good))).unwrap();
    assert!(matches!(applied.events[..], [Event::CronPlanned(_)]), "{applied:?}");
    assert_eq!(state.unplanned_crons(9).count(), 0);
}

/// Whatever the leader does, goes through or is told: each instant becomes a job, or is missed, exactly once.
#[test]
fn no_instant_is_forgotten_or_fired_twice_at_random() {
    for seed in 1..=8 {
        let mut rng = Rng::new(seed);
        let mut script = Script::new();
        script.world.paranoid = false;
        script.lines("kind k\nkind small cap=3");
        let policies = ["skip", "coalesce", "3", "100"];
        for n in 0..4 {
            let every = rng.pick(&[7, 60, 600]).unwrap();
            let kind = rng.pick(&["k", "small"]).unwrap();
            let missed = rng.pick(&policies).unwrap().replace("skip", "");
            let missed = if missed.is_empty() { missed } else { format!("missed={missed}") };
            let jitter = rng.pick(&[0, 3, 120]).unwrap();
            script.lines(&format!("cron e{n} kind={kind} every={every}s jitter={jitter}s {missed}"));
        }
        for _ in 0..20 {
            match rng.below(6) {
                0 => script.lines("reload"),
                1 => script.lines(&format!("wall +{}s", 1 + rng.below(300))),
                2 => script.lines("begin\ntick\nlose"),
                _ => script.lines(&format!("advance {}s", 1 + rng.below(90))),
            }
        }
        script.lines("advance 1s");
        let mut fired = BTreeSet::new();
        for job in script.world.store.jobs.values() {
            let instant = job.labels[INSTANT_LABEL].clone();
            assert!(fired.insert((job.producer.clone(), instant)), "seed {seed}: fired twice: {job:?}");
        }
        for entry in script.world.state.crons() {
            let every: u64 = entry.policy.when.trim_start_matches('+').trim_end_matches('s').parse().unwrap();
            let settled = u64::try_from(entry.last_instant.0 - crate::support::world::BEGIN).unwrap();
            assert_eq!(settled % (every * 1_000_000), 0, "seed {seed}: {entry:?}");
            let instants = settled / 1_000_000 / every;
            assert_eq!(entry.fired + entry.missed, instants, "seed {seed}: {entry:?}");
            let jobs =
                fired.iter().filter(|(producer, _)| producer.cron_entry() == Some(entry.name.as_str()));
            assert_eq!(jobs.count() as u64, entry.fired, "seed {seed}: {entry:?}");
        }
    }
}
