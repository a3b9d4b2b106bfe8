//! The read side: what is committed, for everybody who asks.
//!
//! Responsible for questions that the scheduler's memory cannot answer: final jobs, bytes, lists, what is due, and the
//! views that must be empty. Not for anything of the present: a live deferral, a holder, a place in line are asked of
//! the driver. A read is bounded (5 s) and never waits for the writer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use bytes::Bytes;
use tenure_scheduler::{
    Attempt, DedupeKey, DeliveryId, DueResult, FencingToken, Job, JobId, JobState, KindName, NodeName,
    Producer, Tenant, Wall, Workflow, WorkflowId,
};

use crate::{
    LogTail, ObjectName, ResultObject,
    journal::{Cause, Payload, ResultBytes},
    memory, postgres, rows, sqlite,
};

/// A cheap handle to the committed rows of a store. Clones share their connections.
#[derive(Debug, Clone)]
pub enum Reader {
    /// Of a Postgres database.
    Postgres(postgres::PostgresReader),
    /// Of a SQLite file.
    Sqlite(sqlite::SqliteReader),
    /// Of a store in memory.
    Memory(memory::MemoryReader),
}

/// Calls the reader of whichever store it is.
macro_rules! each {
    ($self:ident, $reader:ident => $call:expr) => {
        match $self {
            Self::Postgres($reader) => $call,
            Self::Sqlite($reader) => $call,
            Self::Memory($reader) => $call,
        }
    };
}

impl Reader {
    /// One job.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn get_job(&self, id: JobId) -> Result<Option<Job>, Error> {
        each!(self, reader => reader.get_job(id).await)
    }

    /// Jobs from the newest to the oldest, at most `limit`, from behind `after` on. A page may be followed while jobs
    /// come, change and go: what is there all the time is shown once.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn list_jobs(
        &self,
        filter: &JobFilter,
        after: Option<JobCursor>,
        limit: u32,
    ) -> Result<Vec<Job>, Error> {
        each!(self, reader => reader.list_jobs(filter, after, limit).await)
    }

    /// Ended executions of a job, the oldest first, at most `limit`, from behind `after` on. An only execution that
    /// succeeded has no such row: its times are columns of its job.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn attempts(
        &self,
        job: JobId,
        after: Option<FencingToken>,
        limit: u32,
    ) -> Result<Vec<Attempt>, Error> {
        each!(self, reader => reader.attempts(job, after, limit).await)
    }

    /// The payloads of these jobs, in one statement. A job that is gone is absent, and so is an empty payload
    /// (`payload_size` is zero).
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn payloads(&self, jobs: &[JobId]) -> Result<BTreeMap<JobId, Payload>, Error> {
        each!(self, reader => reader.payloads(jobs).await)
    }

    /// What earlier executions of these jobs left for the next one. A job of which there is nothing is absent.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn left(&self, jobs: &[JobId]) -> Result<BTreeMap<JobId, Left>, Error> {
        each!(self, reader => reader.left(jobs).await)
    }

    /// The newest stored result of a job, whether its time is over or not.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn result(&self, job: JobId) -> Result<Option<StoredResult>, Error> {
        each!(self, reader => reader.result(job).await)
    }

    /// The state that the execution under this token left when it detached; none: it left none, or its job needs it no
    /// more.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn state(&self, job: JobId, token: FencingToken) -> Result<Option<StoredResult>, Error> {
        each!(self, reader => reader.state(job, token).await)
    }

    /// The end of what the execution under this token printed. None: it printed nothing, or nobody said.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn log_tail(&self, job: JobId, token: FencingToken) -> Result<Option<LogTail>, Error> {
        each!(self, reader => reader.log_tail(job, token).await)
    }

    /// Final jobs whose time is over, that no lease holds and no live parent or workflow may ask for, at most `limit`: those of the kinds named ended at their
    /// cutoff or before, those of other kinds (declared no more) at `others` or before.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn due_jobs(
        &self,
        cutoffs: &[KindCutoff],
        others: Wall,
        limit: u32,
    ) -> Result<Vec<Job>, Error> {
        each!(self, reader => reader.due_jobs(cutoffs, others, limit).await)
    }

    /// Results whose time is over at `now` and that no live parent or workflow may read, the oldest first, at most `limit`.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn due_results(&self, now: Wall, limit: u32) -> Result<Vec<DueResult>, Error> {
        each!(self, reader => reader.due_results(now, limit).await)
    }

    /// What is sent for each of these deliveries, byte for byte; one that is not there any more is absent.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn bodies(&self, ids: &[DeliveryId]) -> Result<BTreeMap<DeliveryId, String>, Error> {
        each!(self, reader => reader.bodies(ids).await)
    }

    /// The objects of results that have one, by job and token from behind `after` on, at most `limit`.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn objects(
        &self,
        after: Option<(JobId, FencingToken)>,
        limit: u32,
    ) -> Result<Vec<ObjectName>, Error> {
        each!(self, reader => reader.objects(after, limit).await)
    }

    /// The objects of all results of these jobs.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn objects_of(&self, jobs: &[JobId]) -> Result<Vec<ObjectName>, Error> {
        each!(self, reader => reader.objects_of(jobs).await)
    }

    /// Of these objects those that a result names, or that one may still come to name: their token is the newest of a job
    /// that is not final. What is not wanted once is never wanted again.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn wanted_objects(&self, names: &[ObjectName]) -> Result<BTreeSet<ObjectName>, Error> {
        each!(self, reader => reader.wanted_objects(names).await)
    }

    /// One workflow, with the ends of its members.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn get_workflow(&self, id: WorkflowId) -> Result<Option<Workflow>, Error> {
        each!(self, reader => reader.get_workflow(id).await)
    }

    /// Workflows from the newest to the oldest, at most `limit`, from behind `after` on, without the ends of their
    /// members.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn list_workflows(
        &self,
        filter: &WorkflowFilter,
        after: Option<WorkflowCursor>,
        limit: u32,
    ) -> Result<Vec<Workflow>, Error> {
        each!(self, reader => reader.list_workflows(filter, after, limit).await)
    }

    /// The members of a workflow that are stored, by place.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn members(&self, id: WorkflowId) -> Result<Vec<MemberState>, Error> {
        each!(self, reader => reader.members(id).await)
    }

    /// How many members of each of these workflows are in each state; a state without any is absent.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn member_counts(
        &self,
        ids: &[WorkflowId],
    ) -> Result<BTreeMap<WorkflowId, BTreeMap<String, u32>>, Error> {
        let counts = each!(self, reader => reader.member_counts(ids).await)?;
        let mut all: BTreeMap<WorkflowId, BTreeMap<String, u32>> = BTreeMap::new();
        for (id, state, count) in counts {
            all.entry(id).or_default().insert(state, count);
        }
        Ok(all)
    }

    /// Final workflows of which no job is stored any more, at most `limit`.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn due_workflows(&self, limit: u32) -> Result<Vec<WorkflowId>, Error> {
        each!(self, reader => reader.due_workflows(limit).await)
    }

    /// How many dead jobs of each kind are kept; a kind without any is absent.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn dead_by_kind(&self) -> Result<BTreeMap<KindName, u64>, Error> {
        each!(self, reader => reader.dead_by_kind().await)
    }

    /// What the `inv_*` views show. Empty, or there is a bug.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn violations(&self) -> Result<Vec<Violation>, Error> {
        each!(self, reader => reader.violations().await)
    }

    /// What those of the `inv_*` views show that read leases and little else, so that they may be asked often: see
    /// [`OF_LEASES`].
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn lease_violations(&self) -> Result<Vec<Violation>, Error> {
        each!(self, reader => reader.lease_violations().await)
    }

    /// The number of the newest migration of the schema.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn schema_version(&self) -> Result<u64, Error> {
        each!(self, reader => reader.schema_version().await)
    }

    /// Whether the store answers.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn ping(&self) -> Result<(), Error> {
        each!(self, reader => reader.ping().await)
    }

    /// What an acknowledged commit survives.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn durability(&self) -> Result<Durability, Error> {
        match self {
            Self::Postgres(reader) => reader.durability().await,
            Self::Sqlite(_) | Self::Memory(_) => Ok(Durability::Single),
        }
    }

    /// What weakens the promises of the store.
    ///
    /// # Errors
    /// As every read: [`Error`].
    pub async fn examine(&self) -> Result<Examination, Error> {
        match self {
            Self::Postgres(reader) => reader.examine().await,
            Self::Sqlite(_) | Self::Memory(_) => Ok(Examination::default()),
        }
    }

    /// The word for the store, for people: postgres, sqlite, memory.
    #[must_use]
    pub fn store_name(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "postgres",
            Self::Sqlite(_) => "sqlite",
            Self::Memory(_) => "memory",
        }
    }

    /// Closes its connections. Later reads of every clone answer [`Error::Unavailable`].
    pub async fn close(&self) {
        each!(self, reader => reader.close().await);
    }
}

/// What an acknowledged commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process and of the machine's power: it is on one disk.
    Single,
    /// As well the loss of that machine: a standby has it.
    Sync,
    /// The loss of that machine, but for the newest commits that its standbys had not received.
    Async,
}

/// What weakens the promises of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Examination {
    /// A sentence each. Empty: nothing was found.
    pub findings: Vec<String>,
    /// What the clock of the database says, if it has one of its own. Nothing depends on it.
    pub wall: Option<Wall>,
}

impl Durability {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Sync => "sync",
            Self::Async => "async",
        }
    }
}

/// The names of the views that [`Reader::violations`] evaluates.
pub const INVARIANTS: [&str; 9] = [
    "inv_one_live_lease",
    "inv_slots_within_capacity",
    "inv_leases_have_owners",
    "inv_all_or_nothing",
    "inv_final_is_settled",
    "inv_results_have_executions",
    "inv_attempts_are_counted",
    "inv_instants_fire_once",
    "inv_workflows_have_members",
];

/// The names of the views that [`Reader::lease_violations`] evaluates: I7, I8 and I9. They grow with what runs, not with
/// what waits or has ended.
pub const OF_LEASES: [&str; 3] =
    ["inv_slots_within_capacity", "inv_leases_have_owners", "inv_all_or_nothing"];

/// Which jobs a list shows. Absent parts match everything; present ones are and-ed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// Of this kind.
    pub kind: Option<KindName>,
    /// In one of these states, by their names; empty: in any.
    pub states: Vec<&'static str>,
    /// Of this tenant.
    pub tenant: Option<Tenant>,
    /// Enqueued by this producer.
    pub producer: Option<Producer>,
    /// With this dedupe key, held or not.
    pub dedupe_key: Option<DedupeKey>,
    /// Children of this job.
    pub parent: Option<JobId>,
    /// Members of this workflow.
    pub workflow: Option<WorkflowId>,
    /// Whose newest execution is or was there.
    pub node: Option<NodeName>,
    /// Whose id begins or ends with this: lower-case hexadecimal digits and hyphens. No index helps.
    pub id_part: Option<String>,
}

impl JobFilter {
    /// The part for which both databases have an index, if it has several the one that leaves the fewest jobs.
    pub(crate) fn narrowest(&self) -> Narrowest {
        if self.dedupe_key.is_some() {
            Narrowest::Key
        } else if self.parent.is_some() {
            Narrowest::Parent
        } else if self.workflow.is_some() {
            Narrowest::Workflow
        } else if self.states == ["dead"] {
            Narrowest::Dead
        } else if self.kind.is_some() {
            Narrowest::Kind
        } else {
            Narrowest::Nothing
        }
    }
}

/// What a statement looks jobs up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Narrowest {
    /// Their dedupe key.
    Key,
    /// Their parent.
    Parent,
    /// Their workflow. Its members are sorted: they are stored together, and no index has their order.
    Workflow,
    /// That they are dead.
    Dead,
    /// Their kind.
    Kind,
    /// Nothing but the order of the list.
    Nothing,
}

/// Where a page of jobs ended: lists go from the newest to the oldest, by both parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobCursor {
    /// Of the last job of the page.
    pub created_at: Wall,
    /// Of the last job of the page.
    pub id: JobId,
}

impl JobCursor {
    /// The cursor after which the next page begins.
    #[must_use]
    pub fn after(job: &Job) -> Self {
        Self { created_at: job.created_at, id: job.id }
    }
}

/// Which workflows a list shows. Absent parts match everything; present ones are and-ed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkflowFilter {
    /// Whose state is one of these; empty: any.
    pub states: Vec<&'static str>,
    /// Who submitted them.
    pub producer: Option<Producer>,
}

/// Where a page of workflows ended: lists go from the newest to the oldest, by both parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkflowCursor {
    /// Of the last workflow of the page.
    pub created_at: Wall,
    /// Of the last workflow of the page.
    pub id: WorkflowId,
}

impl WorkflowCursor {
    /// The cursor after which the next page begins.
    #[must_use]
    pub fn after(workflow: &Workflow) -> Self {
        Self { created_at: workflow.created_at, id: workflow.id }
    }
}

/// A member of a workflow, as far as its drawing needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberState {
    /// Where it is, from 0.
    pub place: u32,
    /// The kind of the job.
    pub kind: KindName,
    /// The state of the job.
    pub state: Arc<str>,
    /// Why it stands there, for people: the first 256 characters of it, since there may be ten thousand of them.
    pub reason: Option<Arc<str>>,
}

/// Until when final jobs of a kind must have ended to be due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindCutoff {
    /// The kind.
    pub kind: KindName,
    /// Ended then or before.
    pub finished_until: Wall,
}

/// A stored result.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredResult {
    /// The job.
    pub job: JobId,
    /// The token of the execution that produced it.
    pub token: FencingToken,
    /// The bytes. Empty if they stand in object storage.
    pub data: Bytes,
    /// A media type, as the node said; may be empty.
    pub content_type: String,
    /// When it was stored.
    pub created_at: Wall,
    /// When it is swept.
    pub expires_at: Wall,
    /// It is what there was when its execution had to end.
    pub partial: bool,
    /// What stands in object storage instead.
    pub object: Option<ResultObject>,
}

impl StoredResult {
    /// How many bytes it has.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.object.map_or(self.data.len() as u64, |object| object.size)
    }

    /// The name of its object, if its bytes stand in object storage.
    #[must_use]
    pub fn object_name(&self) -> Option<ObjectName> {
        let object = self.object?;
        Some(ObjectName { job: self.job, token: self.token, sha256: object.sha256 })
    }

    /// Whether it says nothing any more of a job in that state, whose newest execution has that token: an execution that
    /// had to end left it, and a later one succeeded without a result.
    #[must_use]
    pub fn is_superseded(&self, state: &JobState, token: FencingToken) -> bool {
        self.partial && matches!(state, JobState::Succeeded { .. }) && self.token != token
    }
}

/// What earlier executions of a job left for the next one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Left {
    /// The newest checkpoint.
    pub checkpoint: Option<Bytes>,
    /// The newest partial result that is kept.
    pub partial: Option<ResultBytes>,
}

// A result may hold secrets: its text form tells its size only.
impl fmt::Debug for StoredResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, token, content_type, .. } = self;
        write!(f, "StoredResult({job} {token}, {} bytes, {content_type:?})", self.size())
    }
}

/// A row of an `inv_*` view: a bug of ours, or a hand in the database.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The name of the view.
    pub invariant: String,
    /// The job, lease, slot or node that it is about.
    pub subject: String,
    /// What is wrong.
    pub detail: String,
}

/// Why a read failed. Reads may be tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A stored row makes no sense.
    #[error("a row is unreadable")]
    Unreadable(#[source] rows::Error),
    /// The read took longer than a read may.
    #[error("the read took longer than {limit_ms} ms")]
    TooSlow {
        /// How long it may take.
        limit_ms: u64,
    },
    /// The store is away, or all its connections are taken.
    #[error("the store is unavailable")]
    Unavailable(#[source] Cause),
}

impl From<rows::Error> for Error {
    fn from(error: rows::Error) -> Self {
        Self::Unreadable(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_partial_result_of_an_earlier_execution_of_a_job_that_succeeded_is_superseded() {
        let job = JobId(uuid::Uuid::from_u128(1));
        let stored = |token, partial| StoredResult {
            job,
            token: FencingToken(token),
            data: Bytes::new(),
            content_type: String::new(),
            created_at: Wall(0),
            expires_at: Wall(1),
            partial,
            object: None,
        };
        let (newest, ended) = (FencingToken(2), JobState::Succeeded { at: Wall(0) });
        assert!(stored(1, true).is_superseded(&ended, newest));
        assert!(!stored(2, true).is_superseded(&ended, newest), "its own");
        assert!(!stored(1, false).is_superseded(&ended, newest), "a whole one");
        assert!(!stored(1, true).is_superseded(&JobState::Dead { at: Wall(0) }, newest), "all that is left");
    }
}
