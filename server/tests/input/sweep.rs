//! Every field of every unary method, with every value worth trying.

use std::collections::BTreeSet;

use bytes::Bytes;
use prost_reflect::{DynamicMessage, MethodDescriptor, prost::Message as _};
use tenure_proto::SERVED_BY_AGENTS;
use tonic::{Code, Status};

use crate::{
    bases::Bases,
    desk::{Desk, Store, fields, only_item, reason},
    places::{Place, places, pool},
    rules::{Case, Want},
    table::rule,
};

/// The unary methods of our packages.
pub(crate) fn methods() -> Vec<MethodDescriptor> {
    let pool = pool();
    let all = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let ours = |method: &MethodDescriptor| !SERVED_BY_AGENTS.contains(&method.parent_service().full_name());
    all.filter(|method| !method.is_client_streaming()).filter(ours).collect()
}

pub(crate) fn path_of(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}

/// What a case is, in a failure.
fn shown(method: &MethodDescriptor, place: &Place, case: &Case) -> String {
    format!("{}: {} is {}", method.name(), place.path(), case.what)
}

/// A call; of a batch the answer of its only item.
pub(crate) async fn asked(desk: &Desk, method: &MethodDescriptor, bytes: Bytes) -> Result<Bytes, Status> {
    let answer = desk.call(&path_of(method), bytes).await;
    if method.name() == "EnqueueBatch" { only_item(answer) } else { answer }
}

#[track_caller]
fn judge(what: &str, place: &Place, want: &Want, base: Option<(Code, &str)>, answer: &Result<Bytes, Status>) {
    let said = answer
        .as_ref()
        .err()
        .map(|status| reason(status).unwrap_or_else(|| panic!("{what}: a no without reason: {status:?}")));
    let said = said.as_ref().map(|(code, reason)| (*code, reason.as_str()));
    match want {
        Want::Fine => assert_eq!(said, base, "{what}: {answer:?}"),
        Want::No(no) => assert_eq!(said, Some(*no), "{what}: {answer:?}"),
        Want::Field(suffix) => {
            assert_eq!(said, Some((Code::InvalidArgument, "INVALID_FIELD")), "{what}: {answer:?}");
            let named = answer.as_ref().err().map(fields).unwrap_or_default();
            let want = format!("{}{suffix}", place.path());
            assert!(named.iter().all(|field| *field == want) && !named.is_empty(), "{what}: {named:?}");
        }
    }
}

async fn every_field(store: Store) {
    let desk = Desk::start(store).await;
    let bases = Bases::make(&desk).await;
    let named = [bases.queued.as_str(), bases.cancelled.as_str()];
    let mut without = BTreeSet::new();
    let mut calls = 0;
    for method in methods() {
        let (base, no) = bases.of(&method);
        for place in places(&method.input()) {
            // Jobs are looked at under a live lease only, and then like those of EnqueueBatch.
            if method.name() == "EnqueueChildren" && place.names().len() > 1 && place.names()[0] == "jobs" {
                continue;
            }
            // So are those of a workflow, by paths of their own: see edge/workflows.rs.
            if method.name() == "SubmitWorkflow" && place.names().len() > 1 {
                continue;
            }
            let Some(rule) = rule(&place.row()) else {
                without.insert(place.row());
                continue;
            };
            let cases = rule.cases(place.field());
            let (fine, refused): (Vec<_>, Vec<_>) =
                cases.into_iter().partition(|case| case.want == Want::Fine);
            let before = desk.standing(&named).await;
            for case in &refused {
                let answer = asked(&desk, &method, with(&base, &place, case)).await;
                judge(&shown(&method, &place, case), &place, &case.want, no, &answer);
            }
            let after = desk.standing(&named).await;
            assert_eq!(before, after, "{}: {}: something was stored", method.name(), place.path());
            for case in &fine {
                let answer = asked(&desk, &method, with(&base, &place, case)).await;
                judge(&shown(&method, &place, case), &place, &case.want, no, &answer);
            }
            calls += refused.len() + fine.len();
        }
    }
    assert_eq!(without, BTreeSet::new(), "say in table.rs what is right for these");
    assert!(calls > 1000, "only {calls} calls");
    desk.end().await;
}

fn with(base: &DynamicMessage, place: &Place, case: &Case) -> Bytes {
    let mut message = base.clone();
    place.set(&mut message, case.value.clone());
    message.encode_to_vec().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_of_every_call_is_judged_by_its_row_on_sqlite() {
    every_field(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_of_every_call_is_judged_by_its_row_on_postgres() {
    every_field(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_wrong_with_a_request_is_told_at_once() {
    let desk = Desk::start(Store::Sqlite).await;
    let bases = Bases::make(&desk).await;
    for method in methods() {
        let (mut message, _) = bases.of(&method);
        let mut want = BTreeSet::new();
        for place in places(&method.input()) {
            // A list that is refused as a whole is not looked into, and limits of the kind come later.
            if ["jobs", "slots", "requirements", "prefer", "hard_time_limit", "soft_time_limit"]
                .contains(&place.field().name())
                || (method.name() == "EnqueueChildren" && place.names()[0] == "jobs")
                || (method.name() == "SubmitWorkflow" && place.names()[0] == "workflow")
                // Which places there are is known with the workflow only.
                || (method.name() == "RequeueMember" && place.names()[0] == "place")
            {
                continue;
            }
            let cases = rule(&place.row()).map(|rule| rule.cases(place.field())).unwrap_or_default();
            let is_bad = |case: &Case| case.value.is_some() && matches!(case.want, Want::Field(_));
            let Some(bad) = cases.into_iter().find(is_bad) else { continue };
            let Want::Field(suffix) = &bad.want else { continue };
            want.insert(format!("{}{suffix}", place.path()));
            place.set(&mut message, bad.value);
        }
        if want.is_empty() {
            continue;
        }
        let answer = asked(&desk, &method, message.encode_to_vec().into()).await;
        let status = answer.expect_err("a no");
        assert_eq!(reason(&status), Some((Code::InvalidArgument, "INVALID_FIELD".to_owned())), "{status:?}");
        let named: BTreeSet<String> = fields(&status).into_iter().collect();
        assert_eq!(named, want, "{}", method.name());
    }
    desk.end().await;
}
