//! The oracle on real processes: it sees what it is there for, and nothing else.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use tenure_tests::intervals::Log;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Script, Step, binary, tag};

const MARK: &str = "oracle-on-real-processes";

/// A test job, started by nobody's permission.
fn start(directory: &Path, job: &str, token: u64, script: &Script) -> anyhow::Result<Child> {
    let mut command = Command::new(binary::test_job()?);
    command.env("TEST_DIR", directory).env("TEST_NODE", "n1").env("TEST_NEEDS", "shell@n1=1/1");
    command.env("TENURE_JOB_ID", job).env("TENURE_FENCE", token.to_string()).env("TENURE_ATTEMPT", "1");
    command.env("TENURE_KIND", "k").env(tag::VARIABLE, MARK).stdin(Stdio::piped());
    let mut child = command.spawn()?;
    child.stdin.take().context("a pipe")?.write_all(script.to_string().as_bytes())?;
    Ok(child)
}

async fn runs(directory: &Path, count: usize) -> anyhow::Result<Log> {
    until(&format!("{count} starts"), PATIENCE, async || {
        let log = Log::read(&directory.join("intervals.log")).map_err(|error| error.to_string())?;
        level(log.runs.len() == count, || format!("{log:?}"))?;
        Ok(log)
    })
    .await
}

#[tokio::test]
async fn two_executions_at_once_and_a_slot_over_its_capacity_are_seen_and_successors_are_not()
-> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let at = directory.path();
    for name in ["gates", "locks"] {
        fs::create_dir(at.join(name))?;
    }
    fs::write(at.join("intervals.log"), "")?;

    // Killed: its child holds its locks until it is gone, too.
    let holds = Script::new().then(Step::Spawn(1)).wait("never");
    let mut first = start(at, "a", 1, &holds)?;
    runs(at, 1).await?;
    until("its child runs", PATIENCE, async || {
        let log = Log::read(&at.join("intervals.log")).map_err(|error| error.to_string())?;
        level(log.children.len() == 1, || format!("{log:?}"))
    })
    .await?;
    first.kill()?;
    first.wait()?;
    let mut twice = start(at, "a", 2, &Script::new())?;
    let violations = runs(at, 2).await?.violations();
    twice.wait()?;
    ensure!(violations.len() == 1, "{violations:?}");
    ensure!(violations[0].contains("overlap") && violations[0].contains("over:shell@n1"), "{violations:?}");

    tag::end_all(MARK);
    let mut successor = start(at, "a", 3, &Script::new())?;
    let log = runs(at, 3).await?;
    successor.wait()?;
    let lawful = log.of("a").find(|run| run.start.token == 3).context("it started")?;
    ensure!(lawful.problems.is_empty() && lawful.units == ["shell@n1#0"], "{lawful:?}");
    Ok(())
}
