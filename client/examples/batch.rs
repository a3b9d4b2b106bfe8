//! Enqueues many jobs in few messages, and tells what became of each.
//!
//! `cargo run -p tenure-client --example batch -- COUNT KIND…`: COUNT jobs, the kinds in turn.

use std::error::Error;
use std::io::Write;

use tenure_client::{Client, NewJob};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().ok_or("usage: batch COUNT KIND…")?.parse()?;
    let kinds: Vec<String> = arguments.collect();
    let server = std::env::var("TENURE_SERVER");
    let client = Client::connect(server.as_deref().unwrap_or(tenure_client::DEFAULT_ENDPOINT))?;
    run(&client, count, &kinds, &mut std::io::stdout()).await
}

/// All of the example but its command line.
pub(crate) async fn run(
    client: &Client,
    count: usize,
    kinds: &[String],
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let kinds = kinds.iter().cycle().take(count).enumerate();
    let jobs: Vec<NewJob> =
        kinds.map(|(number, kind)| NewJob::new(kind).label("number", number.to_string())).collect();

    // One answer per job, in their order: one that is refused sinks no other. The same slice again is the same jobs.
    let mut stored = 0;
    for (job, answer) in jobs.iter().zip(client.enqueue_batch(&jobs).await) {
        match answer {
            Ok(_) => stored += 1,
            Err(error) => writeln!(out, "{}: {error}", job.spec().labels["number"])?,
        }
    }
    writeln!(out, "{stored} of {count} are stored")?;
    Ok(())
}
