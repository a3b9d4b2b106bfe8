//! The schema: checks, views, and databases of other versions.

use sqlx::{Connection, PgConnection};
use tenure_scheduler::Epoch;
use uuid::Uuid;

use super::{
    super::{
        Options, open,
        schema::{MIGRATIONS, migrator},
    },
    database, hand,
};
use crate::Journal;

#[tokio::test]
async fn rows_of_an_older_schema_stay_as_they_were() {
    const LEASE: &str = "
insert into leases values (3, $1, 'k', 'n', 1, '{\"node\":{},\"fleet\":{}}', 1, 1, now(), 'granted')";
    let url = database();
    let mut hand = hand(&url).await;
    migrator(&MIGRATIONS[..5]).run_direct(None, &mut hand, false).await.unwrap();
    let id = Uuid::from_u128(7);
    insert_job(&mut hand, id, "running", 3).await;
    sqlx::query(LEASE).bind(id).execute(&mut hand).await.unwrap();
    hand.close().await.unwrap();

    let options = Options { migrate: true, ..Options::new(url.parse().unwrap()) };
    let (mut journal, _) = open(&options).await.unwrap();
    let durable = journal.takeover(Epoch(0)).await.unwrap().durable;
    let leases: Vec<_> = durable.leases.values().map(|lease| (lease.token.0, lease.orphaned)).collect();
    assert_eq!((durable.jobs.len(), leases), (1, vec![(3, false)]));
}

async fn insert_job(hand: &mut PgConnection, id: Uuid, state: &str, token: i64) {
    const INSERT: &str = "
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, selector, labels, dedupe_held,
  fingerprint, root_id, depth, children, payload_size, round, failures, losses, returns, returns_in_row, token,
  cancel_requested, created_at, waits, queued_at)
values ($1, 1, 't', 'p', 'k', $2, 1, 0, '{}', '{}', false, decode(repeat('00', 32), 'hex'), $1, 0, 0, 0, 1, 0, 0, 0,
  0, $3, false, now(), '[]', case when $2 = 'queued' then now() end)";
    sqlx::query(INSERT).bind(id).bind(state).bind(token).execute(hand).await.unwrap();
}
