use tenure_proto::limits;
use tenure_scheduler::Message;

use super::{terms as terms_of, *};
use crate::rpc::convert::duration;
use crate::sessions::{Body, Frame};

const NODE: &str = "n1";

fn good_hello() -> wire::Hello {
    wire::Hello {
        node_name: NODE.to_owned(),
        instance: "i".to_owned(),
        boot_id: "b".to_owned(),
        incarnation: 1,
        stream: 1,
        protocol: tenure_proto::SESSION_PROTOCOL,
        ..wire::Hello::default()
    }
}

fn job() -> String {
    uuid::Uuid::from_u128(7).to_string()
}

fn held(token: u64) -> wire::HeldLease {
    wire::HeldLease {
        job_id: job(),
        token,
        phase: wire::LeasePhase::Started.into(),
        ..wire::HeldLease::default()
    }
}

/// The violations of a message, in one line.
fn violations<T: std::fmt::Debug>(result: Result<T, No>) -> String {
    let status = result.unwrap_err().into_status();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    let details = tonic_types::StatusExt::get_error_details(&status);
    let fields = details.bad_request().unwrap().field_violations.iter().map(|v| v.field.clone());
    fields.collect::<Vec<_>>().join(" ")
}

fn hello_violations(change: impl FnOnce(&mut wire::Hello)) -> String {
    let mut hello = good_hello();
    change(&mut hello);
    violations(super::hello(SessionId(1), 1, hello))
}

fn body_said(body: wire::node_message::Body) -> Result<Vec<Said>, No> {
    let node = NodeName::new(NODE);
    said(From { node: &node, session: SessionId(1), seq: 5, seen: Ordinal(3) }, Some(body), 1000)
}

fn reports(events: impl IntoIterator<Item = wire::report::Event>) -> wire::node_message::Body {
    let report = |event| wire::Report { job_id: job(), token: 9, event: Some(event) };
    wire::node_message::Body::Reports(wire::Reports { reports: events.into_iter().map(report).collect() })
}

#[test]
fn a_hello_with_the_least_is_enough_and_gets_the_default_credits() {
    let hello = super::hello(SessionId(4), 1, good_hello()).unwrap();
    assert_eq!((hello.node.as_str(), hello.session, hello.seq), (NODE, SessionId(4), 1));
    assert_eq!((hello.credits, hello.pressure.weight), (DEFAULT_CREDITS, 1));
}

#[test]
fn the_end_of_a_drain_is_a_drain_without_a_deadline() {
    let settings = Settings {
        reconnect_min: Duration::from_millis(200),
        reconnect_max: Duration::from_secs(30),
        max_result_bytes: 1,
        max_uploaded_result_bytes: 0,
    };
    let drain = |deadline| {
        let frame = Frame { applied: 3, body: Body::Alone(Message::Drain { deadline }) };
        match server_message(4, frame, &settings).body {
            Some(wire::server_message::Body::Drain(drain)) => drain.deadline,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(drain(Some(Duration::from_secs(60))), Some(duration(Duration::from_secs(60))));
    assert_eq!(drain(Some(Duration::ZERO)), Some(duration(Duration::ZERO)), "at once is not over");
    assert_eq!(drain(None), None);
}

#[test]
fn every_mistake_of_a_hello_is_named() {
    type Change = fn(&mut wire::Hello);
    let cases: [(&str, Change); 15] = [
        ("hello.protocol", |h| h.protocol = 2),
        ("hello.node_name", |h| h.node_name = "Not A Name".to_owned()),
        ("hello.instance", |h| h.instance.clear()),
        ("hello.boot_id", |h| h.boot_id = "x".repeat(65)),
        ("hello.stream", |h| h.stream = 0),
        ("hello.incarnation", |h| h.incarnation = u64::MAX),
        ("hello.labels", |h| h.labels = (0..65).map(|n| (format!("l{n}"), String::new())).collect()),
        ("hello.slots[\"a b\"]", |h| h.slots = [("a b".to_owned(), 1)].into()),
        ("hello.slots[\"a\"]", |h| h.slots = [("a".to_owned(), limits::SLOT_UNITS + 1)].into()),
        ("hello.kinds[1]", |h| h.kinds = vec!["a".to_owned(), "A".to_owned()]),
        ("hello.host.os", |h| h.host = Some(wire::HostInfo { os: "a\0".to_owned(), ..Default::default() })),
        ("hello.held[0].token", |h| h.held = vec![held(0)]),
        ("hello.held", |h| h.held = vec![held(1), held(1)]),
        ("hello.held", |h| h.held = (1..=MOST_HELD as u64 + 1).map(held).collect()),
        ("hello.unstored[0].job_id", |h| {
            h.unstored = vec![wire::UnstoredReport { job_id: "no".to_owned(), token: 1 }];
        }),
    ];
    for (field, change) in cases {
        assert_eq!(hello_violations(change), field);
    }
    let both = hello_violations(|h| {
        h.instance.clear();
        h.stream = 0;
    });
    assert_eq!(both, "hello.instance hello.stream", "all at once");
}

#[test]
fn pressure_is_checked_in_every_part() {
    let closed = wire::ClosedGroup { refuse: "*".to_owned(), rule: "r".to_owned(), ..Default::default() };
    type Change = fn(&mut wire::PressureReading, wire::ClosedGroup);
    let cases: [(&str, Change); 5] = [
        ("heartbeat.pressure.weight", |p, _| p.weight = 4),
        ("heartbeat.pressure.caps[\"A\"]", |p, _| p.caps = [("A".to_owned(), 1)].into()),
        ("heartbeat.pressure.closed[0].refuse", |p, c| {
            p.closed = vec![wire::ClosedGroup { refuse: "node:x".to_owned(), ..c }];
        }),
        ("heartbeat.pressure.closed[0].observed", |p, c| {
            p.closed = vec![wire::ClosedGroup { observed: f64::NAN, ..c }];
        }),
        ("heartbeat.pressure.closed[0].rule", |p, c| {
            p.closed = vec![wire::ClosedGroup { rule: String::new(), ..c }];
        }),
    ];
    for (field, change) in cases {
        let mut reading = wire::PressureReading::default();
        change(&mut reading, closed.clone());
        let heartbeat = wire::Heartbeat { held: Vec::new(), pressure: Some(reading) };
        assert_eq!(violations(body_said(wire::node_message::Body::Heartbeat(heartbeat))), field);
    }
}

#[test]
fn groups_keep_what_they_are_about() {
    let closed = |refuse: &str| wire::ClosedGroup {
        refuse: refuse.to_owned(),
        rule: "r".to_owned(),
        ..Default::default()
    };
    let reading = wire::PressureReading {
        closed: ["*", "slot:gpu", "kind:a.b"].map(closed).into(),
        ..wire::PressureReading::default()
    };
    let pressure = pressure(&mut Checks::default(), "p", reading);
    let groups: Vec<_> = pressure.closed.iter().map(|closed| closed.group.to_string()).collect();
    assert_eq!(groups, ["*", "slot:gpu", "kind:a.b"]);
}

#[test]
fn a_second_hello_an_empty_body_and_unknown_values_are_refused() {
    let again = wire::node_message::Body::Hello(good_hello());
    assert_eq!(violations(body_said(again)), "hello");
    let node = NodeName::new(NODE);
    let from = From { node: &node, session: SessionId(1), seq: 5, seen: Ordinal(3) };
    assert_eq!(violations(said(from, None, 1000)), "body");
    let heartbeat = wire::Heartbeat { held: vec![wire::HeldLease { phase: 8, ..held(1) }], pressure: None };
    let heartbeat = wire::node_message::Body::Heartbeat(heartbeat);
    assert_eq!(violations(body_said(heartbeat)), "heartbeat.held[0].phase");
}

#[test]
fn a_mistake_in_a_spooled_report_is_answered_and_the_rest_of_the_message_counts() {
    use wire::report::Event;
    let failed = || wire::Finished { outcome: wire::FinishedOutcome::Failed.into(), ..Default::default() };
    let detached = |detach| {
        let outcome = wire::FinishedOutcome::Detached.into();
        Event::Finished(wire::Finished { outcome, detach, ..Default::default() })
    };
    let waits_for = |id: &str| wire::Detach { job_ids: vec![id.to_owned()], ..Default::default() };
    let ten_years = Some(duration(Duration::from_secs(4_000_000_000)));
    let nul = wire::ResultBytes { data: Bytes::new(), content_type: "a\0".to_owned() };
    let nanos = Some(prost_types::Duration { seconds: 1, nanos: 2_000_000_000 });
    let bad = [
        Event::Finished(wire::Finished { outcome: 99, ..Default::default() }),
        Event::Finished(wire::Finished { result: Some(nul), ..failed() }),
        Event::Finished(wire::Finished { retry_after: nanos, ..failed() }),
        Event::Returned(wire::Returned::default()),
        detached(None),
        detached(Some(waits_for("01900000000070008000000000000001"))),
        detached(Some(wire::Detach { max_wait: ten_years, ..waits_for(&job()) })),
    ];
    let count = bad.len();
    let said = body_said(reports(bad.into_iter().chain([Event::Reaped(wire::Reaped {})]))).unwrap();
    assert_eq!(said.len(), count + 1);
    for (i, said) in said.iter().enumerate() {
        match said {
            Said::Broken(answer) => {
                let expected = if i == 3 { ReportKind::Returned } else { ReportKind::Finished };
                let verdict = (answer.token, answer.report, answer.verdict);
                assert_eq!(verdict, (FencingToken(9), expected, Verdict::Broken));
            }
            Said::Command(Command::Report(report), _) => assert_eq!((i, report.seq), (count, Some(5))),
            Said::Command(..) => panic!("{said:?}"),
        }
    }
}

#[test]
fn what_an_agent_is_able_to_is_told_by_its_features() {
    let able = |features: &[&str]| {
        let features = features.iter().map(|&feature| feature.to_owned()).collect();
        super::hello(SessionId(4), 1, wire::Hello { features, ..good_hello() }).unwrap().inputs
    };
    assert!(able(&["flight", tenure_proto::INPUTS_FEATURE]) && !able(&["flight"]) && !able(&[]));
}

#[test]
fn a_message_is_applied_with_its_last_report() {
    use wire::report::Event;
    let said =
        body_said(reports([Event::Accepted(wire::Accepted {}), Event::Reaped(wire::Reaped {})])).unwrap();
    let seqs = said.iter().map(|said| match said {
        Said::Command(Command::Report(report), Carried { result: None, checkpoint: None, log: None }) => {
            report.seq
        }
        Said::Command(..) | Said::Broken(_) => panic!("{said:?}"),
    });
    assert_eq!(seqs.collect::<Vec<_>>(), [None, Some(5)]);
}

#[test]
fn a_result_over_the_limit_is_answered_and_the_rest_of_the_message_counts() {
    let finished = |size| {
        wire::report::Event::Finished(wire::Finished {
            outcome: wire::FinishedOutcome::Succeeded.into(),
            result: Some(wire::ResultBytes { data: vec![0; size].into(), content_type: String::new() }),
            ..Default::default()
        })
    };
    let said = body_said(reports([finished(1000), finished(1001)])).unwrap();
    let [Said::Command(Command::Report(report), Carried { result: Some(result), .. }), Said::Broken(answer)] =
        &said[..]
    else {
        panic!("{said:?}")
    };
    assert!(matches!(&report.statement, Statement::Finished(finish) if finish.has_result));
    assert_eq!((report.seq, result.data.len()), (Some(5), 1000));
    assert_eq!((answer.token, answer.verdict), (FencingToken(9), Verdict::Broken));
}

#[test]
fn a_signal_without_words_is_put_into_words_and_long_waits_are_cut() {
    let finished = wire::Finished {
        outcome: wire::FinishedOutcome::Failed.into(),
        signal: Some(9),
        retry_after: Some(duration(Duration::from_secs(48 * 3600))),
        ..Default::default()
    };
    let finish = finish(&mut Checks::default(), "f", &finished, false).unwrap();
    assert_eq!(&*finish.error, "ended by signal 9");
    assert_eq!(finish.retry_after, Some(LONGEST_RETRY));
}

#[test]
fn what_a_provider_said_is_taken_with_a_slot_that_may_be_one() {
    let of = |slot: &str, retry_after| {
        let throttled = Some(wire::Throttled { slot: slot.to_owned(), retry_after });
        let outcome = wire::FinishedOutcome::Failed.into();
        let mut checks = Checks::default();
        let finished = wire::Finished { outcome, throttled, ..Default::default() };
        let finish = finish(&mut checks, "f", &finished, false).unwrap();
        (finish.throttled.map(|said| (said.slot.to_string(), said.retry_after)), checks.is_clean())
    };
    let minute = Duration::from_secs(60);
    assert_eq!(of("api", Some(duration(minute))), (Some(("api".to_owned(), minute)), true));
    assert_eq!(of("api", None), (Some(("api".to_owned(), Duration::ZERO)), true));
    assert_eq!(of("Api", None), (None, false));
    assert_eq!(of("kind:web", None), (None, false));
}

#[test]
fn what_a_job_used_is_taken_within_bounds() {
    let of = |used: &[(&str, u64)]| {
        let usage = used.iter().map(|(counter, amount)| ((*counter).to_owned(), *amount)).collect();
        let outcome = wire::FinishedOutcome::Succeeded.into();
        let mut checks = Checks::default();
        let finished = wire::Finished { outcome, usage, ..Default::default() };
        let finish = finish(&mut checks, "f", &finished, false).unwrap();
        let text: Vec<String> =
            finish.usage.iter().map(|(counter, used)| format!("{counter}={used}")).collect();
        (text.join(" "), checks.is_clean())
    };
    assert_eq!(of(&[("tokens", 7), ("pages", 0)]), ("pages=0 tokens=7".to_owned(), true));
    assert!(of(&[("tokens", 1 << 53)]).1);
    assert_eq!(of(&[("tokens", (1 << 53) + 1)]), (String::new(), false));
    assert_eq!(of(&[("Tokens", 1)]), (String::new(), false));
    let names: Vec<String> = (0..17).map(|n| format!("c{n}")).collect();
    let many: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    assert_eq!((of(&many).1, of(many.get(1..).unwrap_or_default()).1), (false, true));
}

#[test]
fn what_a_job_waits_for_is_looked_at_one_by_one() {
    let wait = |terms| {
        let mut checks = crate::rpc::check::Checks::default();
        let read = terms_of(&mut checks, "terms", Some(&terms));
        checks.finish().map(|()| read.expect("terms"))
    };
    let good = || wire::WaitTerms { job_ids: vec![job(), job()], ..wire::WaitTerms::default() };
    let read = wait(good()).unwrap();
    assert_eq!((read.children.len(), read.policy), (2, tenure_scheduler::WaitPolicy::All));
    let mut bad = good();
    bad.job_ids[1] = "x".to_owned();
    assert_eq!(violations(wait(bad)), "terms.job_ids[1]");
    let many = wire::WaitTerms { job_ids: vec![job(); 10_001], ..wire::WaitTerms::default() };
    assert_eq!(violations(wait(many)), "terms.job_ids");
    let at_least = wire::WaitTerms { policy: 3, at_least: 2, ..good() };
    assert_eq!(wait(at_least).unwrap().policy, tenure_scheduler::WaitPolicy::AtLeast(2));

    let detached =
        wire::Finished { outcome: wire::FinishedOutcome::Detached.into(), ..wire::Finished::default() };
    let mistakes = |finished: &wire::Finished| {
        let mut checks = Checks::default();
        finish(&mut checks, "f", finished, false);
        violations(checks.finish())
    };
    assert_eq!(mistakes(&detached), "f.detach");
    let detach = wire::Detach { job_ids: vec!["x".to_owned()], ..wire::Detach::default() };
    assert_eq!(mistakes(&wire::Finished { detach: Some(detach), ..detached }), "f.detach.job_ids[0]");
}

#[test]
fn a_checkpoint_travels_beside_its_report_and_one_over_the_limit_is_dropped() {
    use wire::report::Event;
    let saved = |size: usize| wire::Checkpoint { data: vec![7; size].into() };
    let finished = wire::Finished {
        outcome: wire::FinishedOutcome::Stalled.into(),
        partial: true,
        checkpoint: Some(saved(3)),
        ..Default::default()
    };
    let large = wire::Finished { checkpoint: Some(saved(limits::INLINE_BYTES + 1)), ..finished.clone() };
    let returned =
        wire::Returned { rule: "draining".to_owned(), checkpoint: Some(saved(0)), ..Default::default() };
    let said = body_said(reports([
        Event::Checkpoint(saved(limits::INLINE_BYTES)),
        Event::Checkpoint(saved(limits::INLINE_BYTES + 1)),
        Event::Finished(finished),
        Event::Finished(large),
        Event::Returned(returned),
    ]))
    .unwrap();
    let told = said.iter().map(|said| {
        let Said::Command(Command::Report(report), carried) = said else { panic!("{said:?}") };
        let size = match &report.statement {
            Statement::Checkpoint { size } => Some(*size),
            Statement::Finished(finish) => {
                assert!(finish.partial && finish.how == FinishedHow::Stalled);
                finish.checkpoint
            }
            Statement::Returned(returned) => returned.checkpoint,
            Statement::Started { .. } => None,
            Statement::Accepted | Statement::Progress { .. } | Statement::Reaped => panic!("{report:?}"),
        };
        assert_eq!(carried.checkpoint.as_ref().map(size_of_checkpoint), size);
        size
    });
    assert_eq!(told.collect::<Vec<_>>(), [Some(256 * 1024), None, Some(3), None, Some(0)]);
}

#[test]
fn what_is_given_back_may_bring_a_part_of_its_result_within_the_limit() {
    use wire::report::Event;
    let returned = |size: usize| {
        let result = wire::ResultBytes { data: vec![7; size].into(), content_type: "text/plain".to_owned() };
        let rule = "cut_off".to_owned();
        Event::Returned(wire::Returned { rule, started: true, result: Some(result), ..Default::default() })
    };
    let said = body_said(reports([returned(3)])).unwrap();
    let [Said::Command(Command::Report(report), carried)] = said.as_slice() else { panic!("{said:?}") };
    let Statement::Returned(given_back) = &report.statement else { panic!("{report:?}") };
    assert!(given_back.has_result && given_back.started);
    assert_eq!(carried.result.as_ref().map(|result| result.data.len()), Some(3));
    // One over it is a mistake of that report alone, as in one of an end.
    let said = body_said(reports([returned(256 * 1024 + 1)])).unwrap();
    assert!(!matches!(said.as_slice(), [Said::Command(Command::Report(_), _)]), "{said:?}");
}
