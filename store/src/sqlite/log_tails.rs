//! The ends of what executions printed, in SQLite.

use sqlx::{Row, SqliteConnection};
use tenure_scheduler::{FencingToken, JobId, Wall};

use super::{
    commit::{Bytes, with_bytes},
    reader::{SqliteReader, unreadable},
};
use crate::{
    LogEnd, LogTail, journal,
    reader::Error,
    rows::{batch, int},
    turn::Turn,
};

/// For the test that prepares each.
#[cfg(test)]
pub(super) const ALL: [&str; 2] = [LOG_TAIL_UPSERT, LOG_TAIL_GET];

// A report that is repeated, or comes after its loss was recorded, brings the same or more.
pub(super) const LOG_TAIL_UPSERT: &str = "
insert into log_tails (job_id, token, stdout_bytes, stdout_tail, stderr_bytes, stderr_tail, created_at)
select
  new.value ->> 0, new.value ->> 1, new.value ->> 2, substr($2, new.value ->> 3, new.value ->> 4), new.value ->> 5,
  substr($2, new.value ->> 6, new.value ->> 7), new.value ->> 8
from json_each($1) as new
where true
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
pub(super) async fn put(connection: &mut SqliteConnection, turn: &Turn<'_>) -> Result<(), journal::Error> {
    let mut bytes = Bytes::new();
    let tails = turn.log_tails.iter().map(|(job, token, tail)| {
        let (stdout, stdout_length) = bytes.add(&tail.stdout.data);
        let (stderr, stderr_length) = bytes.add(&tail.stderr.data);
        let (job, token, created_at) = (job.to_string(), int(token.0), tail.created_at.0);
        let (out, err) = (int(tail.stdout.total), int(tail.stderr.total));
        (job, token, out, stdout, stdout_length, err, stderr, stderr_length, created_at)
    });
    let tails = batch("log_tails", tails)?;
    with_bytes(connection, "LOG_TAIL_UPSERT", LOG_TAIL_UPSERT, tails, bytes).await
}

impl SqliteReader {
    pub(crate) async fn log_tail(&self, job: JobId, token: FencingToken) -> Result<Option<LogTail>, Error> {
        let rows = self.rows(sqlx::query(LOG_TAIL_GET).bind(job.to_string()).bind(int(token.0))).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let end = |at: usize| -> Result<LogEnd, sqlx::Error> {
            let total = u64::try_from(row.try_get::<i64, _>(at)?).unwrap_or_default();
            Ok(LogEnd { total, data: row.try_get::<Vec<u8>, _>(at + 1)?.into() })
        };
        let read = || Ok(LogTail { stdout: end(0)?, stderr: end(2)?, created_at: Wall(row.try_get(4)?) });
        read().map(Some).map_err(|error| unreadable("log_tails", &error))
    }
}
