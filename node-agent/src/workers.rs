//! Workers: processes of somebody else that attach here and run attempts inside themselves.
//!
//! Responsible for who is attached, for how many attempts each still takes, and for the words between a worker and the
//! task of each attempt that it runs (`runner/hosted.rs`). Not responsible for sockets (`workers/door.rs`), nor for what an
//! attempt's end means.
//!
//! Invariants: a worker never gets an attempt while it has as many as it said it takes, of which those that wait for other jobs
//! are none, or the jobs that they wait for might never find a place; once a worker is over, each of its attempts has been
//! told so, and nothing new is given to it.

mod door;
mod peer;
pub(crate) mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::Signal;
use tenure_proto::node::v1::{Work, WorkEnded, WorkInputs, WorkMessage, WorkerLeft, work_message::Body};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Mono};
use crate::holdings::FencingToken;
use crate::shim::tree::Identity;

pub use self::door::{Door, Error};

/// The most attempts of one worker, those that wait among them.
const MOST_AT_ONCE: usize = 1_000;
/// Messages that wait for a worker to read them. It has at most [`MOST_AT_ONCE`] attempts, each with few words; one that does not read
/// is killed for it by the deadlines of its attempts.
const OUTBOUND: usize = 1_024;
/// Words of a worker about one attempt that wait for its task: its end, and that the worker is over.
const WORDS: usize = 4;
/// Messages of a megabyte each that may wait for a worker to read them.
const INPUTS: usize = 2;

/// What the workers of a node are for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The node's name.
    pub node: String,
    /// Where sockets and records are.
    pub directory: PathBuf,
    /// The clock of all deadlines.
    pub clock: Clock,
    /// The user of each worker kind.
    pub kinds: BTreeMap<String, u32>,
}

/// Everybody who is attached. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Workers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    state: Mutex<State>,
    room: watch::Sender<Room>,
}

#[derive(Debug, Default)]
struct State {
    workers: BTreeMap<u64, Attached>,
    next: u64,
    /// Attempts whose task goes on.
    places: BTreeSet<FencingToken>,
}

/// What a worker takes, in its own words.
#[derive(Clone, Debug, Default)]
struct Takes {
    kinds: BTreeSet<String>,
    concurrency: usize,
    /// Also attempts that go on from other jobs' ends.
    inputs: bool,
    /// Its attempts speak at sockets of their own.
    sockets: bool,
}

/// A message that waits for a worker to read it.
#[derive(Debug)]
struct Outgoing {
    message: WorkMessage,
    /// Given back once it is on its way.
    _room: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
struct Attached {
    takes: Takes,
    leaving: bool,
    identity: Identity,
    outbound: mpsc::Sender<Outgoing>,
    /// Room for inputs that wait.
    inputs: Arc<Semaphore>,
    over: CancellationToken,
    attempts: BTreeMap<FencingToken, Given>,
    /// How many of them wait for other jobs.
    waiting: usize,
    /// The agent kills it, for this attempt.
    condemned: Option<FencingToken>,
}

/// An attempt that a worker has, or is to have.
#[derive(Debug)]
struct Given {
    words: mpsc::Sender<Word>,
    /// The worker was told of it.
    handed_over: bool,
    /// It waits for other jobs.
    waits: bool,
}

/// The kinds of which no worker takes an attempt now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Each with the moment since when that is so.
    pub closed: BTreeMap<String, Mono>,
    /// How often that has changed: part of the pressure generation.
    pub changes: u64,
}

/// What the task of an attempt hears.
#[derive(Debug)]
pub(crate) enum Word {
    /// The attempt has ended, in the worker's words.
    Ended(Box<WorkEnded>),
    /// The worker is over; nothing that it had runs once its process is gone.
    Over {
        /// The agent killed it, for another attempt.
        for_another: bool,
    },
}

/// The place of one attempt in a worker. Dropped, it is free again; once the attempt has ended it is free at once.
#[derive(Debug)]
pub(crate) struct Place {
    workers: Workers,
    worker: u64,
    token: FencingToken,
    /// The worker's process.
    pub(crate) identity: Identity,
    outbound: mpsc::Sender<Outgoing>,
    inputs: Arc<Semaphore>,
    words: mpsc::Receiver<Word>,
    /// Its attempts speak at sockets of their own.
    pub(crate) sockets: bool,
}

impl Workers {
    /// Nobody is attached yet.
    pub fn new(options: Options) -> Self {
        let now = options.clock.now();
        let closed = options.kinds.keys().map(|kind| (kind.clone(), now)).collect();
        let room = watch::Sender::new(Room { closed, changes: 0 });
        Self { shared: Arc::new(Shared { options, state: Mutex::default(), room }) }
    }

    /// Which kinds have room, as it changes.
    pub fn room(&self) -> watch::Receiver<Room> {
        self.shared.room.subscribe()
    }

    /// Whether attempts of this kind run in workers.
    pub(crate) fn host(&self, kind: &str) -> bool {
        self.shared.options.kinds.contains_key(kind)
    }

    pub(crate) fn options(&self) -> &Options {
        &self.shared.options
    }

    /// The directory of an attempt, if it has a place.
    pub(crate) fn attempt_dir(&self, token: FencingToken) -> Option<PathBuf> {
        self.state()
            .places
            .contains(&token)
            .then(|| record::attempt_dir(&self.shared.options.directory, token.0))
    }

    /// A place for an attempt, in the worker with the most room. `inputs`: it goes on from other jobs' ends. None: nobody has
    /// any.
    pub(crate) fn reserve(&self, kind: &str, token: FencingToken, inputs: bool) -> Option<Place> {
        let mut state = self.state();
        let free = |worker: &Attached| worker.takes.concurrency.saturating_sub(worker.active());
        let takes = |worker: &Attached| worker.takes(kind) && (worker.takes.inputs || !inputs);
        let best = state.workers.iter_mut().filter(|(_, worker)| takes(worker));
        let (&id, worker) = best.max_by_key(|(_, worker)| free(worker))?;
        let (sender, words) = mpsc::channel(WORDS);
        worker.attempts.insert(token, Given { words: sender, handed_over: false, waits: false });
        let (identity, outbound, inputs) =
            (worker.identity, worker.outbound.clone(), Arc::clone(&worker.inputs));
        let sockets = worker.takes.sockets;
        state.places.insert(token);
        self.publish(&state);
        Some(Place { workers: self.clone(), worker: id, token, identity, outbound, inputs, words, sockets })
    }

    /// Every attempt that has a place, or whose end is not in the spool yet.
    pub(crate) fn attempts(&self) -> Vec<FencingToken> {
        self.state().places.iter().copied().collect()
    }

    /// A worker attaches: its number, what is said to it, and what ends it.
    fn attach(&self, identity: Identity, takes: Takes) -> (u64, mpsc::Receiver<Outgoing>, CancellationToken) {
        let (outbound, queue) = mpsc::channel(OUTBOUND);
        let over = CancellationToken::new();
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        let attached = Attached {
            takes,
            leaving: false,
            identity,
            outbound,
            inputs: Arc::new(Semaphore::new(INPUTS)),
            over: over.clone(),
            attempts: BTreeMap::new(),
            waiting: 0,
            condemned: None,
        };
        state.workers.insert(id, attached);
        self.publish(&state);
        (id, queue, over)
    }

    /// The worker takes no more.
    fn leaving(&self, id: u64) {
        let mut state = self.state();
        if let Some(worker) = state.workers.get_mut(&id) {
            worker.leaving = true;
            // Under the lock, so that no attempt comes after it. One that reads nothing is killed in time.
            drop(worker.outbound.try_send(Outgoing::of(Body::Left(WorkerLeft {}))));
        }
        self.publish(&state);
    }

    /// The worker says how an attempt ended. False: it has no such attempt.
    fn ended(&self, id: u64, ended: WorkEnded) -> bool {
        let token = FencingToken(ended.token);
        let mut state = self.state();
        let Some(worker) = state.workers.get_mut(&id) else { return false };
        if worker.attempts.get(&token).is_none_or(|attempt| !attempt.handed_over) {
            return false;
        }
        let attempt = worker.remove(token);
        self.publish(&state);
        // It was never told anything before.
        attempt.is_some_and(|attempt| attempt.words.try_send(Word::Ended(Box::new(ended))).is_ok())
    }

    /// The stream of a worker is over. One that still has attempts is killed: what it has runs unseen.
    fn detach(&self, id: u64) {
        let mut state = self.state();
        let Some(worker) = state.workers.remove(&id) else { return };
        self.publish(&state);
        drop(state);
        worker.over.cancel();
        if worker.attempts.values().any(|attempt| attempt.handed_over) {
            kill(worker.identity);
        }
        for (token, attempt) in &worker.attempts {
            let for_another = worker.condemned.is_some_and(|condemned| condemned != *token);
            // It was never told anything before.
            drop(attempt.words.try_send(Word::Over { for_another }));
        }
    }

    fn condemn(&self, id: u64, token: FencingToken) {
        let mut state = self.state();
        let Some(worker) = state.workers.get_mut(&id) else { return };
        worker.condemned.get_or_insert(token);
        let (identity, over) = (worker.identity, worker.over.clone());
        drop(state);
        tracing::warn!(
            lease.token = token.0,
            pid = identity.pid,
            "an attempt does not stop; its worker is killed"
        );
        kill(identity);
        over.cancel();
    }

    /// Tells a worker of an attempt. False: it leaves, is over, or does not read what it is told.
    fn hand_over(&self, id: u64, work: Work) -> bool {
        let mut state = self.state();
        let Some(worker) = state.workers.get_mut(&id) else { return false };
        let Some(attempt) = worker.attempts.get_mut(&FencingToken(work.token)) else { return false };
        let takes = !worker.leaving && worker.condemned.is_none();
        attempt.handed_over = takes && worker.outbound.try_send(Outgoing::of(Body::Work(work))).is_ok();
        attempt.handed_over
    }

    fn release(&self, id: u64, token: FencingToken) {
        let mut state = self.state();
        state.places.remove(&token);
        if let Some(worker) = state.workers.get_mut(&id) {
            worker.remove(token);
        }
        self.publish(&state);
    }

    fn waits(&self, id: u64, token: FencingToken, waits: bool) {
        let mut state = self.state();
        let Some(worker) = state.workers.get_mut(&id) else { return };
        let Some(attempt) = worker.attempts.get_mut(&token).filter(|attempt| attempt.waits != waits) else {
            return;
        };
        attempt.waits = waits;
        worker.waiting = if waits { worker.waiting + 1 } else { worker.waiting.saturating_sub(1) };
        self.publish(&state);
    }

    /// Says which kinds have room, if that has changed.
    fn publish(&self, state: &State) {
        let now = self.shared.options.clock.now();
        self.shared.room.send_if_modified(|room| {
            let open = |kind: &String| state.workers.values().any(|worker| worker.takes(kind));
            let mut closed = BTreeMap::new();
            for kind in self.shared.options.kinds.keys().filter(|kind| !open(kind)) {
                closed.insert(kind.clone(), room.closed.get(kind).copied().unwrap_or(now));
            }
            let changed = !closed.keys().eq(room.closed.keys());
            room.changes += u64::from(changed);
            room.closed = closed;
            changed
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is a single call: what a panic left is whole.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attached {
    fn takes(&self, kind: &str) -> bool {
        !self.leaving
            && self.condemned.is_none()
            && self.active() < self.takes.concurrency
            && self.attempts.len() < MOST_AT_ONCE
            && self.takes.kinds.contains(kind)
    }

    /// How many of its attempts do not wait.
    fn active(&self) -> usize {
        self.attempts.len().saturating_sub(self.waiting)
    }

    fn remove(&mut self, token: FencingToken) -> Option<Given> {
        let attempt = self.attempts.remove(&token)?;
        self.waiting = self.waiting.saturating_sub(usize::from(attempt.waits));
        Some(attempt)
    }
}

impl Outgoing {
    fn of(body: Body) -> Self {
        Self { message: WorkMessage { body: Some(body) }, _room: None }
    }
}

impl Place {
    /// Tells the worker of the attempt. False: nothing of it runs, or will.
    pub(crate) fn hand_over(&self, work: Work) -> bool {
        self.workers.hand_over(self.worker, work)
    }

    /// Says something to the worker. False: it is over, or does not read what it is told.
    pub(crate) fn say(&self, body: Body) -> bool {
        self.outbound.try_send(Outgoing::of(body)).is_ok()
    }

    /// Tells the worker what the attempt goes on from, as soon as it has read enough of what it was told before, so that
    /// little of it waits in memory. False: it is over. Cancel-safe: not told then.
    pub(crate) async fn give(&self, inputs: WorkInputs) -> bool {
        let Ok(room) = Arc::clone(&self.inputs).acquire_owned().await else { return false };
        let outgoing = Outgoing { _room: Some(room), ..Outgoing::of(Body::Inputs(inputs)) };
        self.outbound.try_send(outgoing).is_ok()
    }

    /// The next word of the worker about the attempt. Cancel-safe. After the end it waits for ever.
    pub(crate) async fn next(&mut self) -> Word {
        match self.words.recv().await {
            Some(word) => word,
            None => std::future::pending().await,
        }
    }

    /// The attempt waits for other jobs, or does not any more.
    pub(crate) fn waits(&self, waits: bool) {
        self.workers.waits(self.worker, self.token, waits);
    }

    /// Kills the worker for this attempt.
    pub(crate) fn condemn(&self) {
        self.workers.condemn(self.worker, self.token);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.workers.release(self.worker, self.token);
    }
}

/// SIGKILL to a worker, whoever else may have its pid by now.
fn kill(worker: Identity) {
    if let Err(error) = worker.signal(Signal::KILL) {
        tracing::error!(pid = worker.pid, %error, "a worker cannot be killed");
    }
}

#[cfg(test)]
mod tests;
