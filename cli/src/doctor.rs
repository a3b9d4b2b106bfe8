//! `tenure doctor`: asks the server for everything that it can tell about its own state.

use serde::Serialize;
use tenure_client::Client;

use crate::exit::{Exit, Failure};
use crate::health;
use crate::json;
use crate::output::Output;
use crate::server;

/// Prints what was found; fails if an invariant does not hold.
pub(crate) async fn run(client: &Client, output: &Output) -> Result<Exit, Failure> {
    let info = client.server_info().await?;
    let invariants = client.check_invariants().await?;
    let health = client.queue_health(None).await?;
    let exit = if invariants.violations.is_empty() { Exit::Ok } else { Exit::Failed };
    if output.is_data() {
        output.value(&Findings {
            server: json::canonical(&info)?,
            invariants: json::canonical(&invariants)?,
            health: json::canonical(&health)?,
        })?;
        return Ok(exit);
    }
    output.table(&server::details(&info, output))?;
    output.line(&format!(
        "\ninvariants: {} checked, {} violated",
        invariants.checked.len(),
        invariants.violations.len()
    ))?;
    for violation in &invariants.violations {
        output.line(&format!(
            "  {}: {}: {}",
            crate::human::clean(&violation.invariant),
            crate::human::clean(&violation.subject),
            crate::human::clean(&violation.detail)
        ))?;
    }
    for finding in &invariants.findings {
        output.line(&format!("store: {}", crate::human::clean(finding)))?;
    }
    output.line(&format!("kinds: {}", health.kinds.len()))?;
    for line in health::remarks(&health) {
        output.line(&line)?;
    }
    Ok(exit)
}

/// Three answers of the server in one object.
#[derive(Serialize)]
struct Findings<T> {
    server: T,
    invariants: T,
    health: T,
}
