//! The way in for everybody but nodes: submit a command and get its answer after its commit, ask a question of the
//! committed state, look at the published snapshot, wait for a job to change.
//!
//! Responsible for the bounds of the producers' and queries' inboxes: a full one is answered [`SubmitError::Busy`] at
//! once and delays nobody else. Not for decisions (the driver's), nor for sessions of nodes, which have an inbox of
//! their own. Invariant: a submission is answered exactly once, even if the driver dies.

use std::{sync::Arc, time::Duration};

use opentelemetry::trace::SpanContext;
use tenure_scheduler::{Command, JobId, Now, Refusal, Reply, State, Wall};
use tenure_store::{Payload, Reader, election::Trust};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Clock,
    leadership::{Leader, Standing, Standings},
    outbox::{JobWatch, Watchers},
    snapshot::Published,
    term::Ways,
    trace,
};

/// Commands that wait for the driver. Full: Busy.
pub(crate) const MOST_CALLS: usize = 4096;

/// KiB of payload that wait for the driver. Full: Busy. A batch of 4 MiB always fits an empty inbox.
const MOST_PAYLOAD_KIB: u32 = 64 * 1024;

/// Questions that wait for the driver. Full: Busy.
pub(crate) const MOST_QUERIES: usize = 256;

/// A question that has no answer by then gets none.
const QUERY_PATIENCE: Duration = Duration::from_secs(3);

/// What a caller is told to wait when an inbox is full.
const BUSY_RETRY: Duration = Duration::from_millis(500);

/// What a caller is told to wait while the store is away.
pub(crate) const AWAY_RETRY: Duration = Duration::from_secs(1);

/// What a caller is told to wait where nobody leads, or another server does.
pub(crate) const NOT_LEADER_RETRY: Duration = Duration::from_millis(500);

/// A cheap handle to one server: while it leads, to its driver.
#[derive(Debug, Clone)]
pub struct Handle {
    views: Views,
    payload_room: Arc<Semaphore>,
    watchers: Watchers,
    reader: Reader,
    clock: Clock,
}

/// What is published of a server.
#[derive(Debug, Clone)]
pub(crate) struct Views {
    pub(crate) status: watch::Receiver<ServerStatus>,
    pub(crate) snapshots: watch::Receiver<Arc<Published>>,
    pub(crate) standing: Standings,
    /// None: this server does not lead.
    pub(crate) ways: watch::Receiver<Option<Ways>>,
    /// From its beginning on, nothing new is taken.
    pub(crate) shutdown: CancellationToken,
    /// By which a leader trusts itself.
    pub(crate) trust: Trust,
}

/// One command of a producer or operator, with the bytes that travel beside it.
#[derive(Debug)]
pub struct Submission {
    /// What is wanted. `prior` fields are filled in by the driver.
    pub command: Command,
    /// Of an enqueue.
    pub payload: Option<Payload>,
    /// Of the jobs of a workflow.
    pub more: Vec<(JobId, Payload)>,
}

impl Submission {
    /// What travels beside it, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let all = self.payload.iter().chain(self.more.iter().map(|(_, payload)| payload));
        all.map(|payload| payload.data.len()).sum()
    }
}

/// Why a submission or question has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SubmitError {
    /// The scheduler says no. Nothing was stored.
    #[error("refused")]
    Refused(#[source] Refusal),
    /// The inbox is full. Nothing was stored.
    #[error("too many calls wait already")]
    Busy {
        /// When to come back.
        retry_after: Duration,
    },
    /// The store is away, or has not said in time what became of the commit. The same call may be repeated: under the
    /// same `job_id` it is the same.
    #[error("the store is not available")]
    StoreUnavailable {
        /// When to come back.
        retry_after: Duration,
    },
    /// A bug of ours: it could not be stored, and repeating it would not help.
    #[error("the command could not be stored, by a fault of the server")]
    Broken,
    /// The server is ending.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// Another server leads, or none. Nothing was stored here; what became of a call that was handed on to a leader that
    /// went away is not known. Under the same `job_id` the call may be repeated: it is the same.
    #[error("this server does not lead")]
    NotLeader {
        /// Who does, if that is known.
        leader: Option<Leader>,
    },
}

impl SubmitError {
    pub(crate) fn busy() -> Self {
        Self::Busy { retry_after: BUSY_RETRY }
    }

    pub(crate) fn away() -> Self {
        Self::StoreUnavailable { retry_after: AWAY_RETRY }
    }
}

/// How the server stands. Published by the driver at every change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerStatus {
    /// The leadership number in force, or the last one while the store is away.
    pub epoch: u64,
    /// Whether it leads: its state is loaded and the store answered last time.
    pub leading: bool,
    /// Takeovers from oneself since the start: after failed commits, or above an epoch that a node saw.
    pub reloads: u64,
    /// How often this server began to lead since its start: at it, or after another had led.
    pub terms: u64,
    /// Sessions of nodes.
    pub sessions: u64,
    /// When the process started to serve.
    pub started_at: Wall,
    /// The same by the steady clock: for how long it has served since is no matter of the calendar.
    pub started_steady: Duration,
    /// When the present epoch was taken over.
    pub led_since: Wall,
}

impl ServerStatus {
    /// Before the first takeover.
    pub(crate) fn starting(clock: &Clock) -> Self {
        let now = clock.wall();
        Self {
            epoch: 0,
            leading: false,
            reloads: 0,
            terms: 0,
            sessions: 0,
            started_at: now,
            started_steady: clock.steady(),
            led_since: now,
        }
    }
}

/// A submission on its way, with the way back.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) submission: Submission,
    pub(crate) answer: Answer,
    /// By the steady clock.
    pub(crate) received: Duration,
    /// Of the call that it came by, if that has one.
    pub(crate) span: Option<Arc<SpanContext>>,
    /// The row of the database's inbox of which it was made: it leaves in the commit of this call.
    pub(crate) row: Option<i64>,
    /// Held until the call leaves the inbox.
    pub(crate) _room: Option<OwnedSemaphorePermit>,
}

/// The way back to a caller. A caller that went away is no longer of interest.
pub(crate) type Answer = oneshot::Sender<Result<Reply, SubmitError>>;

/// A question to the committed state; it carries its way back.
pub(crate) type Query = Box<dyn FnOnce(&State, Now) + Send>;

/// What the driver holds of the other ends.
#[derive(Debug)]
pub(crate) struct Inboxes {
    pub(crate) producers: mpsc::Receiver<Call>,
    pub(crate) queries: mpsc::Receiver<Query>,
}

impl Handle {
    pub(crate) fn new(clock: Clock, reader: Reader, watchers: Watchers, views: Views) -> Self {
        let payload_room = Arc::new(Semaphore::new(MOST_PAYLOAD_KIB as usize));
        Self { views, payload_room, watchers, reader, clock }
    }

    /// Submits one command. The answer comes after its commit.
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub async fn submit(&self, submission: Submission) -> Result<Reply, SubmitError> {
        let mut answers = self.submit_batch(vec![submission]).await?;
        answers.pop().unwrap_or(Err(SubmitError::Broken))
    }

    /// Submits many commands, each answered for itself, in their order; one that is refused never sinks the others.
    /// They are taken into the inbox together, or none of them is.
    ///
    /// # Errors
    /// [`SubmitError::Busy`] and [`SubmitError::ShuttingDown`], about all of them.
    pub async fn submit_batch(
        &self,
        submissions: Vec<Submission>,
    ) -> Result<Vec<Result<Reply, SubmitError>>, SubmitError> {
        let mut replies = Vec::with_capacity(submissions.len());
        for answered in self.send(submissions)? {
            // The term ended in the midst of it: nobody knows what became of it.
            replies.push(answered.await.unwrap_or_else(|_| Err(self.cut_off())));
        }
        Ok(replies)
    }

    /// Puts submissions into the inbox: all of them, or none.
    fn send(
        &self,
        submissions: Vec<Submission>,
    ) -> Result<Vec<oneshot::Receiver<Result<Reply, SubmitError>>>, SubmitError> {
        let sizes: Vec<u32> = submissions.iter().map(payload_kib).collect();
        let mut room = self.room(sizes.iter().sum())?;
        let ways = self.ways()?;
        let places = ways.producers.try_reserve_many(submissions.len());
        let places = places.map_err(|error| self.no_room(&error))?;
        let received = self.clock.steady();
        let span = trace::current_call().map(Arc::new);
        let mut answers = Vec::with_capacity(submissions.len());
        for ((place, submission), kib) in places.zip(submissions).zip(sizes) {
            let (answer, answered) = oneshot::channel();
            let room = room.as_mut().and_then(|room| room.split(kib as usize));
            place.send(Call { submission, answer, received, span: span.clone(), row: None, _room: room });
            answers.push(answered);
        }
        Ok(answers)
    }

    /// Submits what rows of the database's inbox ask for, each answered for itself, in their order. Nobody can be told that
    /// there is no room, so it is waited for, in turn with all others. Cancel-safe: what was not sent was not submitted.
    ///
    /// # Errors
    /// As [`Handle::submit_batch`].
    pub(crate) async fn submit_rows(
        &self,
        rows: Vec<(i64, Submission)>,
    ) -> Result<Vec<Result<Reply, SubmitError>>, SubmitError> {
        let ways = self.ways()?;
        let sizes: Vec<u32> = rows.iter().map(|(_, submission)| payload_kib(submission)).collect();
        let room = Arc::clone(&self.payload_room).acquire_many_owned(sizes.iter().sum()).await;
        let mut room = room.map_err(|_| SubmitError::busy())?;
        let places = ways.producers.reserve_many(rows.len()).await;
        let places = places.map_err(|_closed| self.elsewhere())?;
        let received = self.clock.steady();
        let mut answers = Vec::with_capacity(rows.len());
        for ((place, (row, submission)), kib) in places.zip(rows).zip(sizes) {
            let (answer, answered) = oneshot::channel();
            let room = room.split(kib as usize);
            place.send(Call { submission, answer, received, span: None, row: Some(row), _room: room });
            answers.push(answered);
        }
        let mut replies = Vec::with_capacity(answers.len());
        for answered in answers {
            replies.push(answered.await.unwrap_or_else(|_| Err(self.cut_off())));
        }
        Ok(replies)
    }

    /// Submits one command without bytes beside it. Where there is no room it is waited for, in turn with all others: of who
    /// has nobody to tell that there is none. Cancel-safe: what was not sent was not submitted.
    ///
    /// # Errors
    /// As [`Handle::submit`], without [`SubmitError::Busy`].
    pub(crate) async fn submit_in_turn(&self, command: Command) -> Result<Reply, SubmitError> {
        let ways = self.ways()?;
        let place = ways.producers.reserve().await.map_err(|_closed| self.elsewhere())?;
        let submission = Submission { command, payload: None, more: Vec::new() };
        let (answer, answered) = oneshot::channel();
        let received = self.clock.steady();
        place.send(Call { submission, answer, received, span: None, row: None, _room: None });
        answered.await.unwrap_or_else(|_| Err(self.cut_off()))
    }

    /// Submits one command, and leaves its answer for later.
    #[cfg(test)]
    pub(crate) fn submit_now(
        &self,
        submission: Submission,
    ) -> Result<oneshot::Receiver<Result<Reply, SubmitError>>, SubmitError> {
        self.send(vec![submission]).map(|mut answers| answers.remove(0))
    }

    /// Asks a question of the state, as it is committed, between two turns. It should take 1 ms at most: everything
    /// else waits meanwhile.
    ///
    /// # Errors
    /// [`SubmitError::Busy`], [`SubmitError::StoreUnavailable`] while there is no state, and
    /// [`SubmitError::ShuttingDown`].
    pub async fn query<T: Send + 'static>(
        &self,
        question: impl FnOnce(&State, Now) -> T + Send + 'static,
    ) -> Result<T, SubmitError> {
        let (answer, answered) = oneshot::channel();
        let query: Query = Box::new(move |state, now| {
            // Whoever asked may have gone away: then nobody wants the answer.
            drop(answer.send(question(state, now)));
        });
        let ways = self.ways()?;
        ways.queries.try_reserve().map_err(|error| self.no_room(&error))?.send(query);
        match timeout(QUERY_PATIENCE, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            // There is no state, or a commit takes so long that nobody should wait for what comes after it.
            Ok(Err(_)) | Err(_) => Err(self.cut_off()),
        }
    }

    /// The newest published figures, and when they were taken. Never waits.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Published> {
        Arc::clone(&self.views.snapshots.borrow())
    }

    /// How the server stands. Never waits.
    #[must_use]
    pub fn info(&self) -> ServerStatus {
        *self.views.status.borrow()
    }

    /// For how long the process has served, whatever became of the calendar meanwhile.
    pub(crate) fn uptime(&self) -> Duration {
        self.clock.steady().saturating_sub(self.info().started_steady)
    }

    /// How the server stands towards the others on its store. Never waits.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.views.standing.borrow().clone()
    }

    /// How long ago the newest good renewal of this server's leadership was sent. None: it does not lead, or nobody else
    /// can.
    #[must_use]
    pub fn renewed_ago(&self) -> Option<Duration> {
        self.views.trust.renewed_ago()
    }

    /// Follows how the server stands.
    #[must_use]
    pub fn standings(&self) -> Standings {
        self.views.standing.clone()
    }

    /// Whether the server has begun to end.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.views.shutdown.is_cancelled()
    }

    /// The ways to the driver of the present term.
    ///
    /// # Errors
    /// If this server does not lead.
    pub(crate) fn ways(&self) -> Result<Ways, SubmitError> {
        self.views.ways.borrow().clone().ok_or_else(|| self.elsewhere())
    }

    /// What is told to who asks a server that does not lead.
    pub(crate) fn elsewhere(&self) -> SubmitError {
        if self.is_ending() {
            return SubmitError::ShuttingDown;
        }
        SubmitError::NotLeader { leader: self.views.standing.borrow().leader().cloned() }
    }

    /// What is told to who was cut off in the midst of it.
    fn cut_off(&self) -> SubmitError {
        if self.is_ending() { SubmitError::ShuttingDown } else { SubmitError::away() }
    }

    fn no_room(&self, error: &mpsc::error::TrySendError<()>) -> SubmitError {
        match error {
            mpsc::error::TrySendError::Full(()) => SubmitError::Busy { retry_after: BUSY_RETRY },
            mpsc::error::TrySendError::Closed(()) => self.elsewhere(),
        }
    }

    /// Watches one job: first make the watch, then read the job, then await [`JobWatch::changed`] and read again.
    /// Changes between two reads are told once.
    ///
    /// # Errors
    /// [`SubmitError::Busy`] while too many jobs are watched.
    pub fn watch_job(&self, job: JobId) -> Result<JobWatch, SubmitError> {
        self.watchers.watch(job).ok_or(SubmitError::Busy { retry_after: BUSY_RETRY })
    }

    /// The committed rows.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The server's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Room for payload bytes in the inbox; none is needed for none.
    fn room(&self, kib: u32) -> Result<Option<OwnedSemaphorePermit>, SubmitError> {
        if kib == 0 {
            return Ok(None);
        }
        let room = Arc::clone(&self.payload_room).try_acquire_many_owned(kib);
        room.map(Some).map_err(|_| SubmitError::Busy { retry_after: BUSY_RETRY })
    }
}

fn payload_kib(submission: &Submission) -> u32 {
    let bytes = submission.bytes();
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}
