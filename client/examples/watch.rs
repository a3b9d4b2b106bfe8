//! Follows a job: a line for each change, until it is final.
//!
//! `cargo run -p tenure-client --example watch -- JOB`. Restart the server meanwhile: the watch goes on.

use std::error::Error;
use std::io::Write;

use tenure_client::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let job = std::env::args().nth(1).ok_or("usage: watch JOB")?;
    let server = std::env::var("TENURE_SERVER");
    let client = Client::connect(server.as_deref().unwrap_or(tenure_client::DEFAULT_ENDPOINT))?;
    run(&client, &job, &mut std::io::stdout()).await
}

/// All of the example but its command line.
pub(crate) async fn run(client: &Client, job: &str, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let mut watch = client.watch(job);
    // Each item is the whole job as it stood; whoever reads slowly skips some, but never the last.
    while let Some(job) = watch.next().await? {
        let why = job.deferral.as_ref().map_or(job.reason.as_str(), |deferral| deferral.message.as_str());
        writeln!(out, "{} {} {why}", job.version, job.state().as_str_name())?;
    }
    Ok(())
}
