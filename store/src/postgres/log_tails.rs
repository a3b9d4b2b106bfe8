//! The ends of what executions printed, in Postgres.

use bytes::Bytes;
use sqlx::{PgConnection, Row};
use tenure_scheduler::{FencingToken, JobId, Wall};

use super::{
    commit::Batch,
    reader::{PostgresReader, unreadable},
};
use crate::{
    LogEnd, LogTail, journal,
    reader::Error,
    rows::{At, int},
    turn::{Turn, count},
};

/// For the test that prepares each.
#[cfg(test)]
pub(super) const ALL: [&str; 2] = [LOG_TAIL_UPSERT, LOG_TAIL_GET];

// A report that is repeated, or comes after its loss was recorded, brings the same or more.
pub(super) const LOG_TAIL_UPSERT: &str = "
insert into log_tails (job_id, token, stdout_bytes, stdout_tail, stderr_bytes, stderr_tail, created_at)
select job_id, token, stdout_bytes, stdout_tail, stderr_bytes, stderr_tail, created_at
from unnest(
  $1::uuid[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bytea[], $7::timestamptz[])
  as new (job_id, token, stdout_bytes, stdout_tail, stderr_bytes, stderr_tail, created_at)
on conflict (job_id, token) do update set
  stdout_bytes = excluded.stdout_bytes,
  stdout_tail = excluded.stdout_tail,
  stderr_bytes = excluded.stderr_bytes,
  stderr_tail = excluded.stderr_tail,
  created_at = excluded.created_at";

pub(super) const LOG_TAIL_GET: &str = "
select stdout_bytes, stdout_tail, stderr_bytes, stderr_tail, created_at
from log_tails
where job_id = $1 and token = $2";

/// Writes those of a turn.
///
/// # Errors
/// As the statements of a commit.
pub(super) async fn put(connection: &mut PgConnection, turn: &Turn<'_>) -> Result<(), journal::Error> {
    let tails = &turn.log_tails;
    Batch::new("LOG_TAIL_UPSERT", LOG_TAIL_UPSERT, count(tails))
        .column(tails.iter().map(|(job, ..)| job.0).collect::<Vec<_>>())
        .column(tails.iter().map(|(_, token, _)| int(token.0)).collect::<Vec<_>>())
        .column(tails.iter().map(|(.., tail)| int(tail.stdout.total)).collect::<Vec<_>>())
        .column(tails.iter().map(|(.., tail)| &*tail.stdout.data).collect::<Vec<_>>())
        .column(tails.iter().map(|(.., tail)| int(tail.stderr.total)).collect::<Vec<_>>())
        .column(tails.iter().map(|(.., tail)| &*tail.stderr.data).collect::<Vec<_>>())
        .column(tails.iter().map(|(.., tail)| At::from(tail.created_at)).collect::<Vec<_>>())
        .run_all(connection)
        .await
}

impl PostgresReader {
    pub(crate) async fn log_tail(&self, job: JobId, token: FencingToken) -> Result<Option<LogTail>, Error> {
        let rows = self.rows(|| sqlx::query(LOG_TAIL_GET).bind(job.0).bind(int(token.0))).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let end = |at: usize| -> Result<LogEnd, sqlx::Error> {
            let total = u64::try_from(row.try_get::<i64, _>(at)?).unwrap_or_default();
            Ok(LogEnd { total, data: Bytes::from(row.try_get::<Vec<u8>, _>(at + 1)?) })
        };
        let read = || {
            let created_at = Wall(row.try_get::<At, _>(4)?.0);
            Ok(LogTail { stdout: end(0)?, stderr: end(2)?, created_at })
        };
        read().map(Some).map_err(|error| unreadable("log_tails", &error))
    }
}
