//! `tenure doctor`: asks the server for everything that it can tell about its own state.
//!
//! It is asked when something is wrong, so an answer that only a leader has is not waited for to the end: what the server
//! says by itself is shown, and what is missing is named.

use serde::Serialize;
use tenure_client::proto::{CheckInvariantsResponse, GetQueueHealthResponse};
use tenure_client::{Client, Error};

use crate::exit::{Exit, Failure};
use crate::health;
use crate::inbox;
use crate::json;
use crate::output::Output;
use crate::server;

/// Prints what was found; fails if an invariant does not hold, or if nobody leads who could say.
pub(crate) async fn run(client: &Client, output: &Output) -> Result<Exit, Failure> {
    let info = client.server_info().await?;
    let mut unanswered = Vec::new();
    let invariants = answered("invariants", client.check_invariants().await, &mut unanswered)?;
    let health = answered("health", client.queue_health(None).await, &mut unanswered)?;
    let inbox = match client.inbox().await {
        // A server of an older version has no word for it.
        Err(Error::Refused(no)) if no.code == tonic::Code::Unimplemented => None,
        answer => answered("inbox", answer, &mut unanswered)?,
    };
    let violated = invariants.as_ref().is_some_and(|found| !found.violations.is_empty());
    let exit = match (violated, unanswered.is_empty()) {
        (true, _) => Exit::Failed,
        (false, false) => Exit::Unavailable,
        (false, true) => Exit::Ok,
    };
    if output.is_data() {
        output.value(&Findings {
            server: json::canonical(&info)?,
            invariants: invariants.as_ref().map(json::canonical).transpose()?,
            health: health.as_ref().map(json::canonical).transpose()?,
            inbox: inbox.as_ref().map(json::canonical).transpose()?,
            unanswered,
        })?;
        return Ok(exit);
    }
    output.table(&server::details(&info, output))?;
    output.line("")?;
    if let Some(found) = &invariants {
        show_invariants(found, output)?;
    }
    if let Some(health) = &health {
        show_health(health, output)?;
    }
    for remark in inbox.iter().flat_map(inbox::remarks) {
        output.line(&remark)?;
    }
    for Unanswered { what, why } in &unanswered {
        output.line(&format!("{what}: no answer: {}", crate::human::clean(why)))?;
    }
    Ok(exit)
}

/// The answer, or none and why: nobody leads, or the store is away.
fn answered<T>(
    what: &'static str,
    answer: Result<T, Error>,
    unanswered: &mut Vec<Unanswered>,
) -> Result<Option<T>, Failure> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::Unavailable { last, .. }) => {
            unanswered.push(Unanswered { what, why: last.message });
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn show_invariants(found: &CheckInvariantsResponse, output: &Output) -> Result<(), Failure> {
    let (checked, violated) = (found.checked.len(), found.violations.len());
    output.line(&format!("invariants: {checked} checked, {violated} violated"))?;
    for violation in &found.violations {
        output.line(&format!(
            "  {}: {}: {}",
            crate::human::clean(&violation.invariant),
            crate::human::clean(&violation.subject),
            crate::human::clean(&violation.detail)
        ))?;
    }
    for finding in &found.findings {
        output.line(&format!("store: {}", crate::human::clean(finding)))?;
    }
    Ok(())
}

fn show_health(health: &GetQueueHealthResponse, output: &Output) -> Result<(), Failure> {
    output.line(&format!("kinds: {}", health.kinds.len()))?;
    for line in health::remarks(health) {
        output.line(&line)?;
    }
    Ok(())
}

/// Four answers of the server in one object.
#[derive(Serialize)]
struct Findings<T> {
    server: T,
    /// None: it is among what is unanswered.
    invariants: Option<T>,
    health: Option<T>,
    /// None: the same, or the server is older than it.
    inbox: Option<T>,
    unanswered: Vec<Unanswered>,
}

/// What nobody said.
#[derive(Serialize)]
struct Unanswered {
    what: &'static str,
    why: String,
}
