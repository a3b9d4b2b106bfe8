//! The readers: a pool of connections that may only read, each read bounded in time.
//!
//! A read that is too slow, or whose caller went away, takes its connection with it: the database notices that the peer
//! is gone, or ends the statement by its own limit. Reads, and only they, are tried again when they met a restart or a
//! conflict.

mod objects;

use std::{
    collections::{BTreeMap, hash_map::RandomState},
    hash::BuildHasher,
    time::Duration,
};

use bytes::Bytes;
use sqlx::{
    Connection, PgPool, Postgres, Row,
    pool::PoolConnection,
    postgres::{PgArguments, PgPoolOptions, PgRow},
    query::Query,
};
use tenure_scheduler::{
    Attempt, DedupeKey, DueResult, FencingToken, Job, JobId, KindName, NodeName, Producer, Tenant, Wall,
    Workflow, WorkflowId,
};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::{Options, columns::read_all, connect, fault, schema::SCHEMA_VERSION};
use crate::{
    JobCursor, JobFilter, KindCutoff, Left, MemberState, Payload, ResultBytes, StoredResult, Violation,
    WorkflowCursor, WorkflowFilter,
    reader::{Durability, Error, Narrowest},
    rows::{self, At, int, job_columns, workflow_columns},
};

/// A connection that was idle for longer is asked before it is used: whoever stood between may have cut it.
const STALE: Duration = Duration::from_secs(5);

/// How often a read is tried.
const TRIES: u32 = 3;

/// Before the second try, at the least; twice that before the third. As much again is added by chance.
const AGAIN_MS: u64 = 50;

/// A reader of a Postgres database. Clones share their connections.
#[derive(Debug, Clone)]
pub struct PostgresReader {
    pub(super) pool: PgPool,
    pub(super) limit: Duration,
}

#[cfg(test)]
pub(super) use objects::ALL as ALL_OF_OBJECTS;

/// For the test that prepares each.
#[cfg(test)]
pub(super) const ALL: [&str; 32] = [
    DURABILITY,
    JOB_GET,
    JOB_LIST,
    JOB_LIST_OF_KIND,
    JOB_LIST_DEAD,
    JOB_LIST_OF_PARENT,
    JOB_LIST_OF_KEY,
    JOB_LIST_OF_WORKFLOW,
    JOB_COUNT_DEAD,
    ATTEMPT_LIST,
    PAYLOAD_GET,
    RESULT_NEWEST,
    STATE_GET,
    CHECKPOINT_GET,
    PARTIAL_NEWEST,
    JOB_DUE,
    RESULT_DUE,
    VIOLATION_LIST_LEASES,
    VIOLATION_LIST_SLOTS,
    VIOLATION_LIST_OWNERS,
    VIOLATION_LIST_NEEDS,
    VIOLATION_LIST_FINAL,
    VIOLATION_LIST_RESULTS,
    VIOLATION_LIST_ATTEMPTS,
    VIOLATION_LIST_INSTANTS,
    VIOLATION_LIST_WORKFLOWS,
    WORKFLOW_GET,
    END_GET,
    WORKFLOW_LIST,
    MEMBER_LIST,
    MEMBER_COUNT,
    WORKFLOW_DUE,
];

pub(super) const JOB_GET: &str = concat!(
    "select ",
    job_columns!(),
    "
from jobs
where id = $1"
);

/// The filters of a list. Those that have an index of their own are said twice: once so that the planner sees them.
macro_rules! job_list {
    ($by:literal) => {
        concat!(
            "select ",
            job_columns!(),
            "
from jobs
where ",
            $by,
            "
  and ($1::text is null or kind = $1)
  and ($2::text[] is null or state = any($2))
  and ($3::text is null or tenant = $3)
  and ($4::text is null or dedupe_key = $4)
  and ($5::uuid is null or parent_id = $5)
  and ($6::text is null or last_node = $6)
  and ($12::uuid is null or workflow_id = $12)
  and ($7::text is null or producer = $7)
  and ($11::text is null or id::text like $11 || '%' or id::text like '%' || $11)
  and (created_at, id) < ($8::timestamptz, $9::uuid)
order by created_at desc, id desc
limit $10"
        )
    };
}

pub(super) const JOB_LIST: &str = job_list!("true");

pub(super) const JOB_LIST_OF_KIND: &str = job_list!("kind = $1");

pub(super) const JOB_LIST_DEAD: &str = job_list!("state = 'dead'");

pub(super) const JOB_LIST_OF_PARENT: &str = job_list!("parent_id = $5");

pub(super) const JOB_LIST_OF_KEY: &str = job_list!("dedupe_key = $4");

pub(super) const JOB_LIST_OF_WORKFLOW: &str = job_list!("workflow_id = $12");

/// The statement whose index narrows a list most.
fn list_of(filter: &JobFilter) -> &'static str {
    match filter.narrowest() {
        Narrowest::Key => JOB_LIST_OF_KEY,
        Narrowest::Parent => JOB_LIST_OF_PARENT,
        Narrowest::Workflow => JOB_LIST_OF_WORKFLOW,
        Narrowest::Dead => JOB_LIST_DEAD,
        Narrowest::Kind => JOB_LIST_OF_KIND,
        Narrowest::Nothing => JOB_LIST,
    }
}

pub(super) const JOB_COUNT_DEAD: &str = "
select kind, count(*)
from jobs
where state = 'dead'
group by kind";

pub(super) const ATTEMPT_LIST: &str = "
select job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at,
  detached, usage, partial, checkpoint_size
from attempts
where job_id = $1 and token > $2
order by token
limit $3";

pub(super) const PAYLOAD_GET: &str = "
select job_id, data, content_type
from payloads
where job_id = any($1::uuid[])";

pub(super) const RESULT_NEWEST: &str = "
select token, data, content_type, created_at, expires_at, partial, object_size, object_sha256
from results
where job_id = $1 and not of_wait
order by token desc
limit 1";

pub(super) const STATE_GET: &str = "
select token, data, content_type, created_at, expires_at, partial, object_size, object_sha256
from results
where job_id = $1 and token = $2 and of_wait";

pub(super) const CHECKPOINT_GET: &str = "
select job_id, data
from checkpoints
where job_id = any($1::uuid[])";

pub(super) const PARTIAL_NEWEST: &str = "
select job_id, data, content_type
from results
where job_id = any($1::uuid[]) and partial and object_size is null
  and not exists (
    select 1 from results as newer
    where newer.job_id = results.job_id and newer.partial and newer.token > results.token)";

// The kinds that final jobs have are found by jumps along the index, one per kind.
pub(super) const JOB_DUE: &str = concat!(
    "
with recursive ended (kind) as (
  select min(kind) from jobs where finished_at is not null
  union all
  select (select min(jobs.kind) from jobs where jobs.finished_at is not null and jobs.kind > ended.kind)
  from ended
  where ended.kind is not null
),
due (kind, finished_until) as (
  select ended.kind, coalesce(told.finished_until, $3::timestamptz)
  from ended
  left join unnest($1::text[], $2::timestamptz[]) as told (kind, finished_until) on told.kind = ended.kind
  where ended.kind is not null
)
select ",
    job_columns!(),
    "
from jobs
where id = any(array(
  select found.id
  from due
  cross join lateral (
    select jobs.id
    from jobs
    where jobs.kind = due.kind
      and jobs.finished_at is not null
      and jobs.finished_at <= due.finished_until
      and not exists (select 1 from leases where leases.job_id = jobs.id)
      and not exists (select 1 from jobs as parents where parents.id = jobs.parent_id and parents.finished_at is null)
      and not exists (
        select 1 from workflows where workflows.id = jobs.workflow_id and workflows.finished_at is null)
    order by jobs.finished_at
    limit $4) as found
  limit $4))"
);

pub(super) const RESULT_DUE: &str = "
select results.job_id, results.token, jobs.parent_id, jobs.workflow_id
from results
join jobs on jobs.id = results.job_id
where results.expires_at <= $1
  and not exists (select 1 from jobs as parents where parents.id = jobs.parent_id and parents.finished_at is null)
  and not exists (
    select 1 from workflows where workflows.id = jobs.workflow_id and workflows.finished_at is null)
order by results.expires_at, results.job_id, results.token
limit $2";

pub(super) const VIOLATION_LIST_LEASES: &str =
    "select invariant, subject, detail from inv_one_live_lease limit 100";

pub(super) const VIOLATION_LIST_SLOTS: &str =
    "select invariant, subject, detail from inv_slots_within_capacity limit 100";

pub(super) const VIOLATION_LIST_OWNERS: &str =
    "select invariant, subject, detail from inv_leases_have_owners limit 100";

pub(super) const VIOLATION_LIST_NEEDS: &str =
    "select invariant, subject, detail from inv_all_or_nothing limit 100";

pub(super) const VIOLATION_LIST_FINAL: &str =
    "select invariant, subject, detail from inv_final_is_settled limit 100";

pub(super) const VIOLATION_LIST_RESULTS: &str =
    "select invariant, subject, detail from inv_results_have_executions limit 100";

pub(super) const VIOLATION_LIST_ATTEMPTS: &str =
    "select invariant, subject, detail from inv_attempts_are_counted limit 100";

pub(super) const VIOLATION_LIST_INSTANTS: &str =
    "select invariant, subject, detail from inv_instants_fire_once limit 100";

pub(super) const VIOLATION_LIST_WORKFLOWS: &str =
    "select invariant, subject, detail from inv_workflows_have_members limit 100";

pub(super) const WORKFLOW_GET: &str = concat!(
    "select ",
    workflow_columns!(),
    "
from workflows
where id = $1"
);

pub(super) const END_GET: &str = "
select workflow_id, workflow_place, state
from jobs
where workflow_id = $1 and finished_at is not null";

pub(super) const WORKFLOW_LIST: &str = concat!(
    "select ",
    workflow_columns!(),
    "
from workflows
where ($1::text[] is null or state = any($1))
  and ($2::text is null or producer = $2)
  and (created_at, id) < ($3::timestamptz, $4::uuid)
order by created_at desc, id desc
limit $5"
);

pub(super) const MEMBER_LIST: &str = "
select workflow_place, kind, state, left(reason, 256) as reason
from jobs
where workflow_id = $1
order by workflow_place";

pub(super) const MEMBER_COUNT: &str = "
select workflow_id, state, count(*)
from jobs
where workflow_id = any($1::uuid[])
group by workflow_id, state";

pub(super) const WORKFLOW_DUE: &str = "
select id
from workflows
where finished_at is not null and not exists (select 1 from jobs where jobs.workflow_id = workflows.id)
limit $1";

// The names of standbys are shown to everybody; whether they wait is decided by them.
const DURABILITY: &str =
    "select current_setting('synchronous_standby_names') <> '', exists (select 1 from pg_stat_replication)";

/// In the order of [`crate::reader::INVARIANTS`].
const VIOLATION_LISTS: [&str; 9] = [
    VIOLATION_LIST_LEASES,
    VIOLATION_LIST_SLOTS,
    VIOLATION_LIST_OWNERS,
    VIOLATION_LIST_NEEDS,
    VIOLATION_LIST_FINAL,
    VIOLATION_LIST_RESULTS,
    VIOLATION_LIST_ATTEMPTS,
    VIOLATION_LIST_INSTANTS,
    VIOLATION_LIST_WORKFLOWS,
];

/// In the order of [`crate::reader::OF_LEASES`].
const LEASE_VIOLATION_LISTS: [&str; 3] = [VIOLATION_LIST_SLOTS, VIOLATION_LIST_OWNERS, VIOLATION_LIST_NEEDS];

impl PostgresReader {
    pub(super) fn new(options: &Options) -> Self {
        let pool = PgPoolOptions::new()
            .max_connections(options.readers.max(1))
            .acquire_timeout(Duration::from_secs(1))
            .idle_timeout(Duration::from_secs(600))
            .test_before_acquire(false)
            .after_connect(|connection, _| {
                Box::pin(async {
                    let prepared = connect::prepare(connection, connect::READ).await;
                    prepared.map_err(|error| sqlx::Error::Configuration(error.into()))
                })
            })
            .before_acquire(|connection, about| {
                Box::pin(async move { Ok(about.idle_for < STALE || connection.ping().await.is_ok()) })
            })
            .connect_lazy_with(options.address.0.clone());
        Self { pool, limit: options.read_limit }
    }

    pub(crate) async fn get_job(&self, id: JobId) -> Result<Option<Job>, Error> {
        let rows = self.rows(|| sqlx::query(JOB_GET).bind(id.0)).await?;
        Ok(read_all("jobs", &rows, rows::read_job)?.pop())
    }

    pub(crate) async fn list_jobs(
        &self,
        filter: &JobFilter,
        after: Option<JobCursor>,
        limit: u32,
    ) -> Result<Vec<Job>, Error> {
        let (created_at, id) = match after {
            Some(after) => (At::from(after.created_at), after.id.0),
            None => (At(i64::MAX), Uuid::nil()),
        };
        let query = || {
            sqlx::query(list_of(filter))
                .bind(filter.kind.as_ref().map(KindName::as_str))
                .bind((!filter.states.is_empty()).then_some(&filter.states[..]))
                .bind(filter.tenant.as_ref().map(Tenant::as_str))
                .bind(filter.dedupe_key.as_ref().map(DedupeKey::as_str))
                .bind(filter.parent.map(|parent| parent.0))
                .bind(filter.node.as_ref().map(NodeName::as_str))
                .bind(filter.producer.as_ref().map(Producer::as_str))
                .bind(created_at)
                .bind(id)
                .bind(i64::from(limit))
                .bind(filter.id_part.as_deref())
                .bind(filter.workflow.map(|workflow| workflow.0))
        };
        Ok(read_all("jobs", &self.rows(query).await?, rows::read_job)?)
    }

    pub(crate) async fn attempts(
        &self,
        job: JobId,
        after: Option<FencingToken>,
        limit: u32,
    ) -> Result<Vec<Attempt>, Error> {
        let after = int(after.unwrap_or(FencingToken::NONE).0);
        let query = || sqlx::query(ATTEMPT_LIST).bind(job.0).bind(after).bind(i64::from(limit));
        Ok(read_all("attempts", &self.rows(query).await?, rows::read_attempt)?)
    }

    pub(crate) async fn payloads(&self, jobs: &[JobId]) -> Result<BTreeMap<JobId, Payload>, Error> {
        if jobs.is_empty() {
            return Ok(BTreeMap::new());
        }
        let ids: Vec<Uuid> = jobs.iter().map(|job| job.0).collect();
        let rows = self.rows(|| sqlx::query(PAYLOAD_GET).bind(&ids)).await?;
        let read = |row: &PgRow| -> Result<(JobId, Payload), sqlx::Error> {
            let data = Bytes::from(row.try_get::<Vec<u8>, _>(1)?);
            Ok((JobId(row.try_get(0)?), Payload { data, content_type: row.try_get(2)? }))
        };
        rows.iter().map(read).collect::<Result<_, _>>().map_err(|error| unreadable("payloads", &error))
    }

    pub(crate) async fn left(&self, jobs: &[JobId]) -> Result<BTreeMap<JobId, Left>, Error> {
        if jobs.is_empty() {
            return Ok(BTreeMap::new());
        }
        let ids: Vec<Uuid> = jobs.iter().map(|job| job.0).collect();
        let mut left = BTreeMap::<JobId, Left>::new();
        for row in self.rows(|| sqlx::query(CHECKPOINT_GET).bind(&ids)).await? {
            let read = || Ok((JobId(row.try_get(0)?), row.try_get::<Vec<u8>, _>(1)?));
            let (job, data) = read().map_err(|error| unreadable("checkpoints", &error))?;
            left.entry(job).or_default().checkpoint = Some(data.into());
        }
        for row in self.rows(|| sqlx::query(PARTIAL_NEWEST).bind(&ids)).await? {
            let read = || Ok((JobId(row.try_get(0)?), row.try_get::<Vec<u8>, _>(1)?, row.try_get(2)?));
            let (job, data, content_type) = read().map_err(|error| unreadable("results", &error))?;
            left.entry(job).or_default().partial =
                Some(ResultBytes { data: data.into(), content_type, object: None });
        }
        Ok(left)
    }

    pub(crate) async fn result(&self, job: JobId) -> Result<Option<StoredResult>, Error> {
        self.one_result(job, || sqlx::query(RESULT_NEWEST).bind(job.0)).await
    }

    pub(crate) async fn state(&self, job: JobId, token: FencingToken) -> Result<Option<StoredResult>, Error> {
        self.one_result(job, || sqlx::query(STATE_GET).bind(job.0).bind(int(token.0))).await
    }

    async fn one_result<'q>(
        &self,
        job: JobId,
        query: impl Fn() -> Query<'q, Postgres, PgArguments>,
    ) -> Result<Option<StoredResult>, Error> {
        let rows = self.rows(query).await?;
        let read = |row: &PgRow| -> Result<StoredResult, sqlx::Error> {
            Ok(StoredResult {
                job,
                token: token(row, 0)?,
                data: Bytes::from(row.try_get::<Vec<u8>, _>(1)?),
                content_type: row.try_get(2)?,
                created_at: Wall(row.try_get::<At, _>(3)?.0),
                expires_at: Wall(row.try_get::<At, _>(4)?.0),
                partial: row.try_get(5)?,
                object: objects::object(row, 6)?,
            })
        };
        rows.first().map(read).transpose().map_err(|error| unreadable("results", &error))
    }

    pub(crate) async fn due_jobs(
        &self,
        cutoffs: &[KindCutoff],
        others: Wall,
        limit: u32,
    ) -> Result<Vec<Job>, Error> {
        let kinds: Vec<&str> = cutoffs.iter().map(|cutoff| cutoff.kind.as_str()).collect();
        let until: Vec<At> = cutoffs.iter().map(|cutoff| At::from(cutoff.finished_until)).collect();
        let query = || {
            let query = sqlx::query(JOB_DUE).bind(&kinds).bind(&until);
            query.bind(At::from(others)).bind(i64::from(limit))
        };
        Ok(read_all("jobs", &self.rows(query).await?, rows::read_job)?)
    }

    pub(crate) async fn due_results(&self, now: Wall, limit: u32) -> Result<Vec<DueResult>, Error> {
        let query = || sqlx::query(RESULT_DUE).bind(At::from(now)).bind(i64::from(limit));
        let read = |row: &PgRow| -> Result<DueResult, sqlx::Error> {
            let parent = row.try_get::<Option<Uuid>, _>(2)?.map(JobId);
            let workflow = row.try_get::<Option<Uuid>, _>(3)?.map(WorkflowId);
            Ok(DueResult { job: JobId(row.try_get(0)?), token: token(row, 1)?, parent, workflow })
        };
        let rows = self.rows(query).await?;
        rows.iter().map(read).collect::<Result<_, _>>().map_err(|error| unreadable("results", &error))
    }

    pub(crate) async fn get_workflow(&self, id: WorkflowId) -> Result<Option<Workflow>, Error> {
        let found = self.rows(|| sqlx::query(WORKFLOW_GET).bind(id.0)).await?;
        let found = read_all("workflows", &found, rows::read_workflow)?;
        let ends = self.rows(|| sqlx::query(END_GET).bind(id.0)).await?;
        Ok(rows::put_ends(found, read_all("jobs", &ends, rows::read_end)?).remove(&id))
    }

    pub(crate) async fn list_workflows(
        &self,
        filter: &WorkflowFilter,
        after: Option<WorkflowCursor>,
        limit: u32,
    ) -> Result<Vec<Workflow>, Error> {
        let (created_at, id) = match after {
            Some(after) => (At::from(after.created_at), after.id.0),
            None => (At(i64::MAX), Uuid::nil()),
        };
        let query = || {
            sqlx::query(WORKFLOW_LIST)
                .bind((!filter.states.is_empty()).then_some(&filter.states[..]))
                .bind(filter.producer.as_ref().map(Producer::as_str))
                .bind(created_at)
                .bind(id)
                .bind(i64::from(limit))
        };
        Ok(read_all("workflows", &self.rows(query).await?, rows::read_workflow)?)
    }

    pub(crate) async fn members(&self, id: WorkflowId) -> Result<Vec<MemberState>, Error> {
        let found = self.rows(|| sqlx::query(MEMBER_LIST).bind(id.0)).await?;
        Ok(read_all("jobs", &found, rows::read_member)?)
    }

    pub(crate) async fn member_counts(
        &self,
        ids: &[WorkflowId],
    ) -> Result<Vec<(WorkflowId, String, u32)>, Error> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        let found = self.rows(|| sqlx::query(MEMBER_COUNT).bind(&ids)).await?;
        Ok(read_all("jobs", &found, rows::read_count)?)
    }

    pub(crate) async fn due_workflows(&self, limit: u32) -> Result<Vec<WorkflowId>, Error> {
        let found = self.rows(|| sqlx::query(WORKFLOW_DUE).bind(i64::from(limit))).await?;
        Ok(read_all("workflows", &found, rows::read_workflow_id)?)
    }

    pub(crate) async fn dead_by_kind(&self) -> Result<BTreeMap<KindName, u64>, Error> {
        let read = |row: &PgRow| -> Result<(KindName, u64), sqlx::Error> {
            let (kind, count): (&str, i64) = (row.try_get(0)?, row.try_get(1)?);
            Ok((KindName::new(kind), u64::try_from(count).unwrap_or(0)))
        };
        let rows = self.rows(|| sqlx::query(JOB_COUNT_DEAD)).await?;
        rows.iter().map(read).collect::<Result<_, _>>().map_err(|error| unreadable("jobs", &error))
    }

    pub(crate) async fn violations(&self) -> Result<Vec<Violation>, Error> {
        self.shown(&VIOLATION_LISTS).await
    }

    pub(crate) async fn lease_violations(&self) -> Result<Vec<Violation>, Error> {
        self.shown(&LEASE_VIOLATION_LISTS).await
    }

    async fn shown(&self, lists: &[&'static str]) -> Result<Vec<Violation>, Error> {
        let read = |row: &PgRow| -> Result<Violation, sqlx::Error> {
            let (invariant, subject, detail) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            Ok(Violation { invariant, subject, detail })
        };
        let mut all = Vec::new();
        for list in lists.iter().copied() {
            for row in self.rows(|| sqlx::query(list)).await? {
                all.push(read(&row).map_err(|error| unreadable("inv_*", &error))?);
            }
        }
        Ok(all)
    }

    pub(crate) async fn schema_version(&self) -> Result<u64, Error> {
        let rows = self.rows(|| sqlx::query(SCHEMA_VERSION)).await?;
        let version = rows.first().map_or(Ok(0), |row| row.try_get::<i64, _>(0));
        let version = version.map_err(|error| unreadable("_sqlx_migrations", &error))?;
        Ok(u64::try_from(version).unwrap_or(0))
    }

    pub(crate) async fn durability(&self) -> Result<Durability, Error> {
        let rows = self.rows(|| sqlx::query(DURABILITY)).await?;
        let flag = |column| rows.first().is_some_and(|row| row.try_get(column).unwrap_or(false));
        Ok(match (flag(0), flag(1)) {
            (true, _) => Durability::Sync,
            (false, true) => Durability::Async,
            (false, false) => Durability::Single,
        })
    }

    pub(crate) async fn ping(&self) -> Result<(), Error> {
        self.schema_version().await.map(drop)
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    /// Runs one bounded read.
    pub(super) async fn rows<'q>(
        &self,
        query: impl Fn() -> Query<'q, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, Error> {
        let read = async {
            let mut tried = 1;
            loop {
                match self.try_rows(query()).await {
                    Err(error) if tried < TRIES && fault::is_passing(&error) => {
                        let wait = AGAIN_MS << tried >> 1;
                        sleep(Duration::from_millis(wait + by_chance() % wait)).await;
                        tried += 1;
                    }
                    done => return done,
                }
            }
        };
        match timeout(self.limit, read).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) if is_too_slow(&error) => Err(self.too_slow()),
            Ok(Err(error)) => Err(Error::Unavailable(error.into())),
            Err(_elapsed) => Err(self.too_slow()),
        }
    }

    async fn try_rows(&self, query: Query<'_, Postgres, PgArguments>) -> Result<Vec<PgRow>, sqlx::Error> {
        let mut reading = Reading(Some(self.pool.acquire().await?));
        let Some(connection) = &mut reading.0 else { return Err(sqlx::Error::PoolClosed) };
        let rows = query.fetch_all(&mut **connection).await?;
        // It ended well: back to the pool.
        drop(reading.0.take());
        Ok(rows)
    }

    fn too_slow(&self) -> Error {
        Error::TooSlow { limit_ms: u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX) }
    }
}

/// A connection with a statement on it. Dropped before that has ended well, it does not go back to the pool.
struct Reading(Option<PoolConnection<Postgres>>);

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}

/// The database ended it by its own limit.
fn is_too_slow(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|told| fault::code(told) == "57014")
}

/// A number that differs between servers and calls; nothing depends on it but when a read is tried again.
fn by_chance() -> u64 {
    RandomState::new().hash_one(())
}

fn token(row: &PgRow, index: usize) -> Result<FencingToken, sqlx::Error> {
    let token: i64 = row.try_get(index)?;
    u64::try_from(token).map(FencingToken).map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

pub(super) fn unreadable(table: &'static str, error: &sqlx::Error) -> Error {
    Error::Unreadable(rows::Error { table, key: "(a row)".into(), problem: error.to_string() })
}
