//! One attempt, as its function sees it, and what the function answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use tenure_proto::limits;
use tenure_proto::node::v1::{
    InputResult, ResultBytes, StopWorkReason, Work, WorkEnded, WorkFailed, WorkStopped, WorkSucceeded,
    input_result::Answer, work_ended::End,
};
use tenure_proto::v1::JobState;
use tokio_util::sync::CancellationToken;

use super::voice::Voice;
use super::wait::Wait;
use crate::wire;

/// Of the reason of a failure, in bytes; the server keeps no more.
const MOST_REASON: usize = 4_096;

/// One attempt of a job. Clones are of the same attempt.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The job.
    pub job_id: String,
    /// The fencing token of this execution: hand it to what must not be written twice.
    pub token: u64,
    /// The kind.
    pub kind: String,
    /// 1-based.
    pub attempt: u32,
    /// Whose work it is.
    pub tenant: String,
    /// The input.
    pub payload: Bytes,
    /// Its media type. Empty: none was given.
    pub content_type: String,
    /// The dedupe key of the job, or its id: the same for each of its attempts.
    pub idempotency_key: String,
    /// Empty: it has no parent.
    pub parent_id: String,
    /// W3C trace context. Empty: none.
    pub traceparent: String,
    /// W3C trace state. Empty: none.
    pub tracestate: String,
    /// It is told to stop so long after its start.
    pub hard_time_limit: Duration,
    /// The numbers of its units of slots that have numbers, by slot, such as `0,2`.
    pub indexes: BTreeMap<String, String>,
    /// What an earlier attempt of the job saved for this one to go on from. Empty: nothing.
    pub checkpoint: Bytes,
    /// The partial result of an earlier attempt. Empty: none.
    pub partial: Bytes,
    /// Whether it goes on from something: from the ends of jobs that came before it in a workflow, or of its children, with
    /// what its execution before left when it detached.
    pub resumed: bool,
    /// How those jobs ended, in the order in which they were named or declared. Empty: it waited for nobody.
    pub inputs: Arc<[Input]>,
    /// What its execution before left when it detached. None: nothing.
    pub state: Option<Data>,
    /// Cancelled once it is to wrap up, at its soft time limit: what it leaves from then on is a partial result.
    pub wrap_up: CancellationToken,
    /// Cancelled once it is to stop.
    pub stop: CancellationToken,
    pub(super) told: Arc<Mutex<Told>>,
    /// Where it speaks for itself.
    pub(super) voice: Arc<Voice>,
}

/// How another job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Input {
    /// Which job.
    pub job_id: String,
    /// How it ended. One that is not final: it had not ended when the wait was over. Unspecified: there is no such job.
    pub state: JobState,
    /// What it wrote, if it succeeded and wrote something.
    pub result: Option<Data>,
    /// Why there is no result, for people. Empty: there is one, or none is missing.
    pub error: String,
    /// It had been asked to wrap up before it wrote that.
    pub partial: bool,
}

/// Bytes of a media type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Data {
    /// The bytes.
    pub data: Bytes,
    /// Their media type.
    pub content_type: String,
}

/// What came before the work of an attempt.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub(super) results: Vec<InputResult>,
    pub(super) state: Option<ResultBytes>,
}

/// What is known of an attempt beside its input.
#[derive(Debug, Default)]
pub(super) struct Told {
    reason: Option<StopReason>,
    usage: BTreeMap<String, u64>,
    /// The ends with which it came back have ended a wait that they do not meet.
    ends_taken: bool,
}

/// Why an attempt is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// Somebody cancelled the job.
    Cancelled,
    /// It ran into its hard time limit.
    TimeLimit,
    /// The node drains, or its agent ends.
    Drained,
    /// Somebody else may run the job soon.
    LeaseLost,
}

/// What an attempt leaves behind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output(Left);

/// What is left.
#[derive(Clone, Debug, Default, PartialEq)]
enum Left {
    #[default]
    Nothing,
    Result(Bytes, String),
    /// It waits, and comes back.
    Detached(Box<Wait>),
}

/// Why an attempt has failed. Every error becomes one by `?`: another attempt may help then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    permanent: bool,
    reason: String,
    retry_after: Option<Duration>,
    throttled: String,
}

impl Attempt {
    pub(super) fn new(work: Work, before: Before) -> Self {
        let limit = work.hard_time_limit.and_then(|limit| limit.try_into().ok());
        Self {
            job_id: work.job_id,
            token: work.token,
            kind: work.kind,
            attempt: work.attempt,
            tenant: work.tenant,
            payload: work.payload,
            content_type: work.content_type,
            idempotency_key: work.idempotency_key,
            parent_id: work.parent_id,
            traceparent: work.traceparent,
            tracestate: work.tracestate,
            hard_time_limit: limit.unwrap_or_default(),
            indexes: work.indexes,
            checkpoint: work.checkpoint,
            partial: work.partial,
            resumed: work.input_results.is_some(),
            inputs: before.results.into_iter().map(Input::of).collect(),
            state: before.state.map(Data::of),
            wrap_up: CancellationToken::new(),
            stop: CancellationToken::new(),
            told: Arc::default(),
            voice: Arc::new(Voice::new(work.socket)),
        }
    }

    /// Adds to what is told at the end.
    pub(super) fn spent(&self, counter: &str, amount: u64) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = told.usage.entry(counter.to_owned()).or_default();
        *sum = sum.saturating_add(amount);
    }

    /// Whether nobody has taken yet the ends with which it came back, as those of a wait that its `max_wait` ended.
    pub(super) fn takes_ends(&self) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        !std::mem::replace(&mut told.ends_taken, true)
    }

    /// Why it is to stop. None: it is not.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).reason
    }

    /// It is to stop; the first reason stays.
    pub(super) fn tell(&self, reason: StopReason) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).reason.get_or_insert(reason);
        self.stop.cancel();
    }

    /// Its end for the agent. An error of one that was told to stop is that it has.
    pub(super) fn ended(&self, answer: Option<Result<Output, Failure>>) -> WorkEnded {
        let end = match answer {
            Some(Ok(Output(Left::Detached(_)))) if self.voice.is_mute() => {
                let error =
                    "the agent of this node is too old: an attempt in a worker cannot wait for others";
                End::Failed(Failure::retry(error).into_wire())
            }
            Some(Ok(output)) => output.into_wire(),
            Some(Err(failure)) if self.stop_reason().is_none() => End::Failed(failure.into_wire()),
            Some(Err(_)) | None => End::Stopped(WorkStopped {}),
        };
        let usage = self.told.lock().unwrap_or_else(PoisonError::into_inner).usage.clone();
        let ended = WorkEnded { token: self.token, end: Some(end), usage };
        // Another attempt would leave as much.
        if let Some(words) = too_large(&ended) {
            return WorkEnded { end: Some(End::Failed(Failure::permanent(words).into_wire())), ..ended };
        }
        ended
    }
}

/// What is wrong with an end that the agent would not take.
fn too_large(ended: &WorkEnded) -> Option<String> {
    let size = ended.encoded_len();
    (size > limits::WORKER_END_BYTES).then(|| {
        format!(
            "what it leaves is too large for a worker: its end has {size} bytes, at most {most} are allowed",
            most = limits::WORKER_END_BYTES
        )
    })
}

impl Input {
    pub(super) fn of(told: InputResult) -> Self {
        let (state, partial) = (told.state(), told.partial);
        let (result, error) = match told.answer {
            Some(Answer::Result(result)) => (Some(Data::of(result)), String::new()),
            Some(Answer::Error(error)) => (None, error),
            None => (None, String::new()),
        };
        Self { job_id: told.job_id, state, result, error, partial }
    }
}

impl Data {
    fn of(bytes: ResultBytes) -> Self {
        Self { data: bytes.data, content_type: bytes.content_type }
    }
}

impl StopReason {
    pub(super) fn of(reason: StopWorkReason) -> Self {
        match reason {
            StopWorkReason::Cancelled => Self::Cancelled,
            StopWorkReason::TimeLimit => Self::TimeLimit,
            StopWorkReason::Drained => Self::Drained,
            StopWorkReason::LeaseLost | StopWorkReason::Unspecified => Self::LeaseLost,
        }
    }
}

impl Output {
    /// No result.
    pub fn none() -> Self {
        Self::default()
    }

    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::bytes(text.into(), "text/plain; charset=utf-8")
    }

    /// Bytes of a media type. Above the inline limit of the server, 256 KiB, the agent uploads them. An end of more than 1,000,000
    /// bytes is none: the attempt has failed for good then.
    pub fn bytes(data: impl Into<Bytes>, content_type: impl Into<String>) -> Self {
        Self(Left::Result(data.into(), content_type.into()))
    }

    /// It ends in order to wait for children, and holds nothing meanwhile. The job comes back as another execution, which begins at
    /// its beginning, with [`Attempt::resumed`], [`Attempt::inputs`] (how the children ended, in order) and [`Attempt::state`].
    pub fn detach(wait: Wait) -> Self {
        Self(Left::Detached(Box::new(wait)))
    }

    fn into_wire(self) -> End {
        match self.0 {
            Left::Nothing => End::Succeeded(WorkSucceeded::default()),
            Left::Result(data, content_type) => {
                End::Succeeded(WorkSucceeded { has_result: true, data, content_type })
            }
            Left::Detached(wait) => End::Detached(wait.into_wire()),
        }
    }
}

impl Failure {
    /// No further attempt would help: the job is dead at once. The reason is for people, never payload.
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self { permanent: true, ..Self::retry(reason) }
    }

    /// Another attempt may help. The reason is for people, never payload.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self { permanent: false, reason: reason.into(), retry_after: None, throttled: String::new() }
    }

    /// Not tried again before this long.
    #[must_use]
    pub fn after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// The provider behind a fleet slot of the job wants no more for this long: until then nothing that needs it starts, in
    /// the whole fleet.
    #[must_use]
    pub fn throttled(mut self, slot: impl Into<String>, retry_after: Duration) -> Self {
        self.throttled = slot.into();
        self.after(retry_after)
    }

    fn into_wire(self) -> WorkFailed {
        WorkFailed {
            permanent: self.permanent,
            error: shortened(self.reason),
            retry_after: self.retry_after.map(wire::duration),
            throttled_slot: self.throttled,
        }
    }
}

/// A reason without what nobody would keep of it.
fn shortened(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(MOST_REASON));
    reason
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let causes = std::iter::successors(error.source(), |&error| error.source());
        Self::retry(causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(attempt: &Attempt, answer: Option<Result<Output, Failure>>) -> End {
        attempt.ended(answer).end.unwrap()
    }

    #[test]
    fn an_answer_counts_and_an_error_of_one_that_was_told_to_stop_is_that_it_has() {
        let attempt = Attempt::new(Work { token: 7, ..Work::default() }, Before::default());
        attempt.spent("tokens", 5);
        attempt.spent("tokens", 6);
        let ended = attempt.ended(Some(Ok(Output::none())));
        assert_eq!((ended.token, ended.usage.get("tokens")), (7, Some(&11)));
        assert!(matches!(ended.end, Some(End::Succeeded(WorkSucceeded { has_result: false, .. }))));
        let failed = || Some(Err(Failure::permanent("why").throttled("slot", Duration::from_secs(3))));
        let End::Failed(said) = end(&attempt, failed()) else { panic!("it failed") };
        assert_eq!((said.permanent, said.throttled_slot.as_str()), (true, "slot"));
        assert_eq!(said.retry_after.unwrap().seconds, 3);
        attempt.tell(StopReason::Drained);
        attempt.tell(StopReason::LeaseLost);
        assert_eq!(attempt.stop_reason(), Some(StopReason::Drained));
        assert!(matches!(end(&attempt, failed()), End::Stopped(_)));
        assert!(matches!(end(&attempt, None), End::Stopped(_)));
        assert!(matches!(end(&attempt, Some(Ok(Output::text("x")))), End::Succeeded(_)));
    }

    #[test]
    fn an_end_that_the_agent_would_not_take_is_a_failure_for_good_and_a_long_reason_is_cut() {
        let work = Work { token: 7, socket: "/socket".to_owned(), ..Work::default() };
        let attempt = Attempt::new(work, Before::default());
        let leaves = |size: usize| end(&attempt, Some(Ok(Output::bytes(vec![7; size], "a/b"))));
        assert!(matches!(leaves(limits::WORKER_END_BYTES - 100), End::Succeeded(_)));
        let waits = Output::detach(Wait::all(["a"]).state(vec![7; limits::WORKER_END_BYTES], "a/b"));
        for end in [leaves(limits::WORKER_END_BYTES), leaves(2 << 20), end(&attempt, Some(Ok(waits)))] {
            let End::Failed(said) = end else { panic!("it is too large") };
            assert!(said.permanent && said.error.contains("too large"), "{}", said.error);
        }
        let End::Failed(said) = end(&attempt, Some(Err(Failure::retry("\u{e4}".repeat(1 << 20))))) else {
            panic!("it failed")
        };
        assert_eq!((said.permanent, said.error.len()), (false, MOST_REASON));
    }

    #[test]
    fn who_detaches_names_whom_it_waits_for_if_its_agent_understands_that() {
        let wait = || Wait::at_least(1, ["a", "b"]).state("half", "text/plain").same_node();
        let work = |socket: &str| Work { socket: socket.to_owned(), ..Work::default() };
        let attempt = Attempt::new(work("/socket"), Before::default());
        let End::Detached(told) = end(&attempt, Some(Ok(Output::detach(wait())))) else { panic!("it waits") };
        let detach = told.detach.unwrap();
        assert_eq!((detach.job_ids.len(), detach.at_least, detach.same_node), (2, 1, true));
        assert_eq!(told.state.unwrap().data, "half");
        let old = Attempt::new(work(""), Before::default());
        assert!(matches!(end(&old, Some(Ok(Output::detach(wait())))), End::Failed(_)));
    }

    #[test]
    fn what_it_goes_on_from_is_what_came_before_its_work() {
        let bytes = |text: &'static str| ResultBytes { data: text.into(), content_type: "a/b".to_owned() };
        let told =
            |state: JobState, answer| InputResult { state: state.into(), answer, ..InputResult::default() };
        let results = vec![
            told(JobState::Succeeded, Some(Answer::Result(bytes("x")))),
            told(JobState::Dead, Some(Answer::Error("why".to_owned()))),
            told(JobState::Succeeded, None),
        ];
        let work = Work { input_results: Some(3), ..Work::default() };
        let attempt = Attempt::new(work, Before { results, state: Some(bytes("half")) });
        let said: Vec<_> =
            attempt.inputs.iter().map(|one| (one.result.is_some(), one.error.as_str())).collect();
        assert_eq!(said, [(true, ""), (false, "why"), (false, "")]);
        assert!(attempt.resumed && attempt.state.is_some_and(|state| state.data == "half"));
        assert_eq!(attempt.inputs[1].state, JobState::Dead);
        assert!(!Attempt::new(Work::default(), Before::default()).resumed);
    }

    #[test]
    fn an_error_is_a_failure_with_its_causes() {
        let parse = || -> Result<u32, Failure> { Ok("x".parse::<u32>()?) };
        assert_eq!(parse(), Err(Failure::retry("invalid digit found in string")));
    }
}
