//! Enqueues a job, and comes back as often as the server says, should there be no room for it now.
//!
//! `cargo run -p tenure-client --example come_back -- KIND [TRIES]`.

use std::error::Error;
use std::io::Write;

use tenure_client::{Client, NewJob};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().ok_or("usage: come_back KIND [TRIES]")?;
    let tries = arguments.next().map_or(Ok(5), |tries| tries.parse())?;
    let server = std::env::var("TENURE_SERVER");
    let client = Client::connect(server.as_deref().unwrap_or(tenure_client::DEFAULT_ENDPOINT))?;
    run(&client, &kind, tries, &mut std::io::stdout()).await
}

/// All of the example but its command line.
pub(crate) async fn run(
    client: &Client,
    kind: &str,
    tries: u32,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let job = NewJob::new(kind);
    for _ in 0..tries {
        let error = match client.enqueue(&job).await {
            Ok(enqueued) => {
                writeln!(out, "enqueued {}", enqueued.job.id)?;
                return Ok(());
            }
            Err(error) => error,
        };
        // A server that is away was tried again already. A refusal is the caller's to think about: without
        // `retry_after`, waiting does not cure it.
        let after = error.refusal().and_then(|refusal| refusal.retry_after);
        let (Some(refusal), Some(after)) = (error.refusal(), after) else { return Err(error.into()) };
        writeln!(out, "{}: back in {after:.1?}", refusal.reason)?;
        tokio::time::sleep(after).await;
    }
    writeln!(out, "there was no room in {tries} tries")?;
    Ok(())
}
