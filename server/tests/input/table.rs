//! What is right for each field, by its message and name. A field without a row here fails the sweep.

use tonic::Code;

use crate::rules::{Rule, Said, Want, here};

const NO_JOB: Option<Said> = Some((Code::NotFound, "JOB_NOT_FOUND"));
const NO_WORKFLOW: Option<Said> = Some((Code::NotFound, "WORKFLOW_NOT_FOUND"));
const NO_KIND: Option<Said> = Some((Code::NotFound, "KIND_NOT_FOUND"));
const NO_SLOT: Option<Said> = Some((Code::NotFound, "SLOT_NOT_FOUND"));
const NO_CRON: Option<Said> = Some((Code::NotFound, "CRON_NOT_FOUND"));
const NO_WEBHOOK: Option<Said> = Some((Code::NotFound, "WEBHOOK_NOT_FOUND"));
const NO_NODE: Option<Said> = Some((Code::NotFound, "NODE_NOT_FOUND"));

const MOST_UNITS: i128 = tenure_proto::limits::SLOT_UNITS as i128;
const I64: i128 = i64::MAX as i128;

/// What is right for a field.
pub(crate) fn rule(row: &str) -> Option<Rule> {
    requests(row).or_else(|| job(row)).or_else(|| operators(row)).or_else(|| node(row))
}

fn requests(row: &str) -> Option<Rule> {
    Some(match row {
        "EnqueueRequest.job" => Rule::Inner { required: true },
        "EnqueueBatchRequest.jobs" => Rule::Most { most: 1000, required: true },
        "GetJobRequest.job_id"
        | "ExplainJobRequest.job_id"
        | "WaitJobRequest.job_id"
        | "WatchJobRequest.job_id"
        | "CancelJobRequest.job_id"
        | "RequeueJobRequest.job_id"
        | "ReprioritizeJobRequest.job_id"
        | "DeleteJobRequest.job_id"
        | "GetResultRequest.job_id"
        | "ReadLogRequest.job_id"
        | "ReadResultRequest.job_id"
        | "ListAttemptsRequest.job_id" => Rule::Id { required: true, unknown: NO_JOB },
        "ListJobsRequest.kind" | "ListJobsRequest.tenant" | "ListJobsRequest.node" => {
            Rule::Name { required: false, unknown: None }
        }
        "ListJobsRequest.states" => Rule::Choice { unspecified: false },
        "ListJobsRequest.id_part" => Rule::Texts(id_parts()),
        "ListJobsRequest.dedupe_key" => Rule::Text { most: 255, required: false },
        "ListJobsRequest.parent_id" | "ListJobsRequest.workflow_id" => {
            Rule::Id { required: false, unknown: None }
        }
        "ListJobsRequest.page_size" | "ListAttemptsRequest.page_size" | "ListNodesRequest.page_size" => {
            Rule::Whole(0..=i32::MAX.into())
        }
        "ListJobsRequest.page_token" | "ListAttemptsRequest.page_token" | "ListNodesRequest.page_token" => {
            Rule::PageToken
        }
        "WaitJobRequest.timeout" => Rule::Length(seconds(0)..=seconds(600)),
        "ReadLogRequest.token" => Rule::Whole(0..=I64),
        "ReadLogRequest.attempt" => Rule::Whole(1..=u32::MAX.into()),
        "ReadLogRequest.follow" | "LogPlace.stdout_offset" | "LogPlace.stderr_offset" => Rule::Free,
        "ReadLogRequest.stream" => Rule::Choice { unspecified: true },
        "ReadLogRequest.place" => Rule::Inner { required: false },
        "ReadLogRequest.tail_lines" => Rule::Whole(0..=100_000),
        "CancelJobRequest.reason" => Rule::Text { most: 1024, required: false },
        "RequeueJobRequest.force" => Rule::Free,
        "GetWorkflowRequest.workflow_id"
        | "WatchWorkflowRequest.workflow_id"
        | "CancelWorkflowRequest.workflow_id"
        | "RequeueMemberRequest.workflow_id" => Rule::Id { required: true, unknown: NO_WORKFLOW },
        // Another one would be another workflow; false would store it.
        "SubmitWorkflowRequest.workflow_id" | "SubmitWorkflowRequest.validate_only" => Rule::Kept,
        "SubmitWorkflowRequest.name" => Rule::Text { most: 255, required: false },
        "SubmitWorkflowRequest.workflow" => Rule::Inner { required: true },
        "ListWorkflowsRequest.states" => Rule::Choice { unspecified: false },
        "ListWorkflowsRequest.page_size" => Rule::Whole(0..=i32::MAX.into()),
        "ListWorkflowsRequest.page_token" => Rule::PageToken,
        "ListInboxRefusalsRequest.page_size" => Rule::Whole(0..=i32::MAX.into()),
        "ListInboxRefusalsRequest.page_token" => Rule::PageToken,
        "CancelWorkflowRequest.reason" => Rule::Text { most: 1024, required: false },
        // It has one member.
        "RequeueMemberRequest.place" => {
            Rule::Numbers(vec![(0, Want::Fine), (1, here()), (u32::MAX.into(), here())])
        }
        "ReprioritizeJobRequest.priority" => Rule::Whole(-100..=100),
        // False would really delete it.
        "DeleteJobRequest.validate_only" => Rule::Kept,
        _ => return None,
    })
}

fn job(row: &str) -> Option<Rule> {
    Some(match row {
        "JobSpec.kind" => Rule::Name { required: true, unknown: NO_KIND },
        "JobSpec.payload" | "JobSpec.needs" => Rule::Inner { required: false },
        "JobSpec.job_id" => Rule::FreshId,
        "JobSpec.dedupe_key" => Rule::Text { most: 255, required: false },
        "JobSpec.concurrency_key" => Rule::Text { most: 256, required: false },
        "JobSpec.tenant" => Rule::Name { required: false, unknown: None },
        "JobSpec.priority" => Rule::Whole(-100..=100),
        "JobSpec.run_at" => Rule::Instant,
        "JobSpec.delay" => Rule::any_length(),
        "JobSpec.stale_after" => Rule::limit(),
        "JobSpec.labels" => Rule::Labels { most: 32 },
        "JobSpec.selector" => Rule::Labels { most: 16 },
        "JobSpec.requirements" => Rule::Most { most: 16, required: false },
        "JobSpec.prefer" => Rule::Most { most: 8, required: false },
        // The kind's is an hour, and it may only be shortened.
        "JobSpec.hard_time_limit" => Rule::Length(std::time::Duration::from_millis(1)..=seconds(3600)),
        // Before the hard limit.
        "JobSpec.soft_time_limit" => Rule::Length(std::time::Duration::from_millis(1)..=BEFORE_AN_HOUR),
        "JobSpec.parent_id" => {
            Rule::Id { required: false, unknown: Some((Code::FailedPrecondition, "PARENT_NOT_LIVE")) }
        }
        "JobSpec.on_parent_cancel" | "JobSpec.on_parent_lost" => Rule::Choice { unspecified: true },
        "JobSpec.traceparent" => Rule::Texts(traceparents()),
        "JobSpec.tracestate" => Rule::Texts(tracestates()),
        "Payload.data" => {
            Rule::Bytes { most: 256 * 1024, over: Want::No((Code::InvalidArgument, "PAYLOAD_TOO_LARGE")) }
        }
        "Payload.content_type" => Rule::Ascii { most: 255 },
        "Needs.slots" => Rule::Most { most: 16, required: false },
        "Requirement.label" => Rule::Texts(label_names()),
        // With a value beside it.
        "Requirement.operator" => Rule::Numbers(vec![
            (0, here()),
            (1, Want::Fine),
            (2, Want::Fine),
            (3, here()),
            (4, here()),
            (5, here()),
            (-1, here()),
            (i32::MAX.into(), here()),
        ]),
        "Requirement.values" => Rule::Values { most: 32 },
        "SlotAmount.slot" => Rule::Name { required: true, unknown: NO_SLOT },
        "SlotAmount.amount" => {
            // The only node that ever was has two.
            let impossible = Want::No((Code::FailedPrecondition, "IMPOSSIBLE_NEEDS"));
            Rule::Numbers(vec![
                (0, here()),
                (1, Want::Fine),
                (2, Want::Fine),
                (3, impossible.clone()),
                (MOST_UNITS, impossible),
                (MOST_UNITS + 1, here()),
                (u32::MAX.into(), here()),
            ])
        }
        _ => return None,
    })
}

/// The latest soft limit of a job whose hard limit is an hour.
const BEFORE_AN_HOUR: std::time::Duration = std::time::Duration::from_micros(3_599_999_999);

fn label_names() -> Vec<(String, Want)> {
    let fine = ["os", "example.org/Rack-1_b", &"k".repeat(63)].map(|text| (text.to_owned(), Want::Fine));
    let wrong = ["", "a b", "k\0", "ä", "!os", "a=b", &"k".repeat(64), &"k".repeat(2 << 20)];
    fine.into_iter().chain(wrong.map(|text| (text.to_owned(), here()))).collect()
}

/// Beginnings and ends of ids.
fn id_parts() -> Vec<(String, Want)> {
    let fine = ["", "0000", "01a2-", "-dead-beef", &"f".repeat(35)].map(|text| (text.to_owned(), Want::Fine));
    let wrong = ["abc", "ABCD", "wxyz", "0000 ", "00\u{0}00", "ａｂｃｄ", "%%%%", "____", &"f".repeat(36)];
    let wrong = wrong.map(|text| (text.to_owned(), here()));
    fine.into_iter().chain(wrong).collect()
}

fn delivery_ids() -> Vec<(String, Want)> {
    let unknown = ["test_1", "_0", "019a0000-0000-7000-8000-000000000001_10000000001", "ü_ffffffffffffffff"];
    let unknown = unknown.map(|text| (text.to_owned(), Want::Fine));
    let wrong = ["", "test", "test_", "test_g", "test_10000000000000000", "te\u{0}st_1", "test_-1"];
    let wrong = wrong.map(|text| (text.to_owned(), here()));
    let long = ("x".repeat(127) + "_1", here());
    unknown.into_iter().chain(wrong).chain([long]).collect()
}

fn traceparents() -> Vec<(String, Want)> {
    let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut all = vec![(good.to_owned(), Want::Fine)];
    let bad = [
        "x",
        "\0",
        "שלום",
        "🜁",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nx: y",
    ];
    all.extend(bad.map(|text| (text.to_owned(), here())));
    all.extend([129, 2 << 20].map(|length| ("0".repeat(length), here())));
    all
}

fn tracestates() -> Vec<(String, Want)> {
    let mut all = vec![(String::new(), Want::Fine), ("rojo=1,b@c=2".to_owned(), Want::Fine)];
    all.push((format!("a={}", "x".repeat(200)), Want::Fine));
    let bad = ["x", "\0", "a=\0", "a=🜁", "שלום=1", "a=1\r\nx: y", "=1", "A=1"];
    all.extend(bad.map(|text| (text.to_owned(), here())));
    all.extend([511, 2 << 20].map(|length| (format!("a={}", "x".repeat(length)), here())));
    all
}

fn operators(row: &str) -> Option<Rule> {
    Some(match row {
        "ApplyRequest.fleet" => Rule::Texts(fleets()),
        "ApplyRequest.validate_only" | "ForgetNodeRequest.validate_only" => Rule::Kept,
        "PauseKindRequest.kind" | "ResumeKindRequest.kind" => Rule::Name { required: true, unknown: NO_KIND },
        "PauseKindRequest.policy" => Rule::Choice { unspecified: true },
        "SetCapacityRequest.slot" | "PauseSlotRequest.slot" | "ResumeSlotRequest.slot" => {
            Rule::Name { required: true, unknown: NO_SLOT }
        }
        "SetCapacityRequest.capacity" => Rule::Numbers(vec![
            (MOST_UNITS + 1, here()),
            (u32::MAX.into(), here()),
            (0, Want::Fine),
            (MOST_UNITS, Want::Fine),
            (2, Want::Fine),
        ]),
        "PauseSlotRequest.duration" => {
            Rule::Length(std::time::Duration::from_millis(1)..=seconds(30 * 86_400))
        }
        "GetNodeRequest.node"
        | "CordonNodeRequest.node"
        | "UncordonNodeRequest.node"
        | "DrainNodeRequest.node"
        | "ForgetNodeRequest.node" => Rule::Name { required: true, unknown: NO_NODE },
        "PauseCronEntryRequest.entry" | "ResumeCronEntryRequest.entry" | "RunCronEntryRequest.entry" => {
            Rule::Name { required: true, unknown: NO_CRON }
        }
        "ResumeWebhookRequest.webhook" | "TestWebhookRequest.webhook" => {
            Rule::Name { required: true, unknown: NO_WEBHOOK }
        }
        "ListDeliveriesRequest.webhook" => Rule::Name { required: false, unknown: None },
        "ListDeliveriesRequest.state" => Rule::Choice { unspecified: true },
        "ListDeliveriesRequest.page_size" => Rule::Whole(0..=i32::MAX.into()),
        "ListDeliveriesRequest.page_token" => Rule::PageToken,
        "GetDeliveryRequest.delivery" | "RedeliverRequest.delivery" => Rule::Texts(delivery_ids()),
        "RunCronEntryRequest.job_id" => Rule::FreshId,
        "DrainNodeRequest.deadline" => Rule::Length(seconds(0)..=seconds(86_400)),
        "ForgetNodeRequest.lost" => Rule::Free,
        "GetQueueHealthRequest.kind" => Rule::Name { required: false, unknown: NO_KIND },
        _ => return None,
    })
}

/// Texts for a fleet file; what stands in a good one is `files.rs` of the configuration.
fn fleets() -> Vec<(String, Want)> {
    let bad = [
        "",
        "\0",
        "[slots]\n\0",
        "[kinds.plain]\nlease = \"\0\"",
        "no toml",
        "[slots]\napi = -1",
        "[slots]\napi = 99999999999999999999",
        "[slots]\n\"שלום\" = 1",
        "[kinds.\"🜁\"]",
        "[surprise]",
    ];
    let mut all: Vec<(String, Want)> = bad.map(|text| (text.to_owned(), here())).into();
    all.push(("#".repeat((1 << 20) + 1), here()));
    all.push(("#".repeat(3 << 20), here()));
    // Each line is a mistake: they are told, as many as fit.
    all.push(("x = 1\n".repeat(100_000), here()));
    all.push(((0..20_000).map(|n| format!("k{n} = 1\n")).collect(), here()));
    all.push((format!("slots = {}{}", "[".repeat(10_000), "]".repeat(10_000)), here()));
    all.push((format!("slots{} = 1", ".a".repeat(10_000)), here()));
    // It would orphan what is queued.
    all.push(("# an empty fleet".to_owned(), Want::No((Code::FailedPrecondition, "FLEET_CONFLICT"))));
    all.push((format!("\u{feff}{}", crate::desk::FLEET), Want::Fine));
    all.push((crate::desk::FLEET.replace('\n', "\r\n"), Want::Fine));
    all.push((format!("# 🜁 שלום\n{}", crate::desk::FLEET), Want::Fine));
    all
}

fn node(row: &str) -> Option<Rule> {
    Some(match row {
        "NodeMessage.seq" => Rule::Numbers(vec![
            (0, here()),
            (1, here()),
            (2, Want::Fine),
            (3, here()),
            (u64::MAX.into(), here()),
        ]),
        // Only Welcome was sent.
        "NodeMessage.seen" => Rule::Numbers(vec![(0, Want::Fine), (1000, here()), (u64::MAX.into(), here())]),
        // Without it nothing is said at all.
        "NodeMessage.hello" | "NodeMessage.heartbeat" | "NodeMessage.reports" | "NodeMessage.draining" => {
            Rule::Kept
        }
        "Hello.node_name" => Rule::Name { required: true, unknown: None },
        "Hello.instance" | "Hello.boot_id" => Rule::Text { most: 64, required: true },
        "Hello.incarnation" => Rule::Whole(0..=I64),
        "Hello.stream" => Rule::Whole(1..=I64),
        "Hello.protocol" => Rule::Whole(1..=1),
        "Hello.features" | "PressureReading.unknown_signals" => Rule::Free,
        "Hello.labels" => Rule::Labels { most: 64 },
        "Hello.slots" | "PressureReading.caps" => Rule::Amounts { most: 64 },
        "Hello.kinds" => Rule::Names { most: 1000 },
        "Hello.host" | "Hello.pressure" | "Heartbeat.pressure" => Rule::Inner { required: false },
        "Hello.max_epoch_seen" => {
            let ahead = Want::No((Code::FailedPrecondition, "EPOCH_AHEAD"));
            Rule::Numbers(vec![
                (0, Want::Fine),
                (1, Want::Fine),
                (1002, ahead.clone()),
                (u64::MAX.into(), ahead),
            ])
        }
        "Hello.held" | "Heartbeat.held" => Rule::Most { most: 10_000, required: false },
        "Hello.unstored" => Rule::Most { most: 50_000, required: false },
        "Hello.credits" => Rule::Free,
        "Hello.agent_version" => Rule::Text { most: 64, required: false },
        "HostInfo.cpus" | "HostInfo.memory_bytes" | "HostInfo.disk_free_bytes" => Rule::Free,
        "HostInfo.os" | "HostInfo.arch" | "HostInfo.containment" => Rule::Text { most: 128, required: false },
        "PressureReading.generation" => Rule::Free,
        "PressureReading.closed" => Rule::Most { most: 256, required: false },
        "PressureReading.weight" => Rule::Whole(0..=3),
        "ClosedGroup.refuse" => Rule::Texts(selectors()),
        "ClosedGroup.rule" => Rule::Text { most: 128, required: true },
        "ClosedGroup.signal" => Rule::Text { most: 128, required: false },
        "ClosedGroup.observed" | "ClosedGroup.threshold" | "Returned.observed" | "Returned.threshold" => {
            Rule::Finite
        }
        "HeldLease.job_id" | "UnstoredReport.job_id" | "Report.job_id" => {
            Rule::Id { required: true, unknown: None }
        }
        "HeldLease.token" | "UnstoredReport.token" | "Report.token" => Rule::Whole(1..=I64),
        "HeldLease.phase" | "Finished.outcome" => Rule::Choice { unspecified: false },
        "ClosedGroup.closed_for"
        | "HeldLease.elapsed"
        | "Started.elapsed"
        | "Finished.retry_after"
        | "Finished.ran_for"
        | "Throttled.retry_after"
        | "Returned.retry_after"
        | "Draining.deadline" => Rule::any_length(),
        // At most what a message holds.
        "Reports.reports" => Rule::Kept,
        "Report.accepted" | "Report.started" | "Report.progress" | "Report.finished" | "Report.reaped"
        | "Report.returned" | "Report.checkpoint" => Rule::Kept,
        "Progress.percent" => Rule::Whole(0..=100),
        "Progress.message" => Rule::Text { most: 1024, required: false },
        "Finished.exit_code" | "Finished.signal" => Rule::Free,
        "Finished.cause" => Rule::Text { most: 128, required: false },
        "Finished.error" => Rule::Mended,
        // Judged as a whole, by name and amount: see convert_node/tests.rs.
        "Finished.usage" => Rule::Kept,
        "Finished.throttled" => Rule::Inner { required: false },
        "Finished.partial" => Rule::Free,
        "Finished.checkpoint" | "Returned.checkpoint" => Rule::Inner { required: false },
        "Finished.log_tail" | "LogTail.stdout" | "LogTail.stderr" => Rule::Inner { required: false },
        "LogTailPart.total" => Rule::Free,
        // Over the limit it is cut, and the rest of the report counts.
        "LogTailPart.data" => Rule::Bytes { most: 8 * 1024, over: Want::Fine },
        // Over the limit it is dropped, and the rest of the report counts.
        "Checkpoint.data" => Rule::Bytes { most: 256 * 1024, over: Want::Fine },
        "Throttled.slot" => Rule::Name { required: true, unknown: None },
        "Finished.result" | "Returned.result" => Rule::Inner { required: false },
        // Over the limit it is answered BROKEN, and the session goes on.
        "ResultBytes.data" => Rule::Bytes { most: 256 * 1024, over: Want::Field(String::new()) },
        "ResultBytes.content_type" => Rule::Text { most: 255, required: false },
        "Finished.detach" => Rule::Inner { required: false },
        // It excludes a result, which the base has: see convert_node/tests.rs.
        "Finished.uploaded"
        | "UploadedResult.size"
        | "UploadedResult.content_type"
        | "UploadedResult.sha256" => Rule::Kept,
        // Looked at one by one: see convert_node/tests.rs.
        "Detach.job_ids" | "WaitTerms.job_ids" | "GetChildResultsRequest.job_ids" => Rule::Kept,
        "Detach.policy" | "WaitTerms.policy" => Rule::Numbers(vec![
            (0, Want::Fine),
            (1, Want::Fine),
            (2, Want::Fine),
            (5, here()),
            // At least how many?
            (3, here()),
            (4, Want::Fine),
            (-1, here()),
            (i32::MAX.into(), here()),
        ]),
        "Detach.at_least" | "WaitTerms.at_least" => {
            Rule::Numbers(vec![(0, Want::Fine), (1, here()), (u32::MAX.into(), here())])
        }
        "Detach.max_wait" | "WaitTerms.max_wait" => Rule::any_length(),
        "Detach.same_node" | "HeldLease.wait_epoch" => Rule::Free,
        "EnqueueChildrenRequest.lease"
        | "BeginWaitRequest.lease"
        | "BeginWaitRequest.terms"
        | "GetChildResultsRequest.lease"
        | "FetchResultRequest.lease" => Rule::Inner { required: true },
        "EnqueueChildrenRequest.jobs" => Rule::Most { most: 1000, required: true },
        "BeginWaitRequest.wait_epoch" => Rule::Whole(1..=u64::MAX.into()),
        "GetChildResultsRequest.from_index" | "GetChildResultsRequest.takes_uploaded" => Rule::Free,
        // Whose it may be is judged under a live lease only.
        "FetchResultRequest.job_id" => Rule::Id { required: true, unknown: None },
        "LeaseName.node" => Rule::Name { required: true, unknown: None },
        "LeaseName.job_id" => Rule::Id { required: true, unknown: None },
        "LeaseName.token" => Rule::Whole(1..=I64),
        // Judged as a whole, by name and amount: see convert_node/tests.rs.
        "Returned.usage" => Rule::Kept,
        "Returned.rule" => Rule::Text { most: 128, required: true },
        "Returned.generation" => Rule::Free,
        "Returned.started" | "Draining.restart" => Rule::Free,
        _ => return None,
    })
}

fn selectors() -> Vec<(String, Want)> {
    let mut all: Vec<(String, Want)> =
        ["*", "slot:browser", "kind:web", "slot:no_such"].map(|text| (text.to_owned(), Want::Fine)).into();
    let bad = ["", "**", "slot", "slot:", "slot:A", "kind:\0", "node:n1", "kind:שלום", ":x", "slot:a:b"];
    all.extend(bad.map(|text| (text.to_owned(), here())));
    all.push((format!("slot:{}", "x".repeat(64)), here()));
    all.push(("x".repeat(2 << 20), here()));
    all
}

fn seconds(seconds: u64) -> std::time::Duration {
    std::time::Duration::from_secs(seconds)
}
