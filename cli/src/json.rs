//! Canonical proto3 JSON, as grpcurl prints it, from the descriptor set of the wire.
//!
//! Invariant: JSON is under the compatibility rules of the wire; no command invents names for what a message has.

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage};
use serde::Serialize;
use tenure_proto::{node::v1 as node, v1};

use crate::exit::Failure;

static POOL: LazyLock<Result<DescriptorPool, prost_reflect::DescriptorError>> =
    LazyLock::new(|| DescriptorPool::decode(tenure_proto::FILE_DESCRIPTOR_SET));

/// A message of the wire that commands print.
pub(crate) trait Canonical: Message {
    /// Its full name.
    const NAME: &'static str;
}

macro_rules! canonical {
    ($($message:ident),* $(,)?) => {
        $(impl Canonical for v1::$message {
            const NAME: &'static str = concat!("tenure.v1.", stringify!($message));
        })*

        /// The names of all messages that commands print.
        #[cfg(test)]
        const NAMES: &[&str] = &[$(<v1::$message as Canonical>::NAME),*];
    };
}

macro_rules! canonical_of_attempts {
    ($($message:ident),* $(,)?) => {
        $(impl Canonical for node::$message {
            const NAME: &'static str = concat!("tenure.node.v1.", stringify!($message));
        })*

        /// The names of all messages that commands inside of a job print.
        #[cfg(test)]
        const NAMES_OF_ATTEMPTS: &[&str] = &[$(<node::$message as Canonical>::NAME),*];
    };
}

canonical_of_attempts!(
    AttemptServiceGetChildResultsResponse,
    CheckLeaseResponse,
    GetAttemptResponse,
    ReportUsageResponse,
);

canonical!(
    ApplyResponse,
    CancelJobResponse,
    CancelWorkflowResponse,
    CheckInvariantsResponse,
    CordonNodeResponse,
    DeleteJobResponse,
    DrainNodeResponse,
    EnqueueBatchResponse,
    EnqueueResponse,
    ExplainJobResponse,
    ForgetNodeResponse,
    GetDeliveryResponse,
    GetJobResponse,
    GetNodeResponse,
    GetQueueHealthResponse,
    GetResultResponse,
    GetFleetResponse,
    GetInboxResponse,
    GetServerInfoResponse,
    GetWorkflowResponse,
    Kind,
    ListAttemptsResponse,
    ListCronEntriesResponse,
    ListDeliveriesResponse,
    ListInboxRefusalsResponse,
    ListJobsResponse,
    ListKindsResponse,
    ListNodesResponse,
    ListSlotsResponse,
    ListWebhooksResponse,
    RedeliverResponse,
    ResumeWebhookResponse,
    TestWebhookResponse,
    PauseCronEntryResponse,
    ListWorkflowsResponse,
    PauseKindResponse,
    PauseSlotResponse,
    ReadLogResponse,
    ReprioritizeJobResponse,
    RequeueJobResponse,
    ResumeCronEntryResponse,
    RunCronEntryResponse,
    RequeueMemberResponse,
    SubmitWorkflowResponse,
    WatchWorkflowResponse,
    ResumeKindResponse,
    ResumeSlotResponse,
    SetCapacityResponse,
    UncordonNodeResponse,
    WaitJobResponse,
    WatchJobResponse,
);

/// A message as a value that serializes to its canonical JSON, fields in the order of the `.proto` file.
pub(crate) fn canonical<M: Canonical>(message: &M) -> Result<DynamicMessage, Failure> {
    let pool = POOL.as_ref().map_err(|error| Failure::Json(error.into()))?;
    let descriptor = pool
        .get_message_by_name(M::NAME)
        .ok_or_else(|| Failure::Json(format!("{} is not in the descriptor set", M::NAME).into()))?;
    DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())
        .map_err(|error| Failure::Json(error.into()))
}

/// A description of a job from its canonical JSON. A key that the message does not have is refused.
pub(crate) fn job_spec(text: &str) -> Result<v1::JobSpec, String> {
    let pool = POOL.as_ref().map_err(ToString::to_string)?;
    let descriptor =
        pool.get_message_by_name("tenure.v1.JobSpec").ok_or("JobSpec is not in the descriptor set")?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let read = DynamicMessage::deserialize_with_options(descriptor, &mut reader, &options);
    let message =
        read.and_then(|message| reader.end().map(|()| message)).map_err(|error| error.to_string())?;
    message.transcode_to().map_err(|error| error.to_string())
}

/// JSON text for people and programs: indented, one value.
pub(crate) fn text(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(|error| Failure::Json(error.into()))
}

/// JSON text on one line, of values that come one after the other.
pub(crate) fn line(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::Json(error.into()))
}

#[cfg(test)]
mod tests {
    use tenure_client::proto::{Deferral, ExplainJobResponse, Job, JobState, Needs, SlotAmount};

    use super::*;

    #[test]
    fn every_message_that_commands_print_is_in_the_descriptor_set() {
        let pool = POOL.as_ref().unwrap();
        for name in NAMES.iter().chain(NAMES_OF_ATTEMPTS) {
            assert!(pool.get_message_by_name(name).is_some(), "{name}");
        }
    }

    #[test]
    fn json_is_the_canonical_form_and_survives_both_ways() {
        let explained = ExplainJobResponse {
            job: Some(Job {
                id: "0198".to_owned(),
                state: JobState::Queued.into(),
                token: u64::MAX,
                needs: Some(Needs { slots: vec![SlotAmount { slot: "anthropic".to_owned(), amount: 2 }] }),
                create_time: Some(prost_types::Timestamp { seconds: 1_790_000_000, nanos: 500_000_000 }),
                hard_time_limit: Some(prost_types::Duration { seconds: 90, nanos: 0 }),
                deferral: Some(Deferral { reason: "slot_busy".to_owned(), ..Deferral::default() }),
                ..Job::default()
            }),
            ahead: 3,
            ..ExplainJobResponse::default()
        };
        let json = serde_json::to_string(&canonical(&explained).unwrap()).unwrap();
        expect_test::expect![[r#"{"job":{"id":"0198","state":"JOB_STATE_QUEUED","needs":{"slots":[{"slot":"anthropic","amount":2}]},"hardTimeLimit":"90s","token":"18446744073709551615","createTime":"2026-09-21T14:13:20.500Z","deferral":{"reason":"slot_busy"}},"ahead":"3"}"#]].assert_eq(&json);

        let descriptor = POOL.as_ref().unwrap().get_message_by_name(ExplainJobResponse::NAME).unwrap();
        let mut reader = serde_json::Deserializer::from_str(&json);
        let options = DeserializeOptions::new();
        let back = DynamicMessage::deserialize_with_options(descriptor, &mut reader, &options).unwrap();
        assert_eq!(back.transcode_to::<ExplainJobResponse>().unwrap(), explained);
    }
}
