//! `tenure apply`: the fleet file.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use tenure_client::Client;
use tenure_client::proto::ApplyResponse;

use crate::exit::{Exit, Failure};
use crate::output::{Output, note};

/// Arguments of `apply`.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The fleet file; `-` reads stdin.
    file: PathBuf,
    /// Checks the file and lists what would change.
    #[arg(long)]
    dry_run: bool,
}

impl ApplyArgs {
    /// Whether it changes anything on the server.
    pub(crate) fn writes(&self) -> bool {
        !self.dry_run
    }
}

/// Sends the file; prints one line per change.
pub(crate) async fn run(args: ApplyArgs, client: &Client, output: &Output) -> Result<Exit, Failure> {
    let changes = client.apply(&read_text(&args.file)?, args.dry_run).await?;
    if output.is_data() {
        output.message(&ApplyResponse { changes })?;
        return Ok(Exit::Ok);
    }
    for change in &changes {
        output.line(change)?;
    }
    match (changes.is_empty(), args.dry_run) {
        (true, _) => note("nothing to change"),
        (false, true) => note("nothing was changed (--dry-run)"),
        (false, false) => {}
    }
    Ok(Exit::Ok)
}

/// The text of a file, or of stdin for `-`.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let read = if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|source| Failure::Read { path: path.to_owned(), source })
}
