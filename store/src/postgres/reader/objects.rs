//! Which objects results name: what object storage has to have, and what it need not keep.

use std::collections::BTreeSet;

use sqlx::{Row as _, postgres::PgRow};
use tenure_scheduler::{FencingToken, JobId};
use uuid::Uuid;

use super::{PostgresReader, token, unreadable};
use crate::{ObjectName, ResultObject, reader::Error, rows::int};

/// For the test that prepares each.
#[cfg(test)]
pub(in crate::postgres) const ALL: [&str; 3] = [OBJECT_LIST, OBJECT_LIST_OF_JOBS, OBJECT_WANTED];

pub(in crate::postgres) const OBJECT_LIST: &str = "
select job_id, token, object_sha256
from results
where object_size is not null and (job_id, token) > ($1, $2)
order by job_id, token
limit $3";

const OBJECT_LIST_OF_JOBS: &str = "
select job_id, token, object_sha256
from results
where job_id = any($1::uuid[]) and object_size is not null";

// One statement, and so one instant: the commit that makes a job final writes the row.
const OBJECT_WANTED: &str = "
select asked.job_id, asked.token, asked.sha256
from unnest($1::uuid[], $2::bigint[], $3::text[]) as asked (job_id, token, sha256)
where exists (
    select 1 from results
    where results.job_id = asked.job_id and results.token = asked.token and results.object_sha256 = asked.sha256)
  or exists (
    select 1 from jobs
    where jobs.id = asked.job_id and jobs.token = asked.token and jobs.finished_at is null)";

impl PostgresReader {
    pub(crate) async fn objects(
        &self,
        after: Option<(JobId, FencingToken)>,
        limit: u32,
    ) -> Result<Vec<ObjectName>, Error> {
        let (job, token) = after.map_or((Uuid::nil(), 0), |(job, token)| (job.0, int(token.0)));
        let rows = self.rows(|| sqlx::query(OBJECT_LIST).bind(job).bind(token).bind(i64::from(limit)));
        names(&rows.await?)
    }

    pub(crate) async fn objects_of(&self, jobs: &[JobId]) -> Result<Vec<ObjectName>, Error> {
        let ids: Vec<Uuid> = jobs.iter().map(|job| job.0).collect();
        names(&self.rows(|| sqlx::query(OBJECT_LIST_OF_JOBS).bind(&ids)).await?)
    }

    pub(crate) async fn wanted_objects(&self, asked: &[ObjectName]) -> Result<BTreeSet<ObjectName>, Error> {
        let jobs: Vec<Uuid> = asked.iter().map(|name| name.job.0).collect();
        let tokens: Vec<i64> = asked.iter().map(|name| int(name.token.0)).collect();
        let sums: Vec<String> = asked.iter().map(|name| name.sha256.to_string()).collect();
        let rows = self.rows(|| sqlx::query(OBJECT_WANTED).bind(&jobs).bind(&tokens).bind(&sums));
        Ok(names(&rows.await?)?.into_iter().collect())
    }
}

/// The object that a row names, if it names one: two columns from this one on.
pub(super) fn object(row: &PgRow, at: usize) -> Result<Option<ResultObject>, sqlx::Error> {
    let (size, sha256) = (row.try_get::<Option<i64>, _>(at)?, row.try_get::<Option<String>, _>(at + 1)?);
    ResultObject::of_columns(size, sha256.as_deref()).map_err(|error| sqlx::Error::Decode(error.into()))
}

fn names(rows: &[PgRow]) -> Result<Vec<ObjectName>, Error> {
    let read = |row: &PgRow| -> Result<ObjectName, sqlx::Error> {
        let sha256 = row.try_get::<&str, _>(2)?.parse();
        Ok(ObjectName {
            job: JobId(row.try_get(0)?),
            token: token(row, 1)?,
            sha256: sha256.map_err(|error| sqlx::Error::Decode(Box::new(error)))?,
        })
    };
    rows.iter().map(read).collect::<Result<_, _>>().map_err(|error| unreadable("results", &error))
}
