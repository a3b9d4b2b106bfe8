//! How far a takeover leaps, on a database that is promoted, restarted, copied, or does not tell what it is.

use std::fs;

use sqlx::{Executor, Row};
use tenure_scheduler::{Changes, Epoch};
use tenure_test_postgres::Cluster;

use super::{Store, hand, open, sql};
use crate::{
    Beside, Journal,
    postgres::{Options, PostgresJournal},
};

async fn opened(url: &str) -> PostgresJournal {
    let options = Options { migrate: true, ..Options::new(url.parse().unwrap()) };
    open(&options).await.unwrap().0
}

async fn takes(journal: &mut PostgresJournal) -> Epoch {
    let taken = journal.takeover(Epoch(0)).await.unwrap();
    journal.commit(taken.epoch, &Changes::default(), &Beside::default()).await.unwrap();
    taken.epoch
}

async fn identity(url: &str) -> Option<String> {
    hand(url).await.fetch_one("select db_ident from leader_fence").await.unwrap().get(0)
}

#[tokio::test]
async fn a_takeover_after_a_failover_leaps_over_those_that_it_may_have_lost() {
    let cluster = Cluster::start().unwrap();
    let url = cluster.database().unwrap();
    let mut journal = opened(&url).await;
    assert_eq!(takes(&mut journal).await, Epoch(1));
    let first = identity(&url).await.unwrap();
    assert!(first.ends_with("/1"), "{first}");
    assert_eq!(takes(&mut journal).await, Epoch(2));
    // A restart is none, not even one after a crash.
    cluster.crash().unwrap();
    cluster.start_again().unwrap();
    assert_eq!(takes(&mut journal).await, Epoch(3));

    cluster.demote().unwrap();
    cluster.promote().unwrap();
    assert_eq!(takes(&mut opened(&url).await).await, Epoch(103));
    let second = identity(&url).await.unwrap();
    assert_eq!(second, first.replace("/1", "/2"));
    assert_eq!(takes(&mut opened(&url).await).await, Epoch(104));

    // The next standby has lost both leaps and the takeovers before: its row is the oldest one.
    let lost = sql(format!("update leader_fence set epoch = 1, holder = null, db_ident = '{first}'"));
    hand(&url).await.execute(lost).await.unwrap();
    cluster.demote().unwrap();
    cluster.promote().unwrap();
    assert_eq!(takes(&mut opened(&url).await).await, Epoch(201));
    // What a server knows of itself counts as well.
    cluster.demote().unwrap();
    cluster.promote().unwrap();
    let taken = opened(&url).await.takeover(Epoch(400)).await.unwrap();
    assert_eq!(taken.epoch, Epoch(500));
}

#[tokio::test]
async fn a_takeover_in_a_copy_of_the_database_in_another_cluster_leaps() {
    let mut store = Store::new().await;
    takes(&mut store.journal).await;
    let copied = "update leader_fence set db_ident = '1/1'";
    store.hand().await.execute(copied).await.unwrap();
    assert_eq!(takes(&mut store.journal).await, Epoch(101));
    assert_eq!(takes(&mut store.journal).await, Epoch(102));
}

#[tokio::test]
async fn a_role_that_may_not_look_leads_without_a_leap_and_says_so_once() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(log.reopen().unwrap()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let store = Store::new().await;
    let name = store.url.split(['/', '?']).nth(3).unwrap().to_owned();
    let mut hand = store.hand().await;
    let role = sql(format!(
        "create role blind_{name} login;
        grant select, insert, update, delete on all tables in schema public to blind_{name};
        revoke execute on function pg_control_system() from public"
    ));
    hand.execute(role).await.unwrap();
    let url = store.url.replace("postgres@", &format!("blind_{name}@"));
    let (mut journal, reader) = open(&Options::new(url.parse().unwrap())).await.unwrap();
    let is_found = async || {
        let found = reader.examine().await.unwrap().findings;
        found.iter().any(|finding| finding.contains("cannot tell the database's timeline"))
    };
    // The timeline alone tells a failover.
    assert_eq!(takes(&mut journal).await, Epoch(1));
    assert_eq!(identity(&store.url).await.as_deref(), Some("?/1"));
    hand.execute("update leader_fence set db_ident = '7/3'").await.unwrap();
    assert_eq!(takes(&mut journal).await, Epoch(101));
    assert!(!is_found().await);
    assert_eq!(fs::read_to_string(log.path()).unwrap(), "");

    hand.execute("update leader_fence set db_ident = '7/3'").await.unwrap();
    hand.execute("revoke execute on function pg_walfile_name(pg_lsn) from public").await.unwrap();
    assert_eq!(takes(&mut journal).await, Epoch(102));
    assert_eq!(takes(&mut journal).await, Epoch(103));
    assert_eq!(identity(&store.url).await.as_deref(), Some("7/3"), "who may look compares it later");
    assert!(is_found().await);
    let log = fs::read_to_string(log.path()).unwrap();
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.contains("WARN") && log.contains("permission denied for function pg_walfile_name"), "{log}");
    hand.execute("grant execute on function pg_walfile_name(pg_lsn) to public").await.unwrap();
    assert_eq!(takes(&mut journal).await, Epoch(203));
    hand.execute(sql(format!("drop owned by blind_{name}; drop role blind_{name}"))).await.unwrap();
}
