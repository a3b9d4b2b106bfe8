//! What weakens the promises of a database: its settings, and what stands between it and us.

use std::time::Duration;

use sqlx::Row;
use tenure_scheduler::Wall;
use tokio::time::timeout;

use super::{PostgresReader, identity::Identity, schema};
use crate::reader::{Durability, Error, Examination};

/// How long a look may take that wants connections of its own: two at once, to find a pooler.
const LIMIT: Duration = Duration::from_secs(2);

/// For the test that prepares each.
#[cfg(test)]
pub(super) const ALL: [&str; 2] = [SETTINGS_GET, BACKEND_GET];

// Of a session's own settings, two that every reading connection makes (connect.rs). Of the connections, those of clients.
const SETTINGS_GET: &str = "
select current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',
  current_setting('autovacuum') = 'on',
  current_setting('application_name') = 'tenure-reader' and current_setting('statement_timeout') = '5s',
  (extract(epoch from clock_timestamp()) * 1000000)::bigint,
  (select count(*) from pg_stat_activity where backend_type = 'client backend'),
  current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint";

/// Of ten connections that the database takes, so many in use are told: a takeover needs one more.
const MANY_IN_TEN: i64 = 9;

const BACKEND_GET: &str = "select pg_backend_pid()";

impl PostgresReader {
    /// See [`crate::Reader::examine`].
    pub(crate) async fn examine(&self) -> Result<Examination, Error> {
        let rows = self.rows(|| sqlx::query(SETTINGS_GET)).await?;
        let row = rows.first();
        let flag = |index| row.is_none_or(|row| row.try_get::<bool, _>(index).unwrap_or(true));
        let number = |index| row.and_then(|row| row.try_get::<i64, _>(index).ok());
        let (fsync, full_pages, autovacuum, settings_last) = (flag(0), flag(1), flag(2), flag(3));
        let wall = number(4).map(Wall);
        let (connections, most) = number(5).zip(number(6)).unwrap_or((0, i64::MAX));
        let crowded = format!(
            "{connections} of the {most} connections that the database takes are in use: a takeover may find none"
        );
        let found = self.schema_version().await?;
        let later = format!(
            "the database has schema {found}, this server knows {}: a later version migrated it; start that",
            schema::newest()
        );
        let findings = [
            (!fsync, "fsync is off: a crash of the database's host may lose or damage everything"),
            (!full_pages, "full_page_writes is off: a crash of the database's host may damage tables"),
            (!autovacuum, "autovacuum is off: tables and indexes grow without bound"),
            (
                self.durability().await? == Durability::Async,
                "its standbys follow asynchronously: a failover may lose the newest acknowledged jobs, unless \
                 synchronous_standby_names names one",
            ),
            (
                self.is_pooled().await,
                "a pooler hands connections out by transaction: connect directly, or by one in session mode",
            ),
            (
                !settings_last,
                "settings of a session are gone from one read to the next: a pooler stands before the database that \
                 does not keep them; use session mode, or connect directly",
            ),
            (
                self.is_nameless().await,
                "this role cannot tell the database's timeline: a failover that loses a takeover may repeat its \
                 tokens; grant execute on pg_walfile_name and pg_current_wal_lsn",
            ),
            (connections.saturating_mul(10) >= most.saturating_mul(MANY_IN_TEN), &*crowded),
            (found > schema::newest(), &*later),
        ];
        let findings = findings.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text.to_owned());
        Ok(Examination { findings: findings.collect(), wall })
    }

    /// Whether the database does not tell which one it is. False if that cannot be seen at the moment.
    async fn is_nameless(&self) -> bool {
        let look = async { Identity::read(&mut *self.pool.acquire().await?).await };
        timeout(LIMIT, look).await.is_ok_and(|read| read.is_ok_and(|identity| identity.is_none()))
    }

    /// Whether two connections share one process of the database. A pooler in transaction mode gives the second what the
    /// first does not use at the moment. False if that cannot be seen, since all connections are taken.
    async fn is_pooled(&self) -> bool {
        let look = async {
            let (mut first, mut second) = (self.pool.acquire().await?, self.pool.acquire().await?);
            let mut pids = [0; 2];
            for (pid, connection) in pids.iter_mut().zip([&mut first, &mut second]) {
                *pid = sqlx::query(BACKEND_GET).fetch_one(&mut **connection).await?.try_get::<i32, _>(0)?;
            }
            Ok::<_, sqlx::Error>(pids[0] == pids[1])
        };
        timeout(LIMIT, look).await.is_ok_and(|pooled| pooled.unwrap_or(false))
    }
}
