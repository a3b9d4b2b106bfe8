//! Enqueues one job, waits for it and prints its result.
//!
//! `cargo run -p tenure-client --example enqueue -- KIND [PAYLOAD]`, beside a running `tenure up`. `TENURE_SERVER` names
//! another server than the one on the default port.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use tenure_client::{Client, NewJob};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().ok_or("usage: enqueue KIND [PAYLOAD]")?;
    let payload = arguments.next().unwrap_or_default();
    let server = std::env::var("TENURE_SERVER");
    let client = Client::connect(server.as_deref().unwrap_or(tenure_client::DEFAULT_ENDPOINT))?;
    run(&client, &kind, &payload, &mut std::io::stdout()).await
}

/// All of the example but its command line.
pub(crate) async fn run(
    client: &Client,
    kind: &str,
    payload: &str,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    // The id is made here, so a call that has to be sent again is still one job.
    let job = NewJob::new(kind).payload(payload.to_owned()).content_type("text/plain");
    let enqueued = client.enqueue(&job).await?;
    writeln!(out, "enqueued {}", enqueued.job.id)?;

    let waited = client.wait(job.id(), Some(Duration::from_secs(60))).await?;
    if !waited.done {
        let explanation = client.explain(job.id()).await?;
        let deferral = explanation.job.and_then(|job| job.deferral).unwrap_or_default();
        writeln!(out, "not done after a minute: {}", deferral.message)?;
        return Ok(());
    }
    writeln!(out, "{} after attempt {}", waited.job.state().as_str_name(), waited.job.attempt)?;
    if let Ok(result) = client.result(job.id()).await {
        writeln!(out, "{}", String::from_utf8_lossy(&result.data))?;
    }
    Ok(())
}
