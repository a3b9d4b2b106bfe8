//! The writer: one dedicated connection, opened anew at every takeover.
//!
//! Whatever goes wrong on it, a slow answer and a caller that went away included, it is dropped, and only a takeover
//! helps: that waits by an exclusive lock until the transaction of the old connection has ended, committed or not.
//! Nothing is tried again here; the driver repeats the takeover.

use std::{future::Future, time::Duration};

use futures_util::TryStreamExt;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, postgres::PgRow};
use tenure_scheduler::{Changes, Durable, Epoch, Job, JobId, Workflow, WorkflowId};
use tokio::time::timeout;
use uuid::Uuid;

use super::outbox::{DELIVERY_LOAD, WEBHOOK_LOAD};
use super::{
    Address,
    columns::{read, read_all},
    commit, connect,
    election::{Candidate, Claim},
    fault,
    identity::{self, Identity},
    schema,
};
use crate::{
    Beside, HeldKey, Journal, Taken,
    election::Trust,
    journal::Error,
    rows::{self, Fields, Names, int, job_columns, workflow_columns},
    turn::{self, Turn},
};

/// How long a takeover may take until its outcome is given up as unknown: two waits of a second for the lock, the end
/// of who holds it, and a commit.
const TAKEOVER_LIMIT: Duration = Duration::from_secs(8);

/// How long a read may take, and a load between two rows.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// The writer of a Postgres database.
#[derive(Debug)]
pub struct PostgresJournal {
    pub(super) address: Address,
    pub(super) commit_limit: Duration,
    /// Who we are in `leader_fence`.
    pub(super) me: Uuid,
    /// The epoch of the newest takeover. None: there was none.
    led: Option<Epoch>,
    /// Our part in the election. None: there is none, and the first takeover deposes whoever leads.
    candidate: Option<Candidate>,
    /// Absent before a takeover, and after any call that did not end well.
    pub(super) connection: Option<PgConnection>,
}

/// For the test that prepares each.
#[cfg(test)]
pub(super) const ALL: [&str; 19] = [
    FENCE_LOCK,
    EPOCH_RAISE,
    EPOCH_CHECK,
    LEADER_TERMINATE,
    LEADER_NAME,
    JOB_PRIOR_BY_ID,
    JOB_PRIOR_BY_KEY,
    JOB_LOAD,
    LEASE_LOAD,
    KIND_LOAD,
    SLOT_LOAD,
    TENANT_LOAD,
    NODE_LOAD,
    CRON_LOAD,
    CLASS_LOAD,
    WORKFLOW_LOAD,
    END_LOAD,
    WORKFLOW_PRIOR,
    END_PRIOR,
];

// Locks queue up fairly: it waits for commits in flight, and new ones wait for it.
const FENCE_LOCK: &str = "lock table leader_fence in exclusive mode";

// From oneself, which settles a takeover of unknown outcome, too; else from the renewal that may be deposed. Who cannot
// tell the identity leaves the older one: it is compared once somebody can.
const EPOCH_RAISE: &str = "
update leader_fence
set epoch = greatest(epoch, $1) + $2, holder = $3, holder_addr = $4, holder_peer_addr = $5, hb = hb + 1,
  db_ident = coalesce($6, db_ident), acquired_at = clock_timestamp(), seen_at = clock_timestamp()
where $7 or holder = $3 or (epoch = $8 and hb = $9)
returning epoch";

// The lock is what a takeover waits for, and one that a renewal of the row passes.
pub(super) const EPOCH_CHECK: &str = "select 1 from leader_fence where epoch = $1 for key share";

/// Under which name a commit connection has it prepared: it goes with the `begin` of a commit, as text, in one round trip.
static EPOCH_CHECK_NAME: &str = "tenure_epoch_check";

// Other databases of the cluster may run Tenure too. Who may be deposed is who may be cut off: a leader that has renewed
// since, or that nobody claims to be dead, is left alone however long its commit takes.
const LEADER_TERMINATE: &str = "
select pg_terminate_backend(pid)
from leader_fence
join pg_stat_activity on application_name = 'tenure-leader-' || epoch
where datname = current_database() and usename = current_user and ($1 or holder = $2 or (epoch = $3 and hb = $4))";

pub(super) const LEADER_NAME: &str =
    "select set_config('application_name', 'tenure-leader-' || $1::bigint, false)";

pub(super) const JOB_PRIOR_BY_ID: &str = concat!(
    "select ",
    job_columns!(),
    "
from jobs
where id = any($1::uuid[])"
);

pub(super) const JOB_PRIOR_BY_KEY: &str = concat!(
    "select ",
    job_columns!(),
    "
from jobs
where dedupe_held
  and (tenant, kind, dedupe_key) in (
    select tenant, kind, dedupe_key
    from unnest($1::text[], $2::text[], $3::text[]) as asked (tenant, kind, dedupe_key))"
);

pub(super) const JOB_LOAD: &str = concat!(
    "select ",
    job_columns!(),
    "
from jobs
where finished_at is null"
);

const LEASE_LOAD: &str = "
select token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant,
  concurrency_key, parked
from leases";

const KIND_LOAD: &str = "select name, policy, paused, dead_by_day, spent from kinds";

const SLOT_LOAD: &str = "
select name, scope, capacity, capacity_since, paused, paused_until, rate_tokens, rate_per_us, rate_burst, rate_full_at,
  throttled_until
from slots";

const CRON_LOAD: &str = "
select name, policy, last_instant, paused_by, paused_at, fired, missed, last_fired, recent
from crons";

const TENANT_LOAD: &str = "select name, weight from tenants";

const NODE_LOAD: &str = "
select name, instance, boot_id, incarnation, stream, labels, slots, kinds, host, agent_version, cordoned, draining_us,
  last_seen_at
from nodes";

const CLASS_LOAD: &str = "select class, timeline from classes";

const WORKFLOW_LOAD: &str = concat!(
    "select ",
    workflow_columns!(),
    "
from workflows
where finished_at is null"
);

const END_LOAD: &str = "
select jobs.workflow_id, jobs.workflow_place, jobs.state
from workflows
join jobs on jobs.workflow_id = workflows.id
where workflows.finished_at is null and jobs.finished_at is not null";

const WORKFLOW_PRIOR: &str = concat!(
    "select ",
    workflow_columns!(),
    "
from workflows
where id = any($1::uuid[])"
);

const END_PRIOR: &str = "
select workflow_id, workflow_place, state
from jobs
where finished_at is not null and workflow_id = any($1::uuid[])";

impl PostgresJournal {
    pub(super) fn new(address: Address, commit_limit: Duration, me: Uuid) -> Self {
        Self { address, commit_limit, me, led: None, candidate: None, connection: None }
    }

    /// One that takes over only what its candidate may.
    pub(super) fn of(candidate: Candidate, address: Address, commit_limit: Duration) -> Self {
        let me = candidate.us().id;
        Self { address, commit_limit, me, led: None, candidate: Some(candidate), connection: None }
    }

    /// The connection, for one call, which gives it back if it ends well.
    fn begin(&mut self) -> Result<PgConnection, Error> {
        let ready = self.connection.take();
        ready.ok_or(Error::Unavailable { doing: "using a journal that has to take over", source: None })
    }

    /// Leads on a new connection.
    async fn lead(&self, at_least: Epoch) -> Result<(PgConnection, Epoch), Error> {
        let connecting = connect::open(&self.address, connect::COMMIT);
        let mut connection = connecting.await.map_err(|error| Error::Unavailable {
            doing: "connecting to the database",
            source: Some(error.into()),
        })?;
        let epoch = match self.raise_epoch(&mut connection, at_least).await {
            Err(Raise::Locked) => {
                // Who holds it is frozen inside a commit, or waits for a standby: it is cut off.
                self.terminate_leader(&mut connection).await?;
                self.raise_epoch(&mut connection, at_least).await
            }
            raised => raised,
        };
        let epoch = epoch.map_err(|error| match error {
            Raise::Locked => {
                Error::Unavailable { doing: "waiting for the lock of leader_fence", source: None }
            }
            Raise::Other(error) => error,
        })?;
        let named = sqlx::query(LEADER_NAME).bind(int(epoch.0)).execute(&mut connection).await;
        named.map_err(|error| fault::of("LEADER_NAME", error))?;
        let prepare = AssertSqlSafe(format!("prepare {EPOCH_CHECK_NAME}(bigint) as {EPOCH_CHECK}"));
        let prepared = sqlx::raw_sql(prepare).execute(&mut connection).await;
        prepared.map_err(|error| fault::of("EPOCH_CHECK", error))?;
        Ok((connection, epoch))
    }

    async fn raise_epoch(&self, connection: &mut PgConnection, at_least: Epoch) -> Result<Epoch, Raise> {
        const LIMITS: &str = "set local lock_timeout = '1s'; set local statement_timeout = '3s'";
        let failed = |error| Raise::Other(fault::of("EPOCH_RAISE", error));
        let (deposes, claim) = self.may_depose();
        let (addr, peer_addr) = self.candidate.as_ref().map_or((None, None), |candidate| {
            (candidate.us().addr.clone(), candidate.us().peer_addr.clone())
        });
        // It cannot change while the connection lives: a primary becomes another only by a restart.
        let identity = Identity::read(connection).await.map_err(failed)?;
        let mut transaction = connection.begin().await.map_err(failed)?;
        sqlx::raw_sql(LIMITS).execute(&mut *transaction).await.map_err(failed)?;
        if let Err(error) = sqlx::raw_sql(FENCE_LOCK).execute(&mut *transaction).await {
            let told = error.as_database_error().map(fault::code);
            transaction.rollback().await.map_err(failed)?;
            return Err(if told.as_deref() == Some(fault::LOCK_NOT_AVAILABLE) {
                Raise::Locked
            } else {
                failed(error)
            });
        }
        // Checked at the open alone, a server of an older version could lead on what a later one has made of it.
        schema::refuse_newer_now(&mut transaction).await.map_err(Raise::Other)?;
        let known = Identity::known(&mut transaction).await.map_err(failed)?;
        let raise = sqlx::query(EPOCH_RAISE)
            .bind(int(at_least.0))
            .bind(int(identity::leap(known.as_ref(), identity.as_ref())))
            .bind(self.me)
            .bind(addr)
            .bind(peer_addr)
            .bind(identity.map(|identity| identity.to_string()))
            .bind(deposes)
            .bind(claim.map_or(-1, |Claim(beat)| int(beat.epoch)))
            .bind(claim.map_or(-1, |Claim(beat)| int(beat.hb)));
        let Some(row) = raise.fetch_optional(&mut *transaction).await.map_err(failed)? else {
            return Err(Raise::Other(self.none_raised()));
        };
        let epoch: i64 = row.try_get(0).map_err(failed)?;
        let epoch = Epoch(u64::try_from(epoch).unwrap_or(0));
        // Nobody sees the new row before its commit, which is sent later than this.
        let sent = self.candidate.as_ref().map(Candidate::now);
        transaction.commit().await.map_err(failed)?;
        if let (Some(candidate), Some(sent)) = (&self.candidate, sent) {
            candidate.won(epoch, sent);
        }
        Ok(epoch)
    }

    /// Ends the connection on which the leader commits that is to be deposed.
    async fn terminate_leader(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let (deposes, claim) = self.may_depose();
        let terminate = sqlx::query(LEADER_TERMINATE)
            .bind(deposes)
            .bind(self.me)
            .bind(claim.map_or(-1, |Claim(beat)| int(beat.epoch)))
            .bind(claim.map_or(-1, |Claim(beat)| int(beat.hb)));
        terminate.execute(connection).await.map_err(|error| fault::of("LEADER_TERMINATE", error))?;
        Ok(())
    }

    /// Whom it may depose besides itself: whoever leads, or the leader of a claim.
    fn may_depose(&self) -> (bool, Option<Claim>) {
        let claim = self.candidate.as_ref().and_then(Candidate::claim);
        (self.candidate.is_none() && self.led.is_none(), claim)
    }

    /// No row to raise: it names another holder by now, or it is gone.
    fn none_raised(&self) -> Error {
        if let Some(candidate) = &self.candidate {
            candidate.lost();
            return Error::Deposed { epoch: self.led.unwrap_or_default() };
        }
        match self.led {
            Some(epoch) => Error::Deposed { epoch },
            None => {
                let (key, problem) = ("the row".into(), "is missing".into());
                rows::Error { table: "leader_fence", key, problem }.into()
            }
        }
    }
}

/// Why the epoch was not raised.
enum Raise {
    /// Somebody holds the lock.
    Locked,
    Other(Error),
}

impl Journal for PostgresJournal {
    async fn takeover(&mut self, at_least: Epoch) -> Result<Taken, Error> {
        // Its end is what the lock waits for.
        drop(self.connection.take());
        if let Some(candidate) = &self.candidate {
            candidate.may_take_over(self.led)?;
        }
        let at_least =
            self.candidate.as_ref().map_or(at_least, |candidate| candidate.highest().max(at_least));
        let lead = within("taking over", TAKEOVER_LIMIT, self.lead(at_least));
        let (mut connection, epoch) = Box::pin(lead).await?;
        self.led = Some(epoch);
        let durable = Box::pin(load(&mut connection)).await?;
        self.connection = Some(connection);
        Ok(Taken { epoch, durable })
    }

    async fn prior(&mut self, ids: &[JobId], keys: &[HeldKey]) -> Result<Vec<Job>, Error> {
        let mut connection = self.begin()?;
        let found = within("looking up jobs", READ_LIMIT, prior(&mut connection, ids, keys)).await?;
        self.connection = Some(connection);
        Ok(found)
    }

    async fn prior_workflows(&mut self, ids: &[WorkflowId]) -> Result<Vec<Workflow>, Error> {
        let mut connection = self.begin()?;
        let found = within("looking up workflows", READ_LIMIT, prior_workflows(&mut connection, ids)).await?;
        self.connection = Some(connection);
        Ok(found)
    }

    async fn commit(&mut self, epoch: Epoch, changes: &Changes, beside: &Beside) -> Result<(), Error> {
        let mut connection = self.begin()?;
        let turn = Turn::new(changes, beside)?;
        let commit = within("committing", self.commit_limit, commit_turn(&mut connection, epoch, &turn));
        let committed = Box::pin(commit).await;
        if let (Err(Error::Deposed { .. }), Some(candidate)) = (&committed, &self.candidate) {
            candidate.lost();
        }
        committed?;
        self.connection = Some(connection);
        Ok(())
    }

    fn trust(&self) -> Trust {
        self.candidate.as_ref().map_or_else(Trust::always, |candidate| candidate.trust().clone())
    }

    async fn close(mut self) {
        if let Some(connection) = self.connection.take() {
            connect::end(connection).await;
        }
    }
}

/// Runs a call within a limit. What takes longer has an outcome that nobody knows.
async fn within<T>(
    doing: &'static str,
    limit: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(limit, call).await.unwrap_or(Err(Error::Unavailable { doing, source: None }))
}

async fn commit_turn(connection: &mut PgConnection, epoch: Epoch, turn: &Turn<'_>) -> Result<(), Error> {
    // Whatever goes wrong, the connection is dropped by who called, and its transaction with it.
    turn::sent("BEGIN+EPOCH_CHECK");
    let begin = AssertSqlSafe(format!("begin; execute {EPOCH_CHECK_NAME}({})", int(epoch.0)));
    let check = sqlx::raw_sql(begin).fetch_optional(&mut *connection).await;
    if check.map_err(|error| fault::of("EPOCH_CHECK", error))?.is_none() {
        return Err(Error::Deposed { epoch });
    }
    commit::write(connection, turn).await?;
    // Everything is written, nothing is committed.
    #[cfg(feature = "failpoints")]
    fail::fail_point!("postgres::before_commit", |_| std::process::abort());
    turn::sent("COMMIT");
    sqlx::raw_sql("commit").execute(connection).await.map_err(|error| fault::of("committing", error))?;
    // It is applied, and whoever asked for it will not know.
    #[cfg(feature = "failpoints")]
    fail::fail_point!("postgres::after_commit", |_| {
        Err(Error::Unavailable { doing: "hearing of a commit (failpoint)", source: None })
    });
    Ok(())
}

async fn prior(connection: &mut PgConnection, ids: &[JobId], keys: &[HeldKey]) -> Result<Vec<Job>, Error> {
    let mut found = Vec::new();
    if !ids.is_empty() {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        let rows = sqlx::query(JOB_PRIOR_BY_ID).bind(ids).fetch_all(&mut *connection).await;
        let rows = rows.map_err(|error| fault::of("JOB_PRIOR_BY_ID", error))?;
        found.extend(read_all("jobs", &rows, rows::read_job)?);
    }
    if !keys.is_empty() {
        let column = |part: fn(&HeldKey) -> &str| keys.iter().map(part).collect::<Vec<_>>();
        let rows = sqlx::query(JOB_PRIOR_BY_KEY)
            .bind(column(|key| key.tenant.as_str()))
            .bind(column(|key| key.kind.as_str()))
            .bind(column(|key| key.key.as_str()))
            .fetch_all(connection)
            .await;
        let rows = rows.map_err(|error| fault::of("JOB_PRIOR_BY_KEY", error))?;
        found.extend(read_all("jobs", &rows, rows::read_job)?);
    }
    found.sort_by_key(|job| job.id);
    found.dedup_by_key(|job| job.id);
    Ok(found)
}

async fn prior_workflows(connection: &mut PgConnection, ids: &[WorkflowId]) -> Result<Vec<Workflow>, Error> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let found = sqlx::query(WORKFLOW_PRIOR).bind(&ids).fetch_all(&mut *connection).await;
    let found = found.map_err(|error| fault::of("WORKFLOW_PRIOR", error))?;
    let ends = sqlx::query(END_PRIOR).bind(&ids).fetch_all(connection).await;
    let ends = ends.map_err(|error| fault::of("END_PRIOR", error))?;
    let found = read_all("workflows", &found, rows::read_workflow)?;
    Ok(rows::put_ends(found, read_all("jobs", &ends, rows::read_end)?).into_values().collect())
}

/// Everything that a leader loads, in one snapshot.
async fn load(connection: &mut PgConnection) -> Result<Durable, Error> {
    const SNAPSHOT: &str = "begin isolation level repeatable read read only";
    // Between its statements a large load is idle for longer than a commit may be.
    const PATIENCE: &str = "set local idle_in_transaction_session_timeout = 0";
    let begin = async {
        let mut snapshot = connection.begin_with(SNAPSHOT).await?;
        sqlx::raw_sql(PATIENCE).execute(&mut *snapshot).await?;
        Ok(snapshot)
    };
    let begin = async { begin.await.map_err(|error| fault::of("beginning a load", error)) };
    let mut snapshot = within("beginning a load", READ_LIMIT, begin).await?;
    let mut durable = Durable::default();
    let mut names = Names::default();
    for kind in each(&mut snapshot, &mut names, "KIND_LOAD", KIND_LOAD, "kinds", rows::read_kind).await? {
        durable.kinds.insert(kind.name.clone(), kind);
    }
    for slot in each(&mut snapshot, &mut names, "SLOT_LOAD", SLOT_LOAD, "slots", rows::read_slot).await? {
        durable.slots.insert(slot.name.clone(), slot);
    }
    let tenants = each(&mut snapshot, &mut names, "TENANT_LOAD", TENANT_LOAD, "tenants", rows::read_tenant);
    durable.tenants.extend(tenants.await?);
    for node in each(&mut snapshot, &mut names, "NODE_LOAD", NODE_LOAD, "nodes", rows::read_node).await? {
        durable.nodes.insert(node.name.clone(), node);
    }
    for cron in each(&mut snapshot, &mut names, "CRON_LOAD", CRON_LOAD, "crons", rows::read_cron).await? {
        durable.crons.insert(cron.name.clone(), cron);
    }
    let webhooks =
        each(&mut snapshot, &mut names, "WEBHOOK_LOAD", WEBHOOK_LOAD, "webhooks", rows::read_webhook);
    for webhook in webhooks.await? {
        durable.webhooks.insert(webhook.name.clone(), webhook);
    }
    let deliveries =
        each(&mut snapshot, &mut names, "DELIVERY_LOAD", DELIVERY_LOAD, "outbox", rows::read_delivery);
    for delivery in deliveries.await? {
        durable.deliveries.insert(delivery.id, delivery);
    }
    for class in
        each(&mut snapshot, &mut names, "CLASS_LOAD", CLASS_LOAD, "classes", rows::read_class).await?
    {
        durable.classes.insert(class.class.clone(), class);
    }
    for lease in each(&mut snapshot, &mut names, "LEASE_LOAD", LEASE_LOAD, "leases", rows::read_lease).await?
    {
        durable.leases.insert(lease.token, lease);
    }
    let jobs = each(&mut snapshot, &mut names, "JOB_LOAD", JOB_LOAD, "jobs", rows::read_job);
    durable.jobs = jobs.await?.into();
    let live =
        each(&mut snapshot, &mut names, "WORKFLOW_LOAD", WORKFLOW_LOAD, "workflows", rows::read_workflow);
    let live = live.await?;
    let ends = each(&mut snapshot, &mut names, "END_LOAD", END_LOAD, "jobs", rows::read_end).await?;
    durable.workflows = rows::put_ends(live, ends);
    let end = async { snapshot.commit().await.map_err(|error| fault::of("ending a load", error)) };
    within("ending a load", READ_LIMIT, end).await?;
    Ok(durable)
}

async fn each<T>(
    connection: &mut PgConnection,
    names: &mut Names,
    name: &'static str,
    statement: &'static str,
    table: &'static str,
    make: fn(&mut Fields<'_>) -> Result<T, rows::Error>,
) -> Result<Vec<T>, Error> {
    let mut stream = sqlx::query(statement).fetch(connection);
    let mut all = Vec::new();
    loop {
        let next = async { stream.try_next().await.map_err(|error| fault::of(name, error)) };
        let next: Option<PgRow> = within(name, READ_LIMIT, next).await?;
        let Some(row) = next else { return Ok(all) };
        all.push(read(table, &row, names, make)?);
    }
}
