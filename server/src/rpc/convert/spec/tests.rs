//! Specs: what they become, and that every mistake is told at once.

use std::collections::BTreeMap;

use tenure_proto::limits;
use tenure_scheduler::Wall;
use tonic::Code;
use tonic_types::StatusExt as _;
use uuid::Uuid;

use super::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const V7: &str = "0190b5f0-0000-7000-8000-000000000001";

fn spec() -> v1::JobSpec {
    v1::JobSpec { kind: "site.qa".to_owned(), ..Default::default() }
}

fn submit(spec: v1::JobSpec) -> Result<Submission, No> {
    submission(Some(spec), (&Producer::new("local"), &Tenant::new("default")), None, || {
        JobId(Uuid::from_u128(99))
    })
}

fn enqueue(spec: v1::JobSpec) -> (Enqueue, Option<Payload>) {
    let Submission { command, payload, .. } = submit(spec).unwrap();
    let Command::Enqueue(enqueue) = command else { panic!("an enqueue was asked for") };
    (*enqueue, payload)
}

/// Fields that are refused, in order.
fn refused(spec: v1::JobSpec) -> Vec<String> {
    let status = submit(spec).unwrap_err().into_status();
    assert_eq!(status.code(), Code::InvalidArgument);
    let bad = status.get_details_bad_request().expect("fields that are wrong");
    bad.field_violations.into_iter().map(|violation| violation.field).collect()
}

fn seconds(seconds: i64, nanos: i32) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos })
}

fn pairs(count: usize) -> BTreeMap<String, String> {
    (0..count).map(|n| (format!("key{n}"), "value".to_owned())).collect()
}

#[test]
fn a_bare_spec_has_defaults() {
    let (enqueue, payload) = enqueue(spec());
    assert_eq!(enqueue.job, JobId(Uuid::from_u128(99)));
    assert_eq!((enqueue.tenant, enqueue.default_tenant.as_str()), (None, "default"));
    assert_eq!(enqueue.producer.as_str(), "local");
    assert_eq!((enqueue.priority, enqueue.payload_size, payload), (None, 0, None));
    assert!(enqueue.needs.is_none() && enqueue.dedupe_key.is_none());
}

#[test]
fn a_full_spec_is_taken_whole() {
    let (enqueue, payload) = enqueue(v1::JobSpec {
        payload: Some(v1::Payload { data: "{}".into(), content_type: "application/json".to_owned() }),
        job_id: V7.to_owned(),
        dedupe_key: "digest:2026-11-30".to_owned(),
        tenant: "team-a".to_owned(),
        priority: Some(-100),
        run_at: Some(prost_types::Timestamp { seconds: 1, nanos: 1_999 }),
        stale_after: seconds(3600, 0),
        labels: pairs(32),
        selector: pairs(16),
        needs: Some(v1::Needs { slots: vec![v1::SlotAmount { slot: "gpu".to_owned(), amount: 2 }] }),
        hard_time_limit: seconds(0, 500_000_000),
        soft_time_limit: seconds(0, 400_000_000),
        parent_id: V7.to_owned(),
        traceparent: PARENT.to_owned(),
        tracestate: "rojo=1".to_owned(),
        ..spec()
    });
    assert_eq!(enqueue.job.to_string(), V7);
    assert_eq!(enqueue.run_at, Some(Wall(1_000_001)));
    assert_eq!(enqueue.needs.unwrap().to_string(), "gpu:2");
    assert_eq!((enqueue.priority, enqueue.payload_size), (Some(-100), 2));
    assert_eq!(payload.unwrap().content_type, "application/json");
}

#[test]
fn needs_that_are_empty_differ_from_needs_that_are_absent() {
    let (enqueue, _) = enqueue(v1::JobSpec { needs: Some(v1::Needs::default()), ..spec() });
    assert!(enqueue.needs.unwrap().is_empty());
}

#[test]
fn each_wrong_field_is_named() {
    let text = |length| "x".repeat(length);
    let slots = |slots: &[(&str, u32)]| {
        let amounts = slots.iter().map(|&(slot, amount)| v1::SlotAmount { slot: slot.to_owned(), amount });
        Some(v1::Needs { slots: amounts.collect() })
    };
    let many: Vec<(String, u32)> = (0..17).map(|n| (format!("s{n}"), 1)).collect();
    let many: Vec<(&str, u32)> = many.iter().map(|(slot, amount)| (slot.as_str(), *amount)).collect();
    let one = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let gpus = |counts: &[usize]| -> Vec<v1::Requirement> {
        let each = counts.iter().enumerate();
        each.map(|(i, &count)| v1::Requirement {
            label: format!("gpu{i}"),
            operator: v1::RequirementOperator::In.into(),
            values: (0..count).map(|value| value.to_string()).collect(),
        })
        .collect()
    };
    let payload =
        |content_type: &str| Some(v1::Payload { data: Bytes::new(), content_type: content_type.to_owned() });
    let stamp = |seconds, nanos| Some(prost_types::Timestamp { seconds, nanos });
    let cases: Vec<(v1::JobSpec, &str)> = vec![
        (v1::JobSpec { kind: String::new(), ..spec() }, "job.kind"),
        (v1::JobSpec { kind: "Site".to_owned(), ..spec() }, "job.kind"),
        (v1::JobSpec { kind: text(64), ..spec() }, "job.kind"),
        (v1::JobSpec { job_id: "x".to_owned(), ..spec() }, "job.job_id"),
        // Version 4, no hyphens, and a variant of another kind.
        (v1::JobSpec { job_id: "0190b5f0-0000-4000-8000-000000000001".to_owned(), ..spec() }, "job.job_id"),
        (v1::JobSpec { job_id: V7.replace('-', ""), ..spec() }, "job.job_id"),
        (v1::JobSpec { job_id: "0190b5f0-0000-7000-c000-000000000001".to_owned(), ..spec() }, "job.job_id"),
        (v1::JobSpec { dedupe_key: text(256), ..spec() }, "job.dedupe_key"),
        (v1::JobSpec { dedupe_key: "a\0b".to_owned(), ..spec() }, "job.dedupe_key"),
        (v1::JobSpec { tenant: "a b".to_owned(), ..spec() }, "job.tenant"),
        (v1::JobSpec { priority: Some(101), ..spec() }, "job.priority"),
        (v1::JobSpec { priority: Some(i32::MIN), ..spec() }, "job.priority"),
        (v1::JobSpec { run_at: stamp(i64::MAX, 0), ..spec() }, "job.run_at"),
        (v1::JobSpec { run_at: stamp(0, -1), ..spec() }, "job.run_at"),
        (v1::JobSpec { run_at: stamp(0, 1_000_000_000), ..spec() }, "job.run_at"),
        (v1::JobSpec { delay: seconds(-1, 0), ..spec() }, "job.delay"),
        (v1::JobSpec { delay: seconds(i64::MAX, 0), ..spec() }, "job.delay"),
        (v1::JobSpec { delay: seconds(i64::MIN, i32::MIN), ..spec() }, "job.delay"),
        (v1::JobSpec { delay: seconds(1, -1), ..spec() }, "job.delay"),
        (v1::JobSpec { delay: seconds(1, 0), run_at: stamp(0, 0), ..spec() }, "job.delay"),
        (v1::JobSpec { stale_after: seconds(0, 0), ..spec() }, "job.stale_after"),
        (v1::JobSpec { stale_after: seconds(0, -1), ..spec() }, "job.stale_after"),
        (v1::JobSpec { hard_time_limit: seconds(0, 0), ..spec() }, "job.hard_time_limit"),
        (v1::JobSpec { soft_time_limit: seconds(0, 0), ..spec() }, "job.soft_time_limit"),
        (v1::JobSpec { labels: pairs(33), ..spec() }, "job.labels"),
        (v1::JobSpec { labels: one("a b", ""), ..spec() }, "job.labels[\"a b\"]"),
        (v1::JobSpec { labels: one("cron.instant", "now"), ..spec() }, "job.labels[\"cron.instant\"]"),
        (v1::JobSpec { labels: one("a", "x\ny"), ..spec() }, "job.labels[\"a\"]"),
        (v1::JobSpec { labels: one("a", &text(256)), ..spec() }, "job.labels[\"a\"]"),
        (v1::JobSpec { selector: pairs(17), ..spec() }, "job.selector"),
        (v1::JobSpec { prefer: gpus(&[1; 9]), ..spec() }, "job.prefer"),
        (v1::JobSpec { prefer: gpus(&[1, 0]), ..spec() }, "job.prefer[1].values"),
        (v1::JobSpec { prefer: gpus(&[17, 16]), ..spec() }, "job.prefer"),
        (v1::JobSpec { requirements: gpus(&[1; 17]), ..spec() }, "job.requirements"),
        (v1::JobSpec { requirements: gpus(&[17, 16]), ..spec() }, "job.requirements"),
        (v1::JobSpec { requirements: gpus(&[33]), ..spec() }, "job.requirements[0].values"),
        (v1::JobSpec { requirements: gpus(&[0]), ..spec() }, "job.requirements[0].values"),
        (
            v1::JobSpec { selector: one("gpu0", "x"), requirements: gpus(&[1]), ..spec() },
            "job.requirements[0].label",
        ),
        (
            v1::JobSpec { requirements: [gpus(&[1]), gpus(&[1])].concat(), ..spec() },
            "job.requirements[1].label",
        ),
        (v1::JobSpec { needs: slots(&many), ..spec() }, "job.needs.slots"),
        (v1::JobSpec { needs: slots(&[("a", 0)]), ..spec() }, "job.needs.slots[0].amount"),
        (v1::JobSpec { needs: slots(&[("a", 1_000_001)]), ..spec() }, "job.needs.slots[0].amount"),
        (v1::JobSpec { needs: slots(&[("a", 1), ("a", 1)]), ..spec() }, "job.needs.slots[1].slot"),
        (v1::JobSpec { needs: slots(&[("", 1)]), ..spec() }, "job.needs.slots[0].slot"),
        (v1::JobSpec { parent_id: "x".to_owned(), ..spec() }, "job.parent_id"),
        (v1::JobSpec { traceparent: text(129), ..spec() }, "job.traceparent"),
        (v1::JobSpec { traceparent: "00-ab-cd-01".to_owned(), ..spec() }, "job.traceparent"),
        (v1::JobSpec { tracestate: "a=1".to_owned(), ..spec() }, "job.tracestate"),
        (
            v1::JobSpec { traceparent: PARENT.to_owned(), tracestate: format!("a={}", text(511)), ..spec() },
            "job.tracestate",
        ),
        (v1::JobSpec { traceparent: "a\nb".to_owned(), ..spec() }, "job.traceparent"),
        (v1::JobSpec { payload: payload(&text(256)), ..spec() }, "job.payload.content_type"),
        (v1::JobSpec { payload: payload("text/plain\r\nx: y"), ..spec() }, "job.payload.content_type"),
    ];
    for (spec, field) in cases {
        let shown = format!("{spec:?}");
        assert_eq!(refused(spec), [field], "{shown}");
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let wrong = v1::JobSpec {
        kind: "A".to_owned(),
        priority: Some(1000),
        payload: Some(v1::Payload { data: vec![0; limits::INLINE_BYTES + 1].into(), ..Default::default() }),
        ..spec()
    };
    assert_eq!(refused(wrong), ["job.kind", "job.priority", "job.payload.data"]);
    let status =
        submission(None, (&Producer::new("local"), &Tenant::new("default")), None, || JobId(Uuid::nil()))
            .unwrap_err()
            .into_status();
    assert!(status.message().contains("job: is required"));
}

#[test]
fn a_payload_over_the_limit_is_refused_by_its_limit() {
    let with = |length| v1::JobSpec {
        payload: Some(v1::Payload { data: vec![0; length].into(), ..Default::default() }),
        ..spec()
    };
    assert!(submit(with(limits::INLINE_BYTES)).is_ok());
    let status = submit(with(limits::INLINE_BYTES + 1)).unwrap_err().into_status();
    let info = status.get_details_error_info().unwrap();
    assert_eq!(
        (info.reason.as_str(), info.metadata["limit_bytes"].as_str()),
        ("PAYLOAD_TOO_LARGE", "262144")
    );
}

#[test]
fn fingerprints_tell_apart_what_differs() {
    let of = |kind: &str, data: &[u8], content_type: &str, key: &str| {
        fingerprint(&KindName::new(kind), data, content_type, Some(&DedupeKey::new(key)))
    };
    let one = of("a", b"bc", "d", "e");
    assert_eq!(one, of("a", b"bc", "d", "e"));
    for other in [
        of("ab", b"c", "d", "e"),
        of("a", b"b", "cd", "e"),
        of("a", b"bc", "de", ""),
        of("a", b"bc", "d", "f"),
        of("a", b"", "bcd", "e"),
    ] {
        assert_ne!(one, other);
    }
    // A content type that is not named is the default one.
    let octets = enqueue(v1::JobSpec {
        payload: Some(v1::Payload { data: "x".into(), content_type: OCTETS.to_owned() }),
        ..spec()
    });
    let unnamed = enqueue(v1::JobSpec {
        payload: Some(v1::Payload { data: "x".into(), content_type: String::new() }),
        ..spec()
    });
    assert_eq!(octets.0.fingerprint, unnamed.0.fingerprint);
}
