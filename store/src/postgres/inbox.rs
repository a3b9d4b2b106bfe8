//! The inbox in Postgres: waiting for rows, reading a bounded batch of them, and moving those that become no job.
//!
//! Two connections of the leader, made when they are needed and thrown away after any failure: one listens, one reads and
//! writes. Whoever listens also looks once in a while: a notification may be lost with a connection.
//!
//! Invariants: what is written is fenced by the epoch as every commit is, under the name by which a takeover ends a leader's
//! connections; a row that a commit of the driver removed meanwhile is not refused as well.

use std::{collections::BTreeMap, time::Duration};

use sqlx::{
    Connection, PgConnection, Row,
    postgres::{PgListener, PgPoolOptions, PgRow},
};
use tenure_scheduler::{Epoch, JobId, Producer, Wall};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::{
    Address, PostgresReader, connect, fault,
    journal::{EPOCH_CHECK, LEADER_NAME},
};
use crate::{
    inbox::{Error, InboxBatch, InboxRefusal, InboxRow, InboxState, Refused},
    reader,
    rows::{self, At, int},
};

/// Where the function of the schema notifies.
static CHANNEL: &str = "tenure_inbox";

/// How long one call may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Refusals that are kept, whatever their age; those that are kept whole do not count.
pub const MOST_REFUSALS: i64 = 10_000;

/// Kinds among which one read looks, beside those that are left out; the first of them by name, should there be more.
const MOST_KINDS: i32 = 1000;

/// For the test that prepares each.
#[cfg(test)]
pub(super) const ALL: [&str; 5] = [INBOX_READ, INBOX_REFUSE, REFUSAL_SWEEP, INBOX_STATE, REFUSAL_LIST];

/// As many rows as are asked for, and as many bytes, but always one row. The sizes of payloads are known without reading
/// them; the other texts are measured as they are read. It goes from kind to kind by the index, and takes the first rows of each: those of a kind that is left out cost one
/// step, however many they are. Rows are looked up one by one (`lateral … limit 1`): how many there are is not known when it is
/// planned, and a join would read the whole table.
const INBOX_READ: &str = "
with recursive kinds (kind, place) as (
  (select kind, 1 from inbox order by kind limit 1)
  union all
  select (select inbox.kind from inbox where inbox.kind > kinds.kind order by inbox.kind limit 1), place + 1
  from kinds
  where kinds.kind is not null and place < $4 + cardinality($1::text[])
), head as (
  select firsts.seq
  from kinds
  cross join lateral (select inbox.seq from inbox where inbox.kind = kinds.kind order by inbox.seq limit $2) as firsts
  where kinds.kind <> all($1::text[])
  order by firsts.seq
  limit $2
), fit as (
  select head.seq, sum(bytes) over (order by head.seq) - bytes as before
  from head
  cross join lateral (
    select octet_length(payload) + octet_length(concat(
      kind, content_type, dedupe_key, tenant, labels, selector, needs, concurrency_key, traceparent
    )) as bytes
    from inbox
    where inbox.seq = head.seq
    limit 1
  ) as sizes
)
select whole.seq, role, (extract(epoch from clock_timestamp() - inserted_at) * 1000)::bigint, job_id, kind, payload,
  content_type, dedupe_key, tenant, priority, run_at, delay_ms, stale_after_ms, labels::text, selector::text, needs::text,
  concurrency_key, hard_time_limit_ms, soft_time_limit_ms, traceparent
from fit
cross join lateral (select * from inbox where inbox.seq = fit.seq limit 1) as whole
where before < $3::bigint
order by whole.seq";

/// A row that somebody copied back under its number, and left among the refusals, replaces what stood there.
const INBOX_REFUSE: &str = "
with said as (
  select seq, producer, reason, message, whole
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::boolean[])
    as said (seq, producer, reason, message, whole)
), gone as (
  delete from inbox
  using said
  where inbox.seq = said.seq
  returning inbox.seq, inbox.role, said.producer, inbox.inserted_at, inbox.job_id, inbox.kind, inbox.dedupe_key,
    said.reason, said.message, case when said.whole then to_jsonb(inbox) end as entry
)
insert into inbox_refusals
  (seq, role, producer, inserted_at, refused_at, job_id, kind, dedupe_key, reason, message, entry)
select seq, role, producer, inserted_at, $6::timestamptz, job_id, kind, dedupe_key, reason, message, entry
from gone
on conflict (seq) do update set
  role = excluded.role,
  producer = excluded.producer,
  inserted_at = excluded.inserted_at,
  refused_at = excluded.refused_at,
  job_id = excluded.job_id,
  kind = excluded.kind,
  dedupe_key = excluded.dedupe_key,
  reason = excluded.reason,
  message = excluded.message,
  entry = excluded.entry";

const REFUSAL_SWEEP: &str = "
delete from inbox_refusals
where entry is null
  and (
    refused_at < $1::timestamptz
    or seq <= (select seq from inbox_refusals where entry is null order by seq desc offset $2::bigint limit 1)
  )";

const INBOX_STATE: &str = "
select
  (select count(*) from (select 1 from inbox limit 1000000) as waiting),
  (select (extract(epoch from clock_timestamp() - inserted_at) * 1000)::bigint from inbox order by seq limit 1),
  (select count(*) from inbox_refusals),
  (select count(*) from inbox_refusals where entry is not null)";

const REFUSAL_LIST: &str = "
select seq, role, producer, inserted_at, refused_at, job_id, kind, dedupe_key, reason, message
from inbox_refusals
where ($1::text is null or producer = $1)
  and seq < $2::bigint
order by seq desc
limit $3";

/// The inbox of a database, for whoever leads.
#[derive(Debug)]
pub struct PostgresInbox {
    address: Address,
    ears: Option<PgListener>,
    hands: Option<Hands>,
}

/// The connection that reads and writes, and under whose epoch it goes by.
#[derive(Debug)]
struct Hands {
    connection: PgConnection,
    epoch: Option<Epoch>,
}

impl PostgresInbox {
    /// That of a database. It connects when it has to.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, ears: None, hands: None }
    }

    /// Waits until rows may have come, or for so long: also while nothing can be heard. Cancel-safe.
    pub async fn wait(&mut self, at_most: Duration) {
        if self.ears.is_none() {
            match timeout(LIMIT, listen(&self.address)).await {
                // What came before it listened is told by nobody.
                Ok(Ok(ears)) => return self.ears = Some(ears),
                Ok(Err(_)) | Err(_) => return sleep(at_most).await,
            }
        }
        let Some(ears) = &mut self.ears else { return };
        match timeout(at_most, ears.try_recv()).await {
            Ok(Ok(Some(_))) => while ears.next_buffered().is_some() {},
            // It is heard by a new connection from now on; meanwhile something may have come.
            Ok(Ok(None) | Err(_)) => self.ears = None,
            Err(_elapsed) => {}
        }
    }

    /// Rows from the lowest number on, but for those of these kinds: at most `rows`, and at most `bytes` or one row.
    /// A row counts with its payload and its texts.
    ///
    /// # Errors
    /// If the database is away.
    pub async fn read(&mut self, but: &[String], rows: u32, bytes: u32) -> Result<InboxBatch, Error> {
        let mut hands = self.hands().await?;
        let query = sqlx::query(INBOX_READ)
            .bind(but)
            .bind(i64::from(rows))
            .bind(i64::from(bytes))
            .bind(MOST_KINDS)
            // Planned each time: the table is empty at one time, and huge at another.
            .persistent(false);
        let found = within("reading rows", query.fetch_all(&mut hands.connection)).await?;
        self.hands = Some(hands);
        let mut batch = InboxBatch::default();
        for row in &found {
            match row_of(row) {
                Ok(row) => batch.rows.push(row),
                Err(error) => {
                    let seq = row.try_get(0).map_err(|error| unavailable("reading rows", error))?;
                    batch.unreadable.push((seq, error.to_string()));
                }
            }
        }
        Ok(batch)
    }

    /// Removes rows that become no job, and keeps why. One that is gone meanwhile is left out.
    ///
    /// # Errors
    /// [`Error::Deposed`] if another epoch is in force; if the database is away nobody knows, and the same may be said
    /// again.
    pub async fn refuse(&mut self, epoch: Epoch, refused: &[Refused], now: Wall) -> Result<(), Error> {
        let column = |part: fn(&Refused) -> &str| refused.iter().map(part).collect::<Vec<_>>();
        let query = sqlx::query(INBOX_REFUSE)
            .bind(refused.iter().map(|row| row.seq).collect::<Vec<_>>())
            .bind(column(|row| row.producer.as_str()))
            .bind(column(|row| &row.reason))
            .bind(column(|row| &row.message))
            .bind(refused.iter().map(|row| row.whole).collect::<Vec<_>>())
            .bind(At::from(now));
        self.write(epoch, "refusing rows", query).await
    }

    /// Removes refusals from before this, and what is beyond [`MOST_REFUSALS`]. Those that are kept whole stay: nobody has such
    /// a row but we, and somebody has to look at the fault first.
    ///
    /// # Errors
    /// As [`PostgresInbox::refuse`].
    pub async fn sweep(&mut self, epoch: Epoch, before: Wall) -> Result<(), Error> {
        let query = sqlx::query(REFUSAL_SWEEP).bind(At::from(before)).bind(MOST_REFUSALS);
        self.write(epoch, "sweeping refusals", query).await
    }

    async fn write(
        &mut self,
        epoch: Epoch,
        doing: &'static str,
        query: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
    ) -> Result<(), Error> {
        let mut hands = self.hands().await?;
        let written = async {
            if hands.epoch != Some(epoch) {
                sqlx::query(LEADER_NAME).bind(int(epoch.0)).execute(&mut hands.connection).await?;
                hands.epoch = Some(epoch);
            }
            let mut transaction = hands.connection.begin().await?;
            let check = sqlx::query(EPOCH_CHECK).bind(int(epoch.0)).fetch_optional(&mut *transaction).await?;
            if check.is_none() {
                transaction.rollback().await?;
                return Ok(false);
            }
            query.execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok(true)
        };
        let written = within(doing, written).await?;
        self.hands = Some(hands);
        if written { Ok(()) } else { Err(Error::Deposed) }
    }

    /// The connection, for one call, which gives it back if it ends well.
    async fn hands(&mut self) -> Result<Hands, Error> {
        if let Some(hands) = self.hands.take() {
            return Ok(hands);
        }
        let opened = connect::open(&self.address, connect::INBOX).await;
        let connection =
            opened.map_err(|error| Error::Unavailable { doing: "connecting", source: Some(error.into()) })?;
        Ok(Hands { connection, epoch: None })
    }
}

/// A connection of its own that is told of rows.
async fn listen(address: &Address) -> Result<PgListener, sqlx::Error> {
    // Of one connection, which the listener keeps: it takes none but from a pool.
    let pool = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
    let pool = pool.connect_with(address.0.clone().application_name("tenure-inbox")).await?;
    let mut ears = PgListener::connect_with(&pool).await?;
    ears.eager_reconnect(false);
    ears.listen(CHANNEL).await?;
    Ok(ears)
}

async fn within<T>(
    doing: &'static str,
    call: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, Error> {
    match timeout(LIMIT, call).await {
        Ok(done) => done.map_err(|error| unavailable(doing, error)),
        Err(_elapsed) => Err(Error::Unavailable { doing, source: None }),
    }
}

fn unavailable(doing: &'static str, error: sqlx::Error) -> Error {
    let source = Some(fault::of(doing, error).into());
    Error::Unavailable { doing, source }
}

fn row_of(row: &PgRow) -> Result<InboxRow, sqlx::Error> {
    let bytes: Vec<u8> = row.try_get(5)?;
    let mut read = InboxRow {
        seq: row.try_get(0)?,
        role: row.try_get(1)?,
        waited: waited(row.try_get(2)?),
        job: JobId(row.try_get(3)?),
        kind: row.try_get(4)?,
        payload: bytes.into(),
        content_type: row.try_get(6)?,
        dedupe_key: row.try_get(7)?,
        tenant: row.try_get(8)?,
        priority: row.try_get(9)?,
        run_at: row.try_get::<Option<At>, _>(10)?.map(|at| Wall(at.0)),
        delay_ms: row.try_get(11)?,
        stale_after_ms: row.try_get(12)?,
        labels: BTreeMap::new(),
        selector: BTreeMap::new(),
        needs: None,
        concurrency_key: row.try_get(16)?,
        hard_time_limit_ms: row.try_get(17)?,
        soft_time_limit_ms: row.try_get(18)?,
        traceparent: row.try_get(19)?,
        problems: Vec::new(),
    };
    read.labels = read.json("labels", row.try_get(13)?).unwrap_or_default();
    read.selector = read.json("selector", row.try_get(14)?).unwrap_or_default();
    read.needs = read.json("needs", row.try_get(15)?);
    Ok(read)
}

/// A clock that was set back makes nobody wait for less than nothing.
fn waited(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

impl PostgresReader {
    pub(crate) async fn inbox(&self) -> Result<InboxState, reader::Error> {
        let rows = self.rows(|| sqlx::query(INBOX_STATE)).await?;
        let read = |row: &PgRow| -> Result<InboxState, sqlx::Error> {
            let count = |at| row.try_get(at).map(|count: i64| u64::try_from(count).unwrap_or(0));
            let oldest: Option<i64> = row.try_get(1)?;
            Ok(InboxState {
                waiting: count(0)?,
                oldest: oldest.map(waited),
                refusals: count(2)?,
                broken: count(3)?,
            })
        };
        let state = rows.first().map_or(Ok(InboxState::default()), read);
        state.map_err(|error| unreadable("inbox", &error))
    }

    pub(crate) async fn inbox_refusals(
        &self,
        producer: Option<&Producer>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<InboxRefusal>, reader::Error> {
        let rows = self.rows(|| {
            sqlx::query(REFUSAL_LIST)
                .bind(producer.map(|producer| producer.as_str().to_owned()))
                .bind(before.unwrap_or(i64::MAX))
                .bind(i64::from(limit))
        });
        let read = |row: &PgRow| -> Result<InboxRefusal, sqlx::Error> {
            let at = |index| row.try_get::<At, _>(index).map(|at| Wall(at.0));
            Ok(InboxRefusal {
                seq: row.try_get(0)?,
                role: row.try_get(1)?,
                producer: Producer::new(row.try_get::<String, _>(2)?),
                inserted_at: at(3)?,
                refused_at: at(4)?,
                job: JobId(row.try_get::<Uuid, _>(5)?),
                kind: row.try_get(6)?,
                dedupe_key: row.try_get(7)?,
                reason: row.try_get(8)?,
                message: row.try_get(9)?,
            })
        };
        let all: Result<_, _> = rows.await?.iter().map(read).collect();
        all.map_err(|error| unreadable("inbox_refusals", &error))
    }
}

fn unreadable(table: &'static str, error: &sqlx::Error) -> reader::Error {
    reader::Error::Unreadable(rows::Error { table, key: "(a row)".into(), problem: error.to_string() })
}
