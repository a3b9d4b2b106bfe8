//! The statements on Postgres: one array a column that differs.

use anyhow::{Context as _, ensure};
use sqlx::{Connection as _, PgConnection, Row as _};

use super::Rows;
use crate::bed;

const EPOCH_CHECK: &str = "select 1 from leader_fence where epoch = $1 for key share";

/// `state`, `version`, the token, the last node, and when it was granted and queued.
macro_rules! job_insert {
    ($state:literal, $version:literal, $token:literal, $node:literal, $granted_at:literal, $queued_at:literal) => {
        concat!(
            "
insert into jobs (
  id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held,
  fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures,
  losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at,
  stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at)
select
  id, sequence, 'default', 'bench', 'bench', '",
            $state,
            "', ",
            $version,
            ", 0, null, '{}', '{}', null, false,
  fingerprint, null, null, id, 0, 0, null, $4, 1, 0,
  0, 0, 0, ",
            $token,
            ", null, ",
            $node,
            ", ",
            $granted_at,
            ", null, false, now(),
  null, null, '[]', null, null, ",
            $queued_at,
            ", null
from unnest($1::uuid[], $2::bigint[], $3::bytea[]) as new (id, sequence, fingerprint)"
        )
    };
}

const RUNNING_INSERT: &str = job_insert!("running", "2", "sequence", "'bench-1'", "now()", "null");

const QUEUED_INSERT: &str = job_insert!("queued", "1", "0", "null", "null", "now()");

const PAYLOAD_INSERT: &str = "
insert into payloads (job_id, data, content_type)
select job_id, data, 'text/plain'
from unnest($1::uuid[], $2::bytea[]) as new (job_id, data)";

const LEASE_INSERT: &str = r#"
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase)
select token, job_id, 'bench', 'bench-1', 120000000, '{"node": {"work": 1}, "fleet": {}}', 1, 1, now(), 'granted'
from unnest($1::bigint[], $2::uuid[]) as new (token, job_id)"#;

const JOB_FINISH: &str = "
update jobs
set
  state = 'succeeded',
  version = version + 1,
  last_outcome = 'succeeded',
  started_at = now(),
  finished_at = now()
from unnest($1::uuid[], $2::bigint[]) as done (id, token)
where jobs.id = done.id and jobs.token = done.token";

const LEASE_DELETE: &str = "delete from leases where token = any($1::bigint[])";

/// Opens a connection, and reads the epoch.
pub(super) async fn open(url: &str) -> anyhow::Result<(PgConnection, i64)> {
    let mut connection = bed::postgres(url).await?;
    let row = sqlx::query("select epoch from leader_fence").fetch_one(&mut connection).await?;
    let epoch = row.try_get(0)?;
    Ok((connection, epoch))
}

/// One turn of lifecycles.
pub(super) async fn lifecycle(
    connection: &mut PgConnection,
    epoch: i64,
    new: &Rows,
    payload: &[u8],
    done: &Rows,
) -> anyhow::Result<()> {
    let mut turn = connection.begin().await?;
    check(&mut turn, epoch).await?;
    if !done.ids.is_empty() {
        let deleted = sqlx::query(LEASE_DELETE).bind(&done.tokens).execute(&mut *turn).await?;
        counted(deleted.rows_affected(), done)?;
        let finished = sqlx::query(JOB_FINISH).bind(&done.ids).bind(&done.tokens).execute(&mut *turn).await?;
        counted(finished.rows_affected(), done)?;
    }
    insert(&mut turn, RUNNING_INSERT, new, payload).await?;
    sqlx::query(LEASE_INSERT).bind(&new.tokens).bind(&new.ids).execute(&mut *turn).await?;
    Ok(turn.commit().await?)
}

/// One turn of enqueues.
pub(super) async fn enqueue(
    connection: &mut PgConnection,
    epoch: i64,
    new: &Rows,
    payload: &[u8],
) -> anyhow::Result<()> {
    let mut turn = connection.begin().await?;
    check(&mut turn, epoch).await?;
    insert(&mut turn, QUEUED_INSERT, new, payload).await?;
    Ok(turn.commit().await?)
}

async fn check(turn: &mut PgConnection, epoch: i64) -> anyhow::Result<()> {
    let found = sqlx::query(EPOCH_CHECK).bind(epoch).fetch_optional(turn).await?;
    found.map(drop).context("somebody else leads the database of the ceiling")
}

async fn insert(
    turn: &mut PgConnection,
    statement: &'static str,
    new: &Rows,
    payload: &[u8],
) -> anyhow::Result<()> {
    let size = i64::try_from(payload.len())?;
    // As long as a fingerprint, and as different.
    let fingerprints: Vec<Vec<u8>> =
        new.ids.iter().map(|id| [*id.as_bytes(), *id.as_bytes()].concat()).collect();
    let jobs = sqlx::query(statement).bind(&new.ids).bind(&new.tokens).bind(fingerprints).bind(size);
    counted(jobs.execute(&mut *turn).await?.rows_affected(), new)?;
    let payloads = vec![payload; new.ids.len()];
    sqlx::query(PAYLOAD_INSERT).bind(&new.ids).bind(payloads).execute(turn).await?;
    Ok(())
}

fn counted(affected: u64, rows: &Rows) -> anyhow::Result<()> {
    ensure!(usize::try_from(affected)? == rows.ids.len(), "{affected} rows for {}", rows.ids.len());
    Ok(())
}
