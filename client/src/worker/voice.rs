//! What an attempt says of itself while it runs, and asks, at its own socket.
//!
//! Responsible for the connection, and for asking again while the server is away from the agent. Not responsible for what the
//! words mean (`AttemptService`).
//!
//! Invariant: what may not be said twice is sent once.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::OFlags;
use tenure_proto::limits;
use tenure_proto::node::v1::attempt_service_client::AttemptServiceClient;
use tenure_proto::node::v1::{
    AttemptServiceEnqueueChildrenRequest, AttemptServiceGetChildResultsRequest, CheckLeaseRequest,
    ReportProgressRequest, ReportUsageRequest, SaveCheckpointRequest, WaitAnswer, WaitForJobsRequest,
};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use uuid::Uuid;

use super::attempt::{Attempt, Input};
use super::wait::{Wait, Waited};
use crate::{Enqueued, Error, NewJob, Refusal, clock, enqueue, wire};

/// What the agent answers by itself takes no longer.
const LOCAL: Duration = Duration::from_secs(10);
/// What it asks the server for takes no longer: it waits for a connection, and has a deadline of its own.
const ASKING: Duration = Duration::from_secs(60);
/// A server that is away for longer is told to the function.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two tries, unless the answer says another time.
const AGAIN: Duration = Duration::from_millis(200);
/// Children of one question for their ends.
const MOST_NAMED: usize = 1_000;
/// A longer path is none that a socket can be named by.
const LONGEST_PATH: usize = 100;

/// The way to the agent. It is opened at the first word.
#[derive(Debug, Default)]
pub(super) struct Voice {
    path: String,
    opened: OnceCell<(Channel, Option<File>)>,
}

/// Whether an attempt may still do what must not be done twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// False: it is being stopped, and somebody else may run the job soon.
    pub live: bool,
    /// Until the end of the lease, unless the server renews it. None: it does not live.
    pub remaining: Option<Duration>,
}

/// How a call is made.
#[derive(Clone, Copy)]
enum How<'a> {
    /// The agent answers, whatever else is there.
    Local,
    /// The server is asked, which may be away; an order to stop interrupts that.
    Asks(&'a CancellationToken),
    /// As that, for as long as it takes.
    Waits(&'a CancellationToken),
}

impl Voice {
    pub(super) fn new(path: String) -> Self {
        Self { path, opened: OnceCell::new() }
    }

    /// Whether the agent is too old to listen.
    pub(super) fn is_mute(&self) -> bool {
        self.path.is_empty()
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    async fn client(&self) -> Result<AttemptServiceClient<Channel>, Error> {
        if self.is_mute() {
            let status = Status::unimplemented(
                "the agent of this node is too old: an attempt in a worker cannot speak to it",
            );
            return Err(Box::new(Refusal::from_status(&status)).into());
        }
        let (channel, _) = self.opened.get_or_try_init(async || open(&self.path)).await?;
        Ok(AttemptServiceClient::new(channel.clone()).max_decoding_message_size(limits::DECODE_BYTES))
    }

    async fn call<Q: Clone, A>(
        &self,
        how: How<'_>,
        request: Q,
        call: impl AsyncFn(AttemptServiceClient<Channel>, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, Error> {
        let begun = clock::now();
        let (deadline, patience, stop) = match how {
            How::Local => (Some(LOCAL), Some(PATIENCE), None),
            How::Asks(stop) => (Some(ASKING), Some(PATIENCE), Some(stop)),
            How::Waits(stop) => (None, None, Some(stop)),
        };
        let stopped = async {
            match stop {
                Some(stop) => stop.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(stopped);
        for tries in 1.. {
            let client = self.client().await?;
            let mut sent = Request::new(request.clone());
            if let Some(deadline) = deadline {
                sent.set_timeout(deadline);
            }
            let status = tokio::select! {
                biased;
                // Dropping a call is harmless: it is one that may be sent again.
                () = &mut stopped => return Err(told_to_stop()),
                answer = call(client, sent) => match answer {
                    Ok(answer) => return Ok(answer.into_inner()),
                    Err(status) => status,
                },
            };
            let refusal = Box::new(Refusal::from_status(&status));
            if !refusal.is_unavailable() {
                return Err(refusal.into());
            }
            let (waited, pause) = (clock::now() - begun, refusal.retry_after.unwrap_or(AGAIN));
            if patience.is_some_and(|patience| waited + pause >= patience) {
                let endpoint = format!("unix:{}", self.path);
                return Err(Error::Unavailable { endpoint, tries, waited, last: refusal });
            }
            tokio::select! {
                () = &mut stopped => return Err(told_to_stop()),
                () = tokio::time::sleep(pause) => {}
            }
        }
        Err(told_to_stop())
    }
}

/// However long its path is, a socket can be reached by its directory. Connects with the first call.
fn open(path: &str) -> Result<(Channel, Option<File>), Error> {
    let refuse = |reason: String| Error::Endpoint { endpoint: format!("unix:{path}"), reason };
    let (mut name, mut held) = (path.to_owned(), None);
    if path.len() > LONGEST_PATH {
        let path = Path::new(path);
        let directory = path.parent().unwrap_or(path);
        let flags = (OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC).bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(directory);
        let opened = opened.map_err(|error| refuse(error.to_string()))?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name = format!("/proc/self/fd/{}/{file}", opened.as_raw_fd());
        held = Some(opened);
    }
    let endpoint =
        Endpoint::from_shared(format!("unix:{name}")).map_err(|error| refuse(error.to_string()))?;
    Ok((endpoint.connect_lazy(), held))
}

fn told_to_stop() -> Error {
    let status = Status::new(Code::Aborted, "the attempt is to stop");
    Box::new(Refusal::from_status(&status)).into()
}

// Words.
impl Attempt {
    /// The path of the attempt's own socket: as `TENURE_SOCKET` in the environment of a program that it starts it makes
    /// `tenure attempt` speak for it. Empty: its agent is too old.
    pub fn socket(&self) -> &str {
        self.voice.path()
    }

    /// Says how it gets on, 0 to 100, and in words for people, at most 1,024 bytes; shown about once a second, the newest counts.
    ///
    /// # Errors
    /// INVALID_FIELD; UNIMPLEMENTED of an agent that is too old.
    pub async fn progress(&self, percent: u32, message: impl Into<String>) -> Result<(), Error> {
        let request = ReportProgressRequest { percent, message: message.into() };
        let said =
            self.voice.call(How::Local, request, async |mut client, it| client.report_progress(it).await);
        said.await.map(drop)
    }

    /// Adds to what the attempt has used, such as `tokens`: the budget of its kind is charged with it, however it ends, also if
    /// this process dies. At most 16 counters ([a-z0-9._-], at most 63), each at most 2^53.
    ///
    /// # Errors
    /// INVALID_FIELD: nothing was added. After [`Error::Unavailable`] it may have been, once.
    pub async fn add_usage(&self, counter: &str, amount: u64) -> Result<(), Error> {
        if self.voice.is_mute() {
            self.spent(counter, amount);
            return Ok(());
        }
        let request = ReportUsageRequest {
            usage: [(counter.to_owned(), amount)].into(),
            report_id: crate::new_job_id(),
        };
        let said = self.voice.call(How::Local, request, async |mut client, it| client.report_usage(it).await);
        said.await.map(drop)
    }

    /// Keeps these bytes, 1 to 256 KiB, in the place of what was saved before, for the attempt that follows if this one fails:
    /// that finds them in [`Attempt::checkpoint`].
    ///
    /// # Errors
    /// INVALID_FIELD; UNIMPLEMENTED of an agent that is too old.
    pub async fn save_checkpoint(&self, data: impl Into<Bytes>) -> Result<(), Error> {
        let request = SaveCheckpointRequest { data: data.into() };
        let said =
            self.voice.call(How::Local, request, async |mut client, it| client.save_checkpoint(it).await);
        said.await.map(drop)
    }

    /// Whether its lease lives, as far as this node knows: to be asked before an effect that must not be made twice.
    ///
    /// # Errors
    /// UNIMPLEMENTED of an agent that is too old.
    pub async fn check_lease(&self) -> Result<Lease, Error> {
        let said = self
            .voice
            .call(How::Local, CheckLeaseRequest {}, async |mut client, it| client.check_lease(it).await);
        let answer = said.await?;
        let remaining = answer.remaining.as_ref().map(wire::std_duration);
        Ok(Lease { live: answer.live, remaining })
    }

    /// The job as a child that a step of this one enqueues, the `index`th from 0: an attempt that comes after another and names the
    /// same step finds the child that is there, instead of a new one. Each call of a job has a step of its own.
    #[must_use]
    pub fn child(&self, step: &str, index: u32, job: NewJob) -> NewJob {
        // An id that is none is one that no server would take either.
        let parent = Uuid::try_parse(&self.job_id).unwrap_or_default();
        job.with_id(crate::child_id(parent, step, index).to_string())
    }

    /// Enqueues children of this job, in as few messages as fit the wire: one answer for each, in their order.
    ///
    /// # Errors
    /// LEASE_LOST, [`Error::Unavailable`], ABORTED if it is to stop. Messages before that were stored; the same jobs may be sent
    /// again.
    pub async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Result<Enqueued, Error>>, Error> {
        let mut answers = Vec::with_capacity(jobs.len());
        for chunk in enqueue::chunks(jobs, limits::BATCH_BYTES) {
            let jobs = chunk.iter().map(|job| job.spec().clone()).collect();
            let request = AttemptServiceEnqueueChildrenRequest { jobs };
            let asked = self.voice.call(How::Asks(&self.stop), request, async |mut client, it| {
                client.enqueue_children(it).await
            });
            let items = asked.await?.items;
            if items.len() != chunk.len() {
                return Err(Error::Answer {
                    rpc: "enqueue_children",
                    missing: "answer for each of the jobs",
                });
            }
            // Their ids are made already: it is the same call, however often it was sent.
            answers.extend(
                items.into_iter().zip(chunk).map(|(item, job)| enqueue::batch_answer(item, job, true)),
            );
        }
        Ok(answers)
    }

    /// Waits for children. Meanwhile the job holds what its kind keeps only, and its time limits stand still. It may be told to
    /// detach instead: then it ends with [`super::Output::detach`].
    ///
    /// After that the same wait is over at once, and so is one for the same children that their ends meet. Of several waits for the
    /// same children at most one should have a `max_wait`: the first of them counts as the one that it ended.
    ///
    /// # Errors
    /// INVALID_FIELD, LEASE_LOST; ABORTED if it is to stop.
    pub async fn wait(&self, wait: &Wait) -> Result<Waited, Error> {
        if self.came_back_from(wait) {
            return Ok(Waited::Over(self.inputs.to_vec()));
        }
        // However often it is asked, it is one wait.
        let wait_id = Uuid::now_v7().to_string();
        let request = WaitForJobsRequest { terms: Some(wait.terms()), wait_id };
        let waits = self
            .voice
            .call(How::Waits(&self.stop), request, async |mut client, it| client.wait_for_jobs(it).await);
        match waits.await?.answer() {
            WaitAnswer::Go => Ok(Waited::Over(self.results(wait.children()).await?)),
            WaitAnswer::MustDetach | WaitAnswer::Unspecified | WaitAnswer::Parked => Ok(Waited::MustDetach),
        }
    }

    /// Whether it need not wait because of the ends with which it came back: these meet the terms, or `max_wait` has ended that wait.
    /// That is so once: nobody says which of several waits for the same children it was.
    pub(super) fn came_back_from(&self, wait: &Wait) -> bool {
        let of_these = self.resumed && self.inputs.iter().map(|end| &end.job_id).eq(wait.children());
        of_these && (wait.is_met_by(&self.inputs) || wait.has_max_wait() && self.takes_ends())
    }

    /// How children stand, in this order.
    ///
    /// # Errors
    /// INVALID_FIELD if one is none of this job; ABORTED if it is to stop.
    pub async fn results(&self, children: &[String]) -> Result<Vec<Input>, Error> {
        let mut all = Vec::with_capacity(children.len());
        for chunk in children.chunks(MOST_NAMED) {
            let mut from_index = 0;
            loop {
                let request = AttemptServiceGetChildResultsRequest { job_ids: chunk.to_vec(), from_index };
                let asked = self.voice.call(How::Asks(&self.stop), request, async |mut client, it| {
                    client.get_child_results(it).await
                });
                let page = asked.await?;
                all.extend(page.results.into_iter().map(Input::of));
                from_index = page.next_index;
                if from_index == 0 {
                    break;
                }
            }
        }
        Ok(all)
    }
}
