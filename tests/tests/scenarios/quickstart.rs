//! The walk of a newcomer.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_tests::binary;
use tokio::process::Command;

#[tokio::test]
async fn the_quickstart_walks_to_its_end_and_leaves_nothing_running() -> anyhow::Result<()> {
    let mut walk = Command::new(binary::repository().join("scripts/quickstart"));
    walk.env("TENURE_BIN", binary::tenure()?).stdin(Stdio::null()).kill_on_drop(true);
    let output =
        tokio::time::timeout(Duration::from_secs(120), walk.output()).await.context("it does not end")??;
    let told = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "{}\n{told}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    for words in ["nothing is left running", "dead", "succeeded", "walk"] {
        ensure!(told.contains(words), "no {words:?} in\n{told}");
    }
    Ok(())
}
