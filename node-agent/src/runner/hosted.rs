//! One attempt inside a worker, as straight-line code: find a place, wait, hand over, watch, report.
//!
//! Responsible for the order of these, and for killing the worker if the attempt does not stop. Not responsible for any
//! decision about the lease, nor for who is attached (`workers.rs`).
//!
//! Invariants: no worker hears of an attempt before its record stands; an end is reported once nothing of the attempt runs:
//! the worker said so, or its process is gone.

mod course;
mod end;
mod inputs;
mod voice;

use std::sync::Arc;
use std::time::Duration;

use tenure_proto::node::v1::{
    Grant, Report, StopWork, StopWorkReason, Work, WorkDeadline, WrapUpWork, work_message::Body,
};
use tokio::sync::watch;
use tracing::Instrument as _;

use self::course::{Course, Due, Why};
use self::end::{Ending, Spoken};
use self::voice::Voice;
use super::aftermath::Inherited;
use super::bounds::Bounds;
use super::{Error, Event, Orders, Shared, indexes, outcome, upload};
use crate::clock::Mono;
use crate::holdings::{End, FencingToken, StopReason};
use crate::own_rule::OwnRule;
use crate::runner::indexes::Assigned;
use crate::runner::socket::{About, Lease, Of};
use crate::shim::tree::Identity;
use crate::trace::AttemptSpan;
use crate::workers::record::{self, Record};
use crate::workers::{Place, Word};

/// Without one the server would have none; it always sends one.
const DEFAULT_HARD_LIMIT: Duration = Duration::from_secs(3_600);
/// A killed process that is still there then cannot be killed.
const UNKILLABLE: Duration = Duration::from_secs(60);

/// Runs one attempt to its end.
pub(super) async fn run(shared: Arc<Shared>, grant: Grant, orders: watch::Receiver<Orders>) {
    let span = tracing::info_span!(
        "attempt",
        job.id = %grant.job_id,
        job.kind = %grant.kind,
        job.attempt = grant.attempt,
        lease.token = grant.token
    );
    let trace = shared.options.spans.attempt(&grant);
    let grant = trace.enter(grant);
    let token = FencingToken(grant.token);
    let hosted = Hosted { token, job: grant.job_id.clone(), shared, orders, trace, voice: None };
    hosted.run(grant).instrument(span).await;
}

/// What an earlier agent's workers had: their processes are killed, and each attempt is a loss once its worker is gone.
///
/// # Errors
/// If the records cannot be read.
pub(super) async fn begin(
    shared: &Arc<Shared>,
    tasks: &mut tokio::task::JoinSet<Option<FencingToken>>,
) -> Result<Vec<Inherited>, Error> {
    let directory = shared.options.workers.options().directory.clone();
    let scanned = tokio::task::spawn_blocking(move || record::scan(&directory)).await.map_err(Error::Task)?;
    let mut inherited = Vec::new();
    for record in scanned.map_err(Error::Records)? {
        let token = FencingToken(record.token);
        // Of another boot, or copied: nothing of it lives here, and its lease runs out.
        if shared.options.copy || record.boot_id != shared.options.boot_id {
            forget(shared, token).await;
            continue;
        }
        shared.indexes.hold(token, &record.indexes);
        if let Err(error) = record.worker.signal(rustix::process::Signal::KILL) {
            tracing::error!(lease.token = token.0, pid = record.worker.pid, %error, "a worker of an earlier agent cannot be killed");
        }
        inherited.push(Inherited { token, job: record.job.clone(), slots: record.slots.clone() });
        let shared = Arc::clone(shared);
        tasks.spawn(async move {
            lost(shared, record).await;
            None
        });
    }
    if !inherited.is_empty() {
        tracing::warn!(
            attempts = inherited.len(),
            "an earlier agent's workers had attempts; they are killed"
        );
    }
    Ok(inherited)
}

/// Waits for the worker of an earlier agent, and reports the attempt that it had.
async fn lost(shared: Arc<Shared>, record: Record) {
    let token = FencingToken(record.token);
    gone(&shared, token, record.worker).await;
    shared.indexes.release(token);
    let spool = Arc::clone(&shared);
    let known = tokio::task::spawn_blocking(move || spool.spool.contains(token)).await.unwrap_or(false);
    if !known {
        let directory = record::attempt_dir(&shared.options.workers.options().directory, token.0);
        let spoken = tokio::task::spawn_blocking(move || voice::left(&directory)).await.unwrap_or_default();
        let error = "its agent died, and the next one killed its worker";
        let report = end::lost(&record.job, token, error, spoken);
        shared.spool(report, End::Finished).await;
    }
    shared.tell(Event::Reaped { token }).await;
    forget(&shared, token).await;
}

/// Returns once a process is gone; says so if that takes too long.
async fn gone(shared: &Arc<Shared>, token: FencingToken, worker: Identity) {
    if tokio::time::timeout(UNKILLABLE, worker.left()).await.is_err() {
        tracing::error!(
            lease.token = token.0,
            pid = worker.pid,
            "a worker cannot be killed; its slots stay taken"
        );
        shared.tell(Event::Unkillable { token }).await;
        worker.left().await;
    }
}

async fn forget(shared: &Arc<Shared>, token: FencingToken) {
    let directory = shared.options.workers.options().directory.clone();
    // What cannot be removed is looked at by the next agent.
    tokio::task::spawn_blocking(move || record::remove(&directory, token.0)).await.ok();
}

struct Hosted {
    token: FencingToken,
    job: String,
    shared: Arc<Shared>,
    orders: watch::Receiver<Orders>,
    trace: AttemptSpan,
    /// Where it speaks for itself, if its worker can.
    voice: Option<Voice>,
}

enum Input {
    Word(Word),
    Orders,
    Due,
    Checkpoint,
}

impl Hosted {
    async fn run(mut self, grant: Grant) {
        let kind = self.shared.options.kinds.get(&grant.kind);
        let (grace, soft_grace) = kind.map(|kind| (kind.grace, kind.soft_grace)).unwrap_or_default();
        let goes_on = grant.input_results.is_some();
        let Some(place) = self.shared.options.workers.reserve(&grant.kind, self.token, goes_on) else {
            if goes_on {
                tracing::warn!("no worker that may take it takes other jobs' results; a grant is given back");
            }
            return self.give_up(OwnRule::Worker).await;
        };
        self.shared.tell(Event::Prepared { token: self.token }).await;
        if !self.may_start().await {
            return self.give_up(OwnRule::Draining).await;
        }
        let Some(assigned) = self.shared.indexes.take(self.token, &grant.slots) else {
            tracing::error!("more is promised of a slot than it has numbers; a grant is given back");
            return self.give_up(OwnRule::Slots).await;
        };
        let gone_by = self.orders.borrow_and_update().gone_by;
        if !self.remember(&grant, &place, gone_by, &assigned).await {
            return self.give_up(OwnRule::Workdir).await;
        }
        if !self.open_voice(&grant, &place, !assigned.is_empty()).await {
            return self.give_up(OwnRule::Workdir).await;
        }
        let inputs = match self.give_inputs(&grant, &place).await {
            Ok(inputs) => inputs,
            Err(rule) => {
                forget_inputs(&place, self.token);
                return self.give_up(rule).await;
            }
        };
        // It may have taken a while.
        let gone_by = self.orders.borrow_and_update().gone_by;
        let length = |field: Option<prost_types::Duration>| field.and_then(|length| length.try_into().ok());
        let now = self.shared.options.clock.now();
        let limit = length(grant.hard_time_limit).unwrap_or(DEFAULT_HARD_LIMIT);
        let lease = length(grant.lease).unwrap_or_default();
        let soft = length(grant.soft_time_limit);
        // A worker whose attempts have no socket cannot say anything: its silence is none.
        let silence = length(grant.progress_timeout).filter(|_| self.voice.is_some());
        let course = Course::new(now, (limit, grace, lease), gone_by).with_soft(soft, soft_grace);
        let socket = self.voice.as_ref().map(|voice| voice.path().to_owned()).unwrap_or_default();
        let work = Work { input_results: inputs, socket, ..work(grant, grace, gone_by, &assigned) };
        if self.orders.borrow().stop.is_some() || !place.hand_over(work) {
            // Nothing has run.
            if inputs.is_some() {
                forget_inputs(&place, self.token);
            }
            return self.give_up(OwnRule::Worker).await;
        }
        self.trace.started();
        self.shared.tell(Event::Started { token: self.token }).await;
        self.watch(place, course.with_silence(silence), soft_grace).await;
    }

    /// Waits for the order to start. False: it is never to start, or nobody gives orders any more.
    async fn may_start(&mut self) -> bool {
        let decided =
            self.orders.wait_for(|orders| orders.start || orders.abandon || orders.stop.is_some()).await;
        decided.is_ok_and(|orders| orders.start && !orders.abandon && orders.stop.is_none())
    }

    /// Whether it is written down which process is to be killed for it, whatever becomes of this agent.
    async fn remember(&self, grant: &Grant, place: &Place, gone_by: Mono, assigned: &Assigned) -> bool {
        let boot_id = self.shared.options.boot_id.clone();
        let record = Record {
            gone_by,
            slots: grant.slots.clone(),
            indexes: assigned.clone(),
            ..Record::new(self.job.clone(), self.token.0, boot_id, place.identity)
        };
        let directory = self.shared.options.workers.options().directory.clone();
        match tokio::task::spawn_blocking(move || record.write(&directory)).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the record of an attempt cannot be written; its grant is given back");
                false
            }
            Err(error) => {
                tracing::error!(%error, "writing the record of an attempt ended early; its grant is given back");
                false
            }
        }
    }

    /// Makes the socket at which it speaks for itself, if its worker can. False: there has to be one, and there is none.
    async fn open_voice(&mut self, grant: &Grant, place: &Place, numbered: bool) -> bool {
        if !place.sockets {
            if grant.progress_timeout.is_some() {
                tracing::warn!(
                    "a worker with an old library cannot say how its attempts get on; progress_timeout does nothing"
                );
            }
            return true;
        }
        let options = self.shared.options.workers.options();
        let of = Of {
            lease: Lease { job: self.job.clone(), token: self.token },
            about: About::of(grant),
            dir: record::attempt_dir(&options.directory, self.token.0),
            uid: options.kinds.get(&grant.kind).copied().unwrap_or_default(),
            numbered,
        };
        match Voice::open(&self.shared, of, self.orders.clone()).await {
            Ok(voice) => {
                self.voice = Some(voice);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "the socket of an attempt cannot be made; its grant is given back");
                false
            }
        }
    }

    /// Follows it to its end. `within`: so long it has for detaching, once it is told that it must.
    async fn watch(mut self, mut place: Place, mut course: Course, within: Duration) {
        let clock = self.shared.options.clock;
        let ending = loop {
            let due = course.next();
            let checkpoint = self.voice.as_ref().and_then(Voice::checkpoint_due);
            let input = tokio::select! {
                // Cancel-safe, as documented there.
                word = place.next() => Input::Word(word),
                // Cancel-safe: watch changed. A sender that is gone gives no more orders.
                Ok(()) = self.orders.changed() => Input::Orders,
                // Cancel-safe: the deadline stays.
                () = clock.sleep_until(due) => Input::Due,
                // Cancel-safe: the deadline stays.
                () = clock.sleep_until(checkpoint.unwrap_or(Mono::MAX)), if checkpoint.is_some() => {
                    Input::Checkpoint
                }
            };
            match input {
                Input::Word(Word::Ended(ended)) => break Ending::Said(ended),
                Input::Word(Word::Over { for_another }) => {
                    gone(&self.shared, self.token, place.identity).await;
                    break Ending::Over { for_another };
                }
                Input::Orders => self.follow_orders(&place, &mut course, within),
                Input::Due => {
                    if let Some(due) = course.due(clock.now()) {
                        self.carry_out(due, &place).await;
                    }
                }
                Input::Checkpoint => {
                    if let Some(voice) = &mut self.voice {
                        voice.checkpoint_told(clock.now());
                    }
                    self.shared.tell(Event::Checkpointed { token: self.token }).await;
                }
            }
        };
        // From here on it says no more.
        let spoken = match self.voice.take() {
            Some(voice) => voice.heard().await,
            None => Spoken::default(),
        };
        let limits = self.shared.limits();
        let (moment, saved) = ((clock.now(), limits), spoken.checkpoint.clone());
        let (mut report, end) = end::report((&self.job, self.token), ending, spoken, &course, moment);
        let large = upload::taken_from(&mut report, limits);
        let mut bounds = Bounds::new(self.orders.clone(), clock, course.grace(), course.ordered_by());
        let (report, end) = match upload::unless_stopped(&self.shared, report, large, &mut bounds).await {
            Ok(report) => (report, end),
            Err((report, reason)) => outcome::stopped_meanwhile(*report, reason, saved),
        };
        self.report(report, end, place).await;
    }

    /// Brings the worker up to the present orders.
    fn follow_orders(&mut self, place: &Place, course: &mut Course, within: Duration) {
        let orders = *self.orders.borrow_and_update();
        let now = self.shared.options.clock.now();
        course.pause(orders.parked, now);
        place.waits(orders.parked);
        if self.voice.as_mut().is_some_and(|voice| voice.follow(orders, now)) {
            course.heard(now);
        }
        if orders.must_detach {
            course.must_detach(now, within);
        }
        if course.extend(orders.gone_by) {
            let deadline = WorkDeadline { token: self.token.0, gone_by_us: orders.gone_by.as_micros() };
            // A worker that does not hear it ends itself in time.
            place.say(Body::Deadline(deadline));
        }
        if let Some(stop) = orders.stop
            && let Some(due) = course.ordered(now, stop)
        {
            carry_out(due, place, self.token);
        }
    }

    async fn carry_out(&self, due: Due, place: &Place) {
        if let (Due::WrapUp { .. }, Some(voice)) = (due, &self.voice) {
            voice.asked_to_wrap_up().await;
        }
        carry_out(due, place, self.token);
    }

    async fn report(mut self, report: Report, end: End, place: Place) {
        // Before anybody hears that its slots are free.
        self.shared.indexes.release(self.token);
        self.trace.reported(&report);
        self.shared.spool(report, end).await;
        if end == End::Finished {
            self.shared.tell(Event::Reaped { token: self.token }).await;
        }
        forget(&self.shared, self.token).await;
        drop(place);
    }

    /// Ends an attempt that never started.
    async fn give_up(mut self, rule: OwnRule) {
        self.trace.never_started(rule);
        self.voice = None;
        self.shared.indexes.release(self.token);
        forget(&self.shared, self.token).await;
        self.shared.tell(Event::NeverStarted { token: self.token, rule }).await;
    }
}

fn carry_out(due: Due, place: &Place, token: FencingToken) {
    match due {
        Due::WrapUp { grace } => {
            let grace = prost_types::Duration::try_from(grace).ok();
            // A worker that does not hear it is told to stop later.
            place.say(Body::WrapUp(WrapUpWork { token: token.0, grace }));
        }
        Due::Stop { why, grace } => say_stop(place, token, why, grace),
        Due::Kill => place.condemn(),
    }
}

fn say_stop(place: &Place, token: FencingToken, why: Why, grace: Duration) {
    let reason = match why {
        Why::Limit | Why::SoftLimit | Why::Stalled => StopWorkReason::TimeLimit,
        Why::CutOff | Why::Detach => StopWorkReason::LeaseLost,
        Why::Ordered(StopReason::Cancelled) => StopWorkReason::Cancelled,
        Why::Ordered(StopReason::Drained) => StopWorkReason::Drained,
        Why::Ordered(StopReason::NotLive | StopReason::Unanswered | StopReason::Superseded) => {
            StopWorkReason::LeaseLost
        }
    };
    let grace = prost_types::Duration::try_from(grace).ok();
    // A worker that does not hear it is killed.
    place.say(Body::Stop(StopWork { token: token.0, reason: reason.into(), grace }));
}

/// There is no work after all.
fn forget_inputs(place: &Place, token: FencingToken) {
    let stop = StopWork { token: token.0, reason: StopWorkReason::LeaseLost.into(), grace: None };
    // A worker that does not hear it has more in its memory than it needs.
    place.say(Body::Stop(stop));
}

fn work(grant: Grant, grace: Duration, gone_by: Mono, assigned: &Assigned) -> Work {
    Work {
        job_id: grant.job_id,
        token: grant.token,
        kind: grant.kind,
        attempt: grant.attempt,
        tenant: grant.tenant,
        payload: grant.payload,
        content_type: grant.content_type,
        idempotency_key: grant.idempotency_key,
        parent_id: grant.parent_id,
        traceparent: grant.traceparent,
        tracestate: grant.tracestate,
        hard_time_limit: grant.hard_time_limit,
        grace: prost_types::Duration::try_from(grace).ok(),
        gone_by_us: gone_by.as_micros(),
        soft_time_limit: grant.soft_time_limit,
        checkpoint: grant.checkpoint.map(|saved| saved.data).unwrap_or_default(),
        partial: grant.partial.map(|left| left.data).unwrap_or_default(),
        indexes: assigned.iter().map(|(slot, numbers)| (slot.clone(), indexes::value(numbers))).collect(),
        input_results: None,
        socket: String::new(),
    }
}
