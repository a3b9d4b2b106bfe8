//! What weakens the promises of a database: its settings, and what stands between it and us.

use std::time::Duration;

use sqlx::Row;
use tenure_scheduler::Wall;
use tokio::time::timeout;

use super::{PostgresReader, schema};
use crate::reader::{Durability, Error, Examination};

/// How long the search for a pooler may take: it wants two connections at once.
const LIMIT: Duration = Duration::from_secs(2);

/// For the test that prepares each.
#[cfg(test)]
pub(super) const ALL: [&str; 2] = [SETTINGS_GET, BACKEND_GET];

const SETTINGS_GET: &str = "
select current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',
  current_setting('autovacuum') = 'on', (extract(epoch from clock_timestamp()) * 1000000)::bigint";

const BACKEND_GET: &str = "select pg_backend_pid()";

impl PostgresReader {
    /// See [`crate::Reader::examine`].
    pub(crate) async fn examine(&self) -> Result<Examination, Error> {
        let rows = self.rows(|| sqlx::query(SETTINGS_GET)).await?;
        let settings = rows.first().map(|row| {
            let flag = |index| row.try_get::<bool, _>(index).unwrap_or(true);
            (flag(0), flag(1), flag(2), row.try_get(3).ok().map(Wall))
        });
        let (fsync, full_pages, autovacuum, wall) = settings.unwrap_or((true, true, true, None));
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
            (found > schema::newest(), &*later),
        ];
        let findings = findings.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text.to_owned());
        Ok(Examination { findings: findings.collect(), wall })
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
