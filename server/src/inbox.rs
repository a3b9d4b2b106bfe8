//! The inbox of the database: what producers in the same Postgres enqueue in their own transactions becomes jobs, by the
//! same command and with the same checks as over the wire.
//!
//! Responsible for reading rows in bounded batches, each after the one before is settled, so that a long backlog shares the
//! turns with everybody else; for who a role is; and for what becomes of a row that is refused: it is kept with its reason,
//! or, where waiting can help, stays with all of its kind until it is tried again. Not for removing what became a job: that
//! happens in the commit that enqueues, so a row is a job once, whoever leads.
//!
//! Rows are read from the lowest number on, each time anew: what a long transaction commits late is not skipped, and nobody
//! remembers a place. Invariant: no row keeps those behind it from being tried.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tenure_proto::v1;
use tenure_scheduler::{Epoch, JobId, KindName, Producer, Refusal, Reply, Wall, micros};
use tenure_store::{
    inbox::{InboxBatch, InboxRow, InboxState, Refused},
    postgres::{Address, PostgresInbox},
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    access::Rules,
    chain::Chain,
    config::Retention,
    handle::{Handle, Submission, SubmitError},
    metrics::Metrics,
    rpc::{auth::Caller, check::Checks, convert, jobs::submission_of, status::No},
};

#[cfg(test)]
mod tests;

/// Rows of one batch: a fifth of a turn.
const BATCH: u32 = 200;

/// Bytes of one batch, of payloads and of everything else; the last row may pass it.
const BATCH_BYTES: u32 = 1024 * 1024;

/// Between two looks while nothing is heard.
const POLL: Duration = Duration::from_secs(1);

/// Before the next attempt while the database is away, or nobody leads.
const AWAY: Duration = Duration::from_secs(1);

/// Attempts that fail one after another until somebody is told: what passes by itself has passed by then.
const TOLD_AT: u32 = 10;

/// How long rows stay that were refused because of something that passes, at the least and at the most.
const HOLD: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// The same where nobody can say how long it takes: somebody has to act.
const HOLD_UNKNOWN: Duration = Duration::from_secs(10);

/// How long rows are taken one by one after one of them could not be stored.
const CAREFUL: Duration = Duration::from_secs(10);

/// Before the next look after one that found nothing while kinds are held: their producers may notify without end.
const BREATH: Duration = Duration::from_millis(100);

/// Between two samples of how the inbox stands.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);

/// Between two sweeps of old refusals.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Of a message that is kept, in characters.
const MOST_MESSAGE: usize = 1024;

/// Which inbox, and by whose rules.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Of the database.
    pub(crate) address: Address,
    /// Who may do what; they may be replaced meanwhile.
    pub(crate) rules: watch::Receiver<Arc<Rules>>,
    /// How long refusals are kept: as long as final jobs.
    pub(crate) retention: watch::Receiver<Retention>,
}

/// Ingests the inbox during one term.
#[derive(Debug)]
pub(crate) struct Ingest {
    options: Options,
    store: PostgresInbox,
    handle: Handle,
    metrics: Arc<Metrics>,
    held: Held,
    struck: Struck,
    /// Rows are taken one by one until then.
    careful_until: Duration,
    next_sweep: Duration,
    /// Attempts that failed, since the last that did not.
    failures: u32,
}

/// Kinds whose rows are not tried for a while. At most as many as are declared.
#[derive(Debug, Default)]
struct Held {
    kinds: BTreeMap<KindName, Duration>,
    all: Option<Duration>,
}

/// Rows that could not be stored once, each alone in its turn. At most a batch of them: the lowest are seen again first.
#[derive(Debug, Default)]
struct Struck(BTreeSet<i64>);

/// What comes after one batch.
#[derive(Debug, PartialEq, Eq)]
enum Then {
    /// There may be more.
    Go,
    /// Nothing until rows come, or this long.
    Listen(Duration),
    /// Nothing for this long, whatever comes.
    Rest(Duration),
}

/// What becomes of a row that the scheduler refused.
#[derive(Debug, PartialEq, Eq)]
enum Later {
    /// It is never a job.
    Never,
    /// All of its kind wait.
    Kind(KindName, Duration),
    /// All rows wait.
    All(Duration),
}

impl Ingest {
    pub(crate) fn new(options: Options, handle: Handle, metrics: Arc<Metrics>) -> Self {
        let store = PostgresInbox::new(options.address.clone());
        let zero = Duration::ZERO;
        let (held, struck, careful_until, next_sweep) = (Held::default(), Struck::default(), zero, zero);
        Self { options, store, handle, metrics, held, struck, careful_until, next_sweep, failures: 0 }
    }

    /// Ingests until the term is over. What fails is logged and tried again.
    pub(crate) async fn run(mut self, over: CancellationToken) -> Result<(), std::convert::Infallible> {
        let metrics = Arc::clone(&self.metrics);
        // Beside it: to count a long backlog takes a while, which nobody should wait for.
        let samples = sample(self.handle.clone(), Arc::clone(&metrics));
        let steps = async {
            loop {
                let then = self.step().await;
                self.pause(then).await;
            }
        };
        // Cancel-safe: what was submitted is applied or not, and if not its rows are still there.
        tokio::select! {
            biased;
            () = over.cancelled() => {}
            () = steps => {}
            () = samples => {}
        }
        // What another leader's inbox looks like is no longer known here.
        metrics.observe_inbox(&InboxState::default());
        Ok(())
    }

    async fn pause(&mut self, then: Then) {
        match then {
            Then::Go => {}
            Then::Listen(at_most) => {
                if !self.held.kinds.is_empty() {
                    sleep(BREATH).await;
                }
                self.store.wait(at_most).await;
            }
            Then::Rest(length) => sleep(length).await,
        }
    }

    /// One batch, from what is read to what is settled.
    async fn step(&mut self) -> Then {
        let now = self.handle.clock().steady();
        self.sweep(now).await;
        let free_in = self.held.free_in(now);
        if self.held.all.is_some() {
            return Then::Rest(free_in.min(POLL));
        }
        let rows = if now < self.careful_until { 1 } else { BATCH };
        let but: Vec<String> = self.held.kinds.keys().map(ToString::to_string).collect();
        match self.store.read(&but, rows, BATCH_BYTES).await {
            Ok(batch) if batch.rows.is_empty() && batch.unreadable.is_empty() => {
                self.failures = 0;
                Then::Listen(free_in.min(POLL))
            }
            Ok(batch) => self.ingest(batch).await,
            Err(error) => self.failed(&error),
        }
    }

    /// Removes old refusals, when it is time.
    async fn sweep(&mut self, now: Duration) {
        if now >= self.next_sweep {
            self.next_sweep = now + SWEEP_EVERY;
            let kept = i64::try_from(micros(self.options.retention.borrow().final_jobs)).unwrap_or(i64::MAX);
            let before = Wall(self.handle.clock().wall().0.saturating_sub(kept));
            if let Err(error) = self.store.sweep(self.epoch(), before).await {
                tracing::debug!(error = %Chain(&error), "old refusals of the inbox cannot be swept");
            }
        }
    }

    async fn ingest(&mut self, batch: InboxBatch) -> Then {
        let mut refused = Vec::new();
        for (seq, problem) in batch.unreadable {
            let no = No::invalid_field("row", format!("cannot be read: {problem}"));
            refused.push((kept(seq, Producer::new("db:"), &no), no.reason()));
        }
        let mut asked = Vec::with_capacity(batch.rows.len());
        let mut submissions = Vec::with_capacity(batch.rows.len());
        for row in batch.rows {
            let (caller, judged) = Caller::role(&self.options.rules.borrow(), &row.role);
            let (seq, job, producer) = (row.seq, row.job, caller.enqueues_as());
            let kind = KindName::new(row.kind.as_str());
            match judged.and_then(|()| submission(&caller, row)) {
                Ok(submission) => {
                    asked.push((seq, job, producer, kind));
                    submissions.push((seq, submission));
                }
                Err(no) => refused.push((kept(seq, producer, &no), no.reason())),
            }
        }
        let mut then = Then::Go;
        if !submissions.is_empty() {
            let replies = match self.handle.submit_rows(submissions).await {
                Ok(replies) => replies,
                Err(error) => return self.failed(&error),
            };
            let now = self.handle.clock().steady();
            let (mut ingested, mut deduplicated) = (0, 0);
            for ((seq, job, producer, kind), reply) in asked.into_iter().zip(replies) {
                match reply {
                    Ok(reply) => {
                        ingested += 1;
                        deduplicated += u64::from(is_anothers(&reply, job));
                    }
                    Err(SubmitError::Refused(refusal)) => match later(&refusal, kind) {
                        Later::Never => {
                            let no = No::from(refusal);
                            refused.push((kept(seq, producer, &no), no.reason()));
                        }
                        Later::Kind(kind, length) => drop(self.held.kinds.insert(kind, now + length)),
                        Later::All(length) => self.held.all = Some(now + length),
                    },
                    // Alone in its turn: a row beside others hears that the store is away.
                    Err(SubmitError::Broken) => {
                        self.careful_until = now + CAREFUL;
                        if self.struck.again(seq) {
                            tracing::error!(
                                inbox.seq = seq,
                                "a row of the inbox could not be stored as a job"
                            );
                            let no = No::internal();
                            // The fault is ours, and nobody has the row but we.
                            let whole = Refused { whole: true, ..kept(seq, producer, &no) };
                            refused.push((whole, no.reason()));
                        }
                    }
                    // What became of it will be seen: it is there, or it is not.
                    Err(
                        SubmitError::Busy { .. }
                        | SubmitError::StoreUnavailable { .. }
                        | SubmitError::ShuttingDown
                        | SubmitError::NotLeader { .. },
                    ) => then = Then::Rest(AWAY),
                }
            }
            self.metrics.observe_ingested(ingested, deduplicated);
        }
        if !refused.is_empty() {
            return self.refuse(refused, then).await;
        }
        self.failures = 0;
        then
    }

    /// Keeps why rows become no job.
    async fn refuse(&mut self, refused: Vec<(Refused, &'static str)>, then: Then) -> Then {
        let (refused, reasons): (Vec<Refused>, Vec<&'static str>) = refused.into_iter().unzip();
        if let Err(error) = self.store.refuse(self.epoch(), &refused, self.handle.clock().wall()).await {
            return self.failed(&error);
        }
        self.failures = 0;
        reasons.into_iter().for_each(|reason| self.metrics.observe_refused_row(reason));
        if let Some(Refused { seq, producer, reason, .. }) = refused.first() {
            tracing::warn!(
                rows = refused.len(),
                inbox.seq = seq,
                %producer,
                reason,
                "rows of the inbox became no jobs, of which this is the first: `tenure inbox refusals`"
            );
        }
        then
    }

    /// The epoch in force: it rises within a term.
    fn epoch(&self) -> Epoch {
        Epoch(self.handle.info().epoch)
    }

    fn failed(&mut self, error: &(dyn std::error::Error + 'static)) -> Then {
        self.failures = self.failures.saturating_add(1);
        if self.failures == TOLD_AT {
            tracing::warn!(error = %Chain(error), "the inbox cannot be worked on; it is tried again each second");
        } else {
            tracing::debug!(error = %Chain(error), "the inbox is left alone for a moment");
        }
        Then::Rest(AWAY)
    }
}

impl Held {
    /// Lets go of what has been held for long enough. How long until the next is free.
    fn free_in(&mut self, now: Duration) -> Duration {
        self.kinds.retain(|_, until| *until > now);
        self.all = self.all.filter(|until| *until > now);
        let first = self.kinds.values().copied().chain(self.all).min();
        first.map_or(Duration::MAX, |until| until.saturating_sub(now))
    }
}

impl Struck {
    /// Notes that a row could not be stored. Whether that is so for the second time: the state was loaded anew between.
    fn again(&mut self, seq: i64) -> bool {
        if self.0.remove(&seq) {
            return true;
        }
        self.0.insert(seq);
        if self.0.len() > BATCH as usize {
            self.0.pop_last();
        }
        false
    }
}

/// Samples how the inbox stands, for ever.
async fn sample(handle: Handle, metrics: Arc<Metrics>) {
    loop {
        match handle.reader().inbox().await {
            Ok(state) => metrics.observe_inbox(&state),
            Err(error) => tracing::debug!(error = %Chain(&error), "the inbox cannot be sampled"),
        }
        sleep(SAMPLE_EVERY).await;
    }
}

/// Whether the row's dedupe key belongs to another job, so that there is none under the id that its producer was told.
fn is_anothers(reply: &Reply, job: JobId) -> bool {
    matches!(reply, Reply::Enqueued { job: held, .. } if held.id != job)
}

/// Whether waiting helps a row that was refused, and which rows wait with it. Those of its kind keep their order then.
fn later(refusal: &Refusal, kind: KindName) -> Later {
    if let Some(length) = refusal.retry_after() {
        return Later::Kind(kind, length.clamp(HOLD.0, HOLD.1));
    }
    if matches!(refusal, Refusal::KindPaused { .. }) {
        Later::Kind(kind, HOLD_UNKNOWN)
    } else if matches!(refusal, Refusal::StoreFull { .. }) {
        Later::All(HOLD_UNKNOWN)
    } else {
        // Also a kind that nobody declares: whoever waits for it would wait unseen. And a class beyond their limit, which is
        // about this row alone: others of its kind have classes that exist, and would wait behind it for no end.
        Later::Never
    }
}

/// A row as what its role may enqueue.
///
/// # Errors
/// What is wrong with it, as an RPC would be told it.
fn submission(caller: &Caller, row: InboxRow) -> Result<Submission, No> {
    let job = row.job;
    let mut checks = Checks::default();
    for (column, problem) in &row.problems {
        checks.refuse(
            format!("job.{column}"),
            format!("is no JSON object of the form that it has to be: {problem}"),
        );
    }
    checks.finish()?;
    let stale_after = match row.stale_after_ms {
        Some(ms) if ms > 0 => match left(ms, row.waited) {
            Some(left) => Some(left),
            None => return Err(Refusal::AlreadyStale.into()),
        },
        other => other,
    };
    // What is not longer than it has waited already is over.
    let delay = row.delay_ms.and_then(|ms| if ms > 0 { left(ms, row.waited) } else { Some(ms) });
    let needs = row.needs.map(|needs| v1::Needs {
        slots: needs.into_iter().map(|(slot, amount)| v1::SlotAmount { slot, amount }).collect(),
    });
    let spec = v1::JobSpec {
        kind: row.kind,
        payload: Some(v1::Payload { data: row.payload, content_type: row.content_type }),
        job_id: job.to_string(),
        dedupe_key: row.dedupe_key.unwrap_or_default(),
        tenant: row.tenant.unwrap_or_default(),
        priority: row.priority,
        run_at: row.run_at.map(convert::timestamp),
        delay: delay.map(millis),
        stale_after: stale_after.map(millis),
        labels: row.labels,
        selector: row.selector,
        needs,
        concurrency_key: row.concurrency_key.unwrap_or_default(),
        hard_time_limit: row.hard_time_limit_ms.map(millis),
        soft_time_limit: row.soft_time_limit_ms.map(millis),
        traceparent: row.traceparent.unwrap_or_default(),
        ..v1::JobSpec::default()
    };
    submission_of(caller, None, Some(spec), || job)
}

/// What is left of a length that began when the row was inserted; none: nothing.
fn left(ms: i64, waited: Duration) -> Option<i64> {
    let waited = i64::try_from(waited.as_millis()).unwrap_or(i64::MAX);
    Some(ms.saturating_sub(waited)).filter(|left| *left > 0)
}

/// A length for the wire, whatever its sign: what is out of range is refused like any other.
fn millis(ms: i64) -> prost_types::Duration {
    let nanos = i32::try_from(ms % 1000).unwrap_or_default() * 1_000_000;
    prost_types::Duration { seconds: ms / 1000, nanos }
}

/// What is kept of a refusal.
fn kept(seq: i64, producer: Producer, no: &No) -> Refused {
    let message = no.message().chars().filter(|c| *c != '\0').take(MOST_MESSAGE).collect();
    Refused { seq, producer, reason: no.reason().to_owned(), message, whole: false }
}
