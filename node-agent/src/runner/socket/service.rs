//! `AttemptService`: the words of a command on the wire of its socket.
//!
//! Responsible for refusing what cannot be meant, in the words that servers use. Not responsible for who speaks
//! (`socket.rs` has looked), nor for what becomes of it (`desk.rs`).

use std::sync::Arc;
use std::time::Duration;

use tenure_proto::node::v1::attempt_service_server::AttemptService;
use tenure_proto::node::v1::{
    AttemptServiceEnqueueChildrenRequest, AttemptServiceEnqueueChildrenResponse,
    AttemptServiceGetChildResultsRequest, AttemptServiceGetChildResultsResponse, CheckLeaseRequest,
    CheckLeaseResponse, FailRequest, FailResponse, GetAttemptRequest, GetAttemptResponse,
    ReportProgressRequest, ReportProgressResponse, ReportUsageRequest, ReportUsageResponse,
    SaveCheckpointRequest, SaveCheckpointResponse, WaitAnswer, WaitForJobsRequest, WaitForJobsResponse,
    WaitTerms,
};
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::desk::{Begun, Desk};
use super::heard;
use super::judge;
use super::kept::ended;
use super::said::{Failure, Stand, Terms};
use crate::config::is_name;
use crate::holdings::WaitVerdict;
use crate::runner::detach::MOST_NAMED;

/// The longest message of progress, in bytes.
const LONGEST_MESSAGE: usize = 1024;
/// The longest reason of a failure, in bytes.
const LONGEST_REASON: usize = 4 * 1024;
/// The longest `wait_id`, in bytes.
const LONGEST_WAIT_ID: usize = 64;
/// The longest name of a report of usage, in bytes.
const LONGEST_REPORT_ID: usize = 64;
/// The longest back-off that a job may ask for.
const LONGEST_RETRY: Duration = Duration::from_secs(24 * 3600);
/// The length of an id, in bytes.
const ID: usize = 36;

/// The service of one attempt.
#[derive(Debug)]
pub(super) struct Service {
    desk: Arc<Desk>,
}

impl Service {
    pub(super) fn new(desk: Arc<Desk>) -> Self {
        Self { desk }
    }
}

#[tonic::async_trait]
impl AttemptService for Service {
    async fn get_attempt(
        &self,
        _: Request<GetAttemptRequest>,
    ) -> Result<Response<GetAttemptResponse>, Status> {
        let call = async {
            let about = self.desk.about().clone();
            Ok(Response::new(GetAttemptResponse {
                job_id: self.desk.lease().job.clone(),
                token: self.desk.lease().token.0,
                kind: about.kind,
                attempt: about.attempt,
                idempotency_key: about.idempotency_key,
                tenant: about.tenant,
                parent_id: about.parent,
                node: self.desk.calls().node().to_owned(),
                usage: self.desk.said().await.usage,
            }))
        };
        self.desk.while_open(call).await
    }

    async fn report_progress(
        &self,
        request: Request<ReportProgressRequest>,
    ) -> Result<Response<ReportProgressResponse>, Status> {
        let call = async {
            let ReportProgressRequest { percent, message } = request.into_inner();
            if percent > 100 {
                return Err(invalid("percent", "must be 0 to 100"));
            }
            check_text("message", &message, LONGEST_MESSAGE)?;
            self.desk.progress(percent, message);
            self.desk.heard();
            Ok(Response::new(ReportProgressResponse {}))
        };
        self.desk.while_open(call).await
    }

    async fn report_usage(
        &self,
        request: Request<ReportUsageRequest>,
    ) -> Result<Response<ReportUsageResponse>, Status> {
        let call = async {
            let ReportUsageRequest { usage: used, report_id } = request.into_inner();
            check_text("report_id", &report_id, LONGEST_REPORT_ID)?;
            let usage = self.desk.change(|said| {
                said.report(report_id, &used).map_err(|(field, problem)| invalid(&field, &problem))?;
                Ok(said.usage.clone())
            });
            let usage = usage.await?;
            self.desk.heard();
            Ok(Response::new(ReportUsageResponse { usage }))
        };
        self.desk.while_open(call).await
    }

    async fn save_checkpoint(
        &self,
        request: Request<SaveCheckpointRequest>,
    ) -> Result<Response<SaveCheckpointResponse>, Status> {
        let call = async {
            self.desk.save(request.into_inner().data).await?;
            self.desk.heard();
            Ok(Response::new(SaveCheckpointResponse {}))
        };
        self.desk.while_open(call).await
    }

    async fn enqueue_children(
        &self,
        request: Request<AttemptServiceEnqueueChildrenRequest>,
    ) -> Result<Response<AttemptServiceEnqueueChildrenResponse>, Status> {
        let call = async {
            let _heard = heard::while_asked(&self.desk);
            let jobs = request.into_inner().jobs;
            let answer =
                self.desk.calls().enqueue_children(self.desk.lease(), jobs).await.map_err(said_by_server)?;
            Ok(Response::new(AttemptServiceEnqueueChildrenResponse { items: answer.items }))
        };
        self.desk.while_open(call).await
    }

    async fn wait_for_jobs(
        &self,
        request: Request<WaitForJobsRequest>,
    ) -> Result<Response<WaitForJobsResponse>, Status> {
        let call = async {
            let WaitForJobsRequest { terms, wait_id } = request.into_inner();
            check_text("wait_id", &wait_id, LONGEST_WAIT_ID)?;
            let terms = terms_of(terms)?;
            self.desk.heard();
            let answer = match self.desk.begin(wait_id, terms.clone()).await? {
                Begun::As(epoch) => self.over(epoch).await?,
                Begun::MustDetach => {
                    let _heard = heard::while_asked(&self.desk);
                    let over = judge::is_over(&self.desk, &terms).await.map_err(said_by_server)?;
                    if over { WaitAnswer::Go } else { WaitAnswer::MustDetach }
                }
            };
            Ok(Response::new(WaitForJobsResponse { answer: answer.into() }))
        };
        self.desk.while_open(call).await
    }

    async fn get_child_results(
        &self,
        request: Request<AttemptServiceGetChildResultsRequest>,
    ) -> Result<Response<AttemptServiceGetChildResultsResponse>, Status> {
        let call = async {
            let _heard = heard::while_asked(&self.desk);
            let AttemptServiceGetChildResultsRequest { job_ids, from_index } = request.into_inner();
            let page = self.desk.calls().child_results(self.desk.lease(), job_ids, (from_index, false)).await;
            let page = page.map_err(said_by_server)?;
            Ok(Response::new(AttemptServiceGetChildResultsResponse {
                results: page.results,
                next_index: page.next_index,
            }))
        };
        self.desk.while_open(call).await
    }

    async fn check_lease(
        &self,
        _: Request<CheckLeaseRequest>,
    ) -> Result<Response<CheckLeaseResponse>, Status> {
        let call = async {
            let remaining = self.desk.remaining();
            Ok(Response::new(CheckLeaseResponse {
                live: remaining.is_some(),
                wrap_up: self.desk.said().await.wrap_up,
                remaining: remaining.and_then(|left| left.try_into().ok()),
            }))
        };
        self.desk.while_open(call).await
    }

    async fn fail(&self, request: Request<FailRequest>) -> Result<Response<FailResponse>, Status> {
        let call = async {
            let failure = failure_of(request.into_inner())?;
            self.desk.heard();
            self.desk
                .change(|said| {
                    said.failure = Some(failure);
                    Ok(())
                })
                .await?;
            Ok(Response::new(FailResponse {}))
        };
        self.desk.while_open(call).await
    }
}

impl Service {
    /// What a wait comes to. Cancel-safe: it only looks.
    async fn over(&self, epoch: u64) -> Result<WaitAnswer, Status> {
        let mut waits = self.desk.waits();
        let stand = {
            let over = waits
                .wait_for(|wait| wait.as_ref().is_none_or(|wait| wait.epoch != epoch || !wait.is_open()));
            let over = over.await.map_err(|_| ended())?;
            over.as_ref().filter(|wait| wait.epoch == epoch).map(|wait| wait.stand.clone())
        };
        match stand {
            Some(Stand::Over { verdict: WaitVerdict::Go, .. }) => Ok(WaitAnswer::Go),
            Some(Stand::Over { verdict: WaitVerdict::MustDetach, .. }) => Ok(WaitAnswer::MustDetach),
            Some(Stand::Refused { code, message, reason }) => {
                let mut details = ErrorDetails::new();
                details.set_error_info(reason, "tenure", []);
                Err(Status::with_error_details(Code::from(code), message, details))
            }
            Some(Stand::Asked | Stand::Parked { .. }) | None => {
                Err(refused(Code::Aborted, "WAITING", "the attempt waits for something else by now"))
            }
        }
    }
}

fn terms_of(terms: Option<WaitTerms>) -> Result<Terms, Status> {
    let Some(WaitTerms { job_ids, policy, at_least, max_wait }) = terms else {
        return Err(invalid("terms", "is required"));
    };
    if job_ids.len() > MOST_NAMED {
        let problem = format!("holds {} entries, at most {MOST_NAMED} are allowed", job_ids.len());
        return Err(invalid("terms.job_ids", &problem));
    }
    // They are kept, and written again with each word.
    if let Some(at) = job_ids.iter().position(|id| id.len() != ID) {
        return Err(invalid(&format!("terms.job_ids[{at}]"), "is no id of a job"));
    }
    let max_wait = length("terms.max_wait", max_wait)?;
    Ok(Terms { children: job_ids, policy, at_least, max_wait })
}

fn failure_of(request: FailRequest) -> Result<Failure, Status> {
    let FailRequest { reason, permanent, retry_after, throttled_slot } = request;
    check_text("reason", &reason, LONGEST_REASON)?;
    let retry_after = length("retry_after", retry_after)?;
    if retry_after.is_some_and(|after| after > LONGEST_RETRY) {
        return Err(invalid("retry_after", "must be at most 24 h"));
    }
    let throttled = Some(throttled_slot).filter(|slot| !slot.is_empty());
    if throttled.as_ref().is_some_and(|slot| !is_name(slot)) {
        return Err(invalid("throttled_slot", "is no name of a slot"));
    }
    if throttled.is_some() && retry_after.is_none() {
        return Err(invalid("retry_after", "is required with throttled_slot"));
    }
    Ok(Failure { reason, permanent, retry_after, throttled })
}

fn length(field: &str, length: Option<prost_types::Duration>) -> Result<Option<Duration>, Status> {
    let read = length.map(Duration::try_from).transpose();
    read.map_err(|_| invalid(field, "is negative or out of range"))
}

fn check_text(field: &str, text: &str, most: usize) -> Result<(), Status> {
    if text.len() > most {
        return Err(invalid(field, &format!("is {} bytes long, at most {most} are allowed", text.len())));
    }
    if text.contains('\0') { Err(invalid(field, "contains NUL")) } else { Ok(()) }
}

/// A field that is wrong.
pub(super) fn invalid(field: &str, problem: &str) -> Status {
    let mut details = ErrorDetails::new();
    details
        .set_error_info("INVALID_FIELD", "tenure", [("fields".to_owned(), field.to_owned())])
        .add_bad_request_violation(field, problem);
    Status::with_error_details(Code::InvalidArgument, format!("{field}: {problem}"), details)
}

/// A no with its stable word.
pub(super) fn refused(code: Code, reason: &str, message: &str) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, "tenure", []);
    Status::with_error_details(code, message, details)
}

/// What the server said, without what belongs to its connection.
fn said_by_server(status: Status) -> Status {
    Status::with_details(status.code(), status.message(), status.details().to_vec().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(status: &Status) -> String {
        status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
    }

    #[test]
    fn words_of_a_failure_are_bounded() {
        let minute = Some(prost_types::Duration { seconds: 60, nanos: 0 });
        let good =
            FailRequest { retry_after: minute, throttled_slot: "api".into(), ..FailRequest::default() };
        let failure = failure_of(good.clone()).unwrap();
        assert_eq!(failure.throttled.as_deref(), Some("api"));
        assert_eq!(failure.retry_after, Some(Duration::from_secs(60)));
        let negative = Some(prost_types::Duration { seconds: -1, nanos: 0 });
        let long = Some(prost_types::Duration { seconds: 90_000, nanos: 0 });
        for bad in [
            FailRequest { retry_after: None, ..good.clone() },
            FailRequest { retry_after: negative, ..good.clone() },
            FailRequest { retry_after: long, ..good.clone() },
            FailRequest { throttled_slot: "A B".into(), ..good.clone() },
            FailRequest { reason: "x".repeat(LONGEST_REASON + 1), ..good.clone() },
            FailRequest { reason: "\0".into(), ..good },
        ] {
            let status = failure_of(bad).unwrap_err();
            assert_eq!((status.code(), reason(&status).as_str()), (Code::InvalidArgument, "INVALID_FIELD"));
        }
    }

    #[test]
    fn a_wait_names_what_it_waits_for() {
        assert_eq!(reason(&terms_of(None).unwrap_err()), "INVALID_FIELD");
        let many = WaitTerms { job_ids: vec![String::new(); MOST_NAMED + 1], ..WaitTerms::default() };
        assert_eq!(reason(&terms_of(Some(many)).unwrap_err()), "INVALID_FIELD");
        let long = WaitTerms { job_ids: vec!["x".repeat(ID), "x".repeat(1 << 20)], ..WaitTerms::default() };
        assert!(terms_of(Some(long)).unwrap_err().message().starts_with("terms.job_ids[1]: "));
        assert_eq!(terms_of(Some(WaitTerms::default())).unwrap(), Terms::default());
    }

    #[test]
    fn what_the_server_said_keeps_its_details() {
        let said = refused(Code::FailedPrecondition, "LEASE_LOST", "it is gone");
        assert_eq!(reason(&said_by_server(said)), "LEASE_LOST");
    }
}
