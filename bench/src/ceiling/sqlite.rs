//! The statements on SQLite: one JSON text for the columns that differ.

use std::path::Path;

use anyhow::{Context as _, ensure};
use sqlx::{Connection as _, Row as _, SqliteConnection};

use super::Rows;
use crate::bed;

const EPOCH_CHECK: &str = "select 1 from leader_fence where epoch = $1";

/// Microseconds since 1970, to the millisecond: what differs between rows is not its last digits.
macro_rules! now {
    () => {
        "cast(unixepoch('subsec') * 1000000 as integer)"
    };
}

/// `state`, `version`, the token, the last node, and when it was granted and queued.
macro_rules! job_insert {
    ($state:literal, $version:literal, $token:literal, $node:literal, $granted_at:expr, $queued_at:expr) => {
        concat!(
            "
insert into jobs (
  id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held,
  fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures,
  losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at,
  stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at)
select
  new.value ->> 0, new.value ->> 1, 'default', 'bench', 'bench', '",
            $state,
            "', ",
            $version,
            ", 0, null, '{}', '{}', null, 0,
  randomblob(32), null, null, new.value ->> 0, 0, 0, null, $2, 1, 0,
  0, 0, 0, ",
            $token,
            ", null, ",
            $node,
            ", ",
            $granted_at,
            ", null, 0, ",
            now!(),
            ",
  null, null, '[]', null, null, ",
            $queued_at,
            ", null
from json_each($1) as new"
        )
    };
}

const RUNNING_INSERT: &str = job_insert!("running", "2", "new.value ->> 1", "'bench-1'", now!(), "null");

const QUEUED_INSERT: &str = job_insert!("queued", "1", "0", "null", "null", now!());

const PAYLOAD_INSERT: &str = "
insert into payloads (job_id, data, content_type)
select new.value ->> 0, $2, 'text/plain'
from json_each($1) as new";

const LEASE_INSERT: &str = concat!(
    r#"
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase)
select
  new.value ->> 1, new.value ->> 0, 'bench', 'bench-1', 120000000, '{"node":{"work":1},"fleet":{}}', 1, 1, "#,
    now!(),
    ", 'granted'
from json_each($1) as new"
);

const JOB_FINISH: &str = concat!(
    "
update jobs
set
  state = 'succeeded',
  version = version + 1,
  last_outcome = 'succeeded',
  started_at = ",
    now!(),
    ",
  finished_at = ",
    now!(),
    "
from json_each($1) as done
where jobs.id = done.value ->> 0 and jobs.token = done.value ->> 1"
);

const LEASE_DELETE: &str = "delete from leases where token in (select value ->> 1 from json_each($1))";

/// Opens a connection, and reads the epoch.
pub(super) async fn open(file: &Path) -> anyhow::Result<(SqliteConnection, i64)> {
    let mut connection = bed::sqlite(file).await?;
    let row = sqlx::query("select epoch from leader_fence").fetch_one(&mut connection).await?;
    let epoch = row.try_get(0)?;
    Ok((connection, epoch))
}

/// One turn of lifecycles.
pub(super) async fn lifecycle(
    connection: &mut SqliteConnection,
    epoch: i64,
    new: &Rows,
    payload: &[u8],
    done: &Rows,
) -> anyhow::Result<()> {
    let mut turn = connection.begin_with("begin immediate").await?;
    check(&mut turn, epoch).await?;
    if !done.ids.is_empty() {
        let text = json(done)?;
        let deleted = sqlx::query(LEASE_DELETE).bind(&text).execute(&mut *turn).await?;
        counted(deleted.rows_affected(), done)?;
        let finished = sqlx::query(JOB_FINISH).bind(text).execute(&mut *turn).await?;
        counted(finished.rows_affected(), done)?;
    }
    let text = insert(&mut turn, RUNNING_INSERT, new, payload).await?;
    sqlx::query(LEASE_INSERT).bind(text).execute(&mut *turn).await?;
    Ok(turn.commit().await?)
}

/// One turn of enqueues.
pub(super) async fn enqueue(
    connection: &mut SqliteConnection,
    epoch: i64,
    new: &Rows,
    payload: &[u8],
) -> anyhow::Result<()> {
    let mut turn = connection.begin_with("begin immediate").await?;
    check(&mut turn, epoch).await?;
    insert(&mut turn, QUEUED_INSERT, new, payload).await?;
    Ok(turn.commit().await?)
}

async fn check(turn: &mut SqliteConnection, epoch: i64) -> anyhow::Result<()> {
    let found = sqlx::query(EPOCH_CHECK).bind(epoch).fetch_optional(turn).await?;
    found.map(drop).context("somebody else leads the database of the ceiling")
}

async fn insert(
    turn: &mut SqliteConnection,
    statement: &'static str,
    new: &Rows,
    payload: &[u8],
) -> anyhow::Result<String> {
    let text = json(new)?;
    let size = i64::try_from(payload.len())?;
    let jobs = sqlx::query(statement).bind(&text).bind(size).execute(&mut *turn).await?;
    counted(jobs.rows_affected(), new)?;
    sqlx::query(PAYLOAD_INSERT).bind(&text).bind(payload).execute(turn).await?;
    Ok(text)
}

fn json(rows: &Rows) -> anyhow::Result<String> {
    let pairs: Vec<(String, i64)> =
        rows.ids.iter().zip(&rows.tokens).map(|(id, token)| (id.to_string(), *token)).collect();
    Ok(serde_json::to_string(&pairs)?)
}

fn counted(affected: u64, rows: &Rows) -> anyhow::Result<()> {
    ensure!(usize::try_from(affected)? == rows.ids.len(), "{affected} rows for {}", rows.ids.len());
    Ok(())
}
