//! Enqueues one job with a certificate of one's own, and waits for it.
//!
//! `cargo run -p tenure-client --example over_tls -- KIND [PAYLOAD]`. Server and files are named by the variables that
//! the `tenure` command reads, too: `TENURE_SERVER`, `TENURE_TLS_CA`, `TENURE_TLS_CERT`, `TENURE_TLS_KEY`.

use std::env;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use tenure_client::{Client, NewJob, Options, OwnCertificate, TlsFiles};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let kind = arguments.next().ok_or("usage: over_tls KIND [PAYLOAD]")?;
    let payload = arguments.next().unwrap_or_default();

    // The files are read again for each connection: renewed certificates need no restart.
    let tls = TlsFiles {
        ca: file("TENURE_TLS_CA")?,
        own: Some(OwnCertificate { cert: file("TENURE_TLS_CERT")?, key: file("TENURE_TLS_KEY")? }),
    };
    let server = env::var("TENURE_SERVER").map_err(|_| "TENURE_SERVER names no server")?;
    let client = Client::connect_with(&server, Options { tls: Some(tls), ..Options::default() })?;

    let job = NewJob::new(kind).payload(payload).content_type("text/plain");
    client.enqueue(&job).await?;
    let waited = client.wait(job.id(), Some(Duration::from_secs(60))).await?;
    writeln!(std::io::stdout(), "{} is {}", job.id(), waited.job.state().as_str_name())?;
    Ok(())
}

/// The file that a variable names.
fn file(variable: &str) -> Result<PathBuf, String> {
    env::var_os(variable).map(PathBuf::from).ok_or_else(|| format!("{variable} names no file"))
}
