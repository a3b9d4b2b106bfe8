//! Which objects results name: what object storage has to have, and what it need not keep.

use std::collections::BTreeSet;

use sqlx::{Row as _, sqlite::SqliteRow};
use tenure_scheduler::{FencingToken, JobId};

use super::{SqliteReader, token, unreadable};
use crate::{
    ObjectName, ResultObject,
    reader::Error,
    rows::{batch, int},
};

/// For the test that prepares each.
#[cfg(test)]
pub(in crate::sqlite) const ALL: [&str; 3] = [OBJECT_LIST, OBJECT_LIST_OF_JOBS, OBJECT_WANTED];

pub(in crate::sqlite) const OBJECT_LIST: &str = "
select job_id, token, object_sha256
from results
where object_size is not null and (job_id, token) > ($1, $2)
order by job_id, token
limit $3";

const OBJECT_LIST_OF_JOBS: &str = "
select job_id, token, object_sha256
from results
where job_id in (select value from json_each($1)) and object_size is not null";

// One statement, and so one instant: the commit that makes a job final writes the row.
const OBJECT_WANTED: &str = "
select asked.value ->> 0, asked.value ->> 1, asked.value ->> 2
from json_each($1) as asked
where exists (
    select 1 from results
    where results.job_id = asked.value ->> 0 and results.token = asked.value ->> 1
      and results.object_sha256 = asked.value ->> 2)
  or exists (
    select 1 from jobs
    where jobs.id = asked.value ->> 0 and jobs.token = asked.value ->> 1 and jobs.finished_at is null)";

impl SqliteReader {
    pub(crate) async fn objects(
        &self,
        after: Option<(JobId, FencingToken)>,
        limit: u32,
    ) -> Result<Vec<ObjectName>, Error> {
        let (job, token) = after.map_or((String::new(), 0), |(job, token)| (job.to_string(), int(token.0)));
        names(&self.rows(sqlx::query(OBJECT_LIST).bind(job).bind(token).bind(limit)).await?)
    }

    pub(crate) async fn objects_of(&self, jobs: &[JobId]) -> Result<Vec<ObjectName>, Error> {
        let ids = batch("results", jobs.iter().map(ToString::to_string))?.text;
        names(&self.rows(sqlx::query(OBJECT_LIST_OF_JOBS).bind(ids)).await?)
    }

    pub(crate) async fn wanted_objects(&self, asked: &[ObjectName]) -> Result<BTreeSet<ObjectName>, Error> {
        let line = |name: &ObjectName| (name.job.to_string(), int(name.token.0), name.sha256.to_string());
        let asked = batch("results", asked.iter().map(line))?.text;
        Ok(names(&self.rows(sqlx::query(OBJECT_WANTED).bind(asked)).await?)?.into_iter().collect())
    }
}

/// The object that a row names, if it names one: two columns from this one on.
pub(super) fn object(row: &SqliteRow, at: usize) -> Result<Option<ResultObject>, sqlx::Error> {
    let (size, sha256) = (row.try_get::<Option<i64>, _>(at)?, row.try_get::<Option<String>, _>(at + 1)?);
    ResultObject::of_columns(size, sha256.as_deref()).map_err(|error| sqlx::Error::Decode(error.into()))
}

fn names(rows: &[SqliteRow]) -> Result<Vec<ObjectName>, Error> {
    let read = |row: &SqliteRow| -> Result<ObjectName, sqlx::Error> {
        let decode = |error: Box<dyn std::error::Error + Send + Sync>| sqlx::Error::Decode(error);
        Ok(ObjectName {
            job: row.try_get::<&str, _>(0)?.parse().map_err(|error: uuid::Error| decode(error.into()))?,
            token: token(row, 1)?,
            sha256: row
                .try_get::<&str, _>(2)?
                .parse()
                .map_err(|error: crate::objects::NoName| decode(error.into()))?,
        })
    };
    rows.iter().map(read).collect::<Result<_, _>>().map_err(|error| unreadable("results", &error))
}
