use std::time::Duration;

use tenure_proto::limits;
use tenure_scheduler::{Epoch, FencingToken, KindName, Needs, ReportKind, RevokeReason, Tenant, Verdict};
use tenure_store::{Payload, ResultBytes};
use uuid::Uuid;

use super::*;

fn job(n: u64) -> JobId {
    JobId(Uuid::from_u128(n.into()))
}

fn grant(n: u64) -> Message {
    Message::Grant(Box::new(Grant {
        job: job(n),
        token: FencingToken(n),
        kind: KindName::new("a"),
        tenant: Tenant::new("t"),
        attempt: 1,
        lease: Duration::from_secs(10),
        first_lease: Duration::from_secs(10),
        start_window: Duration::from_secs(5),
        hard_time_limit: Duration::from_secs(60),
        soft_time_limit: None,
        progress_timeout: None,
        again: false,
        stale_in: None,
        slots: Needs::default(),
        idempotency_key: n.to_string(),
        parent: None,
        trace: None,
        resume: None,
        inputs: None,
    }))
}

fn stored(n: u64) -> Stored {
    Stored { token: FencingToken(n), report: ReportKind::Finished, verdict: Verdict::Stored, job_state: None }
}

fn renewed() -> Message {
    Message::Renewed { anchor: 1, leases: Vec::new() }
}

fn revoke(n: u64) -> Message {
    Message::Revoke { leases: vec![(FencingToken(n), RevokeReason::Cancelled)] }
}

fn decided(at: u64, applied: u64, message: Message, payload_size: u64) -> Outgoing {
    Outgoing::Decided(Decided { ordinal: Ordinal(at), applied, message, payload_size, payload: None })
}

fn assembly(messages: impl IntoIterator<Item = (u64, Message, u64)>) -> Assembly {
    let mut assembly = Assembly::default();
    for (at, (applied, message, payload_size)) in (1..).zip(messages) {
        assembly.push(decided(at, applied, message, payload_size));
    }
    assembly
}

fn payloads(jobs: impl IntoIterator<Item = (u64, usize)>) -> BTreeMap<JobId, Joined> {
    let payload = |size| Joined {
        payload: Payload { data: vec![7; size].into(), content_type: String::new() },
        left: Left::default(),
    };
    jobs.into_iter().map(|(n, size)| (job(n), payload(size))).collect()
}

/// Everything that may leave now: a letter for each frame, with its ordinals.
fn leaves(assembly: &mut Assembly) -> Vec<(char, Vec<u64>)> {
    let mut all = Vec::new();
    while let Next::Send(frame, ordinals) = assembly.next() {
        let letter = match frame.body {
            Body::Grants(_) => 'g',
            Body::Stored(_) => 's',
            Body::WantLog(_) => 'l',
            Body::Alone(Message::Welcome { .. }) => 'w',
            Body::Alone(Message::Renewed { .. }) => 'n',
            Body::Alone(Message::Revoke { .. }) => 'r',
            Body::Alone(Message::Drain { .. } | Message::Resume { .. }) => 'd',
            Body::Alone(Message::Grant(_) | Message::Stored(_) | Message::Configure { .. }) => '?',
        };
        all.push((letter, ordinals.into_iter().map(|ordinal| ordinal.0).collect()));
    }
    all
}

#[test]
fn answers_pass_grants_that_wait_for_payloads_and_nothing_else_does() {
    let welcome = Message::Welcome {
        epoch: Epoch(1),
        heartbeat_interval: Duration::from_secs(1),
        anchor: 1,
        renewed: Vec::new(),
        warnings: Vec::new(),
    };
    let drain = Message::Drain { deadline: None };
    let mut assembly = assembly([
        (1, welcome, 0),
        (1, grant(2), 10),
        (1, revoke(2), 0),
        (2, renewed(), 0),
        (2, Message::Stored(stored(9)), 0),
        (2, drain, 0),
    ]);
    assert_eq!(leaves(&mut assembly), [('w', vec![1]), ('n', vec![4]), ('s', vec![5])]);
    let wanted = assembly.wanted();
    assert_eq!(wanted, [Want { job: job(2), payload: 10, again: false }]);
    assert!(assembly.fetched(&wanted, payloads([(2, 10)])).is_empty());
    assert_eq!(leaves(&mut assembly), [('g', vec![2]), ('r', vec![3]), ('d', vec![6])]);
}

#[test]
fn a_want_of_a_log_waits_for_nothing_and_no_answer_jumps_over_it() {
    let want = || {
        Outgoing::WantLog(crate::logs::Want {
            job: job(2),
            token: FencingToken(2),
            id: 1,
            stream: tenure_proto::v1::LogStream::Unspecified,
            place: None,
            tail_lines: None,
            follow: false,
        })
    };
    let mut assembly = assembly([(1, grant(2), 10), (2, Message::Stored(stored(8)), 0)]);
    assembly.push(want());
    assembly.push(decided(3, 2, Message::Stored(stored(9)), 0));
    assert_eq!(leaves(&mut assembly), [('s', vec![2]), ('l', vec![]), ('s', vec![3])]);
    let wanted = assembly.wanted();
    assert!(assembly.fetched(&wanted, payloads([(2, 10)])).is_empty());
    assert_eq!(leaves(&mut assembly), [('g', vec![1])]);
}

#[test]
fn a_grant_without_payload_waits_for_its_turn_only() {
    let mut assembly = assembly([(1, grant(1), 10), (1, grant(2), 0)]);
    assert_eq!(leaves(&mut assembly), [], "grants keep their order");
    let wanted = assembly.wanted();
    assembly.fetched(&wanted, payloads([(1, 10)]));
    assert_eq!(leaves(&mut assembly), [('g', vec![1, 2])]);
}

#[test]
fn a_payload_that_came_with_its_grant_is_not_asked_for() {
    let mut assembly = Assembly::default();
    let came = Payload { data: vec![7; 10].into(), content_type: "text/plain".to_owned() };
    let message = grant(1);
    let first =
        Decided { ordinal: Ordinal(1), applied: 1, message, payload_size: 10, payload: Some(came.clone()) };
    assembly.push(Outgoing::Decided(first));
    assembly.push(decided(2, 1, grant(2), 10));
    assert_eq!(assembly.wanted(), [Want { job: job(2), payload: 10, again: false }]);
    let Next::Send(frame, _) = assembly.next() else { panic!("it may leave at once") };
    let Body::Grants(grants) = frame.body else { panic!("not grants: {frame:?}") };
    assert_eq!(grants.into_iter().map(|(_, joined)| joined.payload).collect::<Vec<_>>(), [came]);
    assert_eq!(leaves(&mut assembly), [], "the other waits for its own");
}

#[test]
fn grants_share_a_frame_only_if_one_anchor_fits_both() {
    let mut assembly = assembly([(1, grant(1), 0), (1, grant(2), 0), (2, grant(3), 0)]);
    let Next::Send(frame, _) = assembly.next() else { panic!() };
    assert_eq!(frame.applied, 1);
    assert!(matches!(frame.body, Body::Grants(grants) if grants.len() == 2));
    assert_eq!(leaves(&mut assembly), [('g', vec![3])]);
}

#[test]
fn no_frame_passes_its_bound_and_no_fetch_brings_more_than_one_takes() {
    const SIZE: usize = 256 * 1024;
    let mut assembly = assembly((1..=9).map(|n| (1, grant(n), SIZE as u64)));
    let all = payloads((1..=9).map(|n| (n, SIZE)));
    let mut frames = Vec::new();
    loop {
        let wanted = assembly.wanted();
        if wanted.is_empty() {
            break;
        }
        assert!(wanted.len() <= 4);
        assembly.fetched(&wanted, wanted.iter().map(|want| (want.job, all[&want.job].clone())).collect());
        while let Next::Send(Frame { body: Body::Grants(grants), .. }, _) = assembly.next() {
            assert!(grants.iter().map(|(_, joined)| joined.len()).sum::<usize>() < limits::MESSAGE_BYTES);
            frames.push(grants.len());
        }
    }
    assert_eq!(frames.iter().sum::<usize>(), 9);
}

#[test]
fn answers_share_a_frame_with_the_newest_applied_and_with_those_of_the_driver() {
    let mut assembly = assembly([(1, Message::Stored(stored(1)), 0), (3, Message::Stored(stored(2)), 0)]);
    assembly.push(Outgoing::Broken(stored(3)));
    let Next::Send(frame, ordinals) = assembly.next() else { panic!() };
    assert_eq!((frame.applied, ordinals), (3, vec![Ordinal(1), Ordinal(2)]));
    assert_eq!(frame.body, Body::Stored(vec![stored(1), stored(2), stored(3)]));
}

#[test]
fn a_grant_whose_payload_is_gone_is_dropped_and_the_rest_goes_on() {
    let mut assembly = assembly([(1, grant(1), 10), (1, grant(2), 10), (1, revoke(1), 0)]);
    let wanted = assembly.wanted();
    let dropped = assembly.fetched(&wanted, payloads([(2, 10)]));
    assert_eq!(dropped, [(Ordinal(1), job(1))]);
    assert_eq!(leaves(&mut assembly), [('g', vec![2]), ('r', vec![3])]);
}

#[test]
fn a_grant_of_a_job_that_was_granted_before_waits_for_what_was_left_whatever_its_payload() {
    let again = |n| {
        let Message::Grant(grant) = grant(n) else { panic!("no grant") };
        Message::Grant(Box::new(Grant { again: true, ..*grant }))
    };
    let mut assembly = assembly((1..=6).map(|n| (1, again(n), 0)));
    assert_eq!(leaves(&mut assembly), []);
    let wanted = assembly.wanted();
    assert!(wanted.iter().all(|want| want.again && want.payload == 0));
    let bytes =
        |size: usize| ResultBytes { data: vec![7; size].into(), content_type: String::new(), object: None };
    let left = |n| match n {
        1 => Left::default(), // Nothing was left.
        _ => Left { checkpoint: Some(vec![7; 256 * 1024].into()), partial: Some(bytes(256 * 1024)) },
    };
    let found = (1..).map(|n| (job(n), Joined { payload: Payload::default(), left: left(n) }));
    assert!(assembly.fetched(&wanted, found.take(wanted.len()).collect()).is_empty());
    let mut sent = 0;
    while let Next::Send(Frame { body: Body::Grants(grants), .. }, _) = assembly.next() {
        assert!(grants.iter().map(|(_, joined)| joined.len()).sum::<usize>() < limits::MESSAGE_BYTES);
        sent += grants.len();
    }
    assert_eq!(sent, 6);
}
