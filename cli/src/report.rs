//! Telling a person, or a program, why a command failed.
//!
//! Invariant: an error names the thing, the reason and the next step.

use std::collections::BTreeMap;
use std::error::Error as StdError;

use serde::Serialize;
use serde_json::{Value, json};
use tenure_client::Refusal;

use crate::exit::Failure;
use crate::human;
use crate::output::{Output, note};

/// How much names have in common, of 1, to be taken for one another.
const CLOSE: f64 = 0.75;
/// Names shown of a longer list.
const NAMES_SHOWN: usize = 8;

/// Tells why a command failed: sentences on stderr, or one object on stdout under `-o json` and `-o yaml`.
pub(crate) fn failure(failure: &Failure, output: &Output) {
    if matches!(failure, Failure::Output(_)) {
        if failure.exit() != crate::exit::Exit::Ok {
            note(format!("error: {}", chain(failure)));
        }
        return;
    }
    if output.is_data() {
        let printed = match refusal(failure) {
            Some(refusal) => output.value(&refused(refusal, failure)),
            None => output.value(&failed(failure)),
        };
        if printed.is_ok() {
            return;
        }
    }
    for line in sentences(failure) {
        note(line);
    }
}

/// One sentence: the failure of one of several calls.
pub(crate) fn one(subject: &str, failure: &Failure) {
    note(format!("{subject}: {}", chain(failure)));
}

fn sentences(failure: &Failure) -> Vec<String> {
    let mut lines = vec![format!("error: {}", chain(failure))];
    if let Some(refusal) = refusal(failure) {
        let fields = refusal.field_violations.iter().map(|v| (&v.field, &v.description));
        let limits = refusal.quota_violations.iter().map(|v| (&v.subject, &v.description));
        let conditions = refusal.precondition_violations.iter().map(|v| (&v.subject, &v.description));
        let violations: Vec<_> = fields.chain(limits).chain(conditions).collect();
        for (subject, description) in &violations {
            // A single one is often what the sentence above says already.
            if violations.len() > 1 || !refusal.message.contains(description.as_str()) {
                lines.push(format!("  {}: {}", human::clean(subject), human::clean(description)));
            }
        }
        if let Some(after) = refusal.retry_after {
            lines.push(format!("retry_after: {}", human::length(after)));
        }
    }
    let near = nearest(failure);
    if !near.is_empty() {
        lines.push(format!("did you mean: {}", near.join(", ")));
    }
    if let Some(next) = next_step(failure) {
        lines.push(format!("next: {next}"));
    }
    lines
}

/// A refusal for programs. The order of the fields is that of their weight.
#[derive(Serialize)]
struct Refused<'a> {
    refused: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_s: Option<Value>,
    message: &'a str,
    code: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    violations: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'static str>,
}

/// Any other failure for programs.
#[derive(Serialize)]
struct Failed {
    error: String,
    exit_code: u8,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nearest: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'static str>,
}

fn refused<'a>(refusal: &'a Refusal, failure: &Failure) -> Refused<'a> {
    let fields = refusal.field_violations.iter();
    let fields = fields.map(|v| json!({"field": v.field, "description": v.description}));
    let limits = refusal.quota_violations.iter().map(|v| {
        json!({"subject": v.subject, "description": v.description, "quota": v.quota, "limit": v.limit,
               "dimensions": v.dimensions})
    });
    let conditions = refusal.precondition_violations.iter();
    let conditions = conditions
        .map(|v| json!({"subject": v.subject, "description": v.description, "condition": v.condition}));
    let code = code_name(refusal);
    Refused {
        refused: if refusal.reason.is_empty() { code.clone() } else { refusal.reason.clone() },
        retry_after_s: refusal.retry_after.map(seconds),
        message: &refusal.message,
        code,
        metadata: &refusal.metadata,
        violations: fields.chain(limits).chain(conditions).collect(),
        next: next_step(failure),
    }
}

fn failed(failure: &Failure) -> Failed {
    Failed {
        error: chain(failure),
        exit_code: failure.exit() as u8,
        nearest: nearest(failure),
        next: next_step(failure),
    }
}

/// Whole seconds as an integer, which most readers expect; parts of one as a fraction.
fn seconds(length: std::time::Duration) -> Value {
    if length.subsec_nanos() == 0 { json!(length.as_secs()) } else { json!(length.as_secs_f64()) }
}

/// The name of a gRPC code as the protocol writes it: `RESOURCE_EXHAUSTED`.
fn code_name(refusal: &Refusal) -> String {
    let camel = format!("{:?}", refusal.code);
    let mut name = String::with_capacity(camel.len() + 4);
    for (index, character) in camel.char_indices() {
        if index > 0 && character.is_uppercase() {
            name.push('_');
        }
        name.push(character.to_ascii_uppercase());
    }
    name
}

fn refusal(failure: &Failure) -> Option<&Refusal> {
    match failure {
        Failure::Client(tenure_client::Error::Unavailable { last, .. }) => Some(last),
        Failure::Client(error) => error.refusal(),
        Failure::Usage(_)
        | Failure::Protected { .. }
        | Failure::Ambiguous { .. }
        | Failure::NoId { .. }
        | Failure::Unknown { .. }
        | Failure::Read { .. }
        | Failure::Write { .. }
        | Failure::Output(_)
        | Failure::Json(_)
        | Failure::Declined
        | Failure::Config { .. }
        | Failure::Component { .. }
        | Failure::Some { .. } => None,
    }
}

fn nearest(failure: &Failure) -> Vec<String> {
    if let Failure::Unknown { name, known, .. } = failure {
        let known = closest(name, known);
        let mut names: Vec<String> = known.iter().take(NAMES_SHOWN).map(|name| human::clean(name)).collect();
        if known.len() > NAMES_SHOWN {
            names.push(format!("… ({} in all)", known.len()));
        }
        return names;
    }
    if let Failure::Ambiguous { candidates, more, .. } = failure {
        let mut names: Vec<String> = candidates.iter().map(|name| human::clean(name)).collect();
        names.extend(more.then(|| "…".to_owned()));
        return names;
    }
    let names = refusal(failure).and_then(|refusal| refusal.metadata.get("nearest"));
    let names = names.map(String::as_str).unwrap_or_default().split([',', ' ']);
    names.filter(|name| !name.is_empty()).take(NAMES_SHOWN).map(human::clean).collect()
}

/// Those of the names that look like the one that was given; all of them if none does.
fn closest<'k>(name: &str, known: &'k [String]) -> Vec<&'k String> {
    let mut close: Vec<(f64, &String)> = known
        .iter()
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(near, _)| *near > CLOSE)
        .collect();
    if close.is_empty() {
        return known.iter().collect();
    }
    close.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    close.into_iter().map(|(_, known)| known).collect()
}

fn next_step(failure: &Failure) -> Option<&'static str> {
    if let Failure::Client(tenure_client::Error::Unavailable { last, .. }) = failure
        && last.reason.is_empty()
    {
        return Some("is the server running? `tenure up` starts one here; --server names another");
    }
    if let Failure::Client(tenure_client::Error::Tls { .. }) = failure {
        return Some("`tenure certs` makes certificates; --tls-ca, --tls-cert and --tls-key name them");
    }
    if let Failure::Ambiguous { .. } = failure {
        return Some("name more of it; the end tells jobs apart, of members of one workflow the middle does");
    }
    if let Failure::Protected { .. } = failure {
        return Some("add --context with its name");
    }
    match refusal(failure)?.reason.as_str() {
        "KIND_NOT_FOUND" => Some("`tenure kind list` shows the kinds, `tenure apply FILE` declares them"),
        "JOB_NOT_FOUND" => Some(
            "`tenure job list` shows the jobs; final ones are kept for their retention. Of an id that SQL gave: `tenure inbox \
             refusals -o wide`",
        ),
        "NODE_NOT_FOUND" => Some("`tenure node list` shows the nodes"),
        "SLOT_NOT_FOUND" => Some("`tenure slot list` shows the slots, `tenure apply FILE` declares them"),
        "QUEUE_FULL" => Some("wait for retry_after; `tenure health` shows whether the queue moves"),
        "BUDGET_EXHAUSTED" => {
            Some("`tenure kind get KIND` shows when the window turns; the fleet file has the limit")
        }
        "KIND_PAUSED" => Some("`tenure kind resume KIND` ends the pause"),
        "JOB_ID_REUSED" => Some("leave --id out, or use a fresh UUID v7"),
        "IMPOSSIBLE_NEEDS" => {
            Some("ask for less; `tenure slot list` and `tenure node list` show what there is")
        }
        "PAYLOAD_TOO_LARGE" => Some("store the payload yourself and enqueue a reference to it"),
        "NODE_HOLDS_LEASES" => Some("drain it; if its host is dead for certain, add --lost"),
        "STORE_FULL" => Some("let jobs end, or purge what nobody needs"),
        _ => None,
    }
}

/// An error with its causes, the only way one is printed. A list of mistakes keeps its lines.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut text = human::clean_lines(&error.to_string());
    for cause in std::iter::successors(error.source(), |&error| error.source()) {
        let cause = human::clean_lines(&cause.to_string());
        text.push_str(if cause.contains('\n') { ":\n" } else { ": " });
        text.push_str(&cause);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::{Code, Status};
    use tonic_types::{ErrorDetails, StatusExt};

    use super::*;

    fn queue_full() -> Failure {
        let mut details = ErrorDetails::new();
        details
            .set_error_info("QUEUE_FULL", "tenure", [("kind".to_owned(), "site.qa".to_owned())])
            .set_retry_info(Some(Duration::from_secs(600)))
            .add_quota_failure_violation("site.qa", "20 jobs are queued, the cap is 20");
        let status =
            Status::with_error_details(Code::ResourceExhausted, "the queue of site.qa is full", details);
        Failure::from(tenure_client::Error::from(Box::new(Refusal::from_status(&status))))
    }

    #[test]
    fn a_refusal_is_told_with_its_reason_its_figures_and_the_next_step() {
        expect_test::expect![[r"
            error: the queue of site.qa is full (QUEUE_FULL)
              site.qa: 20 jobs are queued, the cap is 20
            retry_after: 10m
            next: wait for retry_after; `tenure health` shows whether the queue moves"]]
        .assert_eq(&sentences(&queue_full()).join("\n"));
    }

    #[test]
    fn a_refusal_is_an_object_that_a_program_can_reason_about() {
        let failure = queue_full();
        let object = serde_json::to_value(refused(refusal(&failure).unwrap(), &failure)).unwrap();
        assert_eq!(object["refused"], "QUEUE_FULL");
        assert_eq!(object["retry_after_s"], 600);
        assert_eq!(object["code"], "RESOURCE_EXHAUSTED");
        assert_eq!(object["metadata"]["kind"], "site.qa");
        assert_eq!(object["violations"][0]["subject"], "site.qa");
    }

    #[test]
    fn close_names_are_suggested() {
        let mut details = ErrorDetails::new();
        details.set_error_info(
            "KIND_NOT_FOUND",
            "tenure",
            [("nearest".to_owned(), "site.qa,site.qb".to_owned())],
        );
        let status = Status::with_error_details(Code::NotFound, "kind site.q is not declared", details);
        let failure = Failure::from(tenure_client::Error::from(Box::new(Refusal::from_status(&status))));
        let text = sentences(&failure).join("\n");
        assert!(text.contains("did you mean: site.qa, site.qb"), "{text}");
    }
}
