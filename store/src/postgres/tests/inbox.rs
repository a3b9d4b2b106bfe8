//! The inbox: who may insert and how, what is read, and what is refused under which epoch.

use std::time::Duration;

use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};
use tenure_scheduler::{Changes, Epoch, Producer, Wall};
use uuid::Uuid;

use super::{PostgresInbox, Store, hand, sql};
use crate::{
    Beside, Journal as _,
    inbox::{Error, InboxBatch, InboxRow, Refused},
};

/// As much as anybody asks for.
const ALL: (u32, u32) = (1000, 1 << 20);

/// A role of this name that may do what the documents say a producer needs, and its connection.
async fn producer(store: &Store, name: &str) -> PgConnection {
    let mut owner = store.hand().await;
    owner.execute(sql(format!("create role \"{name}\" login"))).await.unwrap();
    let grants = format!(
        "grant usage on schema public to \"{name}\"; grant execute on function tenure_enqueue to \"{name}\""
    );
    sqlx::raw_sql(sql(grants)).execute(&mut owner).await.unwrap();
    login(store, name).await
}

async fn login(store: &Store, name: &str) -> PgConnection {
    hand(&store.url.replace("postgres://postgres@", &format!("postgres://{name}@"))).await
}

async fn read(inbox: &mut PostgresInbox, but: &[&str], (rows, bytes): (u32, u32)) -> InboxBatch {
    let but: Vec<String> = but.iter().map(|kind| (*kind).to_owned()).collect();
    inbox.read(&but, rows, bytes).await.unwrap()
}

async fn kinds(inbox: &mut PostgresInbox) -> Vec<String> {
    read(inbox, &[], ALL).await.rows.into_iter().map(|row| row.kind).collect()
}

fn refused(seq: i64, reason: &str) -> Refused {
    Refused {
        seq,
        producer: Producer::new("db:shop"),
        reason: reason.into(),
        message: "a sentence".into(),
        whole: false,
    }
}

/// What a statement of a role is told.
async fn told(connection: &mut PgConnection, statement: &str) -> String {
    connection.execute(sql(statement.to_owned())).await.expect_err(statement).to_string()
}

#[tokio::test]
async fn a_row_says_what_was_asked_for_and_who_asked() {
    let store = Store::new().await;
    let mut inbox = PostgresInbox::new(store.options.address.clone());
    let mut shop = producer(&store, "inbox-shop.1").await;
    const CALL: &str = "
select tenure_enqueue(
  'mail', 'hi'::bytea, 'text/plain', dedupe_key => 'order:1', tenant => 'eu', priority => 7,
  run_at => '2030-01-02 03:04:05+00', delay => '1.5 s', stale_after => '1 hour 1 ms', labels => '{\"a\": \"b\"}',
  selector => '{\"zone\": \"x\"}', needs => '{\"browser\": 2}', concurrency_key => 'k', hard_time_limit => '10 min',
  soft_time_limit => '9 min', traceparent => '00-x')";
    let id: Uuid = sqlx::query(CALL).fetch_one(&mut shop).await.unwrap().get(0);
    assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
    let batch = read(&mut inbox, &[], ALL).await;
    let [row] = &batch.rows[..] else { panic!("{batch:?}") };
    let mut expected = InboxRow {
        seq: row.seq,
        role: "inbox-shop.1".into(),
        waited: row.waited,
        job: tenure_scheduler::JobId(id),
        kind: "mail".into(),
        payload: "hi".into(),
        content_type: "text/plain".into(),
        dedupe_key: Some("order:1".into()),
        tenant: Some("eu".into()),
        priority: Some(7),
        run_at: Some(Wall(1_893_553_445_000_000)),
        delay_ms: Some(1500),
        stale_after_ms: Some(3_600_001),
        labels: [("a".into(), "b".into())].into(),
        selector: [("zone".into(), "x".into())].into(),
        needs: Some([("browser".into(), 2)].into()),
        concurrency_key: Some("k".into()),
        hard_time_limit_ms: Some(600_000),
        soft_time_limit_ms: Some(540_000),
        traceparent: Some("00-x".into()),
        problems: Vec::new(),
    };
    assert_eq!(*row, expected);
    assert!(row.waited < Duration::from_secs(60), "{:?}", row.waited);

    // Nothing but the kind, and an id of one's own.
    let own = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0001);
    const OWN: &str = "select tenure_enqueue('mail', job_id => $1)";
    assert_eq!(sqlx::query(OWN).bind(own).fetch_one(&mut shop).await.unwrap().get::<Uuid, _>(0), own);
    let batch = read(&mut inbox, &[], ALL).await;
    let bare = &batch.rows[1];
    expected = InboxRow {
        seq: bare.seq,
        waited: bare.waited,
        job: tenure_scheduler::JobId(own),
        payload: Vec::new().into(),
        content_type: String::new(),
        dedupe_key: None,
        tenant: None,
        priority: None,
        run_at: None,
        delay_ms: None,
        stale_after_ms: None,
        labels: Default::default(),
        selector: Default::default(),
        needs: None,
        concurrency_key: None,
        hard_time_limit_ms: None,
        soft_time_limit_ms: None,
        traceparent: None,
        ..expected
    };
    assert_eq!(*bare, expected);
}

#[tokio::test]
async fn a_role_can_do_nothing_but_enqueue_as_itself() {
    let store = Store::new().await;
    let mut inbox = PostgresInbox::new(store.options.address.clone());
    let mut shop = producer(&store, "inbox_shop").await;
    let mut other = login(&store, "postgres").await;
    other.execute("create role inbox_stranger login").await.unwrap();
    let mut stranger = login(&store, "inbox_stranger").await;
    assert!(told(&mut stranger, "select tenure_enqueue('mail')").await.contains("permission denied"));
    for statement in [
        "select * from inbox",
        "insert into inbox (role, inserted_at, job_id, kind, payload, content_type) values ('x', now(), gen_random_uuid(), 'k', '', '')",
        "delete from inbox",
        "select * from inbox_refusals",
        "select * from jobs",
        "update leader_fence set epoch = epoch + 1",
        "set session authorization postgres",
    ] {
        assert!(told(&mut shop, statement).await.contains("permission denied"), "{statement}");
    }
    // Who it is cannot be set, and what it puts into its search path counts for nothing.
    let trick = "
grant inbox_stranger to inbox_shop; create schema authorization inbox_shop;
create table inbox_shop.inbox (like public.inbox including all); alter table inbox_shop.inbox owner to inbox_shop";
    sqlx::raw_sql(trick).execute(&mut other).await.unwrap();
    let attempt = "
set search_path = inbox_shop, public; set role inbox_stranger; reset role;
create temporary table inbox (like inbox_shop.inbox including all);
create function inbox_shop.clock_timestamp() returns timestamptz language sql as 'select timestamptz ''2000-01-01''';
select public.tenure_enqueue('mail')";
    sqlx::raw_sql(attempt).execute(&mut shop).await.unwrap();
    let batch = read(&mut inbox, &[], ALL).await;
    let [row] = &batch.rows[..] else { panic!("{batch:?}") };
    assert_eq!(row.role, "inbox_shop");
    assert!(row.waited < Duration::from_secs(60), "{:?}", row.waited);
    // A role whose name is none for a producer.
    let mut odd = producer(&store, "Inbox Shop").await;
    assert!(told(&mut odd, "select tenure_enqueue('mail')").await.contains("Inbox Shop cannot enqueue"));
}

#[tokio::test]
async fn what_is_too_large_or_no_value_is_refused_in_the_transaction() {
    let store = Store::new().await;
    let mut owner = store.hand().await;
    for (call, word) in [
        ("tenure_enqueue(null)", "cannot be null"),
        ("tenure_enqueue('k', null)", "cannot be null"),
        ("tenure_enqueue('k', convert_to(repeat('x', 262145), 'UTF8'))", "inbox_payload_in_bounds"),
        ("tenure_enqueue(repeat('k', 256))", "inbox_texts_in_bounds"),
        ("tenure_enqueue('k', run_at => 'infinity')", "inbox_run_at_in_bounds"),
        (
            "tenure_enqueue('k', labels => jsonb_build_object('a', repeat('x', 65536)))",
            "inbox_maps_in_bounds",
        ),
    ] {
        assert!(told(&mut owner, &format!("select {call}")).await.contains(word), "{call}");
    }
    let mut inbox = PostgresInbox::new(store.options.address.clone());
    assert_eq!(kinds(&mut inbox).await, [""; 0]);
}

#[tokio::test]
async fn rows_are_there_once_they_are_committed_and_none_is_skipped() {
    let store = Store::new().await;
    let mut inbox = PostgresInbox::new(store.options.address.clone());
    let (mut slow, mut quick) = (store.hand().await, store.hand().await);
    let mut transaction = slow.begin().await.unwrap();
    transaction.execute("select tenure_enqueue('slow')").await.unwrap();
    quick.execute("select tenure_enqueue('quick')").await.unwrap();
    let mut undone = quick.begin().await.unwrap();
    undone.execute("select tenure_enqueue('undone')").await.unwrap();
    assert_eq!(kinds(&mut inbox).await, ["quick"]);
    undone.rollback().await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(kinds(&mut inbox).await, ["slow", "quick"]);
    let rest = read(&mut inbox, &["slow", "other"], ALL).await;
    assert!(rest.rows.len() == 1 && rest.rows[0].kind == "quick", "{rest:?}");
}

#[tokio::test]
async fn rows_come_in_the_order_of_their_inserts_whatever_their_kinds() {
    let store = Store::new().await;
    let mut inbox = PostgresInbox::new(store.options.address.clone());
    let rows = "select tenure_enqueue((array['c', 'a', 'b'])[1 + n % 3]) from generate_series(1, 9) as n";
    store.hand().await.execute(rows).await.unwrap();
    let all: Vec<String> = ["a", "b", "c"].iter().cycle().take(9).map(|kind| (*kind).into()).collect();
    assert_eq!(kinds(&mut inbox).await, all);
    let some = read(&mut inbox, &["a"], (3, 1 << 20)).await;
    let some: Vec<&str> = some.rows.iter().map(|row| row.kind.as_str()).collect();
    assert_eq!(some, ["b", "c", "b"]);
}

/// What a row is read as bounds a batch, not its payload alone.
#[tokio::test]
async fn large_maps_count_as_much_as_large_payloads() {
    let store = Store::new().await;
    let mut inbox = PostgresInbox::new(store.options.address.clone());
    let large = "jsonb_build_object('a', repeat('x', 60000))";
    let rows = format!("select tenure_enqueue('k', labels => {large}) from generate_series(1, 9)");
    store.hand().await.execute(sql(rows)).await.unwrap();
    // The row that passes the bound is the last.
    assert_eq!(read(&mut inbox, &[], (200, 200_000)).await.rows.len(), 4);
    assert_eq!(read(&mut inbox, &[], (200, 1)).await.rows.len(), 1);
    assert_eq!(read(&mut inbox, &[], (200, 1 << 20)).await.rows.len(), 9);
}

#[tokio::test]
async fn a_long_backlog_of_a_kind_that_is_left_out_is_not_walked_through() {
    let store = Store::new().await;
    let mut hand = store.hand().await;
    let rows = "
select count(tenure_enqueue('held')) from generate_series(1, 5000);
select tenure_enqueue('mail');
select count(tenure_enqueue('other')) from generate_series(1, 5000);
analyze inbox";
    sqlx::raw_sql(rows).execute(&mut hand).await.unwrap();
    let mut inbox = PostgresInbox::new(store.options.address.clone());
    let found = read(&mut inbox, &["held"], (200, 1 << 20)).await;
    assert_eq!((found.rows.len(), found.rows[0].kind.as_str()), (200, "mail"));
    assert_eq!(read(&mut inbox, &["held", "other"], ALL).await.rows.len(), 1);

    let read = super::super::inbox::ALL[0];
    hand.execute(sql(format!("prepare planned as {read}"))).await.unwrap();
    let explain =
        "explain (analyze, costs off, timing off) execute planned ('{held,other}', 200, 1000000, 1000)";
    let rows = sqlx::raw_sql(explain).fetch_all(&mut hand).await.unwrap();
    let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let counts = plan.iter().flat_map(|line| {
        ["actual rows=", "Rows Removed by Filter: "].map(|before| {
            let count = line.split_once(before).map(|(_, rest)| rest);
            count.and_then(|rest| rest.split([' ', '.']).next()?.parse::<u64>().ok()).unwrap_or(0)
        })
    });
    assert!(counts.max().is_some_and(|most| (1..=200).contains(&most)), "{}", plan.join("\n"));
}

#[tokio::test]
async fn what_was_refused_by_our_fault_can_be_brought_back_whole() {
    let mut store = Store::new().await;
    let mut inbox = PostgresInbox::new(store.options.address.clone());
    let epoch = store.journal.takeover(Epoch(0)).await.unwrap().epoch;
    let row = "
select tenure_enqueue('mail', '\\x00ff'::bytea, 'text/plain', dedupe_key => 'order:1', run_at => '2030-01-02 03:04:05.678901+00',
  delay => '2 s', labels => '{\"a\": \"b\"}', needs => '{\"browser\": 2}');
select tenure_enqueue('nobody')";
    let mut owner = store.hand().await;
    sqlx::raw_sql(row).execute(&mut owner).await.unwrap();
    let before = read(&mut inbox, &[], ALL).await.rows;
    let ours = Refused { whole: true, ..refused(before[0].seq, "INTERNAL") };
    inbox.refuse(epoch, &[ours, refused(before[1].seq, "KIND_NOT_FOUND")], Wall(0)).await.unwrap();
    assert_eq!(kinds(&mut inbox).await, [""; 0]);

    // As docs/transactional-enqueue.md says.
    let page = include_str!("../../../../docs/transactional-enqueue.md");
    let back = page.split("```sql\n").filter_map(|rest| rest.split("```").next());
    let back = back.filter(|block| block.contains("overriding system value")).collect::<Vec<_>>();
    let [back] = back[..] else { panic!("{back:?}") };
    for row in &before {
        let back = back.replace("4711", &row.seq.to_string());
        sqlx::raw_sql(sql(back)).execute(&mut owner).await.unwrap();
    }
    let mut after = read(&mut inbox, &[], ALL).await.rows;
    after[0].waited = before[0].waited;
    assert_eq!(after, before[..1], "that of the producer's fault is not there any more");
    let kept = store.reader.inbox_refusals(None, None, 10).await.unwrap();
    assert!(kept.len() == 1 && kept[0].reason == "KIND_NOT_FOUND", "{kept:?}");
}

#[tokio::test]
async fn a_batch_is_bounded_in_rows_and_bytes_and_holds_one_row_at_least() {
    let store = Store::new().await;
    let mut inbox = PostgresInbox::new(store.options.address.clone());
    let rows =
        "select tenure_enqueue('k', convert_to(repeat('x', 1000), 'UTF8')) from generate_series(1, 20)";
    store.hand().await.execute(rows).await.unwrap();
    let mut count = async |rows, bytes| read(&mut inbox, &[], (rows, bytes)).await.rows.len();
    assert_eq!(count(7, 1 << 20).await, 7);
    assert_eq!(count(100, 1 << 20).await, 20);
    // Each counts its kind, too.
    assert_eq!(count(100, 3003).await, 3);
    assert_eq!(count(100, 3004).await, 4, "the last row may pass the bound");
    assert_eq!(count(100, 1).await, 1);
}

#[tokio::test]
async fn json_of_another_form_is_a_problem_of_its_row_alone() {
    let store = Store::new().await;
    let mut inbox = PostgresInbox::new(store.options.address.clone());
    let rows = r#"
select tenure_enqueue('a', labels => '{"n": 1}', selector => '[]', needs => '{"browser": -1}');
select tenure_enqueue('b', labels => 'null', needs => '{"browser": 1}')"#;
    sqlx::raw_sql(rows).execute(&mut store.hand().await).await.unwrap();
    let batch = read(&mut inbox, &[], ALL).await;
    let columns: Vec<&str> = batch.rows[0].problems.iter().map(|(column, _)| *column).collect();
    assert_eq!(columns, ["labels", "selector", "needs"]);
    assert!(batch.rows[1].problems.is_empty() && batch.rows[1].labels.is_empty(), "{batch:?}");
    assert!(batch.unreadable.is_empty());
}

#[tokio::test]
async fn what_was_enqueued_leaves_with_its_turn_and_what_is_refused_is_kept() {
    let mut store = Store::new().await;
    let mut inbox = PostgresInbox::new(store.options.address.clone());
    let rows = "select tenure_enqueue('k' || n, dedupe_key => 'd' || n) from generate_series(1, 4) as n";
    store.hand().await.execute(rows).await.unwrap();
    let seqs: Vec<i64> = read(&mut inbox, &[], ALL).await.rows.iter().map(|row| row.seq).collect();
    let epoch = store.journal.takeover(Epoch(0)).await.unwrap().epoch;

    let beside = Beside { inbox: vec![seqs[0], seqs[1]], ..Beside::default() };
    store.journal.commit(epoch, &Changes::default(), &beside).await.unwrap();
    assert_eq!(kinds(&mut inbox).await, ["k3", "k4"]);
    // Handed in again, since nobody knew: it is gone, and that is fine.
    store.journal.commit(epoch, &Changes::default(), &beside).await.unwrap();

    // What a commit has taken is not refused as well.
    let both = [refused(seqs[1], "LATE"), refused(seqs[2], "KIND_NOT_FOUND")];
    inbox.refuse(epoch, &both, Wall(5_000_000)).await.unwrap();
    assert_eq!(kinds(&mut inbox).await, ["k4"]);
    let kept = store.reader.inbox_refusals(None, None, 10).await.unwrap();
    let [only] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!(
        (only.seq, only.reason.as_str(), only.refused_at),
        (seqs[2], "KIND_NOT_FOUND", Wall(5_000_000))
    );
    assert_eq!((only.kind.as_str(), only.dedupe_key.as_deref()), ("k3", Some("d3")));
    assert_eq!((only.role.as_str(), only.producer.as_str()), ("postgres", "db:shop"));
    let state = store.reader.inbox().await.unwrap();
    assert!(state.waiting == 1 && state.refusals == 1 && state.oldest.is_some(), "{state:?}");

    // Of another producer nothing is shown; pages go down.
    let other = Producer::new("db:other");
    assert_eq!(store.reader.inbox_refusals(Some(&other), None, 10).await.unwrap(), []);
    assert_eq!(store.reader.inbox_refusals(Some(&only.producer), Some(seqs[2]), 10).await.unwrap(), []);

    // Whoever was deposed writes nothing.
    let later = store.journal.takeover(Epoch(0)).await.unwrap().epoch;
    let error = inbox.refuse(epoch, &[refused(seqs[3], "OLD")], Wall(0)).await.expect_err("it was deposed");
    assert!(matches!(error, Error::Deposed), "{error:?}");
    assert!(matches!(inbox.sweep(epoch, Wall(6_000_000)).await, Err(Error::Deposed)));
    assert_eq!(kinds(&mut inbox).await, ["k4"]);
    assert!(store.journal.commit(epoch, &Changes::default(), &beside).await.is_err());

    let mut last = store.journal;
    last.takeover(Epoch(0)).await.unwrap();
    let epoch = Epoch(later.0 + 1);
    inbox.refuse(epoch, &[refused(seqs[3], "NEW")], Wall(6_000_000)).await.unwrap();
    inbox.sweep(epoch, Wall(6_000_000)).await.unwrap();
    let left: Vec<i64> =
        store.reader.inbox_refusals(None, None, 10).await.unwrap().iter().map(|kept| kept.seq).collect();
    assert_eq!(left, [seqs[3]], "what is older than it may be goes");
}

/// Else it could not be refused again, and would be tried for ever.
#[tokio::test]
async fn a_row_that_was_copied_back_and_left_among_the_refusals_is_refused_again() {
    let mut store = Store::new().await;
    let mut inbox = PostgresInbox::new(store.options.address.clone());
    let epoch = store.journal.takeover(Epoch(0)).await.unwrap().epoch;
    let mut owner = store.hand().await;
    owner.execute("select tenure_enqueue('mail')").await.unwrap();
    let seq = read(&mut inbox, &[], ALL).await.rows[0].seq;
    let whole = Refused { whole: true, ..refused(seq, "INTERNAL") };
    inbox.refuse(epoch, &[whole], Wall(1_000_000)).await.unwrap();
    assert_eq!(store.reader.inbox().await.unwrap().broken, 1);
    let back = "
insert into inbox overriding system value
select (jsonb_populate_record(null::inbox, entry)).* from inbox_refusals where entry is not null";
    owner.execute(back).await.unwrap();
    inbox.refuse(epoch, &[refused(seq, "KIND_NOT_FOUND")], Wall(2_000_000)).await.unwrap();
    let state = store.reader.inbox().await.unwrap();
    assert_eq!((state.waiting, state.refusals, state.broken), (0, 1, 0));
    let kept = store.reader.inbox_refusals(None, None, 10).await.unwrap();
    assert_eq!((kept[0].reason.as_str(), kept[0].refused_at), ("KIND_NOT_FOUND", Wall(2_000_000)));
}

#[tokio::test]
async fn refusals_are_bounded_in_number() {
    let mut store = Store::new().await;
    let mut inbox = PostgresInbox::new(store.options.address.clone());
    let epoch = store.journal.takeover(Epoch(0)).await.unwrap().epoch;
    let many = format!(
        "insert into inbox_refusals select n, 'r', 'p', now(), now(), gen_random_uuid(), 'k', null, 'R', 'm', \
         case when n = 2 then '{{}}'::jsonb end from generate_series(1, {} + 5) as n",
        super::super::MOST_REFUSALS
    );
    store.hand().await.execute(sql(many)).await.unwrap();
    inbox.sweep(epoch, Wall(0)).await.unwrap();
    let state = store.reader.inbox().await.unwrap();
    // One is there by our fault: it is neither swept nor counted among those that may be kept, however old it is.
    assert_eq!(i64::try_from(state.refusals).unwrap(), super::super::MOST_REFUSALS + 1);
    assert_eq!(state.broken, 1);
    let newest = store.reader.inbox_refusals(None, None, 1).await.unwrap();
    assert_eq!(newest[0].seq, super::super::MOST_REFUSALS + 5);
    inbox.sweep(epoch, Wall(i64::MAX)).await.unwrap();
    let left = store.reader.inbox_refusals(None, None, 10).await.unwrap();
    assert_eq!(left.iter().map(|row| row.seq).collect::<Vec<_>>(), [2]);
}

#[tokio::test]
async fn whoever_waits_hears_of_a_row_and_hears_again_after_its_connection_was_cut() {
    const LONG: Duration = Duration::from_secs(60);
    let store = Store::new().await;
    let mut inbox = PostgresInbox::new(store.options.address.clone());
    inbox.wait(LONG).await; // it begins to listen, and says so by returning
    let mut producer = store.hand().await;
    let heard = async |inbox: &mut PostgresInbox| {
        tokio::time::timeout(LONG / 2, inbox.wait(LONG)).await.expect("it hears before it looks by itself");
    };
    producer.execute("select tenure_enqueue('k')").await.unwrap();
    heard(&mut inbox).await;
    let cut = "
select pg_terminate_backend(pid) from pg_stat_activity
where application_name = 'tenure-inbox' and datname = current_database()";
    producer.execute(cut).await.unwrap();
    heard(&mut inbox).await; // that it was cut: something may have been missed
    heard(&mut inbox).await; // that it listens again
    producer.execute("select tenure_enqueue('k')").await.unwrap();
    heard(&mut inbox).await;
}
