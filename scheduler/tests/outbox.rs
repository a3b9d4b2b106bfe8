//! Webhooks: how much is told at once and how many times it is asked for, and what people hear of what was not told.

use expect_test::expect;
use tenure_scheduler::{MOST_TOLD_AT_ONCE, MOST_WEBHOOKS};

use crate::support::{Script, check};

#[test]
fn a_webhook_with_as_much_on_its_way_as_may_be_is_not_asked_for_again() {
    check(
        "
        kind k
        webhook slow kinds=k
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        cancel a
        cancel b
        cancel c
        due most=2 busy=1.1,1.2       # The third is due, and it has to wait for one of them.
        kind other
        webhook quick kinds=other
        enqueue d kind=other
        cancel d
        tried 1.4 failed
        due most=2 busy=1.1,1.2       # Of others it is known when they are.
        ",
        expect![[r#"
            ended a -> cancelled [cancelled by request]
            delivery 1.1 to slow of job.cancelled
            ended b -> cancelled [cancelled by request]
            delivery 1.2 to slow of job.cancelled
            ended c -> cancelled [cancelled by request]
            delivery 1.3 to slow of job.cancelled
            nothing is due
            ended d -> cancelled [cancelled by request]
            delivery 1.4 to quick of job.cancelled
            delivery 1.4 waits tries=1
            nothing is due for 1.128065s
        "#]],
    );
}

#[test]
fn a_clock_that_was_ahead_puts_nothing_off_for_longer_than_a_wait_may_be() {
    check(
        "
        kind k
        webhook w
        enqueue a kind=k
        cancel a
        wall +48h
        tried 1.1 failed
        due
        wall -48h
        due
        due busy=1.1
        tried 1.1 failed
        due
        ",
        expect![[r#"
            ended a -> cancelled [cancelled by request]
            delivery 1.1 to w of job.cancelled
            delivery 1.1 waits tries=1
            nothing is due for 806.743ms
            due: 1.1 to w at https://receiver.test/hook
            nothing is due
            delivery 1.1 waits tries=2
            nothing is due for 2.001647s
        "#]],
    );
}

#[test]
fn what_one_command_tells_is_bounded_for_all_webhooks_together() {
    let mut run = Script::new();
    run.lines("kind k\nenqueue a kind=k");
    for n in 0..MOST_WEBHOOKS {
        run.lines(&format!("webhook w{n}"));
    }
    let children = MOST_TOLD_AT_ONCE / MOST_WEBHOOKS + 4;
    for n in 0..children {
        run.lines(&format!("enqueue c{n} kind=k parent=a"));
    }
    run.lines("cancel a");
    let ends = ((children + 1) * MOST_WEBHOOKS) as u64;
    let views: Vec<_> = run.world.state.webhooks().collect();
    let waiting: u64 = views.iter().map(|view| view.waiting).sum();
    let dropped: u64 = views.iter().map(|view| view.dropped).sum();
    assert_eq!((waiting, waiting + dropped), (MOST_TOLD_AT_ONCE as u64, ends));
    // What there is no room for is the same for all.
    let least = views.iter().map(|view| view.waiting).min();
    assert!(views.iter().all(|view| Some(view.waiting) <= least.map(|least| least + 1)));
    // The next command has a budget of its own.
    run.lines("enqueue b kind=k\ncancel b");
    assert!(run.world.state.webhooks().zip(views).all(|(now, then)| now.waiting == then.waiting + 1));
}

/// What people hear of webhooks.
fn attention(run: &mut Script) {
    let snapshot = run.world.state.snapshot(run.world.now());
    let told = snapshot.attention.iter().filter(|line| line.contains("webhook"));
    told.for_each(|line| run.say(line));
}

#[test]
fn what_was_given_up_is_told_to_people_for_a_day() {
    let mut run = Script::new();
    run.lines("kind k\nwebhook w\nenqueue a kind=k\ncancel a\nwall +73h\ntried 1.1 failed");
    attention(&mut run);
    run.lines("wall +25h\nwebhooks");
    attention(&mut run);
    expect![[r#"
        ended a -> cancelled [cancelled by request]
        delivery 1.1 to w of job.cancelled
        delivery 1.1 failed tries=1
        1 deliveries to webhook w were given up; they may be wanted again (redeliver)
        w waiting=0 failed=1
    "#]]
    .assert_eq(&run.trace);
}
