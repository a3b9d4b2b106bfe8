//! Waits for a job that somebody enqueued, and prints its result.
//!
//! `cargo run -p tenure-client --example result -- JOB`.

use std::error::Error;
use std::io::Write;

use tenure_client::proto::JobState;
use tenure_client::{Client, RetryPolicy};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let job = std::env::args().nth(1).ok_or("usage: result JOB")?;
    let server = std::env::var("TENURE_SERVER");
    let server = server.as_deref().unwrap_or(tenure_client::DEFAULT_ENDPOINT);
    // A wait that lasts all night goes on through a server that is away for five minutes.
    let retry = RetryPolicy { give_up_after: std::time::Duration::from_secs(300), ..RetryPolicy::default() };
    let options = tenure_client::Options { retry, ..tenure_client::Options::default() };
    run(&Client::connect_with(server, options)?, &job, &mut std::io::stdout()).await
}

/// All of the example but its command line.
pub(crate) async fn run(client: &Client, job: &str, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let ended = client.wait(job, None).await?.job;
    if ended.state() != JobState::Succeeded {
        writeln!(out, "{}: {}", ended.state().as_str_name(), ended.reason)?;
        return Ok(());
    }
    let result = client.result(job).await?;
    out.write_all(&result.data)?;
    Ok(())
}
