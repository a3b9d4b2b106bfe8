//! Every refusal with its code and details, as clients see them.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use tenure_scheduler::{
    Epoch, FencingToken, ImpossibleNeed, KindName, LostCause, NodeName, Producer, SlotName, Tenant,
};
use uuid::Uuid;

use super::*;

fn job() -> JobId {
    JobId(Uuid::from_u128(7))
}

/// Code and reason, then every detail in one line each, in the order of names.
fn text(status: &Status) -> String {
    let details = status.get_error_details();
    let info = details.error_info().expect("each status has a reason");
    assert_eq!(info.domain, "tenure");
    let mut all = format!("{:?} {}: {}\n", status.code(), info.reason, status.message());
    let sorted = |map: &HashMap<String, String>| {
        let mut pairs: Vec<String> = map.iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.sort();
        pairs.join(" ")
    };
    if !info.metadata.is_empty() {
        writeln!(all, "  info {}", sorted(&info.metadata)).unwrap();
    }
    if let Some(delay) = details.retry_info().and_then(|info| info.retry_delay) {
        let trailer = status.metadata().get(PUSHBACK).map(|value| value.to_str().unwrap()).unwrap_or("none");
        writeln!(all, "  retry {delay:?} trailer {trailer}").unwrap();
    }
    for v in details.quota_failure().into_iter().flat_map(|failure| &failure.violations) {
        let dimensions = sorted(&v.quota_dimensions);
        writeln!(all, "  quota {} {} {} {dimensions}", v.subject, v.quota_id, v.quota_value).unwrap();
    }
    for v in details.precondition_failure().into_iter().flat_map(|failure| &failure.violations) {
        writeln!(all, "  precondition {} {}: {}", v.r#type, v.subject, v.description).unwrap();
    }
    for v in details.bad_request().into_iter().flat_map(|bad| &bad.field_violations) {
        writeln!(all, "  field {}: {}", v.field, v.description).unwrap();
    }
    if let Some(resource) = details.resource_info() {
        writeln!(
            all,
            "  resource {} {}: {}",
            resource.resource_type, resource.resource_name, resource.description
        )
        .unwrap();
    }
    all
}

fn check(no: impl Into<No>, want: Expect) {
    let no = no.into();
    let item = no.clone().into_item();
    let status = no.into_status();
    assert_eq!((item.code, &*item.message), (status.code().into(), status.message()));
    assert_each_detail_once(&item);
    want.assert_eq(&text(&status));
}

fn assert_each_detail_once(item: &pb::Status) {
    let mut types: Vec<&str> = item.details.iter().map(|any| any.type_url.as_str()).collect();
    let all = types.len();
    types.sort_unstable();
    types.dedup();
    assert!(all > 0 && types.len() == all, "{types:?}");
}

#[test]
fn a_full_queue_says_when_to_come_back() {
    let refusal = Refusal::QueueFull {
        kind: KindName::new("site.qa"),
        cap: 20,
        depth: 20,
        retry_after: Duration::from_micros(600_000_001),
    };
    check(
        refusal,
        expect![[r#"
            ResourceExhausted QUEUE_FULL: the queue of kind site.qa is full: 20 of 20
              info depth=20 kind=site.qa limit=20 retry_after_ms=600001
              retry 600.000001s trailer 600001
              quota site.qa queue_cap 20 depth=20
        "#]],
    );
}

#[test]
fn what_is_not_found_is_named_with_what_is_near() {
    let near = vec![SlotName::new("browser"), SlotName::new("browsers")];
    check(
        Refusal::SlotNotFound { slot: SlotName::new("browsr"), nearest: near },
        expect![[r#"
            NotFound SLOT_NOT_FOUND: slot browsr is not declared
              info nearest=browser,browsers slot=browsr
              resource slot browsr: The fleet file declares no such slot.
        "#]],
    );
    check(
        Refusal::KindNotFound { kind: KindName::new("a"), nearest: vec![] },
        expect![[r#"
            NotFound KIND_NOT_FOUND: kind a is not declared
              info kind=a
              resource kind a: The fleet file declares no such kind.
        "#]],
    );
    check(
        Refusal::NodeNotFound { node: NodeName::new("n"), nearest: vec![] },
        expect![[r#"
            NotFound NODE_NOT_FOUND: node n is not known
              info node=n
              resource node n: No such node was ever heard of, or it was forgotten.
        "#]],
    );
    check(
        Refusal::JobNotFound { job: job() },
        expect![[r#"
            NotFound JOB_NOT_FOUND: job 00000000-0000-0000-0000-000000000007 is not known
              info job=00000000-0000-0000-0000-000000000007
              resource job 00000000-0000-0000-0000-000000000007: No such job was stored, or it was deleted or swept.
        "#]],
    );
    check(
        No::no_result(job(), "running"),
        expect![[r#"
            NotFound RESULT_NOT_FOUND: job 00000000-0000-0000-0000-000000000007 has no result: it is running
              info job=00000000-0000-0000-0000-000000000007 state=running
              resource result 00000000-0000-0000-0000-000000000007: A result exists once its job has succeeded, until its ttl is over.
        "#]],
    );
    check(
        No::no_result(job(), "succeeded").left_nothing(),
        expect![[r#"
            NotFound RESULT_NOT_FOUND: job 00000000-0000-0000-0000-000000000007 has succeeded, and left no result
              info job=00000000-0000-0000-0000-000000000007 left_nothing=true state=succeeded
              resource result 00000000-0000-0000-0000-000000000007: A result exists once its job has succeeded, until its ttl is over.
        "#]],
    );
    check(
        No::no_result(job(), "succeeded").expired(job(), true),
        expect![[r#"
            NotFound RESULT_NOT_FOUND: the result of job 00000000-0000-0000-0000-000000000007 is not kept any more
              info expired=true job=00000000-0000-0000-0000-000000000007 state=succeeded
              resource result 00000000-0000-0000-0000-000000000007: A result exists once its job has succeeded, until its ttl is over.
        "#]],
    );
}

#[test]
fn impossible_needs_are_told_slot_by_slot() {
    let short = [("browser", 3, 2), ("gpu", 1, 0)];
    let short = short.map(|(slot, asked, most)| ImpossibleNeed { slot: SlotName::new(slot), asked, most });
    check(
        Refusal::ImpossibleNeeds { short: short.to_vec() },
        expect![[r#"
            FailedPrecondition IMPOSSIBLE_NEEDS: no node and no fleet capacity can ever satisfy the needs
              info short=browser:3>2,gpu:1>0
              precondition IMPOSSIBLE_NEEDS browser: 3 asked of slot browser, the most that any node or the fleet has is 2
              precondition IMPOSSIBLE_NEEDS gpu: 1 asked of slot gpu, the most that any node or the fleet has is 0
        "#]],
    );
}

#[test]
fn limits_carry_their_figure() {
    check(
        Refusal::TreeLimit { guard: "depth", limit: 16 },
        expect![[r#"
            ResourceExhausted TREE_LIMIT: the tree of jobs is at its limit: depth 16
              info guard=depth limit=16
              quota tree depth 16 
        "#]],
    );
    check(
        Refusal::ClassLimit { limit: 65_536 },
        expect![[r#"
            ResourceExhausted CLASS_LIMIT: too many distinct combinations of kind, needs, selector and tenant: 65536
              info limit=65536
              quota fleet classes 65536 
        "#]],
    );
    check(
        Refusal::StoreFull { limit: 20_000_000 },
        expect![[r#"
            ResourceExhausted STORE_FULL: the job table is full: 20000000 live jobs
              info limit=20000000
              quota fleet max_live_jobs 20000000 
        "#]],
    );
}

#[test]
fn an_id_in_use_tells_nothing_of_the_other_job() {
    check(
        Refusal::JobIdReused { job: job() },
        expect![[r#"
            AlreadyExists JOB_ID_REUSED: job id 00000000-0000-0000-0000-000000000007 was used for another job
              info job=00000000-0000-0000-0000-000000000007
        "#]],
    );
}

#[test]
fn preconditions_name_what_they_are_about() {
    check(
        Refusal::KindPaused { kind: KindName::new("a") },
        expect![[r#"
            FailedPrecondition KIND_PAUSED: kind a is paused and takes no jobs
              info kind=a
              precondition KIND_PAUSED a: kind a is paused and takes no jobs
        "#]],
    );
    check(
        Refusal::JobNotFinal { job: job(), state: "queued" },
        expect![[r#"
            FailedPrecondition JOB_NOT_FINAL: job 00000000-0000-0000-0000-000000000007 is queued, not final
              info job=00000000-0000-0000-0000-000000000007 state=queued
              precondition JOB_NOT_FINAL 00000000-0000-0000-0000-000000000007: job 00000000-0000-0000-0000-000000000007 is queued, not final
        "#]],
    );
    check(
        Refusal::FleetConflict {
            conflicts: vec!["kind a has 3 live jobs".into(), "slot b is a node slot".into()],
        },
        expect![[r#"
            FailedPrecondition FLEET_CONFLICT: the fleet file cannot be applied: kind a has 3 live jobs (and 1 more)
              info conflicts=2
              precondition FLEET_CONFLICT fleet: kind a has 3 live jobs
              precondition FLEET_CONFLICT fleet: slot b is a node slot
        "#]],
    );
    check(
        Refusal::LeaseLost {
            token: FencingToken::mint(Epoch(2), 3),
            cause: LostCause::Expired,
            job_state: Some("queued"),
        },
        expect![[r#"
            FailedPrecondition LEASE_LOST: lease 2.3 is gone: EXPIRED
              info cause=EXPIRED state=queued token=2199023255555
              precondition LEASE_LOST 2.3: lease 2.3 is gone: EXPIRED
        "#]],
    );
    check(
        Refusal::TenantNotAllowed { producer: Producer::new("web"), tenant: Tenant::new("shop") },
        expect![[r#"
            PermissionDenied NOT_ALLOWED: producer web may not enqueue jobs for tenant shop
              info producer=web tenant=shop
        "#]],
    );
    check(
        Refusal::ParentNotLive { parent: job() },
        expect![[r#"
            FailedPrecondition PARENT_NOT_LIVE: parent 00000000-0000-0000-0000-000000000007 is not a live job of this producer
              info parent=00000000-0000-0000-0000-000000000007
              resource job 00000000-0000-0000-0000-000000000007: A parent is a job of the same producer that is not final.
        "#]],
    );
}

#[test]
fn every_wrong_field_is_told() {
    let wrong = |field: &str| Violation { field: field.to_owned(), problem: "is required".to_owned() };
    check(
        No::invalid(vec![wrong("job.kind"), wrong("job.needs")]),
        expect![[r#"
            InvalidArgument INVALID_FIELD: job.kind: is required (and 1 more)
              info fields=job.kind,job.needs
              field job.kind: is required
              field job.needs: is required
        "#]],
    );
    check(
        No::too_large(Some(("job.payload.data", 300_000)), 262_144, "send a reference"),
        expect![[r#"
            InvalidArgument PAYLOAD_TOO_LARGE: the job.payload.data of 300000 bytes is over the limit of 262144 bytes: send a reference
              info field=job.payload.data hint=send a reference limit_bytes=262144 size_bytes=300000
              field job.payload.data: is over the limit of 262144 bytes: send a reference
        "#]],
    );
}

#[test]
fn faults_tell_when_to_come_back_and_no_cause() {
    let retry_after = Duration::from_millis(500);
    check(
        SubmitError::Busy { retry_after },
        expect![[r#"
            Unavailable SERVER_BUSY: the server has too many calls waiting
              info retry_after_ms=500
              retry 500ms trailer 500
        "#]],
    );
    check(
        SubmitError::StoreUnavailable { retry_after },
        expect![[r#"
            Unavailable STORE_UNAVAILABLE: the store does not answer
              info retry_after_ms=500
              retry 500ms trailer 500
        "#]],
    );
    check(
        SubmitError::ShuttingDown,
        expect![[r#"
            Unavailable NOT_LEADER: this server is stopping
              info retry_after_ms=1000
              retry 1s trailer 1000
        "#]],
    );
    check(
        SubmitError::Broken,
        expect![[r#"
            Internal INTERNAL: the server could not do this; its log says why
        "#]],
    );
}
