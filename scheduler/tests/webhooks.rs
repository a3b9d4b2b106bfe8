//! Webhooks: who is told of an end, in which commit, and what becomes of tries.

use std::time::Duration;

use expect_test::expect;
use tenure_scheduler::{
    About, Command, DeliveryFailure, DeliveryId, Ending, Enqueue, Event, JobId, MOST_FAILED, MOST_WAITING,
    Now, TRIED_FOR, Tried, WebhookName,
};
use uuid::Uuid;

use crate::support::{Line, Script, check, commands};

#[test]
fn every_end_of_a_job_is_told_to_whoever_wants_it() {
    check(
        "
        kind k retry=1s max_failures=1
        kind other
        webhook all
        webhook bad kinds=k events=dead
        webhook none kinds=other events=expired
        node n1 kinds=k
        hello n1
        enqueue a kind=k
        tick
        done a
        enqueue b kind=k
        tick
        run b
        finish b permanent
        reaped b
        enqueue c kind=other
        cancel c
        enqueue d kind=other stale_after=1s
        advance 2s
        due
        ",
        expect![[r#"
            session 1 of n1 is closed: SUPERSEDED_SESSION
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            delivery 1.1 to all of job.succeeded
            lease 1.1 gone
            granted b -> n1 token=1.2
            ended b token=1.2 failed_permanent (exit) -> dead [exit]
            delivery 1.2 to all of job.dead
            delivery 1.3 to bad of job.dead
            lease 1.2 gone
            ended c -> cancelled [cancelled by request]
            delivery 1.4 to all of job.cancelled
            1s: ended d -> expired [not started within its stale_after]
            1s: delivery 1.5 to all of job.expired
            1s: delivery 1.6 to none of job.expired
            2s: due: 1.1 to all at https://receiver.test/hook, 1.2 to all at https://receiver.test/hook, 1.4 to all at https://receiver.test/hook, 1.5 to all at https://receiver.test/hook, 1.3 to bad at https://receiver.test/hook, 1.6 to none at https://receiver.test/hook
        "#]],
    );
}

#[test]
fn it_is_told_in_the_commit_that_makes_it_final_and_survives_the_leader() {
    let mut script = Script::new();
    script.lines(
        "
        kind k
        webhook w
        begin
        enqueue a kind=k
        cancel a
        lose                          # Nothing of it was committed, and nothing is told.
        due
        enqueue a kind=k
        cancel a
        reload
        due
        tried 2.1 failed
        reload
        due
        advance 2s
        due
        tried 2.1
        due
        ",
    );
    expect![[r#"
        ended a -> cancelled [cancelled by request]
        delivery 1.1 to w of job.cancelled
        nothing is due
        ended a -> cancelled [cancelled by request]
        delivery 2.1 to w of job.cancelled
        due: 2.1 to w at https://receiver.test/hook
        delivery 2.1 waits tries=1
        nothing is due for 921.115ms
        2s: due: 2.1 to w at https://receiver.test/hook
        2s: delivery 2.1 arrived
        2s: nothing is due
    "#]]
    .assert_eq(&script.trace);
}

#[test]
fn a_requeued_job_is_told_again_when_it_ends_again() {
    check(
        "
        kind k
        webhook w
        enqueue a kind=k
        cancel a
        tried 1.1
        requeue a
        cancel a
        due
        ",
        expect![[r#"
            ended a -> cancelled [cancelled by request]
            delivery 1.1 to w of job.cancelled
            delivery 1.1 arrived
            requeued a round=2
            ended a -> cancelled [cancelled by request]
            delivery 1.2 to w of job.cancelled
            due: 1.2 to w at https://receiver.test/hook
        "#]],
    );
}

#[test]
fn the_end_of_a_workflow_is_told_to_whoever_wants_that() {
    check(
        "
        kind k
        webhook jobs events=cancelled
        webhook both events=cancelled workflows
        workflow w chain(a,b) kind=k
        cancel-workflow w
        due
        ",
        expect![[r#"
            cancel requested workflow w
            ended a -> cancelled [its workflow was cancelled]
            ended b -> cancelled [its workflow was cancelled]
            workflow w -> cancelled: cancelled by request
            delivery 1.1 to both of job.cancelled
            delivery 1.2 to jobs of job.cancelled
            delivery 1.3 to both of job.cancelled
            delivery 1.4 to jobs of job.cancelled
            delivery 1.5 to both of workflow.cancelled
            due: 1.1 to both at https://receiver.test/hook, 1.3 to both at https://receiver.test/hook, 1.5 to both at https://receiver.test/hook, 1.2 to jobs at https://receiver.test/hook, 1.4 to jobs at https://receiver.test/hook
        "#]],
    );
}

#[test]
fn no_webhook_gets_more_at_once_than_it_may_and_none_waits_for_another() {
    check(
        "
        kind k
        webhook slow
        webhook quick
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        cancel a
        cancel b
        cancel c
        due most=2
        due most=2 busy=1.2,1.4
        tried 1.1 1.3
        due most=2 busy=1.2,1.4
        ",
        expect![[r#"
            ended a -> cancelled [cancelled by request]
            delivery 1.1 to quick of job.cancelled
            delivery 1.2 to slow of job.cancelled
            ended b -> cancelled [cancelled by request]
            delivery 1.3 to quick of job.cancelled
            delivery 1.4 to slow of job.cancelled
            ended c -> cancelled [cancelled by request]
            delivery 1.5 to quick of job.cancelled
            delivery 1.6 to slow of job.cancelled
            due: 1.1 to quick at https://receiver.test/hook, 1.3 to quick at https://receiver.test/hook, 1.2 to slow at https://receiver.test/hook, 1.4 to slow at https://receiver.test/hook
            due: 1.1 to quick at https://receiver.test/hook, 1.3 to quick at https://receiver.test/hook
            delivery 1.1 arrived
            delivery 1.3 arrived
            due: 1.5 to quick at https://receiver.test/hook
        "#]],
    );
}

#[test]
fn nothing_is_sent_to_a_receiver_that_is_gone_until_somebody_says_that_it_is_back() {
    check(
        "
        kind k
        webhook w
        enqueue a kind=k
        cancel a
        tried 1.1 gone
        enqueue b kind=k
        cancel b
        advance 1h
        due
        webhooks
        reload
        webhooks
        back w
        back w
        due
        tried 1.1 1.2 gone
        webhook w url=https://elsewhere.test/
        advance 1h
        due
        ",
        expect![[r#"
            ended a -> cancelled [cancelled by request]
            delivery 1.1 to w of job.cancelled
            delivery 1.1 waits tries=1
            webhook w gone
            ended b -> cancelled [cancelled by request]
            delivery 1.2 to w of job.cancelled
            3600s: nothing is due
            3600s: w waiting=2 failed=0 oldest=3600s gone
            3600s: w waiting=2 failed=0 oldest=3600s gone
            3600s: webhook w resumed
            3600s: w unchanged
            3600s: due: 1.2 to w at https://receiver.test/hook, 1.1 to w at https://receiver.test/hook
            3600s: delivery 1.1 waits tries=2
            3600s: webhook w gone
            3600s: delivery 1.2 waits tries=1
            7200s: due: 1.2 to w at https://elsewhere.test/, 1.1 to w at https://elsewhere.test/
        "#]],
    );
}

#[test]
fn what_waits_for_a_receiver_that_is_gone_is_given_up_and_in_the_end_forgotten() {
    check(
        "
        kind k
        webhook w
        enqueue a kind=k
        cancel a
        tried 1.1 gone
        wall +73h
        tried
        webhooks
        redeliver 1.1
        redeliver 1.1
        webhooks
        wall +73h
        tried
        wall +169h
        tried
        webhooks
        redeliver 1.1
        ",
        expect![[r#"
            ended a -> cancelled [cancelled by request]
            delivery 1.1 to w of job.cancelled
            delivery 1.1 waits tries=1
            webhook w gone
            delivery 1.1 failed tries=1
            w waiting=0 failed=1 gone
            delivery 1.1 waits tries=0
            1.1 unchanged
            w waiting=1 failed=0 oldest=0ns gone
            delivery 1.1 failed tries=0
            delivery 1.1 forgotten
            w waiting=0 failed=0 gone
            refused 1.1 DELIVERY_NOT_FOUND: delivery 1.1 is not known; one that arrived is not kept
        "#]],
    );
}

#[test]
fn a_webhook_that_is_declared_no_more_takes_along_what_waits_for_it() {
    check(
        "
        kind k
        webhook w
        enqueue a kind=k
        cancel a
        begin
        enqueue b kind=k
        cancel b
        drop webhook w
        webhook w
        commit
        webhooks
        tried 1.1 1.2 failed
        enqueue c kind=k
        cancel c
        webhooks
        reload
        webhooks
        ",
        expect![[r#"
            ended a -> cancelled [cancelled by request]
            delivery 1.1 to w of job.cancelled
            ended b -> cancelled [cancelled by request]
            delivery 1.2 to w of job.cancelled
            w waiting=0 failed=0
            ended c -> cancelled [cancelled by request]
            delivery 1.3 to w of job.cancelled
            w waiting=1 failed=0 oldest=0ns
            w waiting=1 failed=0 oldest=0ns
        "#]],
    );
}

#[test]
fn a_webhook_names_kinds_that_are_declared_and_operators_name_webhooks_that_are() {
    check(
        "
        kind k
        webhook w kinds=k,unknown
        webhook w kinds=k
        drop kind k
        test v
        test w
        back v
        redeliver 7.7
        ",
        expect![[r#"
            conflict: webhook w wants to hear of kind unknown, which is not declared
            refused w FLEET_CONFLICT: the fleet file cannot be applied
            conflict: webhook w wants to hear of kind k, which is not declared
            refused kind FLEET_CONFLICT: the fleet file cannot be applied
            refused v WEBHOOK_NOT_FOUND: webhook v is not declared, near [w]
            delivery 1.1 to w of webhook.test
            refused v WEBHOOK_NOT_FOUND: webhook v is not declared, near [w]
            refused 7.7 DELIVERY_NOT_FOUND: delivery 7.7 is not known; one that arrived is not kept
        "#]],
    );
}

#[test]
fn whoever_may_not_change_webhooks_may_apply_a_file_that_leaves_them_as_they_are() {
    check(
        "
        kind k
        webhook w
        webhook stay
        kind other
        webhook w events=dead
        webhook v
        drop webhook w
        webhooks
        ",
        expect![[r#"
            refused w NOT_ALLOWED: the fleet file changes webhooks (webhook w: events), which only an admin may
            refused v NOT_ALLOWED: the fleet file changes webhooks (webhook v declared), which only an admin may
            refused webhook NOT_ALLOWED: the fleet file changes webhooks (webhook w removed), which only an admin may
            w waiting=0 failed=0
        "#]],
    );
}

#[test]
fn what_waits_for_one_receiver_is_bounded() {
    let mut script = Script::new();
    script.lines("kind k\nwebhook w");
    let (mut state, now) = (script.world.state.clone(), script.world.now());
    let test = || Command::TestWebhook { webhook: WebhookName::new("w") };
    for _ in 0..MOST_WAITING {
        state.apply(now, test()).unwrap();
    }
    let Err(refusal) = state.apply(now, test()) else { panic!("one more") };
    assert_eq!(refusal.reason(), "OUTBOX_FULL");
    // Something that ends is not kept from ending; it is not told, and that is counted.
    let job = JobId(Uuid::from_u128(7));
    state.apply(now, Command::Enqueue(Box::new(job_of(job)))).unwrap();
    let ended =
        state.apply(now, Command::Cancel { job, reason: Some("enough".into()), prior: None }).unwrap();
    let dropped =
        Event::DeliveryDropped { webhook: WebhookName::new("w"), about: About::Job(job, Ending::Cancelled) };
    assert!(ended.events.contains(&dropped), "{:?}", ended.events);
    let view = state.webhooks().next().unwrap();
    assert_eq!((view.waiting, view.dropped), (MOST_WAITING as u64, 1));
    // People hear of it, for a day: there is nothing else that would end it.
    let not_told = |at| {
        let attention = state.snapshot(at).attention;
        attention.iter().any(|line| line.contains("webhook w was not told of 1 ends"))
    };
    let next_day = Now { wall: now.wall.after(Duration::from_secs(25 * 3600)), ..now };
    assert!(not_told(now) && !not_told(next_day));
    // Room for one more.
    let tried = vec![Tried { delivery: DeliveryId::mint(state.epoch(), 1), failure: None }];
    state.apply(now, Command::SettleDeliveries { tried }).unwrap();
    state.apply(now, test()).unwrap();
    // No more failures are kept than may be, the newest of them.
    let failed = |n: u64| {
        let failure = DeliveryFailure { error: "told by a test".into(), retry_after: None, gone: false };
        Tried { delivery: DeliveryId::mint(state.epoch(), n), failure: Some(failure) }
    };
    let tried: Vec<Tried> = (2..=MOST_WAITING as u64).map(failed).collect();
    let later = Now { wall: now.wall.after(TRIED_FOR), ..now };
    state.apply(later, Command::SettleDeliveries { tried }).unwrap();
    let view = state.webhooks().next().unwrap();
    assert_eq!((view.waiting, view.failed), (1, MOST_FAILED as u64));
    assert!(state.delivery(DeliveryId::mint(state.epoch(), MOST_WAITING as u64)).is_some());
}

fn job_of(job: JobId) -> Enqueue {
    let line = Line::parse("enqueue a kind=k").unwrap();
    let Command::Enqueue(enqueue) = commands::enqueue(&line, job, None, Now::default()) else {
        panic!("an enqueue is one")
    };
    *enqueue
}
